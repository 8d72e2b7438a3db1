//! Stops the writes of a process whose lease may have expired: a `tower` layer that rejects write
//! requests unless the lease was renewed recently.
//!
//! A process can be stopped at any instant, also between its last check of the lease and a write.
//! So the check happens below all queues and rate limits, right before the request is sent, and
//! again whenever the request makes progress: a process that was stopped while a connection opened
//! does not send the write afterwards.

use std::future::{Future as _, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

/// Layer that lets writes pass while the lease is fresh. Reads always pass. Clones share one state.
///
/// A gate that no [`Lease`](crate::Lease) uses lets everything pass.
#[derive(Clone, Debug, Default)]
pub struct WriteGate(Arc<Mutex<Option<Instant>>>);

/// The write was not sent, because the lease may have expired.
#[derive(Debug, thiserror::Error)]
#[error("not sent: the lease was not renewed in time, another process may be the leader")]
pub struct LeaseExpired;

impl WriteGate {
    /// Lets writes pass until this instant.
    pub(crate) fn open_until(&self, deadline: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(deadline);
    }

    /// Returns true if writes may be sent now.
    pub fn is_open(&self) -> bool {
        let deadline = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Wraps a client. Use [`WriteGate`] as a layer below a rate limit instead, if there is one.
    pub fn wrap(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let send = tower::service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        Client::new(self.layer(send), namespace)
    }
}

impl<S> Layer<S> for WriteGate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { inner, gate: self.clone() }
    }
}

/// Service that rejects writes while its gate is closed.
#[derive(Clone, Debug)]
pub struct Gated<S> {
    inner: S,
    gate: WriteGate,
}

impl<S, B, R> Service<Request<B>> for Gated<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<R>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_write = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let gate = self.gate.clone();
        let is_sent = !is_write || gate.is_open();
        let mut response = is_sent.then(|| Box::pin(self.inner.call(request)));
        poll_fn(move |context| match &mut response {
            // If the write was sent already, its response is lost.
            _ if is_write && !gate.is_open() => Poll::Ready(Err(LeaseExpired.into())),
            Some(response) => response.as_mut().poll(context).map_err(Into::into),
            None => Poll::Ready(Err(LeaseExpired.into())),
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_are_sent_only_until_the_deadline() {
        let gate = WriteGate::default();
        let service = gate.layer(tower::service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(())) }));
        let send = async |method: Method| {
            let request = Request::builder().method(method).body(()).unwrap();
            service.clone().oneshot(request).await.is_ok()
        };
        assert!(send(Method::POST).await, "without a lease");
        gate.open_until(Instant::now() + Duration::from_secs(10));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(send(Method::DELETE).await);
        tokio::time::advance(Duration::from_millis(1)).await;
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(!send(method).await);
        }
        assert!(send(Method::GET).await);
    }
    // spec 07 #69
    #[tokio::test(start_paused = true)]
    async fn a_write_that_waits_for_its_connection_is_not_sent_after_the_deadline() {
        let gate = WriteGate::default();
        let sent = Arc::new(Mutex::new(0));
        let counter = sent.clone();
        let service = gate.layer(tower::service_fn(move |_: Request<()>| {
            let counter = counter.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(20)).await;
                *counter.lock().unwrap() += 1;
                Ok::<_, Infallible>(Response::new(()))
            }
        }));
        for (open_for, expected) in [(10, 0), (30, 1)] {
            gate.open_until(Instant::now() + Duration::from_secs(open_for));
            let request = Request::builder().method(Method::POST).body(()).unwrap();
            assert_eq!(service.clone().oneshot(request).await.is_ok(), expected == 1);
            assert_eq!(*sent.lock().unwrap(), expected, "open for {open_for} s");
        }
    }
}

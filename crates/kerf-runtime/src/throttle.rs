//! A limit on how many requests leave this process: a layer around a client's service that makes each request wait for its token.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::backoff::{Bucket, Rate};

/// The layer. Everything that is made with one of it, or with its copies, shares its tokens.
#[derive(Clone, Debug)]
pub struct Throttle(Arc<Mutex<Bucket>>);

impl Throttle {
    /// So many requests a second, so many at once.
    pub fn new(rate: Rate) -> Self {
        Self(Arc::new(Mutex::new(Bucket::new(rate, Instant::now()))))
    }
}

impl<S> Layer<S> for Throttle {
    type Service = Throttled<S>;

    fn layer(&self, inner: S) -> Throttled<S> {
        Throttled { inner, throttle: self.clone() }
    }
}

/// A service whose requests wait.
#[derive(Clone, Debug)]
pub struct Throttled<S> {
    inner: S,
    throttle: Throttle,
}

impl<S, R> Service<R> for Throttled<S>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let wait = self.throttle.0.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        // The one that was found ready makes the call; its copy is asked again before the next.
        let copy = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, copy);
        Box::pin(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            ready.call(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_wait_for_their_turn() {
        let service = tower::service_fn(|request: u32| async move { Ok::<_, Infallible>(request) });
        let throttled = Throttle::new(Rate { per_second: 10, burst: 2 }).layer(service);
        let start = Instant::now();
        for request in 0..5 {
            assert_eq!(throttled.clone().oneshot(request).await, Ok(request));
        }
        assert_eq!(start.elapsed(), Duration::from_millis(300));
    }
}

//! Limits the rate of requests that this process sends: a `tower` layer whose service is ready only
//! when a token is available.
//!
//! Invariant: each request uses one token. A token that was waited for is kept until its request is
//! sent.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep};
use tower::{Layer, Service};

use crate::backoff::{Rate, TokenBucket};

/// Rate-limiting layer. All services created by a layer or its clones share one token bucket.
#[derive(Clone, Debug)]
pub struct Throttle(Arc<Mutex<TokenBucket>>);

impl Throttle {
    /// Creates a layer with a full token bucket.
    pub fn new(rate: Rate) -> Self {
        Self(Arc::new(Mutex::new(TokenBucket::new(rate, Instant::now()))))
    }
}

impl<S> Layer<S> for Throttle {
    type Service = Throttled<S>;

    fn layer(&self, inner: S) -> Throttled<S> {
        Throttled { inner, throttle: self.clone(), token: Token::None }
    }
}

/// Service whose requests wait for a token.
#[derive(Debug)]
pub struct Throttled<S> {
    inner: S,
    throttle: Throttle,
    token: Token,
}

/// Token for the next request.
#[derive(Debug)]
enum Token {
    None,
    /// The token is reserved and becomes available when the timer ends.
    Awaited(Pin<Box<Sleep>>),
    Held,
}

impl<S: Clone> Clone for Throttled<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), throttle: self.throttle.clone(), token: Token::None }
    }
}

impl<S, R> Service<R> for Throttled<S>
where
    S: Service<R>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if matches!(self.token, Token::None) {
            let wait = self.throttle.0.lock().unwrap_or_else(PoisonError::into_inner).reserve(Instant::now());
            self.token = if wait.is_zero() { Token::Held } else { Token::Awaited(Box::pin(tokio::time::sleep(wait))) };
        }
        if let Token::Awaited(wait) = &mut self.token {
            ready!(wait.as_mut().poll(context));
            self.token = Token::Held;
        }
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.token = Token::None;
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_wait_for_a_token() {
        let service = tower::service_fn(|request: u32| async move { Ok::<_, Infallible>(request) });
        let throttled = Throttle::new(Rate { per_second: 10, burst: 2 }).layer(service);
        let start = Instant::now();
        for request in 0..5 {
            assert_eq!(throttled.clone().oneshot(request).await, Ok(request));
        }
        assert_eq!(start.elapsed(), Duration::from_millis(300));
    }
}

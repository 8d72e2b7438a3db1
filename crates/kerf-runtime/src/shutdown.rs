//! Graceful shutdown: one [`Shutdown`] requests it, and all copies of its [`ShutdownSignal`]
//! observe it.
//!
//! The first SIGTERM or SIGINT requests shutdown. The caller decides what a second signal does.

use tokio::sync::watch;

/// Requests a shutdown. Dropping it requests the shutdown too, so that no task outlives its owner.
#[derive(Debug)]
pub struct Shutdown(watch::Sender<bool>);

/// Observes a shutdown request. All clones observe the same request.
#[derive(Clone, Debug)]
pub struct ShutdownSignal(watch::Receiver<bool>);

impl Shutdown {
    /// Creates a connected pair.
    pub fn new() -> (Self, ShutdownSignal) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), ShutdownSignal(receiver))
    }

    /// Requests the shutdown. Further calls have no effect.
    pub fn request(&self) {
        self.0.send_replace(true);
    }
}

impl ShutdownSignal {
    /// Resolves once shutdown is requested, immediately if it already was.
    pub async fn requested(&mut self) {
        // An error means that the `Shutdown` was dropped, which also requests the shutdown.
        let _ = self.0.wait_for(|is_requested| *is_requested).await;
    }

    /// Returns true if shutdown is requested.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

/// Resolves at the next SIGTERM or SIGINT. If no signal handler can be installed it never resolves,
/// and the signals terminate the process as by default.
pub async fn termination_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                biased;
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        (Err(_), _) | (_, Err(_)) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_clones_observe_the_request_even_later_ones() {
        let (shutdown, mut stop) = Shutdown::new();
        let mut other = stop.clone();
        assert!(!stop.is_requested());
        shutdown.request();
        shutdown.request();
        stop.requested().await;
        other.requested().await;
        assert!(other.clone().is_requested());
    }

    #[tokio::test]
    async fn dropping_the_shutdown_requests_it() {
        let (shutdown, mut stop) = Shutdown::new();
        drop(shutdown);
        stop.requested().await;
        assert!(stop.is_requested());
    }
}

//! Stopping: one place asks for it, everybody hears of it, and whoever still works is waited for. The first SIGTERM or SIGINT asks
//! politely; the caller decides what a second one means.

use tokio::sync::watch;

/// Asks for the end. Dropping it asks too, so that nothing outlives what it belongs to.
#[derive(Debug)]
pub struct Shutdown(watch::Sender<bool>);

/// Hears of the end. Copies hear alike.
#[derive(Clone, Debug)]
pub struct ShutdownSignal(watch::Receiver<bool>);

impl Shutdown {
    /// A way to ask and a way to hear of it.
    pub fn new() -> (Self, ShutdownSignal) {
        let (asker, hearer) = watch::channel(false);
        (Self(asker), ShutdownSignal(hearer))
    }

    /// Asks for the end. Asking twice is asking once.
    pub fn request(&self) {
        self.0.send_replace(true);
    }
}

impl ShutdownSignal {
    /// Resolves once the end has been asked for, at once if it was before.
    pub async fn requested(&mut self) {
        // An error means that whoever could ask is gone, which asks as well.
        let _ = self.0.wait_for(|asked| *asked).await;
    }

    /// Whether the end has been asked for.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

/// Resolves at the next SIGTERM or SIGINT. Where signals cannot be heard it never does: the process then dies of them, as without us.
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
    async fn everybody_hears_of_the_end_and_late_comers_too() {
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
    async fn dropping_the_asker_asks() {
        let (shutdown, mut stop) = Shutdown::new();
        drop(shutdown);
        stop.requested().await;
        assert!(stop.is_requested());
    }
}

//! The batch window (spec 02 §1.2): it closes when nothing new has come for a while, and at the latest after its longest time. What
//! has been seen in a window does not keep it open.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kerf_api::slim::Str;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Gathers reasons to decide.
#[derive(Debug)]
pub(crate) struct Batcher {
    idle: Duration,
    max: Duration,
    seen: Mutex<BTreeSet<Str>>,
    /// One slot: arming what is armed changes nothing.
    armed: Notify,
}

impl Batcher {
    pub(crate) fn new(idle: Duration, max: Duration) -> Self {
        Self { idle, max, seen: Mutex::default(), armed: Notify::new() }
    }

    /// There is a reason to decide, known by its uid. One that this window has seen already does nothing at all.
    pub(crate) fn trigger(&self, uid: &Str) {
        let is_new = self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone());
        if is_new {
            self.armed.notify_one();
        }
    }

    /// Waits for a reason, and then for the window to close.
    pub(crate) async fn wait(&self) {
        self.armed.notified().await;
        let start = Instant::now();
        let end = start + self.max;
        let mut idle_end = start + self.idle;
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(idle_end.min(end)) => break,
                () = self.armed.notified() => idle_end = Instant::now() + self.idle,
            }
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn uid(n: usize) -> Str {
        Str::from(n.to_string())
    }

    /// How long the window stays open, with triggers at these milliseconds.
    async fn closes_after(idle: u64, max: u64, triggers: &[(u64, usize)]) -> u128 {
        let batcher = Arc::new(Batcher::new(Duration::from_millis(idle), Duration::from_millis(max)));
        let start = Instant::now();
        for (at, n) in triggers.iter().copied() {
            let batcher = batcher.clone();
            tokio::spawn(async move {
                tokio::time::sleep_until(start + Duration::from_millis(at)).await;
                batcher.trigger(&uid(n));
            });
        }
        batcher.wait().await;
        start.elapsed().as_millis()
    }

    // spec 02 #1
    #[tokio::test(start_paused = true)]
    async fn one_reason_waits_for_the_idle_window_only() {
        assert_eq!(closes_after(1000, 10_000, &[(0, 1)]).await, 1000);
    }

    // spec 02 #2
    #[tokio::test(start_paused = true)]
    async fn the_same_reason_again_does_not_extend_the_window() {
        assert_eq!(closes_after(5000, 10_000, &[(0, 1), (3000, 1)]).await, 5000);
    }

    // spec 02 #3
    #[tokio::test(start_paused = true)]
    async fn another_reason_extends_the_window() {
        assert_eq!(closes_after(5000, 10_000, &[(0, 1), (3000, 2)]).await, 8000);
    }

    // spec 02 #4
    #[tokio::test(start_paused = true)]
    async fn the_window_closes_at_its_longest_and_what_comes_later_opens_the_next() {
        let half_seconds: Vec<(u64, usize)> = (0..40).map(|n| (n as u64 * 500, n)).collect();
        assert_eq!(closes_after(1000, 10_000, &half_seconds).await, 10_000);

        let batcher = Batcher::new(Duration::from_secs(1), Duration::from_secs(10));
        batcher.trigger(&uid(1));
        batcher.wait().await;
        let start = Instant::now();
        batcher.trigger(&uid(1));
        batcher.wait().await;
        assert_eq!(start.elapsed(), Duration::from_secs(1), "what was seen before counts anew");
    }
}

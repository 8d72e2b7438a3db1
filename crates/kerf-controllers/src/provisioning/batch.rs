//! The batch window (spec 02 §1.2): it closes when nothing new has come for a while, and at the latest after its longest time. What
//! has been seen in a window does not keep it open.
//!
//! To those who look at queues it is one of batches: a batch waits from its first reason on, until it is begun.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_api::slim::Str;
use kerf_runtime::QueueStats;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Gathers reasons to decide.
#[derive(Debug)]
pub(crate) struct Batcher {
    idle: Duration,
    max: Duration,
    state: Mutex<BatchState>,
    /// One slot: arming what is armed changes nothing.
    trigger_signal: Notify,
}

#[derive(Debug, Default)]
struct BatchState {
    /// The reasons of the open window.
    seen: BTreeSet<Str>,
    /// How many batches there were.
    batches: u64,
    /// When the first reason came of the window that is open.
    opened_at: Option<Instant>,
    /// When the first reason came of the batch that waits to be begun.
    waiting_since: Option<Instant>,
    /// When the batch was begun that is being worked on.
    begun_at: Option<Instant>,
}

impl Batcher {
    pub(crate) fn new(idle: Duration, max: Duration) -> Self {
        Self { idle, max, state: Mutex::default(), trigger_signal: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, BatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a reason to decide, known by its uid. One that this window has seen already does nothing at all.
    pub(crate) fn trigger(&self, uid: &Str) {
        let mut state = self.state();
        if !state.seen.insert(uid.clone()) {
            return;
        }
        if state.opened_at.is_none() {
            state.opened_at = Some(Instant::now());
            state.batches += 1;
        }
        drop(state);
        self.trigger_signal.notify_one();
    }

    /// Waits for a reason, and then for the window to close.
    pub(crate) async fn wait(&self) {
        self.trigger_signal.notified().await;
        let start = Instant::now();
        let end = start + self.max;
        let mut idle_end = start + self.idle;
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(idle_end.min(end)) => break,
                () = self.trigger_signal.notified() => idle_end = Instant::now() + self.idle,
            }
        }
        let mut state = self.state();
        state.seen.clear();
        state.waiting_since = state.opened_at.take();
    }

    /// The batch is worked on from now on. Says for how long it has waited.
    pub(crate) fn begin(&self) -> Duration {
        let (now, mut state) = (Instant::now(), self.state());
        state.begun_at = Some(now);
        state.waiting_since.take().map(|since| now - since).unwrap_or_default()
    }

    /// The batch is done with.
    pub(crate) fn end(&self) {
        self.state().begun_at = None;
    }

    /// What waits, and what is worked on. A batch that fails does not come back: the reasons that are left make another.
    pub(crate) fn stats(&self) -> QueueStats {
        let state = self.state();
        let running = state.begun_at.map(|begun| begun.elapsed()).unwrap_or_default();
        QueueStats {
            depth: usize::from(state.opened_at.is_some()) + usize::from(state.waiting_since.is_some()),
            adds: state.batches,
            retries: 0,
            unfinished_work: running,
            longest_running: running,
        }
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

    // spec 07 §6.7
    #[tokio::test(start_paused = true)]
    async fn batches_are_seen_as_a_queue_of_batches() {
        let batcher = Batcher::new(Duration::from_secs(1), Duration::from_secs(10));
        let seen = || {
            let QueueStats { depth, adds, retries, unfinished_work, longest_running } = batcher.stats();
            assert_eq!((retries, unfinished_work), (0, longest_running));
            (depth, adds, longest_running.as_secs())
        };
        assert_eq!(seen(), (0, 0, 0));
        batcher.trigger(&uid(1));
        batcher.trigger(&uid(2));
        assert_eq!(seen(), (1, 1, 0), "two reasons make one batch");
        batcher.wait().await;
        assert_eq!(seen(), (1, 1, 0));
        batcher.trigger(&uid(1));
        assert_eq!(seen(), (2, 2, 0), "a closed one that waits, and an open one");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(batcher.begin(), Duration::from_secs(3));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(seen(), (1, 2, 4));
        batcher.end();
        batcher.wait().await;
        assert_eq!(batcher.begin(), Duration::from_secs(7));
        batcher.end();
        assert_eq!(seen(), (0, 2, 0));
    }
}

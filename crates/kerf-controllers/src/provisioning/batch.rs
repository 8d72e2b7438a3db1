//! The batch window (spec 02 §1.2). It closes when no new trigger has arrived for the idle
//! duration, and at the latest after the maximum duration. A trigger that the window has seen
//! already does not extend it.
//!
//! Queue metrics present batches as a queue: a batch waits from its first trigger until its pass
//! begins.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_api::slim::Str;
use kerf_runtime::QueueStats;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Collects triggers into batches.
#[derive(Debug)]
pub(crate) struct Batcher {
    idle: Duration,
    max: Duration,
    state: Mutex<BatchState>,
    /// Holds at most one signal, so several triggers before `wait` count as one.
    trigger_signal: Notify,
}

#[derive(Debug, Default)]
struct BatchState {
    /// UIDs of the triggers in the open window.
    seen: BTreeSet<Str>,
    /// Number of batches so far, including the open one.
    batches: u64,
    /// Time of the first trigger of the open window; `None` if no window is open.
    opened_at: Option<Instant>,
    /// Time of the first trigger of a closed batch whose pass has not begun.
    waiting_since: Option<Instant>,
    /// Time at which the running pass began.
    begun_at: Option<Instant>,
}

impl Batcher {
    pub(crate) fn new(idle: Duration, max: Duration) -> Self {
        Self { idle, max, state: Mutex::default(), trigger_signal: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, BatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a trigger, identified by the UID of its pod or node. A UID that the open window has
    /// already seen has no effect.
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

    /// Waits for a trigger, and then until the window closes.
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

    /// Records that the pass of the closed batch begins. Returns the time for which the batch has
    /// waited.
    pub(crate) fn begin(&self) -> Duration {
        let (now, mut state) = (Instant::now(), self.state());
        state.begun_at = Some(now);
        state.waiting_since.take().map(|since| now - since).unwrap_or_default()
    }

    /// Records that the pass has ended.
    pub(crate) fn end(&self) {
        self.state().begun_at = None;
    }

    /// Returns the queue statistics of batches. There are no retries: after a failed pass the
    /// remaining triggers open another batch.
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

    /// Returns after how many milliseconds the window closes, for triggers at these milliseconds.
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
    async fn one_trigger_closes_the_window_after_the_idle_duration() {
        assert_eq!(closes_after(1000, 10_000, &[(0, 1)]).await, 1000);
    }

    // spec 02 #2
    #[tokio::test(start_paused = true)]
    async fn a_repeated_trigger_does_not_extend_the_window() {
        assert_eq!(closes_after(5000, 10_000, &[(0, 1), (3000, 1)]).await, 5000);
    }

    // spec 02 #3
    #[tokio::test(start_paused = true)]
    async fn a_new_trigger_extends_the_window() {
        assert_eq!(closes_after(5000, 10_000, &[(0, 1), (3000, 2)]).await, 8000);
    }

    // spec 02 #4
    #[tokio::test(start_paused = true)]
    async fn the_window_closes_after_the_maximum_and_later_triggers_open_the_next() {
        let half_seconds: Vec<(u64, usize)> = (0..40).map(|n| (n as u64 * 500, n)).collect();
        assert_eq!(closes_after(1000, 10_000, &half_seconds).await, 10_000);

        let batcher = Batcher::new(Duration::from_secs(1), Duration::from_secs(10));
        batcher.trigger(&uid(1));
        batcher.wait().await;
        let start = Instant::now();
        batcher.trigger(&uid(1));
        batcher.wait().await;
        assert_eq!(start.elapsed(), Duration::from_secs(1), "a trigger of an earlier batch opens a new one");
    }

    // spec 07 §6.7
    #[tokio::test(start_paused = true)]
    async fn queue_stats_describe_batches() {
        let batcher = Batcher::new(Duration::from_secs(1), Duration::from_secs(10));
        let stats = || {
            let QueueStats { depth, adds, retries, unfinished_work, longest_running } = batcher.stats();
            assert_eq!((retries, unfinished_work), (0, longest_running));
            (depth, adds, longest_running.as_secs())
        };
        assert_eq!(stats(), (0, 0, 0));
        batcher.trigger(&uid(1));
        batcher.trigger(&uid(2));
        assert_eq!(stats(), (1, 1, 0), "two triggers open one batch");
        batcher.wait().await;
        assert_eq!(stats(), (1, 1, 0));
        batcher.trigger(&uid(1));
        assert_eq!(stats(), (2, 2, 0), "one closed batch that waits, and one open batch");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(batcher.begin(), Duration::from_secs(3));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(stats(), (1, 2, 4));
        batcher.end();
        batcher.wait().await;
        assert_eq!(batcher.begin(), Duration::from_secs(7));
        batcher.end();
        assert_eq!(stats(), (0, 2, 0));
    }
}

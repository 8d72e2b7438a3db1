//! State of the process that the HTTP endpoints report: its watches, its decisions, and whether its
//! main loop runs.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_runtime::{Clock, WatchHandle};

use crate::disruption::DecisionHistory;

/// Interval between two signs of life of the main loop.
const SIGN_OF_LIFE_INTERVAL: Duration = Duration::from_secs(5);
/// Time without a sign of life after which the main loop counts as stuck.
const STUCK_AFTER: Duration = Duration::from_mins(1);
/// Metric with the seconds for which neither list nor watch of a kind has succeeded.
const UNANSWERED_METRIC: &str = "kerf_watch_unanswered_seconds";

/// State that the endpoints read. A new term of leadership replaces watches and decisions.
#[derive(Debug)]
pub(super) struct ProcessStatus {
    clock: Clock,
    /// Seconds on the clock at the last sign of life.
    last_sign_of_life: AtomicU64,
    current: Mutex<(Vec<WatchHandle>, Arc<DecisionHistory>)>,
}

impl ProcessStatus {
    pub(super) fn new(clock: Clock) -> Self {
        let last_sign_of_life = AtomicU64::new(clock.elapsed().as_secs());
        Self { clock, last_sign_of_life, current: Mutex::default() }
    }

    fn current(&self) -> MutexGuard<'_, (Vec<WatchHandle>, Arc<DecisionHistory>)> {
        // Every change is a single statement, so a panic elsewhere leaves the state valid.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, watches: Vec<WatchHandle>, history: Arc<DecisionHistory>) {
        *self.current() = (watches, history);
    }

    pub(super) fn watches(&self) -> Vec<WatchHandle> {
        self.current().0.clone()
    }

    pub(super) fn history(&self) -> Arc<DecisionHistory> {
        self.current().1.clone()
    }

    /// Gives a sign of life every few seconds. Never returns.
    pub(super) async fn give_signs_of_life(self: Arc<Self>) {
        loop {
            self.last_sign_of_life.store(self.clock.elapsed().as_secs(), Ordering::Relaxed);
            tokio::time::sleep(SIGN_OF_LIFE_INTERVAL).await;
        }
    }

    /// Returns false if the main loop has not run for a minute.
    pub(super) fn is_alive(&self) -> bool {
        let last = Duration::from_secs(self.last_sign_of_life.load(Ordering::Relaxed));
        self.clock.elapsed().saturating_sub(last) <= STUCK_AFTER
    }

    /// Returns the metrics of the watches in Prometheus' text format.
    pub(super) fn metrics_text(&self) -> String {
        let mut text = format!(
            "# HELP {UNANSWERED_METRIC} Seconds for which neither list nor watch of a kind has succeeded.\n\
             # TYPE {UNANSWERED_METRIC} gauge\n"
        );
        for watch in self.watches() {
            let seconds = watch.progress().unanswered_for().as_secs_f64();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{UNANSWERED_METRIC}{{kind=\"{}\"}} {seconds}", watch.kind().name);
        }
        text
    }
}

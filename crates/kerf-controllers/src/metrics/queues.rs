//! The queues of the controllers as dashboards know them (spec 07 §6.7). They are looked at when somebody asks.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kerf_runtime::QueueStats;

use super::registry::{Counter, Gauge, Histogram, Registry};

/// The metrics of queues, and the queues.
#[derive(Debug)]
pub struct QueueMetrics {
    /// Keys that are due and wait.
    depth: Gauge,
    /// Keys that came to wait.
    adds: Counter,
    /// Keys that came back because they failed.
    retries: Counter,
    /// For how long keys have been worked on that still are, all together.
    unfinished: Gauge,
    /// For how long the one has been worked on that takes longest.
    longest: Gauge,
    /// How long keys were due before they were worked on.
    queue_duration: Histogram,
    /// How long keys were worked on.
    pub work_duration: Histogram,
    queues: Mutex<Vec<(&'static str, QueueStatsSource)>>,
}

/// How a queue is looked at.
struct QueueStatsSource(Box<dyn Fn() -> QueueStats + Send>);

impl std::fmt::Debug for QueueStatsSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Followed").field(&self.0()).finish()
    }
}

/// From ten nanoseconds to a quarter of an hour, ten times as much each time.
const WORKQUEUE_BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

impl QueueMetrics {
    pub(super) fn new(r: &Registry) -> Self {
        let of_queue = ["name", "controller"];
        Self {
            depth: r.gauge("workqueue_depth", "Current depth of workqueue.", &["name", "controller", "priority"]),
            adds: r.counter("workqueue_adds_total", "Total number of adds handled by workqueue.", &of_queue),
            retries: r.counter("workqueue_retries_total", "Total number of retries handled by workqueue.", &of_queue),
            unfinished: r.gauge(
                "workqueue_unfinished_work_seconds",
                "How many seconds of work is in progress and has not been observed by work_duration.",
                &of_queue,
            ),
            longest: r.gauge(
                "workqueue_longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running.",
                &of_queue,
            ),
            queue_duration: r.histogram(
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested.",
                &of_queue,
                &WORKQUEUE_BUCKETS,
            ),
            work_duration: r.histogram(
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes.",
                &of_queue,
                &WORKQUEUE_BUCKETS,
            ),
            queues: Mutex::default(),
        }
    }

    /// A controller works on a queue from now on, which is looked at in this way.
    pub(crate) fn register_queue(&self, name: &'static str, look: impl Fn() -> QueueStats + Send + 'static) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|(known, _)| *known != name);
        queues.push((name, QueueStatsSource(Box::new(look))));
    }

    /// A key was taken that was due for so long.
    pub(crate) fn observe_queue_duration(&self, name: &'static str, waited: Duration) {
        self.queue_duration.observe(&[name, name], waited.as_secs_f64());
    }

    /// Looks at all queues.
    pub(super) fn refresh(&self) {
        for (name, followed) in self.queues.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let (seen, labels) = ((followed.0)(), [*name, *name]);
            self.depth.set(&[name, name, ""], seen.depth as f64);
            self.adds.add(&labels, seen.adds as f64 - self.adds.get(&labels));
            self.retries.add(&labels, seen.retries as f64 - self.retries.get(&labels));
            self.unfinished.set(&labels, seen.unfinished_work.as_secs_f64());
            self.longest.set(&labels, seen.longest_running.as_secs_f64());
        }
    }
}

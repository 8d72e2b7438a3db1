//! Metrics of the controllers' work queues under client-go's names (spec 07 §6.7). The queues are
//! read when `/metrics` is requested.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kerf_runtime::QueueStats;

use super::registry::{Counter, Gauge, Histogram, Registry};

/// The metrics of work queues, and the queues they are read from.
#[derive(Debug)]
pub struct QueueMetrics {
    /// Keys that are due and wait for a worker.
    depth: Gauge,
    /// Keys added.
    adds: Counter,
    /// Keys requeued after a failure.
    retries: Counter,
    /// Seconds that running reconciles have taken so far, added up.
    unfinished: Gauge,
    /// Seconds that the longest running reconcile has taken so far.
    longest: Gauge,
    /// Seconds between a key becoming due and the start of its reconcile.
    queue_duration: Histogram,
    /// Seconds per reconcile.
    pub work_duration: Histogram,
    queues: Mutex<Vec<(&'static str, QueueStatsSource)>>,
}

/// The function that reads the statistics of a queue.
struct QueueStatsSource(Box<dyn Fn() -> QueueStats + Send>);

impl std::fmt::Debug for QueueStatsSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("QueueStatsSource").field(&self.0()).finish()
    }
}

/// Powers of ten from ten nanoseconds to 1000 seconds.
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

    /// Registers the queue of a controller, replacing an earlier one. `read_stats` reads its
    /// statistics.
    pub fn register_queue(&self, name: &'static str, read_stats: impl Fn() -> QueueStats + Send + 'static) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|(known, _)| *known != name);
        queues.push((name, QueueStatsSource(Box::new(read_stats))));
    }

    /// Records how long a key was due before its reconcile started.
    pub fn observe_queue_duration(&self, name: &'static str, waited: Duration) {
        self.queue_duration.observe(&[name, name], waited.as_secs_f64());
    }

    /// Updates the metrics from all queues.
    pub fn refresh(&self) {
        for (name, source) in self.queues.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let (stats, labels) = ((source.0)(), [*name, *name]);
            self.depth.set(&[name, name, ""], stats.depth as f64);
            self.adds.add(&labels, stats.adds as f64 - self.adds.get(&labels));
            self.retries.add(&labels, stats.retries as f64 - self.retries.get(&labels));
            self.unfinished.set(&labels, stats.unfinished_work.as_secs_f64());
            self.longest.set(&labels, stats.longest_running.as_secs_f64());
        }
    }
}

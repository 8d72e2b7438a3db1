//! Prometheus metrics: the registry of a process, and the metrics that every controller has (spec
//! 07 §6.7). Dashboards and alerts read them, so names, labels and buckets must not change.

mod disrupted_claims;
mod queues;
mod registry;
mod summary;

pub use disrupted_claims::DisruptedClaims;
pub use queues::QueueMetrics;
pub use registry::{Counter, FamilyDescription, Gauge, Histogram, Registry, Summary, escaped};

/// Histogram buckets of most durations, in seconds (`DUR` of spec 07 §6).
pub const DURATION_BUCKETS: [f64; 45] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
];
/// Histogram buckets of reconcile times, in seconds.
const RECONCILE_BUCKETS: [f64; 13] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Metrics of reconciles and work queues, by controller.
#[derive(Debug)]
pub struct ControllerMetrics {
    /// Reconciles, by controller and result.
    pub reconcile_total: Counter,
    /// Failed reconciles, by controller.
    pub reconcile_errors: Counter,
    /// Reconciles that failed and are not retried, by controller.
    pub terminal_reconcile_errors: Counter,
    /// Reconciles that timed out, by controller. Always zero: every request has its own timeout.
    reconcile_timeouts: Counter,
    /// Reconciles that panicked, by controller.
    pub reconcile_panics: Counter,
    /// Seconds per reconcile, by controller.
    pub reconcile_time: Histogram,
    /// Number of workers, by controller.
    pub max_concurrent_reconciles: Gauge,
    /// Running reconciles, by controller.
    pub active_workers: Gauge,
    /// Metrics of the controllers' work queues.
    pub queues: QueueMetrics,
}

impl ControllerMetrics {
    /// Registers the metrics.
    pub fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help| registry.counter(name, help, &["controller"]);
        Self {
            reconcile_total: registry.counter(
                "controller_runtime_reconcile_total",
                "Total number of reconciliations per controller.",
                &["controller", "result"],
            ),
            reconcile_errors: counter(
                "controller_runtime_reconcile_errors_total",
                "Total number of reconciliation errors per controller.",
            ),
            terminal_reconcile_errors: counter(
                "controller_runtime_terminal_reconcile_errors_total",
                "Total number of terminal reconciliation errors per controller.",
            ),
            reconcile_timeouts: counter(
                "controller_runtime_reconcile_timeouts_total",
                "Total number of reconciliation timeouts per controller.",
            ),
            reconcile_panics: counter(
                "controller_runtime_reconcile_panics_total",
                "Total number of reconciliation panics per controller.",
            ),
            reconcile_time: registry.histogram(
                "controller_runtime_reconcile_time_seconds",
                "Length of time per reconciliation per controller.",
                &["controller"],
                &RECONCILE_BUCKETS,
            ),
            max_concurrent_reconciles: registry.gauge(
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of concurrent reconciles per controller.",
                &["controller"],
            ),
            active_workers: registry.gauge(
                "controller_runtime_active_workers",
                "Number of currently used workers per controller.",
                &["controller"],
            ),
            queues: QueueMetrics::new(registry),
        }
    }

    /// Creates the series of a controller when it starts. All but the number of workers begin at
    /// zero.
    pub fn init_controller_series(&self, name: &'static str, workers: usize) {
        self.max_concurrent_reconciles.set(&[name], workers as f64);
        self.active_workers.set(&[name], 0.0);
        for result in ["success", "error", "requeue", "requeue_after"] {
            self.reconcile_total.add(&[name, result], 0.0);
        }
        let failures = [&self.reconcile_errors, &self.terminal_reconcile_errors, &self.reconcile_panics];
        for counter in failures.into_iter().chain([&self.reconcile_timeouts]) {
            counter.add(&[name], 0.0);
        }
    }
}

//! Prometheus metrics under Karpenter's names (spec 07 §6). Dashboards and alerts read them, so
//! names, labels and buckets must not change. Controllers count through [`Metrics`]. Series that
//! describe an object disappear when the object is deleted.

mod claims;
mod conditions;
mod disruption;
mod exposition;
mod offerings;
mod pods;
mod process;
mod provider;
mod scheduler;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod usage;

use std::sync::Arc;

use jiff::Timestamp;
use kerf_operator::logs::COMMIT;
pub(crate) use kerf_operator::metrics::DURATION_BUCKETS;
pub use kerf_operator::metrics::{ControllerMetrics, Counter, DisruptedClaims, Gauge, Histogram, Registry, Summary};

pub use disruption::DisruptionMetrics;
pub use offerings::OfferingMetrics;
pub use pods::PodTimes;
pub(crate) use provider::MeteredProvider;
pub use scheduler::SchedulerMetrics;
pub(crate) use state::{StateMetricsInput, text as state_text};
use status::StatusFamilies;
pub(crate) use status::{StatusController, StatusKind};

/// Histogram buckets of calls to the provider, in seconds.
pub(crate) const CALL_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Histogram buckets of a node's age, in seconds: 15 minutes to 30 days.
const LIFETIME_BUCKETS: [f64; 21] = [
    900.0,
    1800.0,
    2700.0,
    3600.0,
    7200.0,
    14_400.0,
    21_600.0,
    28_800.0,
    36_000.0,
    43_200.0,
    57_600.0,
    72_000.0,
    86_400.0,
    172_800.0,
    259_200.0,
    432_000.0,
    864_000.0,
    1_296_000.0,
    1_728_000.0,
    2_160_000.0,
    2_592_000.0,
];
/// Returns `count` upper bounds that begin with `start` and double each time.
fn exponential_buckets(start: f64, count: usize) -> Vec<f64> {
    std::iter::successors(Some(start), |bound| Some(bound * 2.0)).take(count).collect()
}

/// Durations of pods, in seconds.
#[derive(Debug)]
pub struct PodDurations {
    /// From creation to ready.
    pub startup: Summary,
    /// From creation to bound.
    pub bound: Histogram,
    /// From the first decision that the pod can be placed to ready.
    pub provisioning_startup: Histogram,
    /// From the first decision that the pod can be placed to bound.
    pub provisioning_bound: Histogram,
}

impl PodDurations {
    fn new(r: &Registry) -> Self {
        let duration = |name: &str, help| r.histogram(name, help, &[], &DURATION_BUCKETS);
        Self {
            startup: r.summary(
                "karpenter_pods_startup_duration_seconds",
                "The time from pod creation until the pod is running.",
                &[],
            ),
            bound: duration(
                "karpenter_pods_bound_duration_seconds",
                "The time from pod creation until the pod is bound.",
            ),
            provisioning_startup: duration(
                "karpenter_pods_provisioning_startup_duration_seconds",
                "The time from when Karpenter first thinks the pod can schedule until it is running.",
            ),
            provisioning_bound: duration(
                "karpenter_pods_provisioning_bound_duration_seconds",
                "The time from when Karpenter first thinks the pod can schedule until it binds.",
            ),
        }
    }
}

/// All metrics that controllers write. A process has one of these.
#[derive(Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// NodeClaims created, by reason, pool and whether `minValues` was relaxed.
    pub nodeclaims_created: Counter,
    /// NodeClaims whose finalizer was removed, by pool, capacity type and zone.
    pub nodeclaims_terminated: Counter,
    /// NodeClaims deleted by a controller, by reason, pool, capacity type, consolidation policy and
    /// termination mode.
    pub nodeclaims_disrupted: DisruptedClaims,
    /// Reschedulable pods on NodeClaims deleted by a controller, with the labels of
    /// `nodeclaims_disrupted`.
    pub pods_disruption_initiated: Counter,
    /// NodeClaims deleted by node repair, by condition, pool, capacity type and image.
    pub nodeclaims_unhealthy_disrupted: Counter,
    /// Seconds from the condition `InstanceTerminating` to the end of the instance, by pool.
    pub nodeclaims_instance_termination_duration: Histogram,
    /// Seconds from a NodeClaim's deletion timestamp to the removal of its finalizer, by pool.
    pub nodeclaims_termination_duration: Histogram,
    /// Nodes registered, by pool and zone.
    pub nodes_created: Counter,
    /// Nodes whose finalizer was removed, by pool and zone.
    pub nodes_terminated: Counter,
    /// Nodes fully drained, by pool.
    pub nodes_drained: Counter,
    /// Seconds from a node's deletion timestamp to the removal of its finalizer, by pool.
    pub nodes_termination_duration: Summary,
    /// Age of nodes when their finalizer is removed, in seconds, by pool.
    pub nodes_lifetime_duration: Histogram,
    /// Eviction requests, by the status code of the response.
    pub pods_eviction_requests: Counter,
    /// Pods evicted or deleted in drains, by reason.
    pub pods_drained: Counter,
    /// 1 if cluster state covers the API server, else 0.
    pub cluster_state_synced: Gauge,
    /// Seconds for which cluster state has not been synced; 0 if it is.
    pub cluster_state_unsynced_time: Gauge,
    /// Seconds from first seeing a pending pod to the first decision on it.
    pub pods_scheduling_decision_duration: Histogram,
    /// Durations of pods from creation or decision to bound or ready.
    pub pod_durations: PodDurations,
    /// The timelines of pods that are not ready yet.
    pub pod_times: PodTimes,
    /// Hourly cost of a pool's NodeClaims in dollars, by pool.
    pub nodepools_cost: Gauge,
    /// Failures to determine a pool's cost, by pool.
    pub nodepools_cost_tracker_errors: Counter,
    /// Metrics of reconciles and work queues.
    pub controllers: Arc<ControllerMetrics>,
    /// Requests to the API server, by code and method.
    pub client_requests: Counter,
    /// Seconds of requests to the API server, by verb, group, version, kind and subresource.
    pub client_request_duration: Histogram,
    /// Metrics of scheduling simulations.
    pub scheduler: SchedulerMetrics,
    /// Seconds of calls to the provider, by controller, method and provider.
    pub cloudprovider_duration: Histogram,
    /// Failed calls to the provider, by controller, method, provider, error and pool.
    pub cloudprovider_errors: Counter,
    /// The offerings of the provider: availability and price.
    pub offerings: OfferingMetrics,
    /// 1 if this process is the leader, else 0, by lease.
    pub leader_election_master_status: Gauge,
    /// Lease renewals that had to read the Lease first, by lease.
    pub leader_election_slowpath: Counter,
    /// Metrics of voluntary disruption.
    pub disruption: DisruptionMetrics,
    /// Condition metrics under the deprecated names that all kinds share.
    deprecated_status: StatusFamilies,
}

impl Metrics {
    /// Creates and registers all metrics. Only `karpenter_build_info` has a series at first.
    #[expect(clippy::new_without_default, reason = "a process creates its metrics once, explicitly")]
    pub fn new() -> Self {
        let r = Arc::new(Registry::default());
        let metrics = Self {
            nodeclaims_created: r.counter(
                "karpenter_nodeclaims_created_total",
                "Number of nodeclaims created in total by Karpenter.",
                &["reason", "nodepool", "min_values_relaxed"],
            ),
            nodeclaims_terminated: r.counter(
                "karpenter_nodeclaims_terminated_total",
                "Number of nodeclaims whose finalizer was removed.",
                &["nodepool", "capacity_type", "zone"],
            ),
            nodeclaims_disrupted: DisruptedClaims::new(&r),
            pods_disruption_initiated: r.counter(
                "karpenter_pods_disruption_initiated_total",
                "Number of reschedulable pods on disrupted nodeclaims.",
                &DisruptedClaims::LABELS,
            ),
            nodeclaims_unhealthy_disrupted: r.counter(
                "karpenter_nodeclaims_unhealthy_disrupted_total",
                "Number of nodeclaims deleted by node repair.",
                &["condition", "nodepool", "capacity_type", "image_id"],
            ),
            nodeclaims_instance_termination_duration: r.histogram(
                "karpenter_nodeclaims_instance_termination_duration_seconds",
                "Duration of instance termination.",
                &["nodepool"],
                &exponential_buckets(1.0, 11),
            ),
            nodeclaims_termination_duration: r.histogram(
                "karpenter_nodeclaims_termination_duration_seconds",
                "Duration of nodeclaim termination.",
                &["nodepool"],
                &exponential_buckets(1.0, 12),
            ),
            nodes_created: r.counter(
                "karpenter_nodes_created_total",
                "Number of nodes registered.",
                &["nodepool", "zone"],
            ),
            nodes_terminated: r.counter(
                "karpenter_nodes_terminated_total",
                "Number of nodes whose finalizer was removed.",
                &["nodepool", "zone"],
            ),
            nodes_drained: r.counter("karpenter_nodes_drained_total", "Number of nodes fully drained.", &["nodepool"]),
            nodes_termination_duration: r.summary(
                "karpenter_nodes_termination_duration_seconds",
                "The time taken between a node's deletion request and the removal of its finalizer.",
                &["nodepool"],
            ),
            nodes_lifetime_duration: r.histogram(
                "karpenter_nodes_lifetime_duration_seconds",
                "The lifetime of the nodes since creation.",
                &["nodepool"],
                &LIFETIME_BUCKETS,
            ),
            pods_eviction_requests: r.counter(
                "karpenter_pods_eviction_requests_total",
                "Number of eviction requests by response code.",
                &["code"],
            ),
            pods_drained: r.counter("karpenter_pods_drained_total", "Number of pods drained.", &["reason"]),
            cluster_state_synced: r.gauge("karpenter_cluster_state_synced", "Whether cluster state is synced.", &[]),
            cluster_state_unsynced_time: r.gauge(
                "karpenter_cluster_state_unsynced_time_seconds",
                "The time for which cluster state is not synced.",
                &[],
            ),
            pods_scheduling_decision_duration: r.histogram(
                "karpenter_pods_scheduling_decision_duration_seconds",
                "The time from first seeing a pod to the first scheduling decision for it.",
                &[],
                &DURATION_BUCKETS,
            ),
            pod_durations: PodDurations::new(&r),
            pod_times: PodTimes::default(),
            nodepools_cost: r.gauge(
                "karpenter_nodepools_cost_total",
                "The total cost of the nodepool's nodes, in dollars per hour.",
                &["nodepool"],
            ),
            nodepools_cost_tracker_errors: r.counter(
                "karpenter_nodepools_cost_tracker_errors_total",
                "Number of times that the cost of a nodepool could not be determined.",
                &["nodepool"],
            ),
            controllers: Arc::new(ControllerMetrics::new(&r)),
            client_requests: r.counter(
                "client_go_request_total",
                "Number of HTTP requests, partitioned by status code and method.",
                &["code", "method"],
            ),
            client_request_duration: r.histogram(
                "client_go_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, group, version, kind, and subresource.",
                &["verb", "group", "version", "kind", "subresource"],
                &std::iter::successors(Some(0.001), |bound| Some(bound * 1.5)).take(20).collect::<Vec<f64>>(),
            ),
            scheduler: SchedulerMetrics::new(&r),
            cloudprovider_duration: r.histogram(
                "karpenter_cloudprovider_duration_seconds",
                "Duration of cloud provider method calls.",
                &["controller", "method", "provider"],
                &CALL_BUCKETS,
            ),
            cloudprovider_errors: r.counter(
                "karpenter_cloudprovider_errors_total",
                "Number of failed cloud provider method calls.",
                &["controller", "method", "provider", "error", "nodepool"],
            ),
            offerings: OfferingMetrics::default(),
            leader_election_master_status: r.gauge(
                "leader_election_master_status",
                "Whether the reporting system is master of the lease.",
                &["name"],
            ),
            leader_election_slowpath: r.counter(
                "leader_election_slowpath_total",
                "Total number of slow path exercised in renewing leader leases.",
                &["name"],
            ),
            disruption: DisruptionMetrics::new(&r),
            deprecated_status: StatusFamilies::deprecated(&r),
            registry: r,
        };
        let build = metrics.registry.gauge(
            "karpenter_build_info",
            "Build identity.",
            &["version", "goversion", "goarch", "commit"],
        );
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        build.set(&[env!("CARGO_PKG_VERSION"), concat!("rust", env!("CARGO_PKG_RUST_VERSION")), arch, COMMIT], 1.0);
        metrics
    }

    /// Returns the registry, in which other parts of the program register metrics of their own.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns all metrics in the text format, with those of the process itself.
    pub fn text(&self, now: Timestamp) -> String {
        self.controllers.queues.refresh();
        self.scheduler.refresh(now);
        self.registry.text(now) + &process::text()
    }
}

//! Dependencies and settings that are passed to every controller. Nothing is global, so a test can
//! build a [`Context`] from its own parts.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_cloud::{CloudProvider, NodeClassKind};
use kerf_operator::{ControllerEnvironment, SharedCluster};
use kerf_runtime::Clock;
use kerf_state::TrackedClaim;
use kube::Client;

use crate::events::{Event, Publish};
use crate::metrics::{Metrics, StateMetricsInput, state_text};

/// Operator settings that the controllers read.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Time without a new pending pod after which a batch closes.
    pub batch_idle: Duration,
    /// Longest time for which a batch stays open.
    pub batch_max: Duration,
    /// CPU cores that the process requests, rounded to a whole number. The number of workers of
    /// each controller scales with it.
    pub cores: usize,
    /// True if unhealthy nodes are replaced (feature gate `NodeRepair`).
    pub node_repair: bool,
    /// True if NodePools with `replicas` are kept at that number of nodes (feature gate
    /// `StaticCapacity`).
    pub static_capacity: bool,
    /// Settings of the scheduling engine, such as the preference policy. Its seed decides ties, so
    /// it is the seed that `kerf plan` uses.
    pub engine: kerf_engine::Settings,
    /// Seed of jitter and identifiers. It must differ between processes.
    pub seed: u64,
    /// True if a spot node may be replaced by a cheaper spot node (feature gate
    /// `SpotToSpotConsolidation`).
    pub spot_to_spot_consolidation: bool,
    /// True if metrics describe single pods, nodes and NodePools. Very large clusters may disable
    /// this to limit the number of series.
    pub cluster_state_observability: bool,
    /// True if no voluntary disruption starts, whatever the NodePools allow. Commands that have
    /// started are completed.
    pub pause_disruption: bool,
}

impl Settings {
    /// Time for which a node that is expected to receive pods is not disrupted: twice the longest
    /// batch, and at least ten seconds.
    pub(crate) fn nomination_window(&self) -> Duration {
        (self.batch_max * 2).max(Duration::from_secs(10))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch_idle: Duration::from_secs(1),
            batch_max: Duration::from_secs(10),
            cores: 1,
            seed: 0,
            node_repair: false,
            static_capacity: false,
            spot_to_spot_consolidation: false,
            cluster_state_observability: true,
            pause_disruption: false,
            engine: kerf_engine::Settings {
                preference_policy: kerf_engine::PreferencePolicy::Respect,
                min_values_policy: kerf_engine::MinValuesPolicy::Strict,
                reserved_capacity: true,
                reserved_mode: kerf_engine::ReservedMode::Strict,
                default_spread: Vec::new(),
                ignore_dra: true,
                require_unschedulable: true,
                max_instance_types: 600,
                seed: 0,
                threads: 1,
                effort: kerf_engine::Effort::Search,
            },
        }
    }
}

/// Dependencies of a controller. Clones share all parts.
#[derive(Clone)]
pub struct Context {
    /// Client of the API server.
    pub client: Client,
    /// The cloud provider, including all decorators.
    pub cloud: Arc<dyn CloudProvider>,
    /// Index of the cluster's objects.
    pub cluster: SharedCluster,
    /// The only source of time, so that tests can control it.
    pub clock: Clock,
    /// Publisher of Kubernetes Events.
    pub events: Arc<dyn Publish>,
    /// Counters, gauges and histograms of the process.
    pub metrics: Arc<Metrics>,
    /// Operator settings.
    pub settings: Arc<Settings>,
}

impl Context {
    /// Returns all metrics in Prometheus' text format: recorded values, then gauges computed from
    /// the current cluster state.
    pub fn metrics_text(&self) -> String {
        let well_known: Vec<&str> = self.cloud.label_rules().well_known().collect();
        let node_class_keys: Vec<String> = self.cloud.node_classes().iter().map(NodeClassKind::label_key).collect();
        let now = self.now();
        // Recorded values do not need the index, which a running simulation may have locked. So
        // metrics about that simulation are rendered before the index is locked.
        let recorded_text = self.metrics.text(now);
        let state_input = StateMetricsInput {
            metrics: &self.metrics,
            well_known: &well_known,
            node_class_keys: &node_class_keys,
            reported_class: self.cloud.node_class_status().map(|report| report.kind),
            has_reserved: self.settings.engine.reserved_capacity,
            has_object_gauges: self.settings.cluster_state_observability,
            now,
        };
        recorded_text + &state_text(&self.cluster, &state_input)
    }

    /// Returns what the controllers of a [`kerf_operator::ControllerSet`] need to run.
    pub(crate) fn controller_environment(&self) -> ControllerEnvironment {
        ControllerEnvironment {
            metrics: self.metrics.controllers.clone(),
            clock: self.clock,
            seed: self.settings.seed,
            cores: self.settings.cores,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the NodeClaim with this name if its node class belongs to this provider.
    pub(crate) fn managed_claim(&self, name: &str) -> Option<Arc<TrackedClaim>> {
        self.cluster.lock().get::<TrackedClaim>(name).filter(|claim| self.manages_claim(claim)).cloned()
    }

    /// Returns the NodePool with this name if its node class belongs to this provider.
    pub(crate) fn managed_pool(&self, name: &str) -> Option<Arc<NodePool>> {
        self.cluster.lock().get::<NodePool>(name).filter(|pool| self.manages_pool(pool)).cloned()
    }

    pub(crate) fn manages_claim(&self, claim: &TrackedClaim) -> bool {
        self.cloud.supports(&claim.object.spec.node_class_ref)
    }

    pub(crate) fn manages_pool(&self, pool: &NodePool) -> bool {
        self.cloud.supports(&pool.spec.template.spec.node_class_ref)
    }

    /// Returns the API groups of the node classes that this provider serves.
    pub(crate) fn node_class_groups(&self) -> Vec<Str> {
        self.cloud.node_classes().iter().map(|kind| Str::new_static(kind.group)).collect()
    }

    pub(crate) fn publish(&self, event: Event) {
        self.events.publish(event);
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("cloud", &self.cloud.name()).finish_non_exhaustive()
    }
}

//! What every controller works with. It is handed in, never reached for: a test makes one of parts that it can see into.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::nodepool::NodePool;
use kerf_cloud::{CloudProvider, NodeClassKind};
use kerf_runtime::Clock;
use kerf_state::{Cluster, TrackedClaim};
use kube::Client;

use crate::events::{Event, Publish};
use crate::metrics::{Metrics, StateMetricsInput, state_text};

/// The cluster as we know it, shared by all controllers. The lock is held for as long as it takes to look or to note, never while
/// waiting for anybody.
#[derive(Clone, Debug, Default)]
pub struct SharedCluster(Arc<Mutex<Cluster>>);

impl SharedCluster {
    /// The index, for a look or a note.
    pub fn lock(&self) -> MutexGuard<'_, Cluster> {
        // A panic elsewhere leaves the index as the last whole piece of news made it, or one piece of news short; the next list mends it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an operator can set, as far as the controllers care.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Quiet time that closes a batch of pending pods.
    pub batch_idle: Duration,
    /// The longest batch.
    pub batch_max: Duration,
    /// Cores that the process has asked for; how much goes on at the same time scales with them.
    pub cores: usize,
    /// Whether broken nodes are replaced (feature gate `NodeRepair`).
    pub node_repair: bool,
    /// Whether pools with `replicas` are kept at that many nodes (feature gate `StaticCapacity`).
    pub static_capacity: bool,
    /// How the engine treats wishes and constraints. Its seed decides ties, so it is what a plan's is.
    pub engine: kerf_engine::Settings,
    /// Where jitter and identifiers come from: a number of this process alone.
    pub seed: u64,
    /// Whether a spot node may be replaced by a cheaper spot node (feature gate `SpotToSpotConsolidation`).
    pub spot_to_spot_consolidation: bool,
    /// Whether pods, nodes and pools have metrics of their own; in very large clusters somebody may rather not have them.
    pub cluster_state_observability: bool,
    /// Whether no voluntary disruption starts, whatever the pools say. What is under way is finished.
    pub pause_disruption: bool,
}

impl Settings {
    /// How long a node that got pods is left alone: two batches, and no less than ten seconds.
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

/// What every controller works with. Copies share everything.
#[derive(Clone)]
pub struct Context {
    /// The way to the API server.
    pub client: Client,
    /// The cloud.
    pub cloud: Arc<dyn CloudProvider>,
    /// The cluster as we know it.
    pub cluster: SharedCluster,
    /// The one clock.
    pub clock: Clock,
    /// Where events go.
    pub events: Arc<dyn Publish>,
    /// What is counted and measured.
    pub metrics: Arc<Metrics>,
    /// What the operator set.
    pub settings: Arc<Settings>,
}

impl Context {
    /// All metrics as text: what was counted, and what the cluster looks like now.
    pub fn metrics_text(&self) -> String {
        let well_known: Vec<&str> = self.cloud.label_rules().well_known().collect();
        let classes: Vec<String> = self.cloud.node_classes().iter().map(NodeClassKind::label_key).collect();
        let now = self.now();
        // What was counted needs nothing of the index, which may be in use: so a simulation that runs can be seen.
        let counted = self.metrics.text(now);
        let show = StateMetricsInput {
            metrics: &self.metrics,
            well_known: &well_known,
            node_class_keys: &classes,
            has_reserved: self.settings.engine.reserved_capacity,
            has_object_gauges: self.settings.cluster_state_observability,
            now,
        };
        counted + &state_text(&self.cluster, &show)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A claim of ours, as we know it.
    pub(crate) fn managed_claim(&self, name: &str) -> Option<Arc<TrackedClaim>> {
        self.cluster.lock().get::<TrackedClaim>(name).filter(|claim| self.manages_claim(claim)).cloned()
    }

    /// A pool of ours, as we know it.
    pub(crate) fn managed_pool(&self, name: &str) -> Option<Arc<NodePool>> {
        self.cluster.lock().get::<NodePool>(name).filter(|pool| self.manages_pool(pool)).cloned()
    }

    pub(crate) fn manages_claim(&self, claim: &TrackedClaim) -> bool {
        self.cloud.supports(&claim.object.spec.node_class_ref)
    }

    pub(crate) fn manages_pool(&self, pool: &NodePool) -> bool {
        self.cloud.supports(&pool.spec.template.spec.node_class_ref)
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

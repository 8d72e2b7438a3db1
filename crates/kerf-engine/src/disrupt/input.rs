//! The part of the input that only disruption reads: the disruption settings of NodePools, the
//! lifecycle of NodeClaims, and facts that only the caller remembers (nominations, active commands,
//! failed launches). All of it is plain data.

use jiff::Timestamp;
use kerf_api::duration::Duration;
use kerf_api::nodepool::{Budget, ConsolidationPolicy};
use kerf_api::slim::Str;

use crate::cluster::Settings;

/// Options of a disruption pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionSettings {
    /// Options for placing pods in simulations.
    pub scheduling: Settings,
    /// True if a spot node may be replaced by a cheaper spot node (feature gate
    /// `SpotToSpotConsolidation`).
    pub allows_spot_to_spot: bool,
    /// True if the method [`Method::Move`](super::Method::Move) may run. Karpenter does not have
    /// it: it replaces nodes by up to three cheaper nodes.
    pub allows_moves: bool,
    /// Number of passes.
    pub passes: Passes,
}

/// Number of passes of a planning run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// A single pass. Drift and single-node consolidation return only their first command, and the
    /// commands are not extended to a wave.
    First,
    /// Repeated passes, each on the cluster that the last one leaves behind, until one finds
    /// nothing. In [`next_commands`](super::next_commands()): one pass with all independent
    /// commands, extended to a wave.
    All,
}

/// The disruption settings of a NodePool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolDisruption {
    /// Time that must pass after the last pod event on a node before consolidation may remove the
    /// node or move pods to it. `None` stands for `Never`.
    pub consolidate_after: Option<Duration>,
    /// The consolidation policy: which nodes consolidation considers.
    pub policy: ConsolidationPolicy,
    /// Limits on the number of nodes that may be disrupted at once. An empty list sets no limit.
    pub budgets: Vec<Budget>,
    /// Hash of the pool's template. `None` until a controller has written it.
    pub hash: Option<TemplateHash>,
    /// Desired number of nodes of a static pool. `None` for all other pools.
    pub replicas: Option<u32>,
    /// Time until which drift ignores the pool because replacements failed. `None` if none failed.
    pub drift_backoff_until: Option<Timestamp>,
    /// Time until which the annotation `kerf.sh/pause-disruption` forbids disruption of the pool's
    /// nodes. [`Timestamp::MAX`] if the annotation gives no end.
    pub paused_until: Option<Timestamp>,
}

impl Default for PoolDisruption {
    /// The API server's defaults for a NodePool without a `disruption` section.
    fn default() -> Self {
        Self {
            consolidate_after: Some(Duration::ZERO),
            policy: ConsolidationPolicy::WhenEmptyOrUnderutilized,
            budgets: vec![Budget { nodes: "10%".to_owned(), ..Budget::default() }],
            hash: None,
            replicas: None,
            drift_backoff_until: None,
            paused_until: None,
        }
    }
}

/// Hash of a NodePool template, as its annotations store it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateHash {
    /// The hash in decimal.
    pub hash: Str,
    /// Version of the hash function. Hashes of different versions cannot be compared.
    pub version: Str,
}

/// State of a NodeClaim that disruption needs and its labels do not show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimLifecycle {
    /// Creation time of the claim.
    pub created: Option<Timestamp>,
    /// True if the condition `Launched` is True.
    pub is_launched: bool,
    /// True if the condition `Initialized` is True.
    pub is_initialized: bool,
    /// Time of the last transition of the condition `Initialized`.
    pub initialized_at: Option<Timestamp>,
    /// Time at which a pod was last bound to the node or removed from it.
    pub last_pod_event: Option<Timestamp>,
    /// Time at which the condition `Drifted` became True. `None` if the claim has not drifted.
    pub drifted_at: Option<Timestamp>,
    /// Drift reason of the cloud provider. `None` if the provider reports no drift.
    pub provider_drift: Option<Str>,
    /// Time until which the claim's instance type counts as verified.
    pub type_verified_until: Option<Timestamp>,
    /// Age at which the claim expires. `None` stands for `Never`.
    pub expire_after: Option<Duration>,
    /// Maximum duration of a drain. `None` if a drain may take any time.
    pub termination_grace_period: Option<Duration>,
    /// True if the condition `InstanceTerminating` is True.
    pub is_instance_terminating: bool,
    /// Time until which pods are expected to be bound to the node. `None` if none are expected.
    pub nominated_until: Option<Timestamp>,
    /// True if an active command removes the node.
    pub is_disrupting: bool,
    /// Number of capacity buffer pods that the last scheduling pass placed on the node.
    pub buffer_pods: u32,
}

/// An offering whose launch failed for lack of capacity. Replacements do not use it before `until`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchBackoff {
    /// Name of the instance type.
    pub instance_type: Str,
    /// Zone of the offering.
    pub zone: Str,
    /// Capacity type of the offering.
    pub capacity_type: Str,
    /// End of the backoff.
    pub until: Timestamp,
}

//! What decides whether a node may go, beyond what placing pods needs: what its pool allows, how far its claim is, and what only the
//! caller's memory knows (nominations, commands under way, launches that just failed). All of it is plain data, like the rest
//! of the input.

use jiff::Timestamp;
use kerf_api::duration::Duration;
use kerf_api::nodepool::{Budget, ConsolidationPolicy};
use kerf_api::slim::Str;

use crate::cluster::Settings;

/// How nodes are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionSettings {
    /// How pods are placed when it is asked what would become of them.
    pub scheduling: Settings,
    /// Whether a spot node may be replaced by a cheaper spot node (feature gate `SpotToSpotConsolidation`).
    pub allows_spot_to_spot: bool,
    /// Whether to look for moves that Karpenter does not know: nodes that become a few cheaper machines, and not just one.
    pub allows_moves: bool,
    /// How far to look ahead.
    pub passes: Passes,
}

/// How far to look ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// Until the first method that acts: what a controller does before it looks again.
    First,
    /// Passes are repeated, each on the world that the last one leaves behind, until nothing is left to do.
    All,
}

/// What a pool says about taking its nodes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolDisruption {
    /// How long pods must have left a node alone before it is consolidated; none for `Never`.
    pub consolidate_after: Option<Duration>,
    /// Which nodes consolidation looks at.
    pub policy: ConsolidationPolicy,
    /// How many nodes may go at once.
    pub budgets: Vec<Budget>,
    /// The hash of the pool's template; none when it has none yet.
    pub hash: Option<TemplateHash>,
    /// The number of nodes of a static pool.
    pub replicas: Option<u32>,
    /// Until when drift leaves the pool alone because replacements failed.
    pub drift_backoff_until: Option<Timestamp>,
    /// Until when its nodes are left alone because somebody said so; the end of time for somebody who did not say until when.
    pub paused_until: Option<Timestamp>,
}

impl Default for PoolDisruption {
    /// What the API fills in for a pool that says nothing.
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

/// The hash of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateHash {
    /// The hash in decimal.
    pub hash: Str,
    /// Which function made it.
    pub version: Str,
}

/// How far a claim is, and what is known of it that is not in its labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimLifecycle {
    /// When the claim was created.
    pub created: Option<Timestamp>,
    /// Whether its condition `Launched` is True.
    pub is_launched: bool,
    /// Whether its condition `Initialized` is True.
    pub is_initialized: bool,
    /// When that last changed.
    pub initialized_at: Option<Timestamp>,
    /// When a pod last came to its node or left it.
    pub last_pod_event: Option<Timestamp>,
    /// Since when it carries `Drifted`; none if it does not.
    pub drifted_at: Option<Timestamp>,
    /// What the provider says of drift; none if it knows of none.
    pub provider_drift: Option<Str>,
    /// Until when its instance type counts as verified without another look.
    pub type_verified_until: Option<Timestamp>,
    /// The age at which it must go; none for `Never`.
    pub expire_after: Option<Duration>,
    /// How long a drain may take; none for as long as it takes.
    pub termination_grace_period: Option<Duration>,
    /// Whether its condition `InstanceTerminating` is True.
    pub is_instance_terminating: bool,
    /// Until when pods are expected on its node.
    pub nominated_until: Option<Timestamp>,
    /// Whether a command under way is about it.
    pub is_disrupting: bool,
    /// How many pods of capacity buffers were last placed on its node.
    pub buffer_pods: u32,
}

/// An offering whose launch failed for want of capacity. It is not tried again before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchBackoff {
    /// Instance type.
    pub instance_type: Str,
    /// Zone.
    pub zone: Str,
    /// Capacity type.
    pub capacity_type: Str,
    /// When it may be tried again.
    pub until: Timestamp,
}

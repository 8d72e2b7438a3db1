//! Everything that a decision may depend on, as plain data. The caller fills it from files, from watches or from a fixture;
//! the instant, the seed and the settings are part of it, because nothing else may be. What there are thousands of is shared with whoever
//! keeps it, so that an input is made without copying the cluster.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::labels::LabelRules;
use kerf_api::slim::{
    CsiNode, DaemonSet, Labels, Namespace, Node, NodeSelectorRequirement, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, ReplicaOwner, ResourceList, Service, StorageClass, Str, Taint, TopologySpreadConstraint,
};

use crate::catalogue::InstanceType;
use crate::disrupt::{ClaimLifecycle, LaunchBackoff, PoolDisruption};

/// A cluster and what can be bought for it, at one instant.
#[derive(Debug, Clone)]
pub struct Input {
    /// The instant to decide for.
    pub at: Timestamp,
    /// Node pools, in any order.
    pub pools: Vec<PoolInput>,
    /// Lists of instance types; pools name theirs by index.
    pub catalogues: Vec<Arc<Vec<InstanceType>>>,
    /// What the provider says of labels: which are known, which are off limits.
    pub label_rules: LabelRules,
    /// Node claims.
    pub node_claims: Vec<NodeClaimInput>,
    /// Nodes.
    pub nodes: Vec<Arc<Node>>,
    /// All pods: bound, pending, terminal.
    pub pods: Vec<Arc<Pod>>,
    /// Daemon sets, for what they put on every node.
    pub daemon_sets: Vec<DaemonSet>,
    /// Persistent volume claims.
    pub volume_claims: Vec<PersistentVolumeClaim>,
    /// Persistent volumes.
    pub volumes: Vec<PersistentVolume>,
    /// Storage classes.
    pub storage_classes: Vec<StorageClass>,
    /// What each node can attach.
    pub csi_nodes: Vec<CsiNode>,
    /// Namespaces, for namespace selectors.
    pub namespaces: Vec<Namespace>,
    /// Disruption budgets.
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    /// Services, for whom default spread constraints select.
    pub services: Vec<Service>,
    /// Replica sets, stateful sets and replication controllers, for the same.
    pub replica_owners: Vec<ReplicaOwner>,
    /// Storage that the provider's machines cannot use.
    pub unsupported_storage: UnsupportedStorage,
    /// Offerings whose launch failed and that replacements leave alone for now.
    pub launch_backoffs: Vec<LaunchBackoff>,
}

/// Storage that a provider's machines cannot use; pods that ask for it wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnsupportedStorage {
    /// Provisioners, by the name of their CSI driver.
    pub provisioners: Vec<Str>,
    /// Keys that a storage class's allowed topologies may not name.
    pub topology_keys: Vec<Str>,
}

/// A node pool as decisions see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolInput {
    /// Name.
    pub name: Str,
    /// Higher is tried first.
    pub weight: i32,
    /// Labels that every node of the pool gets, the pool's and the node class's own label included.
    pub labels: Labels,
    /// What nodes of the pool may be.
    pub requirements: Vec<PoolRequirement>,
    /// Taints of its nodes.
    pub taints: Vec<Taint>,
    /// Taints of its nodes that go away before they are ready.
    pub startup_taints: Vec<Taint>,
    /// The most of each resource that the pool may have, `nodes` among them.
    pub limits: ResourceList,
    /// Which of the input's catalogues the pool launches from; none when its types cannot be listed.
    pub catalogue: Option<usize>,
    /// Whether and why the pool takes no new pods.
    pub availability: PoolAvailability,
    /// What it says about taking its nodes away.
    pub disruption: PoolDisruption,
}

/// Whether a pool takes part in scheduling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PoolAvailability {
    /// It does.
    #[default]
    Ready,
    /// It has a fixed number of nodes.
    Static,
    /// Its `Ready` condition is not True, for the reason given.
    NotReady(Str),
    /// It is being deleted.
    Deleting,
}

/// A requirement of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolRequirement {
    /// Key, operator, values.
    pub expression: NodeSelectorRequirement,
    /// How many distinct values must stay in play.
    pub min_values: Option<u32>,
}

/// A node claim as decisions see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeClaimInput {
    /// Name.
    pub name: Str,
    /// Labels.
    pub labels: Labels,
    /// Annotations that decisions read.
    pub annotations: Labels,
    /// The machine; empty until it is launched.
    pub provider_id: Str,
    /// Taints of the node to be.
    pub taints: Vec<Taint>,
    /// Taints that go away before the node is ready.
    pub startup_taints: Vec<Taint>,
    /// All resources of the machine.
    pub capacity: ResourceList,
    /// Resources for pods.
    pub allocatable: ResourceList,
    /// Whether it is being deleted, or its machine is being terminated.
    pub is_deleting: bool,
    /// Whether disruption has marked it.
    pub is_marked_for_disruption: bool,
    /// How far it is; only disruption asks.
    pub lifecycle: ClaimLifecycle,
}

/// How hard constraints and wishes are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether wishes count.
    pub preference_policy: PreferencePolicy,
    /// Whether `minValues` may be lowered.
    pub min_values_policy: MinValuesPolicy,
    /// Whether reserved capacity is used at all (feature gate `ReservedCapacity`).
    pub reserved_capacity: bool,
    /// What to do when reservations are spoken for.
    pub reserved_mode: ReservedMode,
    /// Spread constraints of pods that have none of their own; their selectors are deduced for each pod.
    pub default_spread: Vec<TopologySpreadConstraint>,
    /// Whether pods that ask for dynamic resources are refused.
    pub ignore_dra: bool,
    /// Whether a pending pod must carry `PodScheduled` with reason `Unschedulable`; files seldom do.
    pub require_unschedulable: bool,
    /// How many instance types a claim lists at most.
    pub max_instance_types: usize,
    /// Breaks ties; the same seed gives the same answer.
    pub seed: u64,
    /// Threads to search with; the answer does not depend on it.
    pub threads: usize,
    /// How hard to look for something cheaper than first fit.
    pub effort: Effort,
}

/// Whether wishes of pods count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// They are kept as long as they can be.
    Respect,
    /// They are not looked at.
    Ignore,
}

/// Whether a pool's `minValues` may be lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// Never.
    Strict,
    /// On a new claim, to what is there.
    BestEffort,
}

/// What to do when a reservation that a pod could use is spoken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedMode {
    /// The pod waits for the next pass.
    Strict,
    /// The pod takes other capacity.
    Fallback,
}

/// How hard to look for something cheaper than first fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// First fit in Karpenter's order, and nothing more.
    FirstFit,
    /// A bounded search on top; its size depends only on the size of the input.
    Search,
}

//! The input of all decisions, as plain data: the state of the cluster, the time, the seed and the
//! settings. Decisions depend on nothing else.
//!
//! The caller fills it from files, from watches or from a test fixture. Lists with thousands of
//! objects are shared by `Arc`, so that building an input does not copy the cluster.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::labels::LabelRules;
use kerf_api::slim::{
    CsiNode, DaemonSet, Labels, Namespace, Node, NodeSelectorRequirement, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, ReplicaOwner, ResourceList, Service, StorageClass, Str, Taint, TopologySpreadConstraint,
};

use crate::catalogue::InstanceTypes;
use crate::disrupt::{ClaimLifecycle, LaunchBackoff, PoolDisruption};

/// A cluster and its instance types at one time.
#[derive(Debug, Clone)]
pub struct Input {
    /// Time of the decision.
    pub at: Timestamp,
    /// NodePools, in any order.
    pub pools: Vec<PoolInput>,
    /// Lists of instance types. Pools refer to theirs by index.
    pub catalogues: Vec<InstanceTypes>,
    /// The provider's label rules: well-known and restricted labels.
    pub label_rules: LabelRules,
    /// NodeClaims.
    pub node_claims: Vec<NodeClaimInput>,
    /// Nodes, managed or not.
    pub nodes: Vec<Arc<Node>>,
    /// All pods: bound, pending and finished.
    pub pods: Vec<Arc<Pod>>,
    /// DaemonSets, for their overhead on every node.
    pub daemon_sets: Vec<DaemonSet>,
    /// PersistentVolumeClaims.
    pub volume_claims: Vec<PersistentVolumeClaim>,
    /// PersistentVolumes.
    pub volumes: Vec<PersistentVolume>,
    /// StorageClasses.
    pub storage_classes: Vec<StorageClass>,
    /// CSINodes, for the attach limits of nodes.
    pub csi_nodes: Vec<CsiNode>,
    /// Namespaces, for namespace selectors.
    pub namespaces: Vec<Namespace>,
    /// PodDisruptionBudgets.
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    /// Services, for the selectors of default spread constraints.
    pub services: Vec<Service>,
    /// ReplicaSets, StatefulSets and ReplicationControllers, for the selectors of default spread
    /// constraints.
    pub replica_owners: Vec<ReplicaOwner>,
    /// Storage that the provider's nodes cannot use.
    pub unsupported_storage: UnsupportedStorage,
    /// Offerings whose launch failed and that replacements do not use for now.
    pub launch_backoffs: Vec<LaunchBackoff>,
}

/// Storage that a provider's nodes cannot use. Pods that need it stay pending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnsupportedStorage {
    /// Provisioners, by the name of their CSI driver.
    pub provisioners: Vec<Str>,
    /// Label keys that a StorageClass's `allowedTopologies` may not use.
    pub topology_keys: Vec<Str>,
}

/// A NodePool as decisions read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolInput {
    /// Name of the NodePool.
    pub name: Str,
    /// Pools with a higher weight are tried first.
    pub weight: i32,
    /// Labels of every node of the pool, including the labels for NodePool and NodeClass.
    pub labels: Labels,
    /// Requirements on the nodes of the pool.
    pub requirements: Vec<PoolRequirement>,
    /// Taints of the pool's nodes.
    pub taints: Vec<Taint>,
    /// Taints of the pool's nodes that are removed before a node is ready.
    pub startup_taints: Vec<Taint>,
    /// Maximum amount of each resource in the pool, including `nodes`. A missing resource is not
    /// limited.
    pub limits: ResourceList,
    /// Index into [`Input::catalogues`]. `None` if the provider cannot list the pool's instance
    /// types.
    pub catalogue: Option<usize>,
    /// Tells whether the pool accepts new pods, and why not.
    pub availability: PoolAvailability,
    /// Disruption settings and state of the pool.
    pub disruption: PoolDisruption,
}

/// The part that a NodePool takes in scheduling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PoolAvailability {
    /// The pool accepts pods.
    #[default]
    Ready,
    /// The pool has a fixed number of nodes, so scheduling launches none.
    Static,
    /// The pool's condition `Ready` is not True, for this reason.
    NotReady(Str),
    /// The pool has limits, and this claim of it is not launched yet, so its use of the limits is
    /// not known. The pool launches nothing until it is.
    AwaitingLaunch(Str),
    /// The pool is being deleted.
    Deleting,
    /// The node class of the pool belongs to this API group, which another controller serves. Pods
    /// are not placed on new nodes of the pool, and its nodes are not disrupted.
    OtherProvider(Str),
}

/// A requirement of a NodePool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolRequirement {
    /// Key, operator and values.
    pub expression: NodeSelectorRequirement,
    /// Minimum number of distinct values that the instance types of a claim must offer
    /// (`minValues`).
    pub min_values: Option<u32>,
}

/// A NodeClaim as decisions read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeClaimInput {
    /// Name of the NodeClaim.
    pub name: Str,
    /// Labels of the NodeClaim.
    pub labels: Labels,
    /// Annotations that decisions read.
    pub annotations: Labels,
    /// Provider ID of the instance. Empty until it is launched.
    pub provider_id: Str,
    /// Taints of the node.
    pub taints: Vec<Taint>,
    /// Taints that are removed before the node is ready.
    pub startup_taints: Vec<Taint>,
    /// All resources of the instance.
    pub capacity: ResourceList,
    /// Resources for pods.
    pub allocatable: ResourceList,
    /// True if the claim is being deleted or its instance is being terminated.
    pub is_deleting: bool,
    /// True if a disruption command has marked the claim.
    pub is_marked_for_disruption: bool,
    /// Lifecycle state, which only disruption reads.
    pub lifecycle: ClaimLifecycle,
}

/// Options for placing pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Treatment of preferences.
    pub preference_policy: PreferencePolicy,
    /// Treatment of `minValues`.
    pub min_values_policy: MinValuesPolicy,
    /// True if reserved capacity may be used (feature gate `ReservedCapacity`).
    pub reserved_capacity: bool,
    /// Treatment of pods that could use a reservation which other pods hold.
    pub reserved_mode: ReservedMode,
    /// Spread constraints of pods that have none. Their selectors are deduced for each pod.
    pub default_spread: Vec<TopologySpreadConstraint>,
    /// True if pods that request dynamic resources are rejected.
    pub ignore_dra: bool,
    /// True if a pending pod must have the condition `PodScheduled` with reason `Unschedulable`.
    /// Pods in files seldom have it.
    pub require_unschedulable: bool,
    /// Maximum number of instance types that a claim lists.
    pub max_instance_types: usize,
    /// Seed for breaking ties. Equal seeds give equal results.
    pub seed: u64,
    /// Number of threads to search with. The result does not depend on it.
    pub threads: usize,
    /// Amount of search for something cheaper than first fit.
    pub effort: Effort,
}

/// Treatment of the preferences of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// Preferences are satisfied as far as possible.
    Respect,
    /// Preferences are ignored.
    Ignore,
}

/// Treatment of a pool's `minValues` when too few values are available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// Never.
    Strict,
    /// On a new claim, to the number of values that the remaining instance types have.
    BestEffort,
}

/// Treatment of a pod that could use a reservation which other pods hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedMode {
    /// The pod waits for the next pass.
    Strict,
    /// The pod uses other capacity.
    Fallback,
}

/// Amount of search for something cheaper than first fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// First fit in Karpenter's order, and no search.
    FirstFit,
    /// First fit and a bounded search. Its effort depends only on the size of the input.
    Search,
}

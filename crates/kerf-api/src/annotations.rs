//! Names of all annotations that Kerf reads or writes (spec 01 §11.1).
//!
//! When a Node registers, all annotations of its NodeClaim are copied to it. Later changes are not.

/// On a pod: `true`, or the duration after its start during which it must not be disrupted. On a
/// Node or NodeClaim: `true`.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Drift hash of a NodePool, on the NodePool and on its NodeClaims and Nodes.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of the hash function that computed [`NODEPOOL_HASH`].
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// On a NodeClaim: time at which draining ends even if pods remain on the node (RFC 3339).
pub const NODECLAIM_TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// On a NodeClaim: `true` if `minValues` was lowered because no instance type satisfied it.
pub const NODECLAIM_MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// On a NodeClaim: the DRA drivers that its pods need, sorted and separated by commas.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// On a NodeClaim: `true` if a NodeOverlay changed the price of a candidate instance type.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// On a NodeClaim: `true` if a NodeOverlay changed the capacity of a candidate instance type.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// On the in-memory pods of a CapacityBuffer: `true`.
pub const CAPACITY_BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
/// On the in-memory pods of a CapacityBuffer: name of the buffer.
pub const CAPACITY_BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
/// On the in-memory pods of a CapacityBuffer: namespace of the buffer.
pub const CAPACITY_BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";
/// On objects of old releases. It is kept and ignored.
pub const COMPATIBILITY_PROVIDER: &str = "compatibility.karpenter.sh/provider";

/// Kerf's own annotations, which Karpenter ignores.
pub mod kerf {
    /// On a NodePool: stops voluntary disruption of its nodes (see [`crate::pause`]).
    pub const PAUSE_DISRUPTION: &str = "kerf.sh/pause-disruption";
    /// On a NodePool: offerings from which replacements could not be launched, and the time until
    /// which each is not tried again (JSON).
    pub const LAUNCH_BACKOFFS: &str = "kerf.sh/launch-backoffs";
    /// On a NodeClaim that replaced others: which claims it replaced, and when (JSON).
    pub const REPLACED: &str = "kerf.sh/replaced";
    /// On a NodeClaim: name of the earlier claim of its pods, which was deleted because its node
    /// was never Ready.
    pub const REPLACES_NEVER_READY: &str = "kerf.sh/replaces-never-ready";
    /// On a NodeClaim with [`REPLACES_NEVER_READY`]: number of claims in a row that were deleted
    /// for this reason. Each doubles the time within which the claim's node must be Ready.
    pub const NEVER_READY_REPLACEMENTS: &str = "kerf.sh/never-ready-replacements";
}

/// Annotations of the EC2 provider.
pub mod aws {
    /// Drift hash of an EC2NodeClass, on the class and on NodeClaims launched from it.
    pub const EC2NODECLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
    /// Version of the hash function that computed [`EC2NODECLASS_HASH`].
    pub const EC2NODECLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
    /// On a NodeClaim: instance profile used at launch. Garbage collection must not delete it.
    pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
    /// On a NodeClaim: `true` if the instance has the tags that are known only after launch.
    pub const TAGGED: &str = "karpenter.k8s.aws/tagged";
    /// On a NodeClaim: `true` if the instance has the cluster's name as a tag.
    pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
    /// On objects of old releases. It is kept and ignored.
    pub const KUBELET_DRIFT_HASH: &str = "compatibility.karpenter.k8s.aws/kubelet-drift-hash";
}

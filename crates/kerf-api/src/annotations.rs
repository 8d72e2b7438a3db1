//! Every annotation that Kerf reads or writes, once (spec 01 §11.1).
//!
//! All annotations that a NodeClaim has when its Node registers are copied to the Node; later changes are not.

/// On a pod: `true`, or for how long after its start it must be left alone. On a Node or NodeClaim: `true`.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Drift hash of a NodePool, on the pool and on what was made from it.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Which hash function made [`NODEPOOL_HASH`].
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// On a NodeClaim: when draining ends, whatever is still on the node (RFC 3339).
pub const NODECLAIM_TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// On a NodeClaim: whether `minValues` was lowered to find a machine at all.
pub const NODECLAIM_MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// On a NodeClaim: the DRA drivers that its pods need, sorted, separated by commas.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// On a NodeClaim: `true` when a NodeOverlay changed the price of a candidate type.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// On a NodeClaim: `true` when a NodeOverlay changed the capacity of a candidate type.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// On the in-memory pods of a CapacityBuffer: `true`.
pub const CAPACITY_BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
/// On the in-memory pods of a CapacityBuffer: the buffer's name.
pub const CAPACITY_BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
/// On the in-memory pods of a CapacityBuffer: the buffer's namespace.
pub const CAPACITY_BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";
/// On objects of old releases; kept and ignored.
pub const COMPATIBILITY_PROVIDER: &str = "compatibility.karpenter.sh/provider";

/// Annotations of Kerf's own, which Karpenter ignores.
pub mod kerf {
    /// On a NodePool: nothing voluntary happens to its nodes (see [`crate::pause`]).
    pub const PAUSE_DISRUPTION: &str = "kerf.sh/pause-disruption";
    /// On a NodePool: offerings that replacements could not be launched from, and until when they are not tried again (JSON).
    pub const LAUNCH_BACKOFFS: &str = "kerf.sh/launch-backoffs";
    /// On a NodeClaim that replaced others: what they were, and when (JSON).
    pub const REPLACED: &str = "kerf.sh/replaced";
}

/// Annotations of the EC2 provider.
pub mod aws {
    /// Drift hash of an EC2NodeClass, on the class and on what was launched from it.
    pub const EC2NODECLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
    /// Which hash function made [`EC2NODECLASS_HASH`].
    pub const EC2NODECLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
    /// On a NodeClaim: the instance profile used at launch, which must therefore not be collected.
    pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
    /// On a NodeClaim: `true` when the instance carries the tags that are only known after launch.
    pub const TAGGED: &str = "karpenter.k8s.aws/tagged";
    /// On a NodeClaim: `true` when the instance carries the cluster's name as a tag.
    pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
    /// On objects of old releases; kept and ignored.
    pub const KUBELET_DRIFT_HASH: &str = "compatibility.karpenter.k8s.aws/kubelet-drift-hash";
}

//! Reasons why a node is rejected, with kube-scheduler's texts.

use std::fmt;

use kerf_api::quantity::Quantity;

use crate::ports::HostPort;

/// The filter plug-ins, in the order in which kube-scheduler runs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterPlugin {
    /// Rejects cordoned nodes.
    NodeUnschedulable,
    /// Rejects nodes with untolerated taints.
    TaintToleration,
    /// Checks node selector and node affinity.
    NodeAffinity,
    /// Checks host ports.
    NodePorts,
    /// Checks requests against allocatable resources.
    NodeResourcesFit,
    /// Checks the limits of attachable volumes.
    NodeVolumeLimits,
    /// Checks the node affinity of volumes and the topologies of storage classes.
    VolumeBinding,
    /// Checks the zone labels of volumes.
    VolumeZone,
    /// Checks topology spread constraints.
    PodTopologySpread,
    /// Checks pod affinity and anti-affinity.
    InterPodAffinity,
}

/// A reason why a pod may not be bound to a node. Prints the text of kube-scheduler's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterReason {
    /// The node is cordoned.
    Unschedulable,
    /// The pod does not tolerate a taint of the node.
    UntoleratedTaint {
        /// Key of the taint.
        key: String,
        /// Value of the taint.
        value: String,
    },
    /// The node does not match the pod's node selector or node affinity.
    NodeAffinity,
    /// Another pod on the node uses a host port of the pod.
    NodePorts {
        /// Port that the pod needs.
        wanted: HostPort,
    },
    /// The node has reached its limit of pods.
    TooManyPods,
    /// The node has too little of a resource.
    Insufficient {
        /// Name of the resource.
        resource: String,
        /// Request of the pod.
        requested: Quantity,
        /// Requests of the pods on the node.
        used: Quantity,
        /// Allocatable amount of the node.
        allocatable: Quantity,
    },
    /// The node would have more volumes of a driver than the driver can attach.
    VolumeLimit {
        /// Name of the CSI driver.
        driver: String,
        /// Number of volumes with the pod's volumes.
        count: usize,
        /// Number of volumes that the driver can attach.
        limit: usize,
    },
    /// A volume claim does not exist.
    ClaimMissing {
        /// Name of the claim.
        claim: String,
    },
    /// A volume claim is being deleted.
    ClaimDeleting {
        /// Name of the claim.
        claim: String,
    },
    /// A claim is bound to a volume that does not exist.
    VolumeMissing,
    /// A claim with immediate binding is not bound yet.
    UnboundImmediate,
    /// A volume cannot be used on the node.
    VolumeNodeAffinity,
    /// A storage class cannot provision a volume for the node.
    VolumeBinding,
    /// A volume's zone label differs from the node's.
    VolumeZone,
    /// The node lacks the topology key of a spread constraint.
    SpreadLabelMissing {
        /// The missing label key.
        key: String,
    },
    /// The pod would make the skew of a spread constraint too great.
    TopologySpread {
        /// Topology key of the constraint.
        key: String,
        /// Domain of the node.
        domain: String,
        /// Matching pods in the domain, including the new pod if it matches.
        count: i64,
        /// Matching pods in the domain with the fewest.
        minimum: i64,
        /// Greatest allowed difference between `count` and `minimum`.
        max_skew: i64,
    },
    /// The node's domain has no pod that the affinity terms select.
    PodAffinity,
    /// The node's domain has a pod that an anti-affinity term selects.
    PodAntiAffinity,
    /// The node's domain has a pod with an anti-affinity term that selects this pod.
    ExistingAntiAffinity,
}

impl FilterReason {
    /// Returns the plug-in that reports this reason.
    pub fn plugin(&self) -> FilterPlugin {
        match self {
            Self::Unschedulable => FilterPlugin::NodeUnschedulable,
            Self::UntoleratedTaint { .. } => FilterPlugin::TaintToleration,
            Self::NodeAffinity => FilterPlugin::NodeAffinity,
            Self::NodePorts { .. } => FilterPlugin::NodePorts,
            Self::TooManyPods | Self::Insufficient { .. } => FilterPlugin::NodeResourcesFit,
            Self::VolumeLimit { .. } => FilterPlugin::NodeVolumeLimits,
            Self::ClaimMissing { .. }
            | Self::ClaimDeleting { .. }
            | Self::VolumeMissing
            | Self::UnboundImmediate
            | Self::VolumeNodeAffinity
            | Self::VolumeBinding => FilterPlugin::VolumeBinding,
            Self::VolumeZone => FilterPlugin::VolumeZone,
            Self::SpreadLabelMissing { .. } | Self::TopologySpread { .. } => FilterPlugin::PodTopologySpread,
            Self::PodAffinity | Self::PodAntiAffinity | Self::ExistingAntiAffinity => FilterPlugin::InterPodAffinity,
        }
    }
}

impl fmt::Display for FilterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::UntoleratedTaint { .. } => f.write_str("node(s) had untolerated taint(s)"),
            Self::NodeAffinity => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Self::NodePorts { .. } => f.write_str("node(s) didn't have free ports for the requested pod ports"),
            Self::TooManyPods => f.write_str("Too many pods"),
            Self::Insufficient { resource, .. } => write!(f, "Insufficient {resource}"),
            Self::VolumeLimit { .. } => f.write_str("node(s) exceed max volume count"),
            Self::ClaimMissing { claim } => write!(f, "persistentvolumeclaim {claim:?} not found"),
            Self::ClaimDeleting { claim } => write!(f, "persistentvolumeclaim {claim:?} is being deleted"),
            Self::VolumeMissing => {
                f.write_str("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
            }
            Self::UnboundImmediate => f.write_str("pod has unbound immediate PersistentVolumeClaims"),
            Self::VolumeNodeAffinity => f.write_str("node(s) didn't match PersistentVolume's node affinity"),
            Self::VolumeBinding => f.write_str("node(s) didn't find available persistent volumes to bind"),
            Self::VolumeZone => f.write_str("node(s) had no available volume zone"),
            Self::SpreadLabelMissing { .. } => {
                f.write_str("node(s) didn't match pod topology spread constraints (missing required label)")
            }
            Self::TopologySpread { .. } => f.write_str("node(s) didn't match pod topology spread constraints"),
            Self::PodAffinity => f.write_str("node(s) didn't match pod affinity rules"),
            Self::PodAntiAffinity => f.write_str("node(s) didn't match pod anti-affinity rules"),
            Self::ExistingAntiAffinity => f.write_str("node(s) didn't satisfy existing pods anti-affinity rules"),
        }
    }
}

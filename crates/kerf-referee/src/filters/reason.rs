//! Why a node is refused, in kube-scheduler's words.

use std::fmt;

use kerf_api::quantity::Quantity;

use crate::ports::HostPort;

/// The filter plug-ins, in the order in which kube-scheduler asks them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterPlugin {
    /// Cordoned nodes.
    NodeUnschedulable,
    /// Taints.
    TaintToleration,
    /// Node selector and node affinity.
    NodeAffinity,
    /// Host ports.
    NodePorts,
    /// Requests against allocatable.
    NodeResourcesFit,
    /// Attachable volumes.
    NodeVolumeLimits,
    /// Node affinity of volumes, topologies of classes.
    VolumeBinding,
    /// Zone labels of volumes.
    VolumeZone,
    /// Spread constraints.
    PodTopologySpread,
    /// Pod affinity and anti-affinity.
    InterPodAffinity,
}

/// One reason why a pod may not be bound to a node. Prints as in kube-scheduler's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterReason {
    /// The node is cordoned.
    Unschedulable,
    /// A taint that the pod does not tolerate.
    UntoleratedTaint {
        /// The taint's key.
        key: String,
        /// The taint's value.
        value: String,
    },
    /// The node is not one that the pod asks for.
    NodeAffinity,
    /// A host port is taken.
    NodePorts {
        /// The port that the pod wants.
        wanted: HostPort,
    },
    /// The node has as many pods as it takes.
    TooManyPods,
    /// The node lacks a resource.
    Insufficient {
        /// Its name.
        resource: String,
        /// What the pod asks for.
        requested: Quantity,
        /// What the pods there ask for.
        used: Quantity,
        /// What the node can allocate.
        allocatable: Quantity,
    },
    /// A driver would have more volumes on the node than it can attach.
    VolumeLimit {
        /// The CSI driver.
        driver: String,
        /// How many volumes it would have.
        count: usize,
        /// How many it can have.
        limit: usize,
    },
    /// A claim does not exist.
    ClaimMissing {
        /// Its name.
        claim: String,
    },
    /// A claim is being deleted.
    ClaimDeleting {
        /// Its name.
        claim: String,
    },
    /// A claim is bound to a volume that does not exist.
    VolumeMissing,
    /// A claim must be bound before its pod is placed.
    UnboundImmediate,
    /// A volume cannot be used on the node.
    VolumeNodeAffinity,
    /// A class cannot make a volume for the node.
    VolumeBinding,
    /// A volume's zone label is not the node's.
    VolumeZone,
    /// The node lacks a topology key of a spread constraint.
    SpreadLabelMissing {
        /// The key.
        key: String,
    },
    /// The pod would make its domain too full.
    TopologySpread {
        /// The topology key.
        key: String,
        /// The node's domain.
        domain: String,
        /// Matching pods there, the new one included if it matches.
        count: i64,
        /// Matching pods in the emptiest domain.
        minimum: i64,
        /// How far the two may be apart.
        max_skew: i64,
    },
    /// No pod that this one must be near is in the node's domain.
    PodAffinity,
    /// A pod that this one must be away from is in the node's domain.
    PodAntiAffinity,
    /// A pod in the node's domain must be away from this one.
    ExistingAntiAffinity,
}

impl FilterReason {
    /// The plug-in that says so.
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

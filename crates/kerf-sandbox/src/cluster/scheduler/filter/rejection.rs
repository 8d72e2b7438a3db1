//! Rejections of a node by a filter plug-in, with the texts of kube-scheduler 1.36. Each states
//! whether removing pods from the node could resolve it.

use std::borrow::Cow;

/// The plug-ins that can reject a node, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Plugin {
    /// Cordoned nodes.
    NodeUnschedulable,
    /// Taints with the effects `NoSchedule` and `NoExecute`.
    TaintToleration,
    /// Node selector and required node affinity.
    NodeAffinity,
    /// Host ports.
    NodePorts,
    /// Resource requests compared with allocatable.
    NodeResourcesFit,
    /// Claims with the access mode `ReadWriteOncePod`.
    VolumeRestrictions,
    /// Number of volumes that a driver can attach to a node.
    NodeVolumeLimits,
    /// Topology of bound volumes, and of volumes that can be provisioned.
    VolumeBinding,
    /// Zone labels of volumes.
    VolumeZone,
    /// Required topology spread constraints.
    PodTopologySpread,
    /// Required pod affinity and anti-affinity.
    InterPodAffinity,
    /// The cluster has no nodes. The scheduler itself reports this, not a plug-in.
    NoNodes,
}

/// A rejection of one node, or of all nodes if a pre-filter reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterRejection {
    pub(crate) plugin: Plugin,
    /// Texts for the event, which counts the nodes of each text.
    pub(crate) reasons: Vec<Cow<'static, str>>,
    /// True if removing pods from the node could resolve the rejection.
    pub(crate) is_resolvable: bool,
}

impl FilterRejection {
    /// Returns a rejection that holds even if all pods are removed from the node.
    pub(super) fn unresolvable(plugin: Plugin, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { plugin, reasons: vec![reason.into()], is_resolvable: false }
    }

    /// Returns a rejection that removing pods from the node may resolve.
    pub(super) fn resolvable(plugin: Plugin, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { plugin, reasons: vec![reason.into()], is_resolvable: true }
    }
}

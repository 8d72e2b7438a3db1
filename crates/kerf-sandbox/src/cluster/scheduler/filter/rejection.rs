//! Why a node does not take a pod, in kube-scheduler's words (those of 1.36), and whether other pods' leaving could change that.

use std::borrow::Cow;

/// The plug-ins that can say no, in the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Plugin {
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
    /// Claims that one pod alone may use.
    VolumeRestrictions,
    /// How many volumes a node can have attached.
    NodeVolumeLimits,
    /// Where volumes are and can be made.
    VolumeBinding,
    /// Zone labels of volumes.
    VolumeZone,
    /// Spread constraints.
    PodTopologySpread,
    /// Rules about other pods.
    InterPodAffinity,
    /// There is no node at all: no plug-in says so, the scheduler itself does.
    NoNodes,
}

/// A node's no, or with the same words that of all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterRejection {
    pub(crate) plugin: Plugin,
    /// What the events say, each with the number of nodes that it holds for.
    pub(crate) reasons: Vec<Cow<'static, str>>,
    /// Whether it could be otherwise if pods left the node.
    pub(crate) is_resolvable: bool,
}

impl FilterRejection {
    /// A no that holds whatever leaves the node.
    pub(super) fn unresolvable(plugin: Plugin, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { plugin, reasons: vec![reason.into()], is_resolvable: false }
    }

    /// A no that may be over when pods leave the node.
    pub(super) fn resolvable(plugin: Plugin, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { plugin, reasons: vec![reason.into()], is_resolvable: true }
    }
}

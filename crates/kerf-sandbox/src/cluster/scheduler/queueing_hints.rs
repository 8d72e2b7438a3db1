//! What may help a pod that found no node: for each event, whose refusals it can change, and whether it can change that of one pod.
//! Without this every event would send every parked pod through all filters again.
//! Invariant: a hint may be wrong in one direction only: a pod may be tried in vain, but none stays parked that an event made fit.

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, TopologySpreadConstraint};
use kerf_referee::placement::{namespace, spread_constraints};
use kerf_referee::selectors::{Labels, node_wanted, selects};
use kerf_referee::taints::untolerated;
use smol_str::SmolStr;

use super::classes::speaks_of;
use super::filter::Plugin;
use super::node::NodeChange;
use super::pod::PodInfo;
use super::view::{NodeIx, View, claim_key};

/// What is left of a pod that is gone, or was another.
#[derive(Clone, Debug)]
pub(super) struct Traits {
    pub(super) namespace: SmolStr,
    pub(super) labels: Labels,
    pub(super) away: Vec<PodAffinityTerm>,
}

/// Something that happened.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// A node came or changed.
    Node(NodeIx, NodeChange),
    /// A node went.
    NodeGone,
    /// A pod came to a node.
    Seated(&'a Traits),
    /// A pod left its node.
    Unseated(&'a PodInfo, &'a Traits),
    /// A pod on a node asks for less.
    Shrunk,
    /// A claim came or changed.
    Claim(&'a str),
    /// A volume, a class or what a driver can attach came, changed or went.
    Storage,
}

use Plugin::{
    InterPodAffinity, NoNodes, NodeAffinity, NodePorts, NodeResourcesFit, NodeUnschedulable, NodeVolumeLimits,
    PodTopologySpread, TaintToleration, VolumeBinding, VolumeRestrictions, VolumeZone,
};

/// Those that a pod on a node can refuse others for.
pub(super) const BETWEEN_PODS: &[Plugin] = &[PodTopologySpread, InterPodAffinity];
/// Those that a pod's leaving can help.
pub(super) const ON_LEAVING: &[Plugin] =
    &[NodePorts, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, PodTopologySpread, InterPodAffinity];
const ON_NODE: &[Plugin] = &[
    NodeUnschedulable,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    NoNodes,
];

impl Event<'_> {
    /// Whose refusals this may change.
    pub(super) fn concerns(&self) -> &'static [Plugin] {
        match self {
            Self::Node(..) => ON_NODE,
            Self::NodeGone => &[PodTopologySpread],
            Self::Seated(_) => BETWEEN_PODS,
            Self::Unseated(..) => ON_LEAVING,
            Self::Shrunk => &[NodeResourcesFit],
            Self::Claim(_) => &[VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone],
            Self::Storage => &[NodeVolumeLimits, VolumeBinding, VolumeZone],
        }
    }

    /// Whether this may help a pod which `plugin` refused.
    pub(super) fn helps(&self, view: &View, plugin: Plugin, pod: &Pod, info: &PodInfo) -> bool {
        match self {
            Self::Node(node, change) => node_helps(view, *node, *change, plugin, pod, info),
            Self::NodeGone | Self::Shrunk | Self::Storage => true,
            Self::Seated(traits) => match plugin {
                PodTopologySpread => counted(pod, traits),
                _ => spoken_of(view, info, traits),
            },
            Self::Unseated(gone, traits) => match plugin {
                PodTopologySpread => counted(pod, traits),
                InterPodAffinity => spoken_of(view, info, traits) || speaks_against(view, info, traits),
                NodePorts => gone.ports.iter().any(|port| info.ports.iter().any(|our| our.conflicts_with(port))),
                VolumeRestrictions => {
                    gone.namespace() == info.namespace() && gone.claims.iter().any(|claim| info.claims.contains(claim))
                }
                NodeVolumeLimits => !gone.claims.is_empty(),
                _ => true,
            },
            Self::Claim(key) => info.claims.iter().any(|claim| claim_key(info, claim) == *key),
        }
    }
}

fn node_helps(view: &View, node: NodeIx, change: NodeChange, plugin: Plugin, pod: &Pod, info: &PodInfo) -> bool {
    let there = view.node(node);
    match plugin {
        NodeUnschedulable => (change.added || change.taints) && !there.unschedulable,
        TaintToleration => (change.added || change.taints) && untolerated(pod, &there.taints).is_none(),
        NodeAffinity => (change.added || change.labels) && node_wanted(pod, &there.name, &there.labels),
        NodeResourcesFit => (change.added || change.allocatable) && !there.allocatable.never_holds(&info.requests),
        PodTopologySpread => {
            let has = |constraint: &TopologySpreadConstraint| there.labels.contains_key(&constraint.topology_key);
            (change.added || change.labels || change.taints) && spread_constraints(pod).all(has)
        }
        InterPodAffinity | VolumeBinding | VolumeZone => change.added || change.labels,
        NodePorts | VolumeRestrictions | NodeVolumeLimits | NoNodes => change.added,
    }
}

/// Whether a spread constraint of the pod counts the other.
fn counted(pod: &Pod, other: &Traits) -> bool {
    namespace(pod) == other.namespace
        && spread_constraints(pod).any(|constraint| selects(constraint.label_selector.as_ref(), &other.labels))
}

/// Whether a demand of the pod speaks of the other.
fn spoken_of(view: &View, info: &PodInfo, other: &Traits) -> bool {
    let Some(ours) = view.classes.get(info.class) else { return true };
    let mut demands = ours.terms.near.iter().chain(&ours.terms.away);
    demands.any(|term| speaks_of(term, &ours.namespace, &other.namespace, &other.labels, &view.namespaces))
}

/// Whether the other wanted to be away from the pod.
fn speaks_against(view: &View, info: &PodInfo, other: &Traits) -> bool {
    let Some(ours) = view.classes.get(info.class) else { return true };
    let mut demands = other.away.iter();
    demands.any(|term| speaks_of(term, &other.namespace, &ours.namespace, &ours.labels, &view.namespaces))
}

//! What may help a pod that found no node: for each event, whose refusals it can change, and whether it can change that of one pod.
//! Without this every event would send every parked pod through all filters again.
//! Invariant: a hint may be wrong in one direction only: a pod may be tried in vain, but none stays parked that an event made fit.

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, TopologySpreadConstraint};
use kerf_referee::placement::{namespace, spread_constraints};
use kerf_referee::selectors::{Labels, node_affinity_matches, selects};
use kerf_referee::taints::first_untolerated_taint;
use smol_str::SmolStr;

use super::classes::affinity_term_selects;
use super::filter::Plugin;
use super::node::NodeChange;
use super::pod::PodInfo;
use super::view::{NodeIx, View, claim_key};

/// What is left of a pod that is gone, or was another.
#[derive(Clone, Debug)]
pub(super) struct PodTraits {
    pub(super) namespace: SmolStr,
    pub(super) labels: Labels,
    pub(super) required_anti_affinity: Vec<PodAffinityTerm>,
}

/// Something that happened.
#[derive(Debug)]
pub(super) enum SchedulingEvent<'a> {
    /// A node came or changed.
    NodeChanged(NodeIx, NodeChange),
    /// A node went.
    NodeRemoved,
    /// A pod came to a node.
    PodAssigned(&'a PodTraits),
    /// A pod left its node.
    PodRemoved(&'a PodInfo, &'a PodTraits),
    /// A pod on a node asks for less.
    PodRequestsReduced,
    /// A claim came or changed.
    ClaimChanged(&'a str),
    /// A volume, a class or what a driver can attach came, changed or went.
    StorageChanged,
}

use Plugin::{
    InterPodAffinity, NoNodes, NodeAffinity, NodePorts, NodeResourcesFit, NodeUnschedulable, NodeVolumeLimits,
    PodTopologySpread, TaintToleration, VolumeBinding, VolumeRestrictions, VolumeZone,
};

/// Those that a pod on a node can refuse others for.
pub(super) const POD_TO_POD_PLUGINS: &[Plugin] = &[PodTopologySpread, InterPodAffinity];
/// Those that a pod's leaving can help.
pub(super) const POD_REMOVAL_PLUGINS: &[Plugin] =
    &[NodePorts, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, PodTopologySpread, InterPodAffinity];
const NODE_CHANGE_PLUGINS: &[Plugin] = &[
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

impl SchedulingEvent<'_> {
    /// Whose refusals this may change.
    pub(super) fn affected_plugins(&self) -> &'static [Plugin] {
        match self {
            Self::NodeChanged(..) => NODE_CHANGE_PLUGINS,
            Self::NodeRemoved => &[PodTopologySpread],
            Self::PodAssigned(_) => POD_TO_POD_PLUGINS,
            Self::PodRemoved(..) => POD_REMOVAL_PLUGINS,
            Self::PodRequestsReduced => &[NodeResourcesFit],
            Self::ClaimChanged(_) => &[VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone],
            Self::StorageChanged => &[NodeVolumeLimits, VolumeBinding, VolumeZone],
        }
    }

    /// Whether this may help a pod which `plugin` refused.
    pub(super) fn may_help(&self, view: &View, plugin: Plugin, pod: &Pod, info: &PodInfo) -> bool {
        match self {
            Self::NodeChanged(node, change) => node_may_help(view, *node, *change, plugin, pod, info),
            Self::NodeRemoved | Self::PodRequestsReduced | Self::StorageChanged => true,
            Self::PodAssigned(traits) => match plugin {
                PodTopologySpread => is_counted_by_spread(pod, traits),
                _ => is_selected_by_terms_of(view, info, traits),
            },
            Self::PodRemoved(gone, traits) => match plugin {
                PodTopologySpread => is_counted_by_spread(pod, traits),
                InterPodAffinity => {
                    is_selected_by_terms_of(view, info, traits) || has_anti_affinity_to(view, info, traits)
                }
                NodePorts => gone.ports.iter().any(|port| info.ports.iter().any(|our| our.conflicts_with(port))),
                VolumeRestrictions => {
                    gone.namespace() == info.namespace() && gone.claims.iter().any(|claim| info.claims.contains(claim))
                }
                NodeVolumeLimits => !gone.claims.is_empty(),
                _ => true,
            },
            Self::ClaimChanged(key) => info.claims.iter().any(|claim| claim_key(info, claim) == *key),
        }
    }
}

fn node_may_help(view: &View, node: NodeIx, change: NodeChange, plugin: Plugin, pod: &Pod, info: &PodInfo) -> bool {
    let there = view.node(node);
    match plugin {
        NodeUnschedulable => (change.added || change.taints) && !there.unschedulable,
        TaintToleration => (change.added || change.taints) && first_untolerated_taint(pod, &there.taints).is_none(),
        NodeAffinity => (change.added || change.labels) && node_affinity_matches(pod, &there.name, &there.labels),
        NodeResourcesFit => (change.added || change.allocatable) && !there.allocatable.is_exceeded_by(&info.requests),
        PodTopologySpread => {
            let has = |constraint: &TopologySpreadConstraint| there.labels.contains_key(&constraint.topology_key);
            (change.added || change.labels || change.taints) && spread_constraints(pod).all(has)
        }
        InterPodAffinity | VolumeBinding | VolumeZone => change.added || change.labels,
        NodePorts | VolumeRestrictions | NodeVolumeLimits | NoNodes => change.added,
    }
}

/// Whether a spread constraint of the pod counts the other.
fn is_counted_by_spread(pod: &Pod, other: &PodTraits) -> bool {
    namespace(pod) == other.namespace
        && spread_constraints(pod).any(|constraint| selects(constraint.label_selector.as_ref(), &other.labels))
}

/// Whether a demand of the pod speaks of the other.
fn is_selected_by_terms_of(view: &View, info: &PodInfo, other: &PodTraits) -> bool {
    let Some(ours) = view.classes.get(info.class) else { return true };
    let mut demands = ours.terms.required.iter().chain(&ours.terms.required_anti);
    demands.any(|term| affinity_term_selects(term, &ours.namespace, &other.namespace, &other.labels, &view.namespaces))
}

/// Whether the other wanted to be away from the pod.
fn has_anti_affinity_to(view: &View, info: &PodInfo, other: &PodTraits) -> bool {
    let Some(ours) = view.classes.get(info.class) else { return true };
    let mut demands = other.required_anti_affinity.iter();
    demands.any(|term| affinity_term_selects(term, &other.namespace, &ours.namespace, &ours.labels, &view.namespaces))
}

//! Queueing hints: for each event, the plug-ins whose rejections it can resolve, and whether it may
//! help a given pod. Without hints every event would run all filters again for every unschedulable
//! pod.
//!
//! Invariant: a hint may be too optimistic, never too pessimistic. A pod may be tried in vain, but
//! no pod stays unschedulable after an event made it fit.

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

/// The properties of a deleted or changed pod that matter for the rules of other pods.
#[derive(Clone, Debug)]
pub(super) struct PodTraits {
    pub(super) namespace: SmolStr,
    pub(super) labels: Labels,
    pub(super) required_anti_affinity: Vec<PodAffinityTerm>,
}

/// A change that may make an unschedulable pod fit.
#[derive(Debug)]
pub(super) enum SchedulingEvent<'a> {
    /// A node was added or changed.
    NodeChanged(NodeIx, NodeChange),
    /// A node was deleted.
    NodeRemoved,
    /// A pod was assigned to a node.
    PodAssigned(&'a PodTraits),
    /// A pod was removed from its node.
    PodRemoved(&'a PodInfo, &'a PodTraits),
    /// The requests of a pod on a node were reduced.
    PodRequestsReduced,
    /// The claim with this key was added or changed.
    ClaimChanged(&'a str),
    /// A volume, a storage class or a driver's attach limit was added, changed or deleted.
    StorageChanged,
}

use Plugin::{
    InterPodAffinity, NoNodes, NodeAffinity, NodePorts, NodeResourcesFit, NodeUnschedulable, NodeVolumeLimits,
    PodTopologySpread, TaintToleration, VolumeBinding, VolumeRestrictions, VolumeZone,
};

/// Plug-ins whose rejections the assignment of another pod can resolve.
pub(super) const POD_TO_POD_PLUGINS: &[Plugin] = &[PodTopologySpread, InterPodAffinity];
/// Plug-ins whose rejections the removal of a pod can resolve.
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
    /// Returns the plug-ins whose rejections the event may resolve.
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

    /// Returns true if the event may help a pod that `plugin` rejected.
    pub(super) fn may_help(&self, view: &View, plugin: Plugin, pod: &Pod, info: &PodInfo) -> bool {
        match self {
            Self::NodeChanged(node, change) => node_may_help(view, *node, *change, plugin, pod, info),
            Self::NodeRemoved | Self::PodRequestsReduced | Self::StorageChanged => true,
            Self::PodAssigned(traits) => match plugin {
                PodTopologySpread => is_counted_by_spread(pod, traits),
                _ => is_selected_by_terms_of(view, info, traits),
            },
            Self::PodRemoved(removed, traits) => match plugin {
                PodTopologySpread => is_counted_by_spread(pod, traits),
                InterPodAffinity => {
                    is_selected_by_terms_of(view, info, traits) || has_anti_affinity_to(view, info, traits)
                }
                NodePorts => removed.ports.iter().any(|port| info.ports.iter().any(|own| own.conflicts_with(port))),
                VolumeRestrictions => {
                    removed.namespace() == info.namespace()
                        && removed.claims.iter().any(|claim| info.claims.contains(claim))
                }
                NodeVolumeLimits => !removed.claims.is_empty(),
                _ => true,
            },
            Self::ClaimChanged(key) => info.claims.iter().any(|claim| claim_key(info, claim) == *key),
        }
    }
}

fn node_may_help(view: &View, node: NodeIx, change: NodeChange, plugin: Plugin, pod: &Pod, info: &PodInfo) -> bool {
    let node_info = view.node(node);
    match plugin {
        NodeUnschedulable => (change.added || change.taints) && !node_info.unschedulable,
        TaintToleration => (change.added || change.taints) && first_untolerated_taint(pod, &node_info.taints).is_none(),
        NodeAffinity => {
            (change.added || change.labels) && node_affinity_matches(pod, &node_info.name, &node_info.labels)
        }
        NodeResourcesFit => {
            (change.added || change.allocatable) && !node_info.allocatable.is_exceeded_by(&info.requests)
        }
        PodTopologySpread => {
            let has_key =
                |constraint: &TopologySpreadConstraint| node_info.labels.contains_key(&constraint.topology_key);
            (change.added || change.labels || change.taints) && spread_constraints(pod).all(has_key)
        }
        InterPodAffinity | VolumeBinding | VolumeZone => change.added || change.labels,
        NodePorts | VolumeRestrictions | NodeVolumeLimits | NoNodes => change.added,
    }
}

/// Returns true if a spread constraint of the pod counts the other pod.
fn is_counted_by_spread(pod: &Pod, other: &PodTraits) -> bool {
    namespace(pod) == other.namespace
        && spread_constraints(pod).any(|constraint| selects(constraint.label_selector.as_ref(), &other.labels))
}

/// Returns true if a required (anti-)affinity term of the pod selects the other pod.
fn is_selected_by_terms_of(view: &View, info: &PodInfo, other: &PodTraits) -> bool {
    let Some(own_class) = view.classes.get(info.class) else { return true };
    let mut terms = own_class.terms.required.iter().chain(&own_class.terms.required_anti);
    terms.any(|term| {
        affinity_term_selects(term, &own_class.namespace, &other.namespace, &other.labels, &view.namespaces)
    })
}

/// Returns true if the other pod has required anti-affinity to the pod.
fn has_anti_affinity_to(view: &View, info: &PodInfo, other: &PodTraits) -> bool {
    let Some(own_class) = view.classes.get(info.class) else { return true };
    let mut terms = other.required_anti_affinity.iter();
    terms.any(|term| {
        affinity_term_selects(term, &other.namespace, &own_class.namespace, &own_class.labels, &view.namespaces)
    })
}

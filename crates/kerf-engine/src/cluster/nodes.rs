//! Nodes as targets: a Node and a NodeClaim joined by provider id, with the room that is left (spec 02 §5.5, spec 04 §4.6).

use std::sync::Arc;

use kerf_api::slim::{HostPort, Labels, Node, ResourceList, Str, Taint};
use kerf_api::{labels, taints};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::input::NodeClaimInput;
use super::volumes::Attachment;
use crate::requirement_table::RequirementSetIx;
use crate::resources::{Amounts, NANOS_PER_UNIT, ResourceIx, ResourceNames};

/// A node or a launched claim that is not a node yet.
#[derive(Debug, Clone)]
pub(crate) struct NodeState {
    pub(crate) name: Str,
    pub(crate) hostname: Str,
    pub(crate) labels: Labels,
    /// The labels as requirements, without the hostname.
    pub(crate) label_requirements: RequirementSetIx,
    /// Taints that pods must tolerate.
    pub(crate) taints: Vec<Taint>,
    /// The Node object's own taints, on which spread constraints judge; none without a Node.
    pub(crate) own_taints: Option<Vec<Taint>>,
    pub(crate) capacity: Amounts,
    pub(crate) allocatable: Amounts,
    /// The resources that allocatable names, be it with zero.
    reported: SmallVec<[ResourceIx; 6]>,
    /// What bound pods take, daemons included.
    pub(crate) used: Amounts,
    /// What daemons take that run, and what all take that will.
    pub(crate) daemons_used: Amounts,
    pub(crate) daemons_need: Amounts,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: Vec<Attachment>,
    pub(crate) attach_limits: Vec<(Str, usize)>,
    /// Pool by name, for limits.
    pub(crate) pool: Option<Str>,
    pub(crate) is_initialized: bool,
    pub(crate) is_marked_for_deletion: bool,
    /// It is gone and only its number is left.
    pub(crate) is_removed: bool,
    pub(crate) provider_id: Str,
    pub(crate) claim_name: Option<Str>,
    /// The Node object's name, if there is one.
    pub(crate) node_name: Option<Str>,
    /// Nodes of one kind have the same labels, but for the hostname, and the same taints.
    pub(crate) kind: u32,
}

impl NodeState {
    /// Allocatable less what bound pods and outstanding daemons take. A resource that the node does not report is not overdrawn by
    /// a pod that asks for it (spec 02 §4.3, `subtract`): the pod should not be there, but others may be.
    pub(crate) fn remaining(&self) -> Amounts {
        let mut outstanding = self.daemons_need.clone();
        outstanding.sub(&self.daemons_used);
        outstanding.floor_at_zero();
        outstanding.add(&self.used);
        let mut remaining = self.allocatable.clone();
        for resource in &self.reported {
            let left = remaining.get(*resource).saturating_sub(outstanding.get(*resource));
            remaining.set(*resource, left);
        }
        remaining
    }

    /// Whether it is this machine.
    pub(crate) fn has_provider_id(&self, machine: &str) -> bool {
        !machine.is_empty() && self.provider_id == machine
    }

    /// The order in which pods are offered to nodes (spec 02 §6.6).
    pub(crate) fn cmp_scheduling_order(&self, other: &Self) -> std::cmp::Ordering {
        other.is_initialized.cmp(&self.is_initialized).then_with(|| self.name.cmp(&other.name))
    }
}

/// Joins nodes and claims. Claims without a machine are left out: a pass does not start while there are any.
pub(crate) fn join_all(nodes: &[Arc<Node>], claims: &[NodeClaimInput], names: &mut ResourceNames) -> Vec<NodeState> {
    let mut by_provider: FxHashMap<&Str, &NodeClaimInput> = FxHashMap::default();
    for claim in claims.iter().filter(|c| !c.provider_id.is_empty()) {
        by_provider.entry(&claim.provider_id).or_insert(claim);
    }
    let mut states: Vec<NodeState> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let claim = by_provider.remove(&node.spec.provider_id).filter(|_| !node.spec.provider_id.is_empty());
        states.extend(join_node_and_claim(Some(node), claim, names));
    }
    let mut alone: Vec<&NodeClaimInput> = by_provider.into_values().collect();
    alone.sort_by(|a, b| a.name.cmp(&b.name));
    states.extend(alone.into_iter().filter_map(|claim| join_node_and_claim(None, Some(claim), names)));
    states.sort_by(NodeState::cmp_scheduling_order);
    states
}

/// A node of ours is only looked at once its machine is known (spec 02 §14.2).
fn is_tracked_without_claim(node: &Node) -> bool {
    let ours = node.metadata.labels.get(labels::NODEPOOL).is_some_and(|p| !p.is_empty());
    let initialized = node.metadata.labels.get(labels::INITIALIZED).is_some_and(|p| !p.is_empty());
    !ours
        || (!node.spec.provider_id.is_empty()
            && (initialized || node.metadata.labels.get(labels::INSTANCE_TYPE).is_some()))
}

/// What a Node and its claim make together; nothing, as long as too little is known of it.
pub(crate) fn join_node_and_claim(
    node: Option<&Node>,
    claim: Option<&NodeClaimInput>,
    names: &mut ResourceNames,
) -> Option<NodeState> {
    match (node, claim) {
        (Some(node), None) if !is_tracked_without_claim(node) => None,
        (None, Some(claim)) if claim.provider_id.is_empty() => None,
        (None, None) => None,
        (node, claim) => Some(build_node_state(node, claim, names)),
    }
}

fn build_node_state(node: Option<&Node>, claim: Option<&NodeClaimInput>, names: &mut ResourceNames) -> NodeState {
    let is_managed = claim.is_some();
    let labelled = |key: &str| node.is_some_and(|n| n.metadata.labels.has_value(key, "true"));
    let is_registered = !is_managed || labelled(labels::REGISTERED);
    let is_initialized = !is_managed || labelled(labels::INITIALIZED);
    // Until it is registered a managed node is what its claim says.
    let (name, node_labels, all_taints) = match (node, claim) {
        (Some(node), Some(_)) if is_registered => {
            (node.metadata.name.clone(), node.metadata.labels.clone(), node.spec.taints.clone())
        }
        (_, Some(claim)) => (claim.name.clone(), claim.labels.clone(), claim.taints.clone()),
        (Some(node), None) => (node.metadata.name.clone(), node.metadata.labels.clone(), node.spec.taints.clone()),
        (None, None) => Default::default(),
    };
    let passing = |taint: &Taint| {
        is_managed
            && !is_initialized
            && (taints::is_ephemeral(&taint.key, &taint.effect)
                || claim
                    .is_some_and(|c| c.startup_taints.iter().any(|s| s.key == taint.key && s.effect == taint.effect)))
    };
    let taints = all_taints.into_iter().filter(|t| !passing(t)).collect();
    let fill = |own: Option<&ResourceList>, claimed: Option<&ResourceList>, names: &mut ResourceNames| {
        let mut amounts = own.map(|list| names.amounts(list)).unwrap_or_default();
        if let (false, Some(claimed)) = (is_initialized, claimed) {
            for (resource, amount) in names.amounts(claimed).iter() {
                if amounts.get(resource) == 0 {
                    amounts.set(resource, amount);
                }
            }
        }
        amounts
    };
    let mut capacity = fill(node.map(|n| &n.status.capacity), claim.map(|c| &c.capacity), names);
    capacity.set(ResourceIx::NODES, NANOS_PER_UNIT);
    let allocatable = fill(node.map(|n| &n.status.allocatable), claim.map(|c| &c.allocatable), names);
    let own = node.into_iter().flat_map(|n| n.status.allocatable.iter());
    let claimed = claim.filter(|_| !is_initialized).into_iter().flat_map(|c| c.allocatable.iter());
    let mut reported: SmallVec<[ResourceIx; 6]> = own.chain(claimed).map(|(name, _)| names.intern(name)).collect();
    reported.sort_unstable();
    reported.dedup();
    let is_leaving = match claim {
        Some(claim) => claim.is_deleting || claim.is_marked_for_disruption,
        None => node.is_some_and(|n| n.metadata.deletion_timestamp.is_some()),
    };
    let hostname = node_labels.get(labels::HOSTNAME).filter(|h| !h.is_empty()).map_or_else(|| name.clone(), Str::from);
    NodeState {
        hostname,
        pool: node_labels.get(labels::NODEPOOL).map(Str::from),
        labels: node_labels,
        label_requirements: RequirementSetIx::EMPTY,
        taints,
        own_taints: node.map(|n| n.spec.taints.clone()),
        allocatable,
        reported,
        used: Amounts::default(),
        daemons_used: Amounts::default(),
        daemons_need: Amounts::default(),
        capacity,
        ports: Vec::new(),
        attached: Vec::new(),
        attach_limits: Vec::new(),
        is_initialized,
        is_marked_for_deletion: is_leaving,
        is_removed: false,
        provider_id: claim.map(|c| &c.provider_id).or(node.map(|n| &n.spec.provider_id)).cloned().unwrap_or_default(),
        claim_name: claim.map(|c| c.name.clone()),
        node_name: node.map(|n| n.metadata.name.clone()),
        kind: 0,
        name,
    }
}

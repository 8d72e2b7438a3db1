//! Nodes as targets for pods: a Node and a NodeClaim joined by provider ID, with free resources
//! (spec 02 §5.5, spec 04 §4.6).

use std::sync::Arc;

use kerf_api::slim::{HostPort, Labels, Node, ResourceList, Str, Taint};
use kerf_api::{labels, taints};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::input::NodeClaimInput;
use super::volumes::Attachment;
use crate::requirement_table::RequirementSetIx;
use crate::resources::{Amounts, NANOS_PER_UNIT, ResourceIx, ResourceNames};

/// A Node, or a launched NodeClaim without a Node.
#[derive(Debug, Clone)]
pub(crate) struct NodeState {
    pub(crate) name: Str,
    pub(crate) hostname: Str,
    pub(crate) labels: Labels,
    /// The labels as requirements, without the hostname.
    pub(crate) label_requirements: RequirementSetIx,
    /// Taints that pods must tolerate.
    pub(crate) taints: Vec<Taint>,
    /// Taints of the Node object, which topology spread constraints check. `None` without a Node.
    pub(crate) own_taints: Option<Vec<Taint>>,
    pub(crate) capacity: Amounts,
    pub(crate) allocatable: Amounts,
    /// The resources that `allocatable` names, even if they are zero.
    reported: SmallVec<[ResourceIx; 6]>,
    /// Requests of all bound pods, including daemons.
    pub(crate) used: Amounts,
    /// Requests of the daemon pods that run, and of all daemon pods that should run.
    pub(crate) daemons_used: Amounts,
    pub(crate) daemons_need: Amounts,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: Vec<Attachment>,
    pub(crate) attach_limits: Vec<(Str, usize)>,
    /// Name of the NodePool, for its limits.
    pub(crate) pool: Option<Str>,
    pub(crate) is_initialized: bool,
    pub(crate) is_marked_for_deletion: bool,
    /// True if the node no longer exists and only its index is still in use.
    pub(crate) is_removed: bool,
    pub(crate) provider_id: Str,
    pub(crate) claim_name: Option<Str>,
    /// Name of the Node object. `None` without a Node.
    pub(crate) node_name: Option<Str>,
    /// Nodes with equal labels (except the hostname) and equal taints have the same kind.
    pub(crate) kind: u32,
}

impl NodeState {
    /// Returns allocatable minus the requests of bound pods and of daemon pods that are still to be
    /// bound.
    ///
    /// A resource that the node does not report stays at zero, even if a bound pod requests it
    /// (spec 02 §4.3, `subtract`). That pod should not run there, but other pods may.
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

    /// Returns true if the node has this provider ID, which must not be empty.
    pub(crate) fn has_provider_id(&self, provider_id: &str) -> bool {
        !provider_id.is_empty() && self.provider_id == provider_id
    }

    /// Compares two nodes by the order in which they are offered to pods (spec 02 §6.6):
    /// initialized nodes first, then by name.
    pub(crate) fn cmp_scheduling_order(&self, other: &Self) -> std::cmp::Ordering {
        other.is_initialized.cmp(&self.is_initialized).then_with(|| self.name.cmp(&other.name))
    }
}

/// Joins Nodes and NodeClaims. Claims without a provider ID are left out: no pass starts while
/// there are any.
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
    let mut unjoined: Vec<&NodeClaimInput> = by_provider.into_values().collect();
    unjoined.sort_by(|a, b| a.name.cmp(&b.name));
    states.extend(unjoined.into_iter().filter_map(|claim| join_node_and_claim(None, Some(claim), names)));
    states.sort_by(NodeState::cmp_scheduling_order);
    states
}

/// Returns true if a Node without a claim is part of the model. A node of a NodePool must have a
/// provider ID and be initialized or have an instance type (spec 02 §14.2).
fn is_complete_node(node: &Node) -> bool {
    let is_managed = node.metadata.labels.get(labels::NODEPOOL).is_some_and(|p| !p.is_empty());
    let initialized = node.metadata.labels.get(labels::INITIALIZED).is_some_and(|p| !p.is_empty());
    !is_managed
        || (!node.spec.provider_id.is_empty()
            && (initialized || node.metadata.labels.get(labels::INSTANCE_TYPE).is_some()))
}

/// Joins a Node and its claim. Returns `None` while too little is known about them.
pub(crate) fn join_node_and_claim(
    node: Option<&Node>,
    claim: Option<&NodeClaimInput>,
    names: &mut ResourceNames,
) -> Option<NodeState> {
    match (node, claim) {
        (Some(node), None) if !is_complete_node(node) => None,
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
    // Until a managed node is registered, name, labels and taints are those of its claim.
    let (name, node_labels, all_taints) = match (node, claim) {
        (Some(node), Some(_)) if is_registered => {
            (node.metadata.name.clone(), node.metadata.labels.clone(), node.spec.taints.clone())
        }
        (_, Some(claim)) => (claim.name.clone(), claim.labels.clone(), claim.taints.clone()),
        (Some(node), None) => (node.metadata.name.clone(), node.metadata.labels.clone(), node.spec.taints.clone()),
        (None, None) => Default::default(),
    };
    let is_temporary = |taint: &Taint| {
        is_managed
            && !is_initialized
            && (taints::is_ephemeral(&taint.key, &taint.effect)
                || claim
                    .is_some_and(|c| c.startup_taints.iter().any(|s| s.key == taint.key && s.effect == taint.effect)))
    };
    let taints = all_taints.into_iter().filter(|t| !is_temporary(t)).collect();
    let fill = |reported_list: Option<&ResourceList>, claimed: Option<&ResourceList>, names: &mut ResourceNames| {
        let mut amounts = reported_list.map(|list| names.amounts(list)).unwrap_or_default();
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
    let reported_list = node.into_iter().flat_map(|n| n.status.allocatable.iter());
    let claimed = claim.filter(|_| !is_initialized).into_iter().flat_map(|c| c.allocatable.iter());
    let mut reported: SmallVec<[ResourceIx; 6]> =
        reported_list.chain(claimed).map(|(name, _)| names.intern(name)).collect();
    reported.sort_unstable();
    reported.dedup();
    let is_marked_for_deletion = match claim {
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
        is_marked_for_deletion,
        is_removed: false,
        provider_id: claim.map(|c| &c.provider_id).or(node.map(|n| &n.spec.provider_id)).cloned().unwrap_or_default(),
        claim_name: claim.map(|c| c.name.clone()),
        node_name: node.map(|n| n.metadata.name.clone()),
        kind: 0,
        name,
    }
}

//! Existing nodes: the join of a Node and its NodeClaim (spec 02 §5.5, spec 04 §4.6). A launched
//! NodeClaim without a Node counts as existing.

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kerf_api::quantity::Quantity;

use super::pools::NODEPOOL;
use super::{ClusterManifests, NodeClaim};
use crate::placement::is_terminal;
use crate::resources::Resources;
use crate::selectors::{Labels, labels_or_empty, node_labels};
use crate::storage::HOSTNAME;

/// A Node, a launched NodeClaim, or both joined.
#[derive(Debug, Clone)]
pub struct ExistingNode<'w> {
    /// Name of the Node; until the node is registered, the name of the NodeClaim.
    pub name: String,
    /// Labels, including the hostname.
    pub labels: Labels,
    /// Taints without those that a starting node loses by itself.
    pub taints: Vec<Taint>,
    /// All resources of the node, and 1 of the resource `nodes`.
    pub capacity: Resources,
    /// Resources that pods can use.
    pub allocatable: Resources,
    /// Pods that are bound to the node and are not terminal.
    pub pods: Vec<&'w Pod>,
    /// True if the node is being deleted; then no pod may be placed on it.
    pub is_deleting: bool,
    /// The Node object; `None` if only the NodeClaim exists.
    pub node: Option<&'w Node>,
}

impl ExistingNode<'_> {
    /// Returns the name of the NodePool to which the node belongs, or `None`.
    pub fn pool(&self) -> Option<&str> {
        self.labels.get(NODEPOOL).map(String::as_str)
    }
}

impl ClusterManifests {
    /// Returns the existing nodes, by name.
    pub fn existing_nodes(&self) -> Vec<ExistingNode<'_>> {
        let claim_of = |node: &Node| {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()).filter(|id| !id.is_empty())?;
            self.node_claims.iter().find(|claim| claim.provider_id.as_ref() == Some(id))
        };
        let with_node: Vec<_> = self.nodes.iter().map(|node| (Some(node), claim_of(node))).collect();
        let joined = |claim: &&NodeClaim| {
            with_node.iter().any(|(_, joined)| joined.is_some_and(|joined| joined.name == claim.name))
        };
        let launched = self.node_claims.iter().filter(|claim| claim.provider_id.is_some() && !joined(claim));
        let without_node = launched.map(|claim| (None, Some(claim)));
        let mut nodes: Vec<_> = with_node
            .iter()
            .copied()
            .chain(without_node)
            .map(|(node, claim)| self.join_node_and_claim(node, claim))
            .collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes
    }

    fn join_node_and_claim<'w>(&'w self, node: Option<&'w Node>, claim: Option<&'w NodeClaim>) -> ExistingNode<'w> {
        let own_labels = node.map_or_else(|| labels_or_empty(None), node_labels);
        let has = |label: &str| own_labels.get(label).is_some_and(|value| value == "true");
        let registered = claim.is_none() || has("karpenter.sh/registered");
        let initialized = claim.is_none() || has("karpenter.sh/initialized");
        let status = node.and_then(|node| node.status.as_ref());
        let mut capacity = Resources::from_quantities(status.and_then(|status| status.capacity.as_ref()));
        let mut allocatable = Resources::from_quantities(status.and_then(|status| status.allocatable.as_ref()));
        let node_name = node.and_then(|node| node.metadata.name.clone());
        let mut taints = node.and_then(|n| n.spec.as_ref()?.taints.clone()).unwrap_or_default();
        let mut labels = own_labels.clone();
        let mut name = node_name.clone().unwrap_or_default();
        if let Some(claim) = claim {
            if !registered {
                name.clone_from(&claim.name);
                labels.clone_from(&claim.labels);
                taints.clone_from(&claim.taints);
            }
            if !initialized {
                let starting = |taint: &Taint| {
                    is_ephemeral_taint(taint)
                        || claim.startup_taints.iter().any(|s| s.key == taint.key && s.effect == taint.effect)
                };
                taints.retain(|taint| !starting(taint));
                capacity = fill_from_claim(&capacity, &claim.capacity);
                allocatable = fill_from_claim(&allocatable, &claim.allocatable);
            }
        }
        capacity.set("nodes", Quantity::from_units(1));
        labels.entry(HOSTNAME.to_owned()).or_insert_with(|| name.clone());
        let bound = |pod: &&Pod| {
            node_name.is_some() && pod.spec.as_ref().and_then(|s| s.node_name.as_ref()) == node_name.as_ref()
        };
        let node_is_deleting = node.is_some_and(|node| node.metadata.deletion_timestamp.is_some());
        ExistingNode {
            name,
            labels,
            taints,
            capacity,
            allocatable,
            pods: self.pods.iter().filter(bound).filter(|pod| !is_terminal(pod)).collect(),
            is_deleting: claim.map_or(node_is_deleting, |claim| claim.is_deleting),
            node,
        }
    }
}

/// Returns the node's resources; those that it does not report yet, or reports as zero, come from
/// the claim.
fn fill_from_claim(reported: &Resources, expected: &Resources) -> Resources {
    let mut resources = reported.clone();
    for (name, amount) in expected.iter().filter(|(name, _)| reported.get(name) == Quantity::ZERO) {
        resources.set(name, amount);
    }
    resources
}

/// Returns true for a taint that a starting node has and loses by itself.
fn is_ephemeral_taint(taint: &Taint) -> bool {
    matches!(
        (taint.key.as_str(), taint.effect.as_str()),
        ("node.kubernetes.io/not-ready", "NoSchedule" | "NoExecute")
            | ("node.kubernetes.io/unreachable" | "node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule")
            | ("karpenter.sh/unregistered", "NoExecute")
    ) || taint.key.starts_with("readiness.k8s.io/")
}

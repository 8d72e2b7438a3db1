//! Joins a Node with its NodeClaim (spec 04 §4.6). Until the node is initialized, the claim's
//! status supplies the resources that the node does not report yet; afterwards only the node
//! counts.

use kerf_api::labels;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Labels, Node, ResourceList, Str, Taint};
use kerf_api::taints::is_ephemeral;

use crate::claims::TrackedClaim;

/// A Node, a NodeClaim, or both, joined by provider ID. At least one of the two is present.
#[derive(Debug, Clone, Copy)]
pub struct StateNode<'c> {
    /// The Node; `None` while the instance has not joined the cluster.
    pub node: Option<&'c Node>,
    /// The NodeClaim; `None` for a node that Kerf does not manage.
    pub claim: Option<&'c TrackedClaim>,
    /// True if a disruption command has marked the node for deletion.
    pub(crate) is_marked: bool,
}

impl<'c> StateNode<'c> {
    /// Returns true if the node has a NodeClaim.
    pub fn is_managed(&self) -> bool {
        self.claim.is_some()
    }

    fn is_labelled(&self, key: &str) -> bool {
        self.node.is_some_and(|node| node.metadata.labels.has_value(key, "true"))
    }

    /// Returns true if the node has the label `karpenter.sh/registered=true` or is unmanaged. The
    /// claim's conditions are not read.
    pub fn is_registered(&self) -> bool {
        !self.is_managed() || self.is_labelled(labels::REGISTERED)
    }

    /// Returns true if the node has the label `karpenter.sh/initialized=true` or is unmanaged. An
    /// initialized node reports all its resources.
    pub fn is_initialized(&self) -> bool {
        !self.is_managed() || self.is_labelled(labels::INITIALIZED)
    }

    /// Returns the provider ID of the Node, or of the claim if there is no Node. May be empty.
    pub fn provider_id(&self) -> &'c str {
        match (self.node, self.claim) {
            (Some(node), _) => &node.spec.provider_id,
            (None, Some(claim)) => &claim.engine_claim.provider_id,
            (None, None) => "",
        }
    }

    /// Returns the name of the Node, or of the claim until the Node is registered.
    pub fn name(&self) -> Str {
        match (self.node, self.claim) {
            (Some(node), None) => node.metadata.name.clone(),
            (Some(node), Some(_)) if self.is_registered() => node.metadata.name.clone(),
            (_, Some(claim)) => claim.engine_claim.name.clone(),
            (None, None) => Str::default(),
        }
    }

    /// Returns the labels of the Node, or of the claim until the Node is registered.
    pub fn labels(&self) -> Labels {
        match (self.node, self.claim) {
            (Some(node), None) => node.metadata.labels.clone(),
            (Some(node), Some(_)) if self.is_registered() => node.metadata.labels.clone(),
            (_, Some(claim)) => claim.engine_claim.labels.clone(),
            (None, None) => Labels::default(),
        }
    }

    /// Returns the taints that pods must tolerate. While a managed node is not initialized,
    /// ephemeral taints and its startup taints are left out, because the node loses them by itself.
    pub fn taints(&self) -> Vec<Taint> {
        let all = match (self.node, self.claim) {
            (Some(node), None) => &node.spec.taints,
            (Some(node), Some(_)) if self.is_registered() => &node.spec.taints,
            (_, Some(claim)) => &claim.engine_claim.taints,
            (None, None) => return Vec::new(),
        };
        let startup = self.claim.map_or(&[][..], |claim| &claim.engine_claim.startup_taints);
        let is_temporary = |taint: &Taint| {
            !self.is_initialized()
                && (is_ephemeral(&taint.key, &taint.effect)
                    || startup.iter().any(|other| other.key == taint.key && other.effect == taint.effect))
        };
        all.iter().filter(|taint| !is_temporary(taint)).cloned().collect()
    }

    /// Returns the total resources, including `nodes: 1`.
    pub fn capacity(&self) -> ResourceList {
        let reported = self.node.map(|node| &node.status.capacity);
        let resources = self.with_claimed_resources(reported, self.claim.map(|claim| &claim.engine_claim.capacity));
        resources.into_iter().chain([(Str::new_static("nodes"), Quantity::from_units(1))]).collect()
    }

    /// Returns the resources available for pods.
    pub fn allocatable(&self) -> ResourceList {
        let reported = self.node.map(|node| &node.status.allocatable);
        self.with_claimed_resources(reported, self.claim.map(|claim| &claim.engine_claim.allocatable))
            .into_iter()
            .collect()
    }

    fn with_claimed_resources(
        &self,
        reported: Option<&ResourceList>,
        claimed: Option<&ResourceList>,
    ) -> Vec<(Str, Quantity)> {
        let mut all: Vec<(Str, Quantity)> =
            reported.into_iter().flat_map(ResourceList::iter).map(|(name, amount)| (name.clone(), amount)).collect();
        if !self.is_initialized() {
            let is_reported =
                |name: &str| reported.and_then(|reported| reported.get(name)).is_some_and(|amount| !amount.is_zero());
            let claimed = claimed.into_iter().flat_map(ResourceList::iter).filter(|(name, _)| !is_reported(name));
            // If a name occurs twice, the later entry counts.
            all.extend(claimed.map(|(name, amount)| (name.clone(), amount)));
        }
        all
    }

    /// Returns true if the claim is being deleted or its instance is terminating, or, for a node
    /// without a claim, if the Node is being deleted.
    pub fn is_deleted(&self) -> bool {
        match self.claim {
            Some(claim) => claim.engine_claim.is_deleting,
            None => self.node.is_some_and(|node| node.metadata.is_terminating()),
        }
    }

    /// Returns true if the node is deleted or a disruption command has marked it for deletion.
    pub fn is_marked_for_deletion(&self) -> bool {
        self.is_marked || self.is_deleted()
    }
}

/// Returns true if a Node has everything that decisions need (spec 04 §4.2). A node of a NodePool
/// is complete once it has a provider ID and is initialized or has an instance type label; every
/// other node is complete at once. Decisions ignore a node that is not complete and has no claim.
pub fn is_complete_node(node: &Node) -> bool {
    let has = |key: &str| node.metadata.labels.get(key).is_some_and(|value| !value.is_empty());
    let is_managed = has(labels::NODEPOOL);
    let has_type_or_is_initialized =
        has(labels::INITIALIZED) || node.metadata.labels.get(labels::INSTANCE_TYPE).is_some();
    !is_managed || (!node.spec.provider_id.is_empty() && has_type_or_is_initialized)
}

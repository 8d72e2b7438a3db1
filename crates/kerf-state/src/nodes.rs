//! A node and its claim seen as one (spec 04 §4.6): until the node is initialized the claim's promise fills what the node does not
//! say yet; after that the node alone counts.

use kerf_api::labels;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Labels, Node, ResourceList, Str, Taint};
use kerf_api::taints::is_ephemeral;

use crate::claims::TrackedClaim;

/// A node, a claim, or both, joined by the machine behind them. At least one is there.
#[derive(Debug, Clone, Copy)]
pub struct StateNode<'c> {
    /// The Node.
    pub node: Option<&'c Node>,
    /// The NodeClaim; a node without one is not ours to manage.
    pub claim: Option<&'c TrackedClaim>,
    /// Whether a disruption under way has marked it.
    pub(crate) is_marked: bool,
}

impl<'c> StateNode<'c> {
    /// Whether a claim stands behind it.
    pub fn is_managed(&self) -> bool {
        self.claim.is_some()
    }

    fn is_labelled(&self, key: &str) -> bool {
        self.node.is_some_and(|node| node.metadata.labels.has_value(key, "true"))
    }

    /// Whether the node speaks for itself: its labels say so, not the claim's conditions.
    pub fn is_registered(&self) -> bool {
        !self.is_managed() || self.is_labelled(labels::REGISTERED)
    }

    /// Whether the node has all that was promised.
    pub fn is_initialized(&self) -> bool {
        !self.is_managed() || self.is_labelled(labels::INITIALIZED)
    }

    /// The machine.
    pub fn provider_id(&self) -> &'c str {
        match (self.node, self.claim) {
            (Some(node), _) => &node.spec.provider_id,
            (None, Some(claim)) => &claim.engine_claim.provider_id,
            (None, None) => "",
        }
    }

    /// The node's name, or the claim's while there is no node that speaks for itself.
    pub fn name(&self) -> Str {
        match (self.node, self.claim) {
            (Some(node), None) => node.metadata.name.clone(),
            (Some(node), Some(_)) if self.is_registered() => node.metadata.name.clone(),
            (_, Some(claim)) => claim.engine_claim.name.clone(),
            (None, None) => Str::default(),
        }
    }

    /// Its labels: the node's, or the claim's while there is no node that speaks for itself.
    pub fn labels(&self) -> Labels {
        match (self.node, self.claim) {
            (Some(node), None) => node.metadata.labels.clone(),
            (Some(node), Some(_)) if self.is_registered() => node.metadata.labels.clone(),
            (_, Some(claim)) => claim.engine_claim.labels.clone(),
            (None, None) => Labels::default(),
        }
    }

    /// The taints that pods must tolerate. While a managed node starts, those that will go away by themselves do not count.
    pub fn taints(&self) -> Vec<Taint> {
        let all = match (self.node, self.claim) {
            (Some(node), None) => &node.spec.taints,
            (Some(node), Some(_)) if self.is_registered() => &node.spec.taints,
            (_, Some(claim)) => &claim.engine_claim.taints,
            (None, None) => return Vec::new(),
        };
        let startup = self.claim.map_or(&[][..], |claim| &claim.engine_claim.startup_taints);
        let passes = |taint: &Taint| {
            !self.is_initialized()
                && (is_ephemeral(&taint.key, &taint.effect)
                    || startup.iter().any(|other| other.key == taint.key && other.effect == taint.effect))
        };
        all.iter().filter(|taint| !passes(taint)).cloned().collect()
    }

    /// All its resources, and that it is one node.
    pub fn capacity(&self) -> ResourceList {
        let own = self.node.map(|node| &node.status.capacity);
        let filled = self.with_claimed_resources(own, self.claim.map(|claim| &claim.engine_claim.capacity));
        filled.into_iter().chain([(Str::new_static("nodes"), Quantity::from_units(1))]).collect()
    }

    /// Its resources for pods.
    pub fn allocatable(&self) -> ResourceList {
        let own = self.node.map(|node| &node.status.allocatable);
        self.with_claimed_resources(own, self.claim.map(|claim| &claim.engine_claim.allocatable)).into_iter().collect()
    }

    fn with_claimed_resources(
        &self,
        own: Option<&ResourceList>,
        promised: Option<&ResourceList>,
    ) -> Vec<(Str, Quantity)> {
        let mut all: Vec<(Str, Quantity)> =
            own.into_iter().flat_map(ResourceList::iter).map(|(name, amount)| (name.clone(), amount)).collect();
        if !self.is_initialized() {
            let is_there = |name: &str| own.and_then(|own| own.get(name)).is_some_and(|amount| !amount.is_zero());
            let promised = promised.into_iter().flat_map(ResourceList::iter).filter(|(name, _)| !is_there(name));
            // Of a name that comes twice the later one counts.
            all.extend(promised.map(|(name, amount)| (name.clone(), amount)));
        }
        all
    }

    /// Whether it is on its way out: its claim is, or its machine is being terminated, or it has no claim and is deleted.
    pub fn is_deleted(&self) -> bool {
        match self.claim {
            Some(claim) => claim.engine_claim.is_deleting,
            None => self.node.is_some_and(|node| node.metadata.is_terminating()),
        }
    }

    /// Whether it must not be counted on: it is on its way out, or about to be.
    pub fn is_marked_for_deletion(&self) -> bool {
        self.is_marked || self.is_deleted()
    }
}

/// Whether a Node counts already (spec 04 §4.2): one of ours only once its machine and, before it is initialized, its type are known.
pub fn is_tracked(node: &Node) -> bool {
    let has = |key: &str| node.metadata.labels.get(key).is_some_and(|value| !value.is_empty());
    let is_ours = has(labels::NODEPOOL);
    let is_known = has(labels::INITIALIZED) || node.metadata.labels.get(labels::INSTANCE_TYPE).is_some();
    !is_ours || (!node.spec.provider_id.is_empty() && is_known)
}

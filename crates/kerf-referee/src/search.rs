//! The best possible placement, by exhaustive search on small clusters.
//!
//! Tries every placement of the pending pods on existing and new nodes (branch and bound). Returns
//! the placement that leaves out the fewest pods, and among those the cheapest. Plans are compared
//! with it: which pods they leave out, and how much more they cost.
//!
//! A new node is a set of pods, a pool, and one value of each label that rules between pods use as
//! topology key. Its price is that of the cheapest launch that suits all its pods. [`DomainChoice`]
//! decides whether the search may choose those values freely, or only where a planner that decides
//! pod by pod is forced to choose one (spec 02 §8.8).
//!
//! Simplifications, none of which matters for clusters of the [`generator`](crate::generator): the
//! spreads of other pods count a new node with the labels of its cheapest launch; for `minValues`,
//! only lists of all types up to some size are tried; reserved capacity is bought like any other.

mod bounds;
mod leaf;
mod nodes;

use std::collections::BTreeMap;
use std::rc::Rc;

use k8s_openapi::api::core::v1::Pod;

use self::bounds::SearchBounds;
use self::nodes::{NewNode, NodeOptions, PodSet};
use crate::catalogue::Catalogue;
use crate::check::{DaemonPods, PoolDomains, Topology};
use crate::manifests::ClusterManifests;
use crate::placement::namespace;
use crate::price::Price;
use crate::resources::pod_requests;

/// Greatest number of pending pods for which the search runs.
pub const MAX_PODS: usize = 12;

/// How freely the search may choose the domains of new nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainChoice {
    /// The zone (capacity type, …) of a new node can be any: the true optimum.
    Unrestricted,
    /// The zone of a new node stays undecided unless selectors, spreads or affinities of its own
    /// pods decide it. So of pods that must be in different zones only one is placed at a time, and
    /// no pod can have affinity to a pod with an undecided zone (spec 02 #101, #102). The claim of
    /// a new node lists all suitable types, which counts against pool limits. A planner must find
    /// whatever this finds without better packing.
    OnlyWhenForced,
}

/// The best possible placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Optimum {
    /// Number of placed pods.
    pub placed: usize,
    /// Price of the new nodes.
    pub price: Price,
    /// Pod and node of each placed pod, for people.
    pub placements: Vec<(String, String)>,
}

/// Number of type choices that may be tried per search step: the choices multiply with every new
/// node of a pool that has limits.
const TRIALS_PER_STEP: u64 = 32;

/// Returns the best placement, or `None` if there are more than [`MAX_PODS`] pending pods or
/// `steps` do not suffice.
pub fn optimum(
    cluster: &ClusterManifests,
    catalogue: &Catalogue,
    domain_choice: DomainChoice,
    steps: u64,
) -> Option<Optimum> {
    let plannable =
        cluster.pending_pods().into_iter().filter(|pending| cluster.not_plannable_reason(*pending).is_none());
    let mut pods_to_place: Vec<&Pod> = plannable.map(|pending| pending.pod).collect();
    if pods_to_place.len() > MAX_PODS {
        return None;
    }
    // Large pods come first, because they restrict the search most. Equivalent pods are neighbours,
    // so that only one of their orders is tried.
    pods_to_place.sort_by_cached_key(|pod| {
        let requests = pod_requests(pod);
        (std::cmp::Reverse((requests.get("cpu"), requests.get("memory"))), pod_equivalence_key(pod))
    });
    let kinds: Vec<String> = pods_to_place.iter().map(|pod| pod_equivalence_key(pod)).collect();
    let pool_domains = PoolDomains::of(cluster, catalogue);
    let daemons = DaemonPods::of(cluster);
    let topology = Topology::new(cluster, &pool_domains, pods_to_place);
    let nodes = NodeOptions::new(cluster, catalogue, &daemons, &topology, domain_choice);
    let mut search = BranchAndBound {
        bounds: SearchBounds::new(&nodes, &topology, &kinds),
        topology: &topology,
        nodes: &nodes,
        pod_kinds: kinds,
        domain_choice,
        best: None,
        steps_left: steps,
        trials_left: steps.saturating_mul(TRIALS_PER_STEP),
        new_node_cache: BTreeMap::new(),
    };
    let start = PartialPlacement {
        positions: Vec::new(),
        existing_node_pods: vec![0; nodes.existing.len()],
        new_nodes: Vec::new(),
        unplaced: 0,
    };
    (search.branch(&start) && search.trials_left > 0).then_some(())?;
    search.best
}

/// Returns a key that is equal for equivalent pods: everything but the name.
pub(crate) fn pod_equivalence_key(pod: &Pod) -> String {
    let labels = serde_json::to_string(&pod.metadata.labels).unwrap_or_default();
    let spec = serde_json::to_string(&pod.spec).unwrap_or_default();
    format!("{} {labels} {spec}", namespace(pod))
}

/// Position of a pod in a partial placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PodPosition {
    Existing(usize),
    New(usize),
    Unplaced,
}

/// A new node of a partial placement.
#[derive(Debug, Clone, Copy)]
struct OpenedNode {
    kind: usize,
    pods: PodSet,
    price: Price,
}

/// A placement of the first pods.
#[derive(Debug, Clone)]
struct PartialPlacement {
    positions: Vec<PodPosition>,
    /// Pods that are placed on each usable existing node.
    existing_node_pods: Vec<PodSet>,
    new_nodes: Vec<OpenedNode>,
    unplaced: usize,
}

struct BranchAndBound<'a> {
    topology: &'a Topology<'a>,
    nodes: &'a NodeOptions<'a>,
    bounds: SearchBounds<'a>,
    pod_kinds: Vec<String>,
    domain_choice: DomainChoice,
    best: Option<Optimum>,
    steps_left: u64,
    /// Number of type choices that may still be tried where pools have limits.
    trials_left: u64,
    new_node_cache: BTreeMap<(usize, PodSet), Option<Rc<NewNode>>>,
}

impl BranchAndBound<'_> {
    /// Places the next pod in every possible way. Returns false if the steps are used up.
    fn branch(&mut self, state: &PartialPlacement) -> bool {
        if self.steps_left == 0 || self.trials_left == 0 {
            return false;
        }
        self.steps_left -= 1;
        if self.cannot_improve(state) {
            return true;
        }
        let pod_index = state.positions.len();
        if pod_index == self.pod_kinds.len() {
            self.record_if_better(state);
            return true;
        }
        // Equivalent pods are placed in ascending order of position.
        let is_equivalent = pod_index > 0 && self.pod_kinds[pod_index] == self.pod_kinds[pod_index - 1];
        let first_position = if is_equivalent { state.positions[pod_index - 1] } else { PodPosition::Existing(0) };
        let existing = (0..self.nodes.existing.len()).map(|node| (PodPosition::Existing(node), None));
        let opened = (0..state.new_nodes.len()).map(|node| (PodPosition::New(node), None));
        let new_nodes =
            (0..self.nodes.node_kinds.len()).map(|kind| (PodPosition::New(state.new_nodes.len()), Some(kind)));
        for (position, kind) in
            existing.chain(opened).chain(new_nodes).filter(|(position, _)| *position >= first_position)
        {
            let next = self.with_pod_at(state, pod_index, position, kind);
            if !next.is_none_or(|next| self.branch(&next)) {
                return false;
            }
        }
        let mut next = state.clone();
        next.positions.push(PodPosition::Unplaced);
        next.unplaced += 1;
        self.branch(&next)
    }

    /// Returns true if no completion of the placement can be better than the best so far.
    fn cannot_improve(&self, state: &PartialPlacement) -> bool {
        let Some(best) = &self.best else { return false };
        let left_out = self.pod_kinds.len() - best.placed;
        let unplaced = state.unplaced + self.bounds.unplaceable_count_from(state.positions.len());
        unplaced > left_out || (unplaced == left_out && self.bounds.min_price(self.nodes, state) >= best.price)
    }

    /// Returns the placement with the pod at that position, or `None` if no completion of it is
    /// valid.
    fn with_pod_at(
        &mut self,
        state: &PartialPlacement,
        pod_index: usize,
        position: PodPosition,
        kind: Option<usize>,
    ) -> Option<PartialPlacement> {
        let bit: PodSet = 1 << pod_index;
        let mut next = state.clone();
        match position {
            PodPosition::Existing(node) => {
                next.existing_node_pods[node] |= bit;
                self.nodes.fits_existing(node, next.existing_node_pods[node]).then_some(())?;
            }
            PodPosition::New(node) => {
                next.new_nodes.extend(kind.map(|kind| OpenedNode { kind, pods: 0, price: Price::ZERO }));
                let pods = next.new_nodes[node].pods | bit;
                let price = self.cached_new_node(next.new_nodes[node].kind, pods)?.cheapest_price();
                next.new_nodes[node].pods = pods;
                next.new_nodes[node].price = price;
            }
            PodPosition::Unplaced => {}
        }
        next.positions.push(position);
        let to_come = !0 << next.positions.len();
        let in_time = |opened: &OpenedNode| self.nodes.is_pinned_only_when_forced(opened.kind, opened.pods, to_come);
        (self.domain_choice == DomainChoice::Unrestricted || next.new_nodes.iter().all(in_time)).then_some(())?;
        self.bounds.allows_last_placed(self.nodes, &next).then_some(next)
    }

    /// Returns the new node for these pods, or `None` if there is none.
    fn cached_new_node(&mut self, kind: usize, pods: PodSet) -> Option<Rc<NewNode>> {
        let nodes = self.nodes;
        self.new_node_cache.entry((kind, pods)).or_insert_with(|| nodes.new_node(kind, pods).map(Rc::new)).clone()
    }

    fn target_index(&self, position: PodPosition) -> Option<usize> {
        match position {
            PodPosition::Existing(node) => Some(self.nodes.existing[node].target),
            PodPosition::New(node) => Some(self.topology.existing_targets.len() + node),
            PodPosition::Unplaced => None,
        }
    }
}

#[cfg(test)]
mod tests;

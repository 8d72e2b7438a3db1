//! Evaluates a complete placement: whether the rules between pods hold, and what it costs.

use std::rc::Rc;

use kerf_api::quantity::Quantity;

use super::nodes::{NewNode, TypeChoice};
use super::{BranchAndBound, DomainChoice, Optimum, PartialPlacement, PodPosition};
use crate::check::{PlacementTarget, PodTargets, combinations};
use crate::placement::pod_key;
use crate::price::Price;
use crate::resources::Resources;

/// Number of random orders that are tried for a placement whose pods cannot be bound in the greedy
/// orders.
const MAX_RANDOM_ORDERS: u64 = 3;

impl BranchAndBound<'_> {
    /// Records the placement if it is valid and better than the best so far.
    pub(super) fn record_if_better(&mut self, state: &PartialPlacement) {
        let nodes: Option<Vec<Rc<NewNode>>> =
            state.new_nodes.iter().map(|opened| self.cached_new_node(opened.kind, opened.pods)).collect();
        let Some(nodes) = nodes else { return };
        let pools: Vec<usize> = state.new_nodes.iter().map(|opened| self.nodes.node_kinds[opened.kind].pool).collect();
        let price = match self.domain_choice {
            DomainChoice::Unrestricted => {
                cheapest_within_limits(&pools, &nodes, self.nodes.remaining_limits.clone(), &mut self.trials_left)
            }
            DomainChoice::OnlyWhenForced => self.price_listing_all_types(state, &pools, &nodes),
        };
        let Some(price) = price else { return };
        let placed = self.pod_kinds.len() - state.unplaced;
        let is_better = |best: &Optimum| placed > best.placed || (placed == best.placed && price < best.price);
        if !self.best.as_ref().is_none_or(is_better) {
            return;
        }
        let opened = state.new_nodes.iter().zip(&nodes).enumerate();
        let mut choices: Vec<Vec<PlacementTarget>> =
            opened.map(|(index, (opened, node))| self.possible_targets(opened.kind, index, node)).collect();
        if self.domain_choice == DomainChoice::OnlyWhenForced {
            self.apply_anti_affinity(state, &mut choices);
            if choices.iter().any(Vec::is_empty) || !self.respects_forced_domains(state, &choices) {
                return;
            }
        }
        let planned: PodTargets = state.positions.iter().map(|position| self.target_index(*position)).collect();
        let is_valid = combinations(&choices).into_iter().all(|combination| {
            let chosen = choices.iter().zip(&combination).map(|(variants, choice)| variants[*choice].clone());
            let targets: Vec<PlacementTarget> = self.topology.existing_targets.iter().cloned().chain(chosen).collect();
            self.topology.unbindable_pods(&planned, &targets, MAX_RANDOM_ORDERS).is_empty()
        });
        if is_valid {
            let targets: Vec<&PlacementTarget> =
                self.topology.existing_targets.iter().chain(choices.iter().map(|c| &c[0])).collect();
            let pods_with_targets = self.topology.pods_to_place.iter().zip(&planned);
            let placements =
                pods_with_targets.filter_map(|(pod, target)| Some((pod_key(pod), targets[(*target)?].name.clone())));
            self.best = Some(Optimum { placed, price, placements: placements.collect() });
        }
    }

    /// Returns the price of the new nodes if each claim lists all suitable types that fit into the
    /// remaining limits. Each claim takes from the limits the greatest capacity that it allowed
    /// when its first pod was placed (spec 02 §4.6).
    fn price_listing_all_types(
        &mut self,
        state: &PartialPlacement,
        pools: &[usize],
        nodes: &[Rc<NewNode>],
    ) -> Option<Price> {
        let mut remaining_limits = self.nodes.remaining_limits.clone();
        let mut total = Price::ZERO;
        for ((opened, pool), node) in state.new_nodes.iter().zip(pools).zip(nodes) {
            let first = self.cached_new_node(opened.kind, opened.pods & opened.pods.wrapping_neg())?;
            let is_within_limits = |choice: &&TypeChoice| {
                remaining_limits[*pool].iter().all(|(name, limit)| choice.max_capacity.get(name) <= limit)
            };
            let price = node.type_choices.iter().filter(is_within_limits).map(|choice| choice.price).min()?;
            let listed = first.type_choices.iter().filter(is_within_limits);
            let max_capacity =
                listed.fold(Resources::new(), |max_capacity, choice| max_capacity.max(&choice.max_capacity));
            total = total + price;
            remaining_limits[*pool] = remaining_limits[*pool].minus(&max_capacity);
        }
        Some(total)
    }

    /// Returns the targets that the new node may become, one for each combination of topology
    /// labels.
    fn possible_targets(&self, kind: usize, index: usize, node: &NewNode) -> Vec<PlacementTarget> {
        // A free choice lists only the cheapest type, so it has one target.
        let one = self.domain_choice == DomainChoice::Unrestricted && !self.nodes.needs_min_values(kind);
        let variants = node.label_variants.iter().take(if one { 1 } else { usize::MAX });
        variants.map(|labels| self.nodes.new_target(kind, index, labels.clone())).collect()
    }

    /// Restricts undecided claims to the domains that anti-affinity leaves free, whichever of their
    /// own domains the other claims take. Claims with the fewest choices come first.
    fn apply_anti_affinity(&self, state: &PartialPlacement, choices: &mut [Vec<PlacementTarget>]) {
        let mut order: Vec<usize> = (0..choices.len()).collect();
        order.sort_by_key(|node| choices[*node].len());
        for (turn, node) in order.iter().enumerate() {
            let on = |wanted: usize| {
                (0..state.positions.len())
                    .filter(move |pod_index| state.positions[*pod_index] == PodPosition::New(wanted))
                    .collect::<Vec<_>>()
            };
            let own_pods = on(*node);
            let mut placed_pods: Vec<(usize, &PlacementTarget)> = Vec::new();
            for (pod_index, position) in state.positions.iter().enumerate() {
                if let (PodPosition::Existing(_), Some(target)) = (position, self.target_index(*position)) {
                    placed_pods.push((pod_index, &self.topology.existing_targets[target]));
                }
            }
            for other in &order[..turn] {
                placed_pods.extend(
                    on(*other).into_iter().flat_map(|pod_index| choices[*other].iter().map(move |p| (pod_index, p))),
                );
            }
            let is_allowed = |variant: &&PlacementTarget| {
                own_pods.iter().all(|pod_index| self.bounds.anti_affinity_allows(*pod_index, variant, &placed_pods))
            };
            choices[*node] = choices[*node].iter().filter(is_allowed).cloned().collect();
        }
    }

    /// Returns true if no key is pinned that a planner would leave undecided, and no affinity
    /// depends on a domain that was undecided when the pod was placed.
    fn respects_forced_domains(&self, state: &PartialPlacement, choices: &[Vec<PlacementTarget>]) -> bool {
        let pins_are_forced =
            state.new_nodes.iter().all(|opened| self.nodes.is_pinned_only_when_forced(opened.kind, opened.pods, 0));
        let certain = |pod_index: usize, key: &str| match state.positions[pod_index] {
            PodPosition::Existing(_) => true,
            PodPosition::New(node) => {
                self.nodes.decides_domain(pod_index, key)
                    || self.nodes.unpinned_value_count(state.new_nodes[node].kind, 1 << pod_index, key) <= 1
            }
            PodPosition::Unplaced => false,
        };
        let targets: Vec<&PlacementTarget> =
            self.topology.existing_targets.iter().chain(choices.iter().map(|c| &c[0])).collect();
        let bound: PodTargets = state.positions.iter().map(|position| self.target_index(*position)).collect();
        let affinity_holds =
            |pod_index| self.topology.has_certain_affinity_matches(pod_index, &bound, &targets, &certain);
        pins_are_forced && (0..self.pod_kinds.len()).all(affinity_holds)
    }
}

/// Returns the cheapest choice of types for all nodes that keeps every pool within its remaining
/// limits. Returns `None` if there is none or the trials are used up.
fn cheapest_within_limits(
    pools: &[usize],
    nodes: &[Rc<NewNode>],
    remaining_limits: Vec<Resources>,
    trials_left: &mut u64,
) -> Option<Price> {
    let (Some((node, nodes)), Some((pool, pools))) = (nodes.split_first(), pools.split_first()) else {
        return Some(Price::ZERO);
    };
    *trials_left = trials_left.checked_sub(1)?;
    if remaining_limits[*pool].iter().next().is_none() {
        return Some(node.cheapest_price() + cheapest_within_limits(pools, nodes, remaining_limits, trials_left)?);
    }
    let possible = node.type_choices.iter().filter_map(|choice| {
        let remaining = remaining_limits[*pool].minus(&choice.max_capacity);
        let is_within_limits = remaining.iter().all(|(_, amount)| amount >= Quantity::ZERO);
        let mut remaining_limits = remaining_limits.clone();
        remaining_limits[*pool] = remaining;
        is_within_limits
            .then(|| cheapest_within_limits(pools, nodes, remaining_limits, trials_left))
            .flatten()
            .map(|other_nodes| choice.price + other_nodes)
    });
    possible.min()
}

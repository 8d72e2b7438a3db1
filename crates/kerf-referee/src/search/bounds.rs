//! Bounds on incomplete placements: whether an anti-affinity or spread rule is broken in every
//! completion, how many pods cannot be placed at all, and the least possible price.

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::quantity::Quantity;

use super::nodes::NodeOptions;
use super::{PartialPlacement, PodPosition};
use crate::check::{PlacementTarget, SpreadBound, Topology};
use crate::price::Price;
use crate::resources::pod_requests;
use crate::storage::HOSTNAME;

/// Resources that bound the price.
const PRICED_RESOURCES: [&str; 2] = ["cpu", "memory"];

pub(super) struct SearchBounds<'a> {
    pairwise_anti_affinity_keys: Vec<Vec<BTreeSet<&'a str>>>,
    forbidden_domains: Vec<BTreeSet<(&'a str, String)>>,
    spread_bounds: Vec<Vec<SpreadBound<'a>>>,
    /// For each pod, the first pod that is equivalent to it.
    first_equivalent_pod: Vec<usize>,
    /// Domains in which a pod can be placed, by key.
    reachable_domains: BTreeMap<&'a str, BTreeSet<String>>,
    /// For each index, the number of pods from there on that cannot be placed at all.
    unplaceable_pods_from: Vec<usize>,
    /// For each index, the sum of the requests from there on.
    requests_from: Vec<[Quantity; PRICED_RESOURCES.len()]>,
    requests: Vec<[Quantity; PRICED_RESOURCES.len()]>,
    /// For each resource, price and amount of the launch with the lowest price per unit.
    best_price_rates: [Option<(Price, Quantity)>; PRICED_RESOURCES.len()],
}

impl<'a> SearchBounds<'a> {
    pub(super) fn new(nodes: &NodeOptions<'a>, topology: &'a Topology<'a>, kinds: &[String]) -> Self {
        let count = kinds.len();
        let spread_bounds: Vec<Vec<SpreadBound<'a>>> =
            (0..count).map(|pod_index| topology.spread_bounds(pod_index)).collect();
        let mut reachable_domains: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for key in spread_bounds.iter().flatten().map(|spread| spread.key) {
            reachable_domains.entry(key).or_insert_with(|| nodes.reachable_domains(key));
        }
        let can_be_placed = |pod_index: usize| {
            let bit = 1 << pod_index;
            (0..nodes.existing.len()).any(|node| nodes.fits_existing(node, bit))
                || (0..nodes.node_kinds.len()).any(|kind| nodes.new_node(kind, bit).is_some())
        };
        let unplaceable: Vec<bool> =
            (0..count).map(|pod_index| !can_be_placed(pod_index) || topology.lacks_affinity_match(pod_index)).collect();
        let requests: Vec<[Quantity; PRICED_RESOURCES.len()]> = topology
            .pods_to_place
            .iter()
            .zip(&unplaceable)
            .map(|(pod, unplaceable)| {
                let requests = pod_requests(pod);
                PRICED_RESOURCES.map(|name| if *unplaceable { Quantity::ZERO } else { requests.get(name) })
            })
            .collect();
        let requests_after = |pod_index: usize| {
            let sum = |resource: usize| requests[pod_index..].iter().map(|amounts| amounts[resource]).sum();
            [sum(0), sum(1)]
        };
        Self {
            pairwise_anti_affinity_keys: topology.pairwise_anti_affinity_keys(),
            forbidden_domains: topology.forbidden_domains(),
            first_equivalent_pod: (0..count)
                .map(|m| kinds.iter().position(|kind| *kind == kinds[m]).unwrap_or(m))
                .collect(),
            spread_bounds,
            reachable_domains,
            unplaceable_pods_from: (0..=count)
                .map(|pod_index| unplaceable[pod_index..].iter().filter(|unplaceable| **unplaceable).count())
                .collect(),
            requests_from: (0..=count).map(requests_after).collect(),
            requests,
            best_price_rates: PRICED_RESOURCES.map(|name| nodes.best_price_rate(name)),
        }
    }

    /// Returns the number of pods from this index on that cannot be placed at all.
    pub(super) fn unplaceable_count_from(&self, pod_index: usize) -> usize {
        self.unplaceable_pods_from[pod_index]
    }

    /// Returns a lower bound on the price of the new nodes if no further pod is left out. It is
    /// their current price or, if greater for a resource, all requests that do not fit on existing
    /// nodes, bought at the best rate.
    pub(super) fn min_price(&self, nodes: &NodeOptions<'_>, state: &PartialPlacement) -> Price {
        let now: Price = state.new_nodes.iter().map(|opened| opened.price).sum();
        let mut price_bound = now;
        for (resource, rate) in self.best_price_rates.iter().enumerate() {
            let Some((price, amount)) = rate else { continue };
            let free: Quantity =
                nodes.existing.iter().map(|usable| usable.free_amount(PRICED_RESOURCES[resource])).sum();
            let is_on_existing = |position: &PodPosition| matches!(position, PodPosition::Existing(_));
            let placed_requests = state.positions.iter().zip(&self.requests);
            let on_existing: Quantity = placed_requests
                .clone()
                .filter(|(position, _)| is_on_existing(position))
                .map(|(_, r)| r[resource])
                .sum();
            let on_new = placed_requests
                .filter(|(position, _)| matches!(position, PodPosition::New(_)))
                .map(|(_, r)| r[resource]);
            let on_new: Quantity = on_new.sum();
            let spare = (free - on_existing).max(Quantity::ZERO);
            let to_buy = (self.requests_from[state.positions.len()][resource] - spare).max(Quantity::ZERO) + on_new;
            // In thousandths, so that the product fits; rounded so that the bound is not too high.
            let cost = price.units().saturating_mul(to_buy.nanos() / 1_000_000) / (amount.nanos() / 1_000_000 + 1);
            price_bound = price_bound.max(Price::from_units(cost));
        }
        price_bound
    }

    /// Returns false if the position of the last placed pod breaks a rule in every completion.
    pub(super) fn allows_last_placed(&self, nodes: &NodeOptions<'_>, state: &PartialPlacement) -> bool {
        let pod_index = state.positions.len() - 1;
        let position = state.positions[pod_index];
        if position == PodPosition::Unplaced {
            return true;
        }
        let domain = |position: PodPosition, key: &str| certain_domain(nodes, state, position, key);
        let is_forbidden =
            self.forbidden_domains[pod_index].iter().any(|(key, value)| domain(position, key).as_ref() == Some(value));
        let is_excluded = (0..pod_index).any(|other| {
            let other_position = state.positions[other];
            let same_domain = |key: &&str| {
                domain(position, key).is_some_and(|own_domain| domain(other_position, key) == Some(own_domain))
            };
            other_position != PodPosition::Unplaced
                && self.pairwise_anti_affinity_keys[pod_index][other].iter().any(same_domain)
        });
        !is_forbidden
            && !is_excluded
            && self.spread_bounds[pod_index].iter().all(|spread| self.spread_can_hold(nodes, state, pod_index, spread))
    }

    /// Returns true if anti-affinity allows the pod on a target while others are on theirs.
    pub(super) fn anti_affinity_allows(
        &self,
        pod_index: usize,
        target: &PlacementTarget,
        placed_pods: &[(usize, &PlacementTarget)],
    ) -> bool {
        let label = |key: &str| target.labels.get(key);
        let is_forbidden = self.forbidden_domains[pod_index].iter().any(|(key, value)| label(key) == Some(value));
        let shares_domain = |(other, other_target): &(usize, &PlacementTarget)| {
            self.pairwise_anti_affinity_keys[pod_index][*other]
                .iter()
                .any(|key| label(key).is_some() && label(key) == other_target.labels.get(*key))
        };
        !is_forbidden && !placed_pods.iter().any(shares_domain)
    }

    /// Returns false if the spread constraint must be violated. The last of the equivalent pods in
    /// the domain counts all others there, and the domain with the fewest pods gets at most all
    /// remaining pods.
    fn spread_can_hold(
        &self,
        nodes: &NodeOptions<'_>,
        state: &PartialPlacement,
        pod_index: usize,
        spread: &SpreadBound<'_>,
    ) -> bool {
        let Some(own_domain) = certain_domain(nodes, state, state.positions[pod_index], spread.key) else {
            return true;
        };
        let placed_in = |wanted: &dyn Fn(usize) -> bool, domain: &String| {
            let all = state.positions.iter().enumerate().filter(|(other, _)| wanted(*other));
            all.filter(|(_, position)| certain_domain(nodes, state, **position, spread.key).as_ref() == Some(domain))
                .count() as i64
        };
        let is_equivalent = |other: usize| self.first_equivalent_pod[other] == self.first_equivalent_pod[pod_index];
        let staying_count = |domain: &String| spread.staying_pod_counts.get(domain).copied().unwrap_or(0);
        let count = staying_count(&own_domain) + placed_in(&is_equivalent, &own_domain);
        // Pods without a position, and pods with an undecided domain, may be placed in any
        // reachable domain.
        let uncertain = |other: usize| {
            spread.counted_pods[other]
                && state.positions.get(other).is_none_or(|position| {
                    *position != PodPosition::Unplaced && certain_domain(nodes, state, *position, spread.key).is_none()
                })
        };
        let undecided_count = (0..spread.counted_pods.len()).filter(|other| uncertain(*other)).count() as i64;
        let max_count = |domain: &String| {
            let reachable = self.reachable_domains.get(spread.key).is_some_and(|domains| domains.contains(domain));
            let certain = staying_count(domain) + placed_in(&|other| spread.counted_pods[other], domain);
            certain + if reachable { undecided_count } else { 0 }
        };
        let minimum = spread.compared_domains.iter().map(max_count).min().unwrap_or(if spread.key == HOSTNAME {
            0
        } else {
            i64::MAX / 2
        });
        count - minimum <= spread.max_skew
    }
}

/// Returns the domain of a position, or `None` if it is not decided.
fn certain_domain(
    nodes: &NodeOptions<'_>,
    state: &PartialPlacement,
    position: PodPosition,
    key: &str,
) -> Option<String> {
    match position {
        PodPosition::Existing(node) => nodes.existing[node].labels.get(key).cloned(),
        PodPosition::New(node) if key == HOSTNAME => Some(format!("new {node}")),
        PodPosition::New(node) => nodes.node_kinds[state.new_nodes[node].kind].pinned_labels.get(key).cloned(),
        PodPosition::Unplaced => None,
    }
}

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
        let number = kinds.len();
        let spreads: Vec<Vec<SpreadBound<'a>>> = (0..number).map(|mover| topology.spread_bounds(mover)).collect();
        let mut reachable: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for key in spreads.iter().flatten().map(|spread| spread.key) {
            reachable.entry(key).or_insert_with(|| nodes.reachable_domains(key));
        }
        let can_go = |mover: usize| {
            let bit = 1 << mover;
            (0..nodes.existing.len()).any(|node| nodes.fits_existing(node, bit))
                || (0..nodes.node_kinds.len()).any(|kind| nodes.new_node(kind, bit).is_some())
        };
        let stuck: Vec<bool> =
            (0..number).map(|mover| !can_go(mover) || topology.lacks_affinity_match(mover)).collect();
        let requests: Vec<[Quantity; PRICED_RESOURCES.len()]> = topology
            .pods_to_place
            .iter()
            .zip(&stuck)
            .map(|(pod, stuck)| {
                let requests = pod_requests(pod);
                PRICED_RESOURCES.map(|name| if *stuck { Quantity::ZERO } else { requests.get(name) })
            })
            .collect();
        let from = |mover: usize| {
            let sum = |resource: usize| requests[mover..].iter().map(|amounts| amounts[resource]).sum();
            [sum(0), sum(1)]
        };
        Self {
            pairwise_anti_affinity_keys: topology.pairwise_anti_affinity_keys(),
            forbidden_domains: topology.forbidden_domains(),
            first_equivalent_pod: (0..number)
                .map(|m| kinds.iter().position(|kind| *kind == kinds[m]).unwrap_or(m))
                .collect(),
            spread_bounds: spreads,
            reachable_domains: reachable,
            unplaceable_pods_from: (0..=number)
                .map(|mover| stuck[mover..].iter().filter(|stuck| **stuck).count())
                .collect(),
            requests_from: (0..=number).map(from).collect(),
            requests,
            best_price_rates: PRICED_RESOURCES.map(|name| nodes.best_price_rate(name)),
        }
    }

    /// Returns the number of pods from this index on that cannot be placed at all.
    pub(super) fn unplaceable_count_from(&self, mover: usize) -> usize {
        self.unplaceable_pods_from[mover]
    }

    /// Returns a lower bound on the price of the new nodes if no further pod is left out. It is
    /// their current price or, if greater for a resource, all requests that do not fit on existing
    /// nodes, bought at the best rate.
    pub(super) fn min_price(&self, nodes: &NodeOptions<'_>, state: &PartialPlacement) -> Price {
        let now: Price = state.new_nodes.iter().map(|opened| opened.price).sum();
        let mut least = now;
        for (resource, rate) in self.best_price_rates.iter().enumerate() {
            let Some((price, amount)) = rate else { continue };
            let room: Quantity =
                nodes.existing.iter().map(|usable| usable.free_amount(PRICED_RESOURCES[resource])).sum();
            let seated = |seat: &PodPosition| matches!(seat, PodPosition::Existing(_));
            let gone = state.positions.iter().zip(&self.requests);
            let on_existing: Quantity = gone.clone().filter(|(seat, _)| seated(seat)).map(|(_, r)| r[resource]).sum();
            let on_new = gone.filter(|(seat, _)| matches!(seat, PodPosition::New(_))).map(|(_, r)| r[resource]);
            let on_new: Quantity = on_new.sum();
            let spare = (room - on_existing).max(Quantity::ZERO);
            let to_buy = (self.requests_from[state.positions.len()][resource] - spare).max(Quantity::ZERO) + on_new;
            let cost = to_buy.nanos().saturating_mul(i128::from(price.nanos())) / amount.nanos().max(1);
            least = least.max(Price::from_nanos(i64::try_from(cost).unwrap_or(i64::MAX)));
        }
        least
    }

    /// Returns false if the position of the last placed pod breaks a rule in every completion.
    pub(super) fn allows_last_placed(&self, nodes: &NodeOptions<'_>, state: &PartialPlacement) -> bool {
        let mover = state.positions.len() - 1;
        let seat = state.positions[mover];
        if seat == PodPosition::Unplaced {
            return true;
        }
        let domain = |seat: PodPosition, key: &str| certain_domain(nodes, state, seat, key);
        let forbidden =
            self.forbidden_domains[mover].iter().any(|(key, value)| domain(seat, key).as_ref() == Some(value));
        let repelled = (0..mover).any(|other| {
            let there = state.positions[other];
            let meet = |key: &&str| domain(seat, key).is_some_and(|here| domain(there, key) == Some(here));
            there != PodPosition::Unplaced && self.pairwise_anti_affinity_keys[mover][other].iter().any(meet)
        });
        !forbidden
            && !repelled
            && self.spread_bounds[mover].iter().all(|spread| self.spread_can_hold(nodes, state, mover, spread))
    }

    /// Returns true if anti-affinity allows the pod on a target while others are on theirs.
    pub(super) fn anti_affinity_allows(
        &self,
        mover: usize,
        place: &PlacementTarget,
        taken: &[(usize, &PlacementTarget)],
    ) -> bool {
        let here = |key: &str| place.labels.get(key);
        let forbidden = self.forbidden_domains[mover].iter().any(|(key, value)| here(key) == Some(value));
        let meets = |(other, there): &(usize, &PlacementTarget)| {
            self.pairwise_anti_affinity_keys[mover][*other]
                .iter()
                .any(|key| here(key).is_some() && here(key) == there.labels.get(*key))
        };
        !forbidden && !taken.iter().any(meets)
    }

    /// Returns false if the spread constraint must be violated. The last of the equivalent pods in
    /// the domain counts all others there, and the domain with the fewest pods gets at most all
    /// remaining pods.
    fn spread_can_hold(
        &self,
        nodes: &NodeOptions<'_>,
        state: &PartialPlacement,
        mover: usize,
        spread: &SpreadBound<'_>,
    ) -> bool {
        let Some(here) = certain_domain(nodes, state, state.positions[mover], spread.key) else { return true };
        let seated = |wanted: &dyn Fn(usize) -> bool, domain: &String| {
            let all = state.positions.iter().enumerate().filter(|(other, _)| wanted(*other));
            all.filter(|(_, seat)| certain_domain(nodes, state, **seat, spread.key).as_ref() == Some(domain)).count()
                as i64
        };
        let alike = |other: usize| self.first_equivalent_pod[other] == self.first_equivalent_pod[mover];
        let residents = |domain: &String| spread.staying_pod_counts.get(domain).copied().unwrap_or(0);
        let count = residents(&here) + seated(&alike, &here);
        // Pods without a position, and pods with an undecided domain, may be placed in any
        // reachable domain.
        let uncertain = |other: usize| {
            spread.counted_pods[other]
                && state.positions.get(other).is_none_or(|seat| {
                    *seat != PodPosition::Unplaced && certain_domain(nodes, state, *seat, spread.key).is_none()
                })
        };
        let coming = (0..spread.counted_pods.len()).filter(|other| uncertain(*other)).count() as i64;
        let most_of = |domain: &String| {
            let reachable = self.reachable_domains.get(spread.key).is_some_and(|domains| domains.contains(domain));
            let certain = residents(domain) + seated(&|other| spread.counted_pods[other], domain);
            certain + if reachable { coming } else { 0 }
        };
        let minimum = spread.compared_domains.iter().map(most_of).min().unwrap_or(if spread.key == HOSTNAME {
            0
        } else {
            i64::MAX / 2
        });
        count - minimum <= spread.max_skew
    }
}

/// Returns the domain of a position, or `None` if it is not decided.
fn certain_domain(nodes: &NodeOptions<'_>, state: &PartialPlacement, seat: PodPosition, key: &str) -> Option<String> {
    match seat {
        PodPosition::Existing(node) => nodes.existing[node].labels.get(key).cloned(),
        PodPosition::New(node) if key == HOSTNAME => Some(format!("new {node}")),
        PodPosition::New(node) => nodes.node_kinds[state.new_nodes[node].kind].pinned_labels.get(key).cloned(),
        PodPosition::Unplaced => None,
    }
}

//! What can be told of a placement before it is complete: that it breaks an anti-affinity or a spread whatever follows, that
//! some pods can go nowhere, and that it will cost at least so much.

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::quantity::Quantity;

use super::nodes::NodeOptions;
use super::{PartialPlacement, PodPosition};
use crate::check::{PlacementTarget, SpreadBound, Topology};
use crate::price::Price;
use crate::resources::pod_requests;
use crate::storage::HOSTNAME;

/// The resources that bound the price.
const PRICED_RESOURCES: [&str; 2] = ["cpu", "memory"];

pub(super) struct SearchBounds<'a> {
    apart: Vec<Vec<BTreeSet<&'a str>>>,
    forbidden: Vec<BTreeSet<(&'a str, String)>>,
    spreads: Vec<Vec<SpreadBound<'a>>>,
    /// The first mover of each one's kind.
    first_alike: Vec<usize>,
    /// Domains in which a pod can still be placed, by key.
    reachable: BTreeMap<&'a str, BTreeSet<String>>,
    /// How many movers from this one on can go nowhere.
    hopeless: Vec<usize>,
    /// What the movers from this one on ask for.
    asked: Vec<[Quantity; PRICED_RESOURCES.len()]>,
    requests: Vec<[Quantity; PRICED_RESOURCES.len()]>,
    /// The cheapest launches, one for each resource: what they cost and how much they have.
    rates: [Option<(Price, Quantity)>; PRICED_RESOURCES.len()],
}

impl<'a> SearchBounds<'a> {
    pub(super) fn new(nodes: &NodeOptions<'a>, topology: &'a Topology<'a>, kinds: &[String]) -> Self {
        let number = kinds.len();
        let spreads: Vec<Vec<SpreadBound<'a>>> = (0..number).map(|mover| topology.spreads(mover)).collect();
        let mut reachable: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for key in spreads.iter().flatten().map(|spread| spread.key) {
            reachable.entry(key).or_insert_with(|| nodes.reachable(key));
        }
        let can_go = |mover: usize| {
            let bit = 1 << mover;
            (0..nodes.existing.len()).any(|node| nodes.fits_existing(node, bit))
                || (0..nodes.kinds.len()).any(|kind| nodes.new_node(kind, bit).is_some())
        };
        let stuck: Vec<bool> = (0..number).map(|mover| !can_go(mover) || topology.is_lonely(mover)).collect();
        let requests: Vec<[Quantity; PRICED_RESOURCES.len()]> = topology
            .movers
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
            apart: topology.apart(),
            forbidden: topology.forbidden(),
            first_alike: (0..number).map(|m| kinds.iter().position(|kind| *kind == kinds[m]).unwrap_or(m)).collect(),
            spreads,
            reachable,
            hopeless: (0..=number).map(|mover| stuck[mover..].iter().filter(|stuck| **stuck).count()).collect(),
            asked: (0..=number).map(from).collect(),
            requests,
            rates: PRICED_RESOURCES.map(|name| nodes.best_rate(name)),
        }
    }

    /// How many pods from this one on can go nowhere.
    pub(super) fn hopeless_from(&self, mover: usize) -> usize {
        self.hopeless[mover]
    }

    /// At least so much will the new nodes cost if nobody else is left out: what they cost now; and, for each resource, all that
    /// cannot go on nodes that are there, bought at the best rate.
    pub(super) fn price(&self, nodes: &NodeOptions<'_>, state: &PartialPlacement) -> Price {
        let now: Price = state.new.iter().map(|opened| opened.price).sum();
        let mut least = now;
        for (resource, rate) in self.rates.iter().enumerate() {
            let Some((price, amount)) = rate else { continue };
            let room: Quantity = nodes.existing.iter().map(|usable| usable.free(PRICED_RESOURCES[resource])).sum();
            let seated = |seat: &PodPosition| matches!(seat, PodPosition::Existing(_));
            let gone = state.seats.iter().zip(&self.requests);
            let on_existing: Quantity = gone.clone().filter(|(seat, _)| seated(seat)).map(|(_, r)| r[resource]).sum();
            let on_new = gone.filter(|(seat, _)| matches!(seat, PodPosition::New(_))).map(|(_, r)| r[resource]);
            let on_new: Quantity = on_new.sum();
            let spare = (room - on_existing).max(Quantity::ZERO);
            let to_buy = (self.asked[state.seats.len()][resource] - spare).max(Quantity::ZERO) + on_new;
            let cost = to_buy.nanos().saturating_mul(i128::from(price.nanos())) / amount.nanos().max(1);
            least = least.max(Price::from_nanos(i64::try_from(cost).unwrap_or(i64::MAX)));
        }
        least
    }

    /// Whether the mover that was seated last may be there, as far as can be told.
    pub(super) fn allow(&self, nodes: &NodeOptions<'_>, state: &PartialPlacement) -> bool {
        let mover = state.seats.len() - 1;
        let seat = state.seats[mover];
        if seat == PodPosition::Unplaced {
            return true;
        }
        let domain = |seat: PodPosition, key: &str| domain_of(nodes, state, seat, key);
        let forbidden = self.forbidden[mover].iter().any(|(key, value)| domain(seat, key).as_ref() == Some(value));
        let repelled = (0..mover).any(|other| {
            let there = state.seats[other];
            let meet = |key: &&str| domain(seat, key).is_some_and(|here| domain(there, key) == Some(here));
            there != PodPosition::Unplaced && self.apart[mover][other].iter().any(meet)
        });
        !forbidden
            && !repelled
            && self.spreads[mover].iter().all(|spread| self.can_be_even(nodes, state, mover, spread))
    }

    /// Whether anti-affinity lets the mover be on a place while others are on theirs.
    pub(super) fn keep_apart(
        &self,
        mover: usize,
        place: &PlacementTarget,
        taken: &[(usize, &PlacementTarget)],
    ) -> bool {
        let here = |key: &str| place.labels.get(key);
        let forbidden = self.forbidden[mover].iter().any(|(key, value)| here(key) == Some(value));
        let meets = |(other, there): &(usize, &PlacementTarget)| {
            self.apart[mover][*other].iter().any(|key| here(key).is_some() && here(key) == there.labels.get(*key))
        };
        !forbidden && !taken.iter().any(meets)
    }

    /// The last of all alike pods in the domain will count the others; the emptiest domain can get at most all that are left.
    fn can_be_even(
        &self,
        nodes: &NodeOptions<'_>,
        state: &PartialPlacement,
        mover: usize,
        spread: &SpreadBound<'_>,
    ) -> bool {
        let Some(here) = domain_of(nodes, state, state.seats[mover], spread.key) else { return true };
        let seated = |wanted: &dyn Fn(usize) -> bool, domain: &String| {
            let all = state.seats.iter().enumerate().filter(|(other, _)| wanted(*other));
            all.filter(|(_, seat)| domain_of(nodes, state, **seat, spread.key).as_ref() == Some(domain)).count() as i64
        };
        let alike = |other: usize| self.first_alike[other] == self.first_alike[mover];
        let residents = |domain: &String| spread.residents.get(domain).copied().unwrap_or(0);
        let count = residents(&here) + seated(&alike, &here);
        // Those without a place yet, and those whose domain is still open, may come to any domain that can be reached.
        let uncertain = |other: usize| {
            spread.counts[other]
                && state.seats.get(other).is_none_or(|seat| {
                    *seat != PodPosition::Unplaced && domain_of(nodes, state, *seat, spread.key).is_none()
                })
        };
        let coming = (0..spread.counts.len()).filter(|other| uncertain(*other)).count() as i64;
        let most_of = |domain: &String| {
            let reachable = self.reachable.get(spread.key).is_some_and(|domains| domains.contains(domain));
            let certain = residents(domain) + seated(&|other| spread.counts[other], domain);
            certain + if reachable { coming } else { 0 }
        };
        let minimum =
            spread.compared.iter().map(most_of).min().unwrap_or(if spread.key == HOSTNAME { 0 } else { i64::MAX / 2 });
        count - minimum <= spread.max_skew
    }
}

/// The domain of a seat, if it is certain.
fn domain_of(nodes: &NodeOptions<'_>, state: &PartialPlacement, seat: PodPosition, key: &str) -> Option<String> {
    match seat {
        PodPosition::Existing(node) => nodes.existing[node].labels.get(key).cloned(),
        PodPosition::New(node) if key == HOSTNAME => Some(format!("new {node}")),
        PodPosition::New(node) => nodes.kinds[state.new[node].kind].pins.get(key).cloned(),
        PodPosition::Unplaced => None,
    }
}

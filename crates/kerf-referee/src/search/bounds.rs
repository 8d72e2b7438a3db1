//! What can be told of a placement before it is complete: that it breaks an anti-affinity or a spread whatever follows, that
//! some pods can go nowhere, and that it will cost at least so much.

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::quantity::Quantity;

use super::nodes::Nodes;
use super::{Seat, State};
use crate::check::{Place, SpreadBound, Topology};
use crate::price::Price;
use crate::resources::pod_requests;
use crate::storage::HOSTNAME;

/// The resources that bound the price.
const COUNTED: [&str; 2] = ["cpu", "memory"];

pub(super) struct Bounds<'a> {
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
    asked: Vec<[Quantity; COUNTED.len()]>,
    requests: Vec<[Quantity; COUNTED.len()]>,
    /// The cheapest launches, one for each resource: what they cost and how much they have.
    rates: [Option<(Price, Quantity)>; COUNTED.len()],
}

impl<'a> Bounds<'a> {
    pub(super) fn new(nodes: &Nodes<'a>, topology: &'a Topology<'a>, kinds: &[String]) -> Self {
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
        let requests: Vec<[Quantity; COUNTED.len()]> = topology
            .movers
            .iter()
            .zip(&stuck)
            .map(|(pod, stuck)| {
                let requests = pod_requests(pod);
                COUNTED.map(|name| if *stuck { Quantity::ZERO } else { requests.get(name) })
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
            rates: COUNTED.map(|name| nodes.best_rate(name)),
        }
    }

    /// How many pods from this one on can go nowhere.
    pub(super) fn hopeless_from(&self, mover: usize) -> usize {
        self.hopeless[mover]
    }

    /// At least so much will the new nodes cost if nobody else is left out: what they cost now; and, for each resource, all that
    /// cannot go on nodes that are there, bought at the best rate.
    pub(super) fn price(&self, nodes: &Nodes<'_>, state: &State) -> Price {
        let now: Price = state.new.iter().map(|opened| opened.price).sum();
        let mut least = now;
        for (resource, rate) in self.rates.iter().enumerate() {
            let Some((price, amount)) = rate else { continue };
            let room: Quantity = nodes.existing.iter().map(|usable| usable.free(COUNTED[resource])).sum();
            let seated = |seat: &Seat| matches!(seat, Seat::Existing(_));
            let gone = state.seats.iter().zip(&self.requests);
            let on_existing: Quantity = gone.clone().filter(|(seat, _)| seated(seat)).map(|(_, r)| r[resource]).sum();
            let on_new = gone.filter(|(seat, _)| matches!(seat, Seat::New(_))).map(|(_, r)| r[resource]);
            let on_new: Quantity = on_new.sum();
            let spare = (room - on_existing).max(Quantity::ZERO);
            let to_buy = (self.asked[state.seats.len()][resource] - spare).max(Quantity::ZERO) + on_new;
            let cost = to_buy.nanos().saturating_mul(i128::from(price.nanos())) / amount.nanos().max(1);
            least = least.max(Price::from_nanos(i64::try_from(cost).unwrap_or(i64::MAX)));
        }
        least
    }

    /// Whether the mover that was seated last may be there, as far as can be told.
    pub(super) fn allow(&self, nodes: &Nodes<'_>, state: &State) -> bool {
        let mover = state.seats.len() - 1;
        let seat = state.seats[mover];
        if seat == Seat::Nowhere {
            return true;
        }
        let domain = |seat: Seat, key: &str| domain_of(nodes, state, seat, key);
        let forbidden = self.forbidden[mover].iter().any(|(key, value)| domain(seat, key).as_ref() == Some(value));
        let repelled = (0..mover).any(|other| {
            let there = state.seats[other];
            let meet = |key: &&str| domain(seat, key).is_some_and(|here| domain(there, key) == Some(here));
            there != Seat::Nowhere && self.apart[mover][other].iter().any(meet)
        });
        !forbidden
            && !repelled
            && self.spreads[mover].iter().all(|spread| self.can_be_even(nodes, state, mover, spread))
    }

    /// Whether anti-affinity lets the mover be on a place while others are on theirs.
    pub(super) fn keep_apart(&self, mover: usize, place: &Place, taken: &[(usize, &Place)]) -> bool {
        let here = |key: &str| place.labels.get(key);
        let forbidden = self.forbidden[mover].iter().any(|(key, value)| here(key) == Some(value));
        let meets = |(other, there): &(usize, &Place)| {
            self.apart[mover][*other].iter().any(|key| here(key).is_some() && here(key) == there.labels.get(*key))
        };
        !forbidden && !taken.iter().any(meets)
    }

    /// The last of all alike pods in the domain will count the others; the emptiest domain can get at most all that are left.
    fn can_be_even(&self, nodes: &Nodes<'_>, state: &State, mover: usize, spread: &SpreadBound<'_>) -> bool {
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
                && state
                    .seats
                    .get(other)
                    .is_none_or(|seat| *seat != Seat::Nowhere && domain_of(nodes, state, *seat, spread.key).is_none())
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
fn domain_of(nodes: &Nodes<'_>, state: &State, seat: Seat, key: &str) -> Option<String> {
    match seat {
        Seat::Existing(node) => nodes.existing[node].labels.get(key).cloned(),
        Seat::New(node) if key == HOSTNAME => Some(format!("new {node}")),
        Seat::New(node) => nodes.kinds[state.new[node].kind].pins.get(key).cloned(),
        Seat::Nowhere => None,
    }
}

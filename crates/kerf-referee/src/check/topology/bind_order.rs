//! Is there an order in which all pods can be bound where they are planned?
//!
//! Some pods depend on others being there (affinity), some on others not being there yet (the first of its kind, spread), so
//! the search is greedy in a telling order: pods whose own rules depend on the order first, those before others whom nobody counts,
//! and the tightest spread before looser ones; companions when nobody else can go on; the rest last. When a spread waits for its emptiest domain to fill, those of
//! the rest who go there are next, and those who would fill its other domains come last. If that gets stuck, it is tried again with
//! only those first who could not be the last, whoever spoils least for the others before them; then with whoever is in the way of the fewest
//! spreads first; and then in a number of random orders. A placement for which an order exists is thus not always recognised, but on
//! everything that tests have seen it is.

use std::collections::BTreeSet;

use super::{BrokenRule, PlacementTarget, PodRule, PodRuleKind, PodTargets, RuleOwner, Topology, accepts_domain};
use crate::check::pool_domains::TaintPolicy;
use crate::random::Random;

/// How many random orders are tried when the telling one gets stuck, where a mistake would be a false accusation.
pub(crate) const MAX_RANDOM_ORDERS: u64 = 24;

/// By what it is told who comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BindOrder {
    /// Whose own rules depend on the order.
    OrderSensitiveFirst,
    /// Who could not be bound any more if all others were.
    CannotBeLastFirst,
    /// Who is least in the way of spreads that wait; of these, who could not be bound any more if all others were.
    LeastHinderingFirst,
}

impl Topology<'_> {
    /// The movers that cannot be bound where they are planned, in any order that was tried; none if an order was found.
    pub(crate) fn unbindable_pods(
        &self,
        planned: &PodTargets,
        places: &[PlacementTarget],
        tries: u64,
    ) -> Vec<(usize, BrokenRule)> {
        let mut movers: Vec<usize> = (0..planned.len()).filter(|mover| planned[*mover].is_some()).collect();
        movers.sort_by_key(|mover| {
            let (matters, tightest) = self.order_sensitivity(*mover);
            (!matters, self.is_counted_by_spread(*mover), tightest, !self.is_affinity_match(*mover))
        });
        let stuck = self.bind_in_order(&movers, planned, places, BindOrder::OrderSensitiveFirst);
        let goes_in = |haste| self.bind_in_order(&movers, planned, places, haste).is_empty();
        if stuck.is_empty() || goes_in(BindOrder::CannotBeLastFirst) || goes_in(BindOrder::LeastHinderingFirst) {
            return Vec::new();
        }
        let found = (0..tries).any(|seed| {
            let mut order = movers.clone();
            Random::new(seed).shuffle(&mut order);
            self.bind_in_order(&order, planned, places, BindOrder::OrderSensitiveFirst).is_empty()
        });
        if found { Vec::new() } else { stuck }
    }

    /// Binds the first mover of the order that can be bound, again and again; returns those that are left.
    fn bind_in_order(
        &self,
        order: &[usize],
        planned: &PodTargets,
        places: &[PlacementTarget],
        haste: BindOrder,
    ) -> Vec<(usize, BrokenRule)> {
        let mut bound: PodTargets = vec![None; planned.len()];
        let mut left = order.to_vec();
        let urgent: Vec<bool> = (0..planned.len())
            .map(|mover| match haste {
                BindOrder::OrderSensitiveFirst => self.order_sensitivity(mover).0,
                BindOrder::CannotBeLastFirst | BindOrder::LeastHinderingFirst => {
                    self.cannot_be_bound_last(mover, planned, places)
                }
            })
            .collect();
        if haste != BindOrder::OrderSensitiveFirst {
            left.sort_by_cached_key(|mover| self.urgent_spreads_affected(*mover, &urgent, planned, places));
        }
        loop {
            let allowed = |mover: &usize| {
                planned[*mover].is_some_and(|place| self.binding_violation(*mover, place, &bound, places).is_none())
            };
            let least_in_the_way = || {
                let waits = self.waiting_spreads(&left, &bound, places);
                let allowed = left.iter().enumerate().filter(|(_, mover)| allowed(mover));
                let in_the_way = |mover: usize| (self.hindered_spreads(mover, planned, places, &waits), !urgent[mover]);
                allowed.min_by_key(|(_, mover)| in_the_way(**mover)).map(|(at, _)| at)
            };
            let next_urgent = || left.iter().position(|mover| urgent[*mover] && allowed(mover));
            let next = match haste {
                BindOrder::OrderSensitiveFirst | BindOrder::CannotBeLastFirst => {
                    next_urgent().or_else(least_in_the_way)
                }
                BindOrder::LeastHinderingFirst => least_in_the_way(),
            };
            let Some(next) = next else { break };
            let mover = left.remove(next);
            bound[mover] = planned[mover];
        }
        let why = |mover: usize| {
            let place = planned[mover]?;
            Some((mover, self.binding_violation(mover, place, &bound, places)?))
        };
        left.into_iter().filter_map(why).collect()
    }

    /// Whether the mover could not be bound once all others are.
    pub(super) fn cannot_be_bound_last(&self, mover: usize, planned: &PodTargets, places: &[PlacementTarget]) -> bool {
        let others: PodTargets =
            planned.iter().enumerate().map(|(other, place)| place.filter(|_| other != mover)).collect();
        planned[mover].is_some_and(|place| self.binding_violation(mover, place, &others, places).is_some())
    }

    /// How many of those who come first have a spread that counts the mover where they want to be themselves.
    fn urgent_spreads_affected(
        &self,
        mover: usize,
        urgent: &[bool],
        planned: &PodTargets,
        places: &[PlacementTarget],
    ) -> usize {
        let domain = |mover: usize, key: &str| planned[mover].and_then(|place| places[place].labels.get(key));
        let is_spoilt = |rule: &&PodRule<'_>| match rule.owner {
            RuleOwner::PodToPlace(owner) => {
                let is_spread = matches!(rule.kind, PodRuleKind::Spread(_));
                let meets = domain(owner, rule.key) == domain(mover, rule.key);
                is_spread && owner != mover && urgent[owner] && rule.selects_to_place[mover] && meets
            }
            RuleOwner::StayingPod(_) => false,
        };
        self.rules.iter().filter(is_spoilt).count()
    }

    /// The spreads of movers that are left, each by its index with the domains that have to fill before the others may.
    fn waiting_spreads<'p>(
        &'p self,
        left: &[usize],
        bound: &PodTargets,
        places: &'p [PlacementTarget],
    ) -> Vec<(usize, BTreeSet<&'p str>)> {
        let rules = self.rules.iter().enumerate();
        let mut seen: Vec<(&str, &Vec<bool>)> = Vec::new();
        let waits = rules.filter_map(|(index, rule)| {
            let (PodRuleKind::Spread(spread), RuleOwner::PodToPlace(owner)) = (&rule.kind, rule.owner) else {
                return None;
            };
            // Pods that are alike wait for the same.
            (left.contains(&owner) && !seen.contains(&(rule.key, &rule.selects_to_place))).then_some(())?;
            seen.push((rule.key, &rule.selects_to_place));
            let pod = self.pods_to_place[owner];
            let mut counts = self.spread_counts(rule, spread, TaintPolicy::AllTaints, pod, bound, places);
            counts.retain(|domain, _| accepts_domain(pod, None, rule.key, domain));
            let least = counts.values().min().copied()?;
            Some((index, counts.into_iter().filter(|(_, count)| *count == least).map(|(domain, _)| domain).collect()))
        });
        waits.collect()
    }

    /// How many spreads would have to wait longer if the mover were bound, less those that would not.
    fn hindered_spreads(
        &self,
        mover: usize,
        planned: &PodTargets,
        places: &[PlacementTarget],
        waits: &[(usize, BTreeSet<&str>)],
    ) -> i64 {
        let Some(place) = planned[mover].map(|place| &places[place]) else { return 0 };
        let effect = |(index, emptiest): &(usize, BTreeSet<&str>)| {
            let rule = &self.rules[*index];
            match place.labels.get(rule.key).filter(|_| rule.selects_to_place[mover]) {
                Some(domain) if emptiest.contains(domain.as_str()) => -1,
                Some(_) => 1,
                None => 0,
            }
        };
        waits.iter().map(effect).sum()
    }
}

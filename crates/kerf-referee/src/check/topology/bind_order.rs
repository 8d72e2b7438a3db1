//! Searches an order in which all pods can be bound to their planned targets.
//!
//! Some pods need others to be bound before them (affinity), some need them not to be bound yet
//! (spread, or a pod that must be the first match of its own affinity). The search is greedy:
//!
//! - First come pods whose own rules depend on the order. Among them, pods that no spread counts
//!   come before those that some spread counts, and a smaller `maxSkew` comes before a greater one.
//! - If none of them can be bound, the pod comes next that hinders waiting spreads least. A spread
//!   waits for its domains with the fewest pods to fill: pods planned there come first, and pods
//!   that would fill its other domains come last. Among equals, pods that no spread counts come
//!   first, then pods that an affinity term selects.
//!
//! If this gets stuck, three more attempts follow. The second puts only those pods first that could
//! not be bound last; among them, those that affect the fewest spreads of others. The third puts
//! the pods first that hinder the fewest spreads. The last tries a number of random orders. So an
//! existing order is not always found, but it was found in every test so far.

use std::collections::BTreeSet;

use super::{BrokenRule, PlacementTarget, PodRule, PodRuleKind, PodTargets, RuleOwner, Topology, accepts_domain};
use crate::check::pool_domains::TaintPolicy;
use crate::random::Random;

/// Number of random orders that are tried when the greedy orders get stuck. Used where a missed
/// order would report a violation that does not exist.
pub(crate) const MAX_RANDOM_ORDERS: u64 = 24;

/// The criterion by which the search chooses the next pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BindOrder {
    /// Pods whose own rules depend on the order.
    OrderSensitiveFirst,
    /// Pods that could not be bound after all others.
    CannotBeLastFirst,
    /// Pods that hinder the fewest waiting spreads; among them, pods that could not be bound after
    /// all others.
    LeastHinderingFirst,
}

impl Topology<'_> {
    /// Returns the pods that cannot be bound to their targets in the first order, each with the
    /// broken rule. Returns nothing if any of the tried orders binds all pods. `tries` is the
    /// number of random orders.
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

    /// Binds the first pod of the order that can be bound, repeatedly. Returns the pods that are
    /// left.
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

    /// Returns true if the pod could not be bound after all others.
    pub(super) fn cannot_be_bound_last(&self, mover: usize, planned: &PodTargets, places: &[PlacementTarget]) -> bool {
        let others: PodTargets =
            planned.iter().enumerate().map(|(other, place)| place.filter(|_| other != mover)).collect();
        planned[mover].is_some_and(|place| self.binding_violation(mover, place, &others, places).is_some())
    }

    /// Returns the number of spreads of urgent pods that count this pod in the domain of their own
    /// target.
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

    /// Returns the spreads of pods that are not bound yet: the index of each, with the domains that
    /// must get a pod before its other domains may.
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
            // Equivalent pods wait for the same domains.
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

    /// Returns the number of spreads that would have to wait longer if the pod were bound, less the
    /// number of spreads that it would help.
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

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
    OrderSensitive,
    /// Pods that could not be bound after all others.
    CannotBeLast,
    /// Pods that hinder the fewest waiting spreads; among them, pods that could not be bound after
    /// all others.
    LeastHindering,
}

impl Topology<'_> {
    /// Returns the pods that cannot be bound to their targets in the first order, each with the
    /// broken rule. Returns nothing if any of the tried orders binds all pods. `tries` is the
    /// number of random orders.
    pub(crate) fn unbindable_pods(
        &self,
        planned: &PodTargets,
        targets: &[PlacementTarget],
        tries: u64,
    ) -> Vec<(usize, BrokenRule)> {
        let mut order: Vec<usize> = (0..planned.len()).filter(|pod_index| planned[*pod_index].is_some()).collect();
        order.sort_by_key(|pod_index| {
            let (matters, tightest) = self.order_sensitivity(*pod_index);
            (!matters, self.is_counted_by_spread(*pod_index), tightest, !self.is_affinity_match(*pod_index))
        });
        let unbindable = self.bind_in_order(&order, planned, targets, BindOrder::OrderSensitive);
        let succeeds = |bind_order| self.bind_in_order(&order, planned, targets, bind_order).is_empty();
        if unbindable.is_empty() || succeeds(BindOrder::CannotBeLast) || succeeds(BindOrder::LeastHindering) {
            return Vec::new();
        }
        let has_order = (0..tries).any(|seed| {
            let mut order = order.clone();
            Random::new(seed).shuffle(&mut order);
            self.bind_in_order(&order, planned, targets, BindOrder::OrderSensitive).is_empty()
        });
        if has_order { Vec::new() } else { unbindable }
    }

    /// Binds the first pod of the order that can be bound, repeatedly. Returns the pods that are
    /// left.
    fn bind_in_order(
        &self,
        order: &[usize],
        planned: &PodTargets,
        targets: &[PlacementTarget],
        bind_order: BindOrder,
    ) -> Vec<(usize, BrokenRule)> {
        let mut bound: PodTargets = vec![None; planned.len()];
        let mut unbound = order.to_vec();
        let urgent: Vec<bool> = (0..planned.len())
            .map(|pod_index| match bind_order {
                BindOrder::OrderSensitive => self.order_sensitivity(pod_index).0,
                BindOrder::CannotBeLast | BindOrder::LeastHindering => {
                    self.cannot_be_bound_last(pod_index, planned, targets)
                }
            })
            .collect();
        if bind_order != BindOrder::OrderSensitive {
            unbound.sort_by_cached_key(|pod_index| self.urgent_spreads_affected(*pod_index, &urgent, planned, targets));
        }
        loop {
            let allowed = |pod_index: &usize| {
                planned[*pod_index]
                    .is_some_and(|target| self.binding_violation(*pod_index, target, &bound, targets).is_none())
            };
            let least_hindering = || {
                let waiting = self.waiting_spreads(&unbound, &bound, targets);
                let allowed = unbound.iter().enumerate().filter(|(_, pod_index)| allowed(pod_index));
                let hindrance = |pod_index: usize| {
                    (self.hindered_spreads(pod_index, planned, targets, &waiting), !urgent[pod_index])
                };
                allowed.min_by_key(|(_, pod_index)| hindrance(**pod_index)).map(|(at, _)| at)
            };
            let next_urgent = || unbound.iter().position(|pod_index| urgent[*pod_index] && allowed(pod_index));
            let next = match bind_order {
                BindOrder::OrderSensitive | BindOrder::CannotBeLast => next_urgent().or_else(least_hindering),
                BindOrder::LeastHindering => least_hindering(),
            };
            let Some(next) = next else { break };
            let pod_index = unbound.remove(next);
            bound[pod_index] = planned[pod_index];
        }
        let violation_of = |pod_index: usize| {
            let target = planned[pod_index]?;
            Some((pod_index, self.binding_violation(pod_index, target, &bound, targets)?))
        };
        unbound.into_iter().filter_map(violation_of).collect()
    }

    /// Returns true if the pod could not be bound after all others.
    pub(super) fn cannot_be_bound_last(
        &self,
        pod_index: usize,
        planned: &PodTargets,
        targets: &[PlacementTarget],
    ) -> bool {
        let others: PodTargets =
            planned.iter().enumerate().map(|(other, target)| target.filter(|_| other != pod_index)).collect();
        planned[pod_index].is_some_and(|target| self.binding_violation(pod_index, target, &others, targets).is_some())
    }

    /// Returns the number of spreads of urgent pods that count this pod in the domain of their own
    /// target.
    fn urgent_spreads_affected(
        &self,
        pod_index: usize,
        urgent: &[bool],
        planned: &PodTargets,
        targets: &[PlacementTarget],
    ) -> usize {
        let domain =
            |pod_index: usize, key: &str| planned[pod_index].and_then(|target| targets[target].labels.get(key));
        let is_affected = |rule: &&PodRule<'_>| match rule.owner {
            RuleOwner::PodToPlace(owner) => {
                let is_spread = matches!(rule.kind, PodRuleKind::Spread(_));
                let same_domain = domain(owner, rule.key) == domain(pod_index, rule.key);
                is_spread && owner != pod_index && urgent[owner] && rule.selects_to_place[pod_index] && same_domain
            }
            RuleOwner::StayingPod(_) => false,
        };
        self.rules.iter().filter(is_affected).count()
    }

    /// Returns the spreads of pods that are not bound yet: the index of each, with the domains that
    /// must get a pod before its other domains may.
    fn waiting_spreads<'p>(
        &'p self,
        unbound: &[usize],
        bound: &PodTargets,
        targets: &'p [PlacementTarget],
    ) -> Vec<(usize, BTreeSet<&'p str>)> {
        let rules = self.rules.iter().enumerate();
        let mut seen: Vec<(&str, &Vec<bool>)> = Vec::new();
        let waiting = rules.filter_map(|(index, rule)| {
            let (PodRuleKind::Spread(spread), RuleOwner::PodToPlace(owner)) = (&rule.kind, rule.owner) else {
                return None;
            };
            // Equivalent pods wait for the same domains.
            (unbound.contains(&owner) && !seen.contains(&(rule.key, &rule.selects_to_place))).then_some(())?;
            seen.push((rule.key, &rule.selects_to_place));
            let pod = self.pods_to_place[owner];
            let mut counts = self.spread_counts(rule, spread, TaintPolicy::HonourAll, pod, bound, targets);
            counts.retain(|domain, _| accepts_domain(pod, None, rule.key, domain));
            let minimum = counts.values().min().copied()?;
            Some((index, counts.into_iter().filter(|(_, count)| *count == minimum).map(|(domain, _)| domain).collect()))
        });
        waiting.collect()
    }

    /// Returns the number of spreads that would have to wait longer if the pod were bound, less the
    /// number of spreads that it would help.
    fn hindered_spreads(
        &self,
        pod_index: usize,
        planned: &PodTargets,
        targets: &[PlacementTarget],
        waiting: &[(usize, BTreeSet<&str>)],
    ) -> i64 {
        let Some(target) = planned[pod_index].map(|target| &targets[target]) else { return 0 };
        let effect = |(index, minimum_domains): &(usize, BTreeSet<&str>)| {
            let rule = &self.rules[*index];
            match target.labels.get(rule.key).filter(|_| rule.selects_to_place[pod_index]) {
                Some(domain) if minimum_domains.contains(domain.as_str()) => -1,
                Some(_) => 1,
                None => 0,
            }
        };
        waiting.iter().map(effect).sum()
    }
}

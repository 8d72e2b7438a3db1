//! Checks that a cluster with constant demand becomes steady: pods of unchanged workloads are not
//! evicted unless that saves much (spec 03 §16 rule 24), and the nodes cost little more than the
//! best plan for the same pods.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use kerf_api::slim::{Pod, Str};

use super::report::{CostComparison, SteadyReport};

/// Time between two decisions up to which they belong to one wave.
const WAVE_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// Largest number of waves that are kept.
const MAX_WAVES: usize = 64;
/// Settled pods may move if that saves this many times the price of the capacity that they use.
const MIN_SAVINGS_RATIO: u64 = 2;
/// Settled pods may move if that saves this part of the price of all nodes.
const MIN_SAVINGS_DIVISOR: u64 = 40;

/// Claims that were chosen for consolidation at about the same time. All prices are in millionths
/// of a dollar per hour.
#[derive(Debug, Default)]
struct Wave {
    last_decision_at: Timestamp,
    claims: BTreeSet<String>,
    /// Price of the nodes of all these claims.
    price: u64,
    /// Price of the capacity that their settled pods use.
    moved_price: u64,
    /// Price of all nodes of the cluster at the first decision.
    cluster_price: u64,
}

/// A decision to consolidate a claim, with prices in millionths of a dollar per hour.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConsolidationDecision<'c> {
    pub(super) claim: &'c str,
    /// Price of the claim's node.
    pub(super) price: u64,
    /// Price of the capacity that the settled pods of the node use.
    pub(super) moved_price: u64,
    /// Price of all nodes of the cluster.
    pub(super) cluster_price: u64,
}

/// Evictions and cost comparisons of a cluster that has to be steady.
#[derive(Debug, Default)]
pub(super) struct SteadyCheck {
    /// Age from which a workload counts as unchanged, so that its pods must not be evicted. `None`
    /// until the scenario demands a steady cluster.
    unchanged_for: Option<SignedDuration>,
    /// Creation time of the first pod of each owner, by the owner's uid. A new template has a new
    /// ReplicaSet and hence a new owner.
    owners: BTreeMap<Str, Timestamp>,
    evictions: usize,
    unchanged_evicted: usize,
    comparisons: Vec<CostComparison>,
    /// The last waves, oldest first.
    waves: VecDeque<Wave>,
}

impl SteadyCheck {
    /// Starts the check: from now on, pods of workloads that are at least this old must not be
    /// evicted.
    pub(super) fn start(&mut self, unchanged_for: SignedDuration) {
        self.unchanged_for = Some(unchanged_for);
    }

    /// Moves the ages of all workloads, because the wall clock has jumped.
    pub(super) fn shift(&mut self, by: SignedDuration) {
        for since in self.owners.values_mut() {
            *since = since.saturating_add(by).unwrap_or(Timestamp::MAX);
        }
        for wave in &mut self.waves {
            wave.last_decision_at = wave.last_decision_at.saturating_add(by).unwrap_or(Timestamp::MAX);
        }
    }

    /// Records a pod that was created.
    pub(super) fn record_pod(&mut self, pod: &Pod, now: Timestamp) {
        self.owners.entry(owner_uid(pod)).or_insert(now);
    }

    /// Records a decision to consolidate a claim.
    pub(super) fn record_decision(&mut self, decision: ConsolidationDecision<'_>, now: Timestamp) {
        let is_over = |wave: &Wave| now.duration_since(wave.last_decision_at) > WAVE_INTERVAL;
        if self.waves.back().is_none_or(is_over) {
            self.waves.push_back(Wave { cluster_price: decision.cluster_price, ..Wave::default() });
            if self.waves.len() > MAX_WAVES {
                self.waves.pop_front();
            }
        }
        let Some(wave) = self.waves.back_mut() else { return };
        wave.last_decision_at = now;
        if wave.claims.insert(decision.claim.to_owned()) {
            wave.price += decision.price;
            wave.moved_price += decision.moved_price;
        }
    }

    /// Returns true if the wave of a claim saves enough to move settled pods.
    /// `price_of_replacements` returns the price of all nodes that replace one of the given claims.
    pub(super) fn saves_enough(&self, claim: &str, price_of_replacements: impl Fn(&BTreeSet<String>) -> u64) -> bool {
        self.waves.iter().rev().find(|wave| wave.claims.contains(claim)).is_some_and(|wave| {
            let saved = wave.price.saturating_sub(price_of_replacements(&wave.claims));
            saved >= wave.moved_price.saturating_mul(MIN_SAVINGS_RATIO)
                || saved.saturating_mul(MIN_SAVINGS_DIVISOR) >= wave.cluster_price
        })
    }

    /// Records an eviction. Returns true if it is a violation: the check has started, the pod's
    /// workload is unchanged, and the eviction saves too little.
    pub(super) fn record_eviction(&mut self, pod: &Pod, saves_enough: bool, now: Timestamp) -> bool {
        let Some(unchanged_for) = self.unchanged_for else { return false };
        let since = self.owners.get(&owner_uid(pod)).copied().unwrap_or(now);
        let is_unchanged = now.duration_since(since) >= unchanged_for && !saves_enough;
        self.evictions += 1;
        self.unchanged_evicted += usize::from(is_unchanged);
        is_unchanged
    }

    /// Records a comparison of the actual cost with the best plan's cost.
    pub(super) fn add_comparison(&mut self, comparison: CostComparison) {
        self.comparisons.push(comparison);
    }

    pub(super) fn report(self) -> Option<SteadyReport> {
        self.unchanged_for?;
        let most_expensive = self.comparisons.iter().max_by_key(|comparison| comparison.permille()).copied();
        Some(SteadyReport {
            evictions: self.evictions,
            unchanged_evicted: self.unchanged_evicted,
            cost_comparisons: self.comparisons.len(),
            most_expensive,
        })
    }
}

/// Returns the uid of a pod's controller, or the pod's own uid if it has none.
fn owner_uid(pod: &Pod) -> Str {
    pod.metadata.controller().map_or_else(|| pod.metadata.uid.clone(), |owner| owner.uid.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// Returns true if a wave of two nodes of $2 and $1 with these prices of settled pods may move
    /// them, in a cluster of this price.
    fn may_move(moved_prices: [u64; 2], cluster_price: u64, replacements: u64) -> bool {
        let mut check = SteadyCheck::default();
        check.record_decision(
            ConsolidationDecision { claim: "earlier", price: 9, moved_price: 0, cluster_price },
            at(0),
        );
        for (claim, price, moved_price) in [("a", 2_000_000, moved_prices[0]), ("b", 1_000_000, moved_prices[1])] {
            check.record_decision(ConsolidationDecision { claim, price, moved_price, cluster_price }, at(60));
        }
        check.saves_enough("a", |claims| {
            assert_eq!(claims.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b"]);
            replacements
        })
    }

    // spec 03 §16 rule 24
    #[test]
    fn settled_pods_may_move_if_the_commands_of_a_pass_save_much() {
        assert!(may_move([1_000_000, 500_000], 1_000_000_000, 0), "twice the price of their capacity");
        assert!(!may_move([1_000_000, 500_001], 1_000_000_000, 0));
        assert!(!may_move([1_000_000, 500_000], 1_000_000_000, 1));
        assert!(may_move([2_000_000, 1_000_000], 120_000_000, 0), "a fortieth of the price of all nodes");
        assert!(!may_move([2_000_000, 1_000_000], 120_000_000, 1));
        assert!(!SteadyCheck::default().saves_enough("a", |_| 0), "no decision");
    }
}

//! The `Balanced` policy (spec 03 §8.8): a command is approved if its share of the pool's price is
//! at least half its share of the pool's disruption cost.
//!
//! Shares are ratios without a unit, so prices become floating-point numbers here. The only other
//! such place is the savings ratio by which candidates are sorted (`survey`).

use kerf_api::labels;
use kerf_api::nodepool::ConsolidationPolicy;
use kerf_api::slim::Str;

use super::block_reason::BALANCED_THRESHOLD;
use super::survey::{DisruptionClass, NodeFacts, Survey, price_of};
use crate::price::Price;

/// The score of a command under the `Balanced` policy of one NodePool.
#[derive(Debug, Clone, PartialEq)]
pub struct BalancedScore {
    /// Name of the NodePool.
    pub pool: Str,
    /// Savings per hour of the command in this pool. If the command has nodes of several pools, the
    /// share of this pool, rounded to a nano-dollar.
    pub saved: Price,
    /// Disruption cost of the command in this pool.
    pub disruption: f64,
    /// Price per hour of all nodes of the pool.
    pub total_price: Price,
    /// Disruption cost of all nodes of the pool.
    pub total_disruption: f64,
    /// `saved` as a share of `total_price`.
    pub saved_share: f64,
    /// `disruption` as a share of `total_disruption`.
    pub disruption_share: f64,
    /// `saved_share / disruption_share`. Infinite if the command saves money and disrupts nothing.
    pub score: f64,
}

impl BalancedScore {
    /// Minimum score at which a command is approved.
    pub const THRESHOLD: f64 = BALANCED_THRESHOLD;

    /// Returns true if the score reaches the threshold.
    pub fn is_approved(&self) -> bool {
        self.score >= Self::THRESHOLD
    }
}

/// Total price and disruption cost of each NodePool, by the pool's index in the input.
#[derive(Debug)]
pub(crate) struct Totals(Vec<Total>);

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    price: Price,
    disruption: f64,
}

impl Totals {
    pub(crate) fn new(survey: &Survey<'_>) -> Self {
        let mut all = vec![Total::default(); survey.input.pools.len()];
        let mut candidate_prices = vec![Price::ZERO; all.len()];
        for facts in &survey.nodes {
            let Some(pool) = facts.pool else { continue };
            let is_candidate = facts.is_candidate(DisruptionClass::Graceful);
            all[pool].disruption += if is_candidate { facts.disruption_cost } else { facts.non_daemon_cost };
            if is_candidate {
                candidate_prices[pool] += facts.known_price();
            }
            all[pool].price += claim_price(survey, facts, pool).unwrap_or(Price::ZERO);
        }
        for (total, candidates) in all.iter_mut().zip(candidate_prices) {
            if total.price <= Price::ZERO {
                total.price = candidates;
            }
        }
        Self(all)
    }

    /// Returns the score of a command for one pool: its share of the savings divided by its share
    /// of the disruption. `saved` is in nano-dollars per hour.
    fn score(&self, pool: usize, saved: f64, disruption: f64) -> f64 {
        let (saved, disrupted) = self.shares(pool, saved, disruption);
        if saved <= 0.0 {
            0.0
        } else if disrupted == 0.0 {
            f64::INFINITY
        } else {
            saved / disrupted
        }
    }

    /// Returns the shares of the pool's price and disruption cost. Both are zero if the pool has no
    /// price or no disruption cost.
    fn shares(&self, pool: usize, saved: f64, disruption: f64) -> (f64, f64) {
        let total = self.0[pool];
        if total.price <= Price::ZERO || total.disruption <= 0.0 {
            return (0.0, 0.0);
        }
        (saved / total.price.nano_dollars(), disruption / total.disruption)
    }

    /// Returns the scores of a command, one for each of its pools with the `Balanced` policy.
    pub(crate) fn scores(&self, survey: &Survey<'_>, batch: &[&NodeFacts<'_>], saved: Price) -> Vec<BalancedScore> {
        let mut pools: Vec<usize> = batch.iter().filter_map(|f| f.pool).collect();
        pools.sort_unstable();
        pools.dedup();
        let batch_price: Price = batch.iter().map(|f| f.known_price()).sum();
        let score_of = |pool: usize| {
            let pool_nodes = || batch.iter().filter(|f| f.pool == Some(pool));
            let price: Price = pool_nodes().map(|f| f.known_price()).sum();
            let disruption: f64 = pool_nodes().map(|f| f.disruption_cost).sum();
            let share = if pools.len() == 1 || batch_price == Price::ZERO {
                saved.nano_dollars()
            } else {
                saved.nano_dollars() * (price.nano_dollars() / batch_price.nano_dollars())
            };
            let (saved_share, disruption_share) = self.shares(pool, share, disruption);
            BalancedScore {
                pool: survey.input.pools[pool].name.clone(),
                saved: if pools.len() == 1 { saved } else { Price::from_nanos(share.round() as i64) },
                disruption,
                total_price: self.0[pool].price,
                total_disruption: self.0[pool].disruption,
                saved_share,
                disruption_share,
                score: self.score(pool, share, disruption),
            }
        };
        pools.iter().copied().filter(|pool| is_balanced(survey, *pool)).map(score_of).collect()
    }

    /// Returns the score of deleting the node if even that is rejected. Then no simulation is
    /// needed, because a replacement would score lower.
    pub(crate) fn rejected_deletion_score(&self, survey: &Survey<'_>, facts: &NodeFacts<'_>) -> Option<f64> {
        let pool = facts.pool.filter(|p| is_balanced(survey, *p) && self.0[*p].price > Price::ZERO)?;
        let score = self.score(pool, facts.known_price().nano_dollars(), facts.disruption_cost);
        (score < BALANCED_THRESHOLD).then_some(score)
    }
}

fn is_balanced(survey: &Survey<'_>, pool: usize) -> bool {
    survey.input.pools[pool].disruption.policy == ConsolidationPolicy::Balanced
}

/// Returns the price of the offering that the claim's labels name, as in the cluster cost of spec
/// 03 §3.3. Returns `None` until the claim has all the labels.
fn claim_price(survey: &Survey<'_>, facts: &NodeFacts<'_>, pool: usize) -> Option<Price> {
    let claim_labels = &facts.claim?.labels;
    let instance_type = survey.type_of(pool, claim_labels.get(labels::INSTANCE_TYPE)?)?;
    price_of(&instance_type, claim_labels.get(labels::ZONE)?, claim_labels.get(labels::CAPACITY_TYPE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(total: f64, saved: f64, disruption: f64) -> f64 {
        let nanos = |dollars: f64| (dollars * 1e9).round();
        let totals = Totals(vec![Total { price: Price::from_nanos(nanos(total) as i64), disruption: 90.0 }]);
        totals.score(0, nanos(saved), disruption)
    }

    #[test]
    fn scores_match_the_examples_of_the_spec() {
        assert!((score(58.08, 7.26, 4.0) - 2.8125).abs() < 1e-9);
        assert!((score(58.08, 4.84, 5.0) - 1.5).abs() < 1e-9);
        // spec 03 #106
        assert!((score(58.08, 2.42, 9.0) - 0.416_666_666).abs() < 1e-6);
        assert!(score(48.40, 2.42, 9.0) >= BALANCED_THRESHOLD, "{}", score(48.40, 2.42, 9.0));
    }

    // spec 03 #108
    #[test]
    fn the_score_is_zero_without_savings_or_price_and_infinite_without_disruption() {
        let is_zero = |score: f64| score.abs() < f64::EPSILON;
        assert!(is_zero(score(58.08, 0.0, 11.0)));
        assert!(is_zero(score(58.08, -1.0, 1.0)));
        assert!(is_zero(score(0.0, 1.0, 1.0)));
        assert!(score(58.08, 0.01, 0.0).is_infinite());
    }
}

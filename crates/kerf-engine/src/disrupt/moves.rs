//! Moves that Karpenter cannot see: nodes whose pods fit on two or three machines that are cheaper together, or on one that only a
//! search finds. They are looked for when every other method has found nothing, so whatever they save comes on top.
//!
//! The search is bounded: lists of nodes are tried in a fixed order, the most profitable nodes first, all together, pool by pool, and the
//! dearest ones alone, until so many pods have been placed. The best find wins. A move obeys the same budgets, price rules and
//! policies as consolidation, and must save at least a twentieth of what its nodes cost, because more than one machine has to
//! come up for it.

use kerf_api::nodepool::DisruptionReason;

use super::balanced::Totals;
use super::block_reason::BlockReason;
use super::command::{DisruptionCommand, Method};
use super::consolidation::{candidates, check_balanced};
use super::emptiness::select_within_budgets;
use super::pass::{DisruptionPass, SurveyIx};
use super::replacement::ReplacementFilter;
use super::survey::NodeFacts;
use crate::price::Price;
use crate::solve::PlannedClaim;

/// The most machines that one move launches.
pub(crate) const MAX_REPLACEMENTS: usize = 3;
/// How many nodes are tried together.
const BATCH_SIZES: [usize; 8] = [2, 3, 4, 6, 8, 12, 16, 24];
/// How many nodes are tried alone.
const MAX_SINGLE_NODES: usize = 48;
/// About how many pods are looked at in all.
const MAX_PODS_SIMULATED: usize = 4_000;

/// The best move, if there is one.
pub(crate) fn commands(pass: &mut DisruptionPass<'_, '_>) -> Vec<DisruptionCommand> {
    if !pass.settings.allows_moves {
        return Vec::new();
    }
    let candidates = candidates(pass);
    let kept = select_within_budgets(pass, &candidates, &DisruptionReason::Underutilized);
    let totals = Totals::new(pass.survey);
    let mut best: Option<DisruptionCommand> = None;
    let mut pods_left = MAX_PODS_SIMULATED;
    for batch in batches(pass, &kept) {
        let pods: usize = batch.iter().map(|ix| pass.facts(*ix).reschedulable.len()).sum();
        let Some(left) = pods_left.checked_sub(pods) else { break };
        pods_left = left;
        let found = compute(pass, &batch).and_then(|command| check_balanced(pass, &batch, &totals, command));
        if let Ok(command) = found
            && best.as_ref().is_none_or(|b| command.saved() > b.saved())
        {
            best = Some(command);
        }
    }
    best.into_iter().collect()
}

/// The lists of nodes to try, the most promising first, each once.
fn batches(pass: &DisruptionPass<'_, '_>, kept: &[SurveyIx]) -> Vec<Vec<SurveyIx>> {
    let mut orders: Vec<Vec<SurveyIx>> = vec![kept.to_vec()];
    for pool in 0..pass.survey.input.pools.len() {
        let of_pool: Vec<SurveyIx> = kept.iter().copied().filter(|ix| pass.facts(*ix).pool == Some(pool)).collect();
        if of_pool.len() < kept.len() {
            orders.push(of_pool);
        }
    }
    let mut all: Vec<Vec<SurveyIx>> = Vec::new();
    for size in BATCH_SIZES {
        all.extend(orders.iter().filter(|order| order.len() >= size).map(|order| order[..size].to_vec()));
    }
    let mut dearest = kept.to_vec();
    dearest.sort_by_key(|ix| std::cmp::Reverse(pass.facts(*ix).known_price()));
    all.extend(dearest.into_iter().take(MAX_SINGLE_NODES).map(|ix| vec![ix]));
    all
}

/// What it takes to let these nodes go for a few cheaper machines.
pub(crate) fn compute(pass: &mut DisruptionPass<'_, '_>, batch: &[SurveyIx]) -> Result<DisruptionCommand, BlockReason> {
    let facts: Vec<&NodeFacts<'_>> = batch.iter().map(|ix| pass.facts(*ix)).collect();
    let most = max_replacement_price(facts.iter().map(|f| f.known_price()).sum());
    let what_if = pass.simulate_cheapest_removal(batch, most).ok_or(BlockReason::NoCheaperReplacement)?;
    if !what_if.all_scheduled() {
        return Err(BlockReason::PodsUnschedulable(super::block_reason::capitalize_first(&what_if.to_string())));
    }
    if what_if.claims.len() > MAX_REPLACEMENTS {
        return Err(BlockReason::TooManyReplacements(what_if.claims.len()));
    }
    // A type that goes may come back, but fewer times: four nodes whose small pods keep large ones out become three of their kind.
    let type_of = |facts: &NodeFacts<'_>| facts.instance_type.map(|described| described.name.clone());
    let times = |this: &NodeFacts<'_>| facts.iter().filter(|other| type_of(other) == type_of(this)).count();
    let machines = what_if.claims.len();
    let scarce: Vec<&NodeFacts<'_>> = facts.iter().copied().filter(|facts| times(facts) <= machines).collect();
    let mut replacements = Vec::with_capacity(machines);
    for (claim, most) in what_if.claims.iter().zip(price_limits(&what_if.claims, most)?) {
        let mut replacement = ReplacementFilter::new(pass.survey, claim);
        replacement.keep_cheaper_than(most, &facts, pass.settings.allows_spot_to_spot)?;
        if batch.len() > 1 {
            replacement.filter_out_same_types(&scarce)?;
        }
        replacements.push(replacement.into_claim());
    }
    Ok(pass.build_command(Method::Move, batch, replacements, Some(what_if)))
}

/// What machines may cost at most instead of nodes of this price.
pub(crate) fn max_replacement_price(price: Price) -> Price {
    Price::from_nanos(price.nanos() - price.nanos() / 20)
}

/// What each machine may cost, so that they cost less than `most` together: in proportion to their cheapest launches.
fn price_limits(claims: &[PlannedClaim], most: Price) -> Result<Vec<Price>, BlockReason> {
    let cheapest = |claim: &PlannedClaim| claim.launch.estimate.as_ref().map(|e| i128::from(e.price.nanos()));
    let prices: Vec<i128> =
        claims.iter().map(cheapest).collect::<Option<_>>().ok_or(BlockReason::NoCheaperReplacement)?;
    let total: i128 = prices.iter().sum();
    if total <= 0 && !claims.is_empty() {
        return Err(BlockReason::NoCheaperReplacement);
    }
    let share = |price: &i128| i64::try_from(price * i128::from(most.nanos()) / total).unwrap_or(i64::MAX);
    Ok(prices.iter().map(|price| Price::from_nanos(share(price))).collect())
}

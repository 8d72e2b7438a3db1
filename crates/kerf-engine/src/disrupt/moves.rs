//! Moves: replace nodes by two or three nodes that are cheaper together, or by one that only a
//! search finds. Karpenter has no such method.
//!
//! Moves run only if every other method found nothing, so their savings come on top. A move keeps
//! the budgets, price rules and policies of consolidation. It must save at least 1/20 of the price
//! of its nodes, because more than one node has to be launched for it.
//!
//! The search is bounded. It tries lists of candidates in a fixed order (most profitable nodes of
//! all pools, then of each pool, then the most expensive nodes one by one) until about
//! [`MAX_PODS_SIMULATED`] pods have been placed. The command that saves most wins.

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

/// Maximum number of nodes that one move launches.
pub(crate) const MAX_REPLACEMENTS: usize = 3;
/// Numbers of nodes that are tried together.
const BATCH_SIZES: [usize; 8] = [2, 3, 4, 6, 8, 12, 16, 24];
/// Maximum number of nodes that are tried one by one.
const MAX_SINGLE_NODES: usize = 48;
/// Approximate limit on the number of pods placed in all simulations together.
const MAX_PODS_SIMULATED: usize = 4_000;

/// Returns the move that saves most, or nothing.
pub(crate) fn commands(pass: &mut DisruptionPass<'_, '_>) -> Vec<DisruptionCommand> {
    if !pass.settings.allows_moves {
        return Vec::new();
    }
    let candidates = candidates(pass);
    let within_budget = select_within_budgets(pass, &candidates, &DisruptionReason::Underutilized);
    let totals = Totals::new(pass.survey);
    let mut best: Option<DisruptionCommand> = None;
    let mut pods_left = MAX_PODS_SIMULATED;
    for batch in batches(pass, &within_budget) {
        let pods: usize = batch.iter().map(|ix| pass.facts(*ix).reschedulable.len()).sum();
        let Some(remaining) = pods_left.checked_sub(pods) else { break };
        pods_left = remaining;
        let result = compute(pass, &batch).and_then(|command| check_balanced(pass, &batch, &totals, command));
        if let Ok(command) = result
            && best.as_ref().is_none_or(|b| command.saved() > b.saved())
        {
            best = Some(command);
        }
    }
    best.into_iter().collect()
}

/// Returns the lists of nodes to try, most promising first.
fn batches(pass: &DisruptionPass<'_, '_>, within_budget: &[SurveyIx]) -> Vec<Vec<SurveyIx>> {
    let mut orders: Vec<Vec<SurveyIx>> = vec![within_budget.to_vec()];
    for pool in 0..pass.survey.input.pools.len() {
        let of_pool: Vec<SurveyIx> =
            within_budget.iter().copied().filter(|ix| pass.facts(*ix).pool == Some(pool)).collect();
        if of_pool.len() < within_budget.len() {
            orders.push(of_pool);
        }
    }
    let mut all: Vec<Vec<SurveyIx>> = Vec::new();
    for size in BATCH_SIZES {
        all.extend(orders.iter().filter(|order| order.len() >= size).map(|order| order[..size].to_vec()));
    }
    let mut by_price = within_budget.to_vec();
    by_price.sort_by_key(|ix| std::cmp::Reverse(pass.facts(*ix).known_price()));
    all.extend(by_price.into_iter().take(MAX_SINGLE_NODES).map(|ix| vec![ix]));
    all
}

/// Computes the command that replaces these nodes by up to three cheaper ones, or why it is not
/// possible.
pub(crate) fn compute(pass: &mut DisruptionPass<'_, '_>, batch: &[SurveyIx]) -> Result<DisruptionCommand, BlockReason> {
    let facts: Vec<&NodeFacts<'_>> = batch.iter().map(|ix| pass.facts(*ix)).collect();
    let max_price = max_replacement_price(facts.iter().map(|f| f.known_price()).sum());
    let simulation = pass.simulate_cheapest_removal(batch, max_price).ok_or(BlockReason::NoCheaperReplacement)?;
    if !simulation.all_scheduled() {
        return Err(BlockReason::PodsUnschedulable(super::block_reason::capitalize_first(&simulation.to_string())));
    }
    if simulation.claims.len() > MAX_REPLACEMENTS {
        return Err(BlockReason::TooManyReplacements(simulation.claims.len()));
    }
    // A removed instance type may be launched again, but fewer times than it is removed. For
    // example, four nodes whose small pods keep large ones out become three nodes of that type.
    let type_of = |facts: &NodeFacts<'_>| facts.instance_type.map(|instance_type| instance_type.name.clone());
    let count_of_type = |this: &NodeFacts<'_>| facts.iter().filter(|other| type_of(other) == type_of(this)).count();
    let launched = simulation.claims.len();
    let unrepeatable: Vec<&NodeFacts<'_>> =
        facts.iter().copied().filter(|facts| count_of_type(facts) <= launched).collect();
    let mut replacements = Vec::with_capacity(launched);
    for (claim, max_price) in simulation.claims.iter().zip(price_limits(&simulation.claims, max_price)?) {
        let mut replacement = ReplacementFilter::new(pass.survey, claim);
        replacement.keep_cheaper_than(max_price, &facts, pass.settings.allows_spot_to_spot)?;
        if batch.len() > 1 {
            replacement.filter_out_same_types(&unrepeatable)?;
        }
        replacements.push(replacement.into_claim());
    }
    Ok(pass.build_command(Method::Move, batch, replacements, Some(simulation)))
}

/// Returns the maximum price of all replacements for nodes of this price: 19/20 of it.
pub(crate) fn max_replacement_price(price: Price) -> Price {
    price - price.divided_by(20)
}

/// Divides `max_price` among the claims in proportion to their cheapest launches. The result is the
/// maximum price of each replacement.
fn price_limits(claims: &[PlannedClaim], max_price: Price) -> Result<Vec<Price>, BlockReason> {
    let cheapest = |claim: &PlannedClaim| claim.launch.estimate.as_ref().map(|e| e.price);
    let prices: Vec<Price> =
        claims.iter().map(cheapest).collect::<Option<_>>().ok_or(BlockReason::NoCheaperReplacement)?;
    let total: Price = prices.iter().copied().sum();
    let limit = |price: &Price| max_price.share(price.units(), total.units());
    prices.iter().map(limit).collect::<Option<_>>().ok_or(BlockReason::NoCheaperReplacement)
}

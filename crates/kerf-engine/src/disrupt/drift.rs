//! Drift (spec 03 §8.3): replaces nodes that no longer match their NodePool or NodeClass, whatever
//! that costs. Empty nodes come first, then those that have been drifted the longest.
//!
//! Pods of drifted nodes are not moved to other drifted nodes if there is another way. They would
//! have to move again, and the node that receives them would have to wait for them.

use kerf_api::nodepool::DisruptionReason;

use super::block_reason::{BlockReason, capitalize_first};
use super::command::{DisruptionCommand, Method};
use super::independent_commands::IndependentCommands;
use super::pass::{DisruptionPass, SurveyIx};
use super::simulate::{Purpose, SimulationResult};
use super::survey::{DisruptionClass, NodeFacts};
use crate::bits::Bits;

pub(crate) fn commands(pass: &mut DisruptionPass<'_, '_>) -> Vec<DisruptionCommand> {
    let input = pass.survey.input;
    let mut candidates = pass.candidates(DisruptionClass::Eventual, |f| f.drift.is_some() && !f.is_static(input));
    candidates.sort_by_key(|ix| {
        let facts = pass.facts(*ix);
        (!facts.reschedulable.is_empty(), drifted_at(facts, input.at), &facts.name)
    });
    let mut commands = IndependentCommands::new(pass);
    // Building the simulator is expensive. Skip it if the budgets allow no node at all.
    let is_within_budget = |ix: &SurveyIx| pass.is_within_budget(&commands.budgets, *ix, &DisruptionReason::Drifted);
    let mut drifted_nodes =
        if candidates.iter().any(is_within_budget) { pass.simulator_nodes(&candidates) } else { Bits::new() };
    for ix in candidates {
        if !commands.accepts_more() {
            break;
        }
        if commands.uses_node(pass, ix) {
            continue;
        }
        match drift_command(pass, ix, &commands, &drifted_nodes) {
            Ok(command) => commands.add_if_independent(pass, ix, command),
            Err(block) => {
                // A node that only waits for its budget will be removed, too.
                if !matches!(block, BlockReason::DisruptionBudget(_) | BlockReason::DriftSurge) {
                    drifted_nodes.and_not_with(&pass.simulator_nodes(&[ix]));
                }
                pass.record_block(ix, block);
            }
        }
    }
    commands.into_commands()
}

fn drift_command(
    pass: &mut DisruptionPass<'_, '_>,
    ix: SurveyIx,
    commands: &IndependentCommands,
    drifted_nodes: &Bits,
) -> Result<DisruptionCommand, BlockReason> {
    let input = pass.survey.input;
    let reason = DisruptionReason::Drifted;
    let pool = pass.facts(ix).pool.filter(|pool| commands.budgets.remaining(*pool, &reason) > 0);
    let Some(pool) = pool else { return Err(BlockReason::DisruptionBudget(reason)) };
    if let Some(until) = input.pools[pool].disruption.drift_backoff_until.filter(|until| input.at < *until) {
        return Err(BlockReason::DriftBackoff { until });
    }
    // Simulations are expensive, so a node whose pods might fit on others waits as well.
    if commands.budgets.remaining_surge(pool) == 0 && !pass.facts(ix).reschedulable.is_empty() {
        return Err(BlockReason::DriftSurge);
    }
    let avoiding_drifted = pass.simulate_removal_avoiding(ix, drifted_nodes).filter(SimulationResult::all_scheduled);
    let simulation =
        avoiding_drifted.or_else(|| pass.simulate_removal(&[ix], Purpose::Drift)).ok_or(BlockReason::NoNode)?;
    if !simulation.all_scheduled() {
        return Err(BlockReason::PodsUnschedulable(capitalize_first(&simulation.to_string())));
    }
    let replacements = simulation.claims.clone();
    Ok(pass.build_command(Method::Drift, &[ix], replacements, Some(simulation)))
}

/// Returns the time since when the claim has drifted, or `now` if no controller has recorded it
/// yet.
pub(crate) fn drifted_at(facts: &NodeFacts<'_>, now: jiff::Timestamp) -> jiff::Timestamp {
    facts.claim.and_then(|c| c.lifecycle.drifted_at).unwrap_or(now)
}

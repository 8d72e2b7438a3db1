//! Emptiness (spec 03 §8.1): deletes all nodes without reschedulable pods in one command, without a
//! simulation.

use kerf_api::nodepool::DisruptionReason;

use super::block_reason::BlockReason;
use super::command::{DisruptionCommand, Method};
use super::pass::{DisruptionPass, SurveyIx, sort_by_savings_ratio};
use super::survey::{DisruptionClass, NodeFacts};
use crate::cluster::Input;

/// Returns true if emptiness accepts the candidate.
pub(crate) fn accepts(facts: &NodeFacts<'_>, input: &Input) -> bool {
    facts.is_empty() && facts.emptiness_blocks(input).is_empty()
}

pub(crate) fn commands(pass: &mut DisruptionPass<'_, '_>) -> Vec<DisruptionCommand> {
    let input = pass.survey.input;
    let mut candidates = pass.candidates(DisruptionClass::Graceful, |facts| accepts(facts, input));
    sort_by_savings_ratio(pass, &mut candidates);
    let selected = select_within_budgets(pass, &candidates, &DisruptionReason::Empty);
    if selected.is_empty() {
        Vec::new()
    } else {
        vec![pass.build_command(Method::Emptiness, &selected, Vec::new(), None)]
    }
}

/// Returns the candidates, in order, that the budgets of their pools allow to remove together.
/// Records a block reason for each of the others.
pub(crate) fn select_within_budgets(
    pass: &mut DisruptionPass<'_, '_>,
    candidates: &[SurveyIx],
    reason: &DisruptionReason,
) -> Vec<SurveyIx> {
    let mut budgets = pass.budgets.clone();
    let mut selected = Vec::new();
    for ix in candidates.iter().copied() {
        if pass.is_within_budget(&budgets, ix, reason) {
            pass.charge_budget(&mut budgets, ix);
            selected.push(ix);
        } else {
            pass.record_block(ix, BlockReason::DisruptionBudget(reason.clone()));
        }
    }
    selected
}

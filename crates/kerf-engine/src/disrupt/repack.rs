//! Repacking: a search for one command that saves more than a large wave.
//!
//! A wave is a sum of commands that each save money by themselves. They are found one after
//! another, and each uses free capacity that a later one might have used better. Removing one of
//! several nodes that are full, but with a bad mix of pods, saves nothing. Removing some of them
//! together may.
//!
//! The search starts from the wave. It removes further nodes that would have much unused capacity,
//! several at a time, and restores nodes whose removal does not pay. It ends when neither step
//! reduces the cost, or when about [`MAX_PODS_PLACED`] pods have been placed.
//!
//! The result is one command that keeps the budgets and price rules of moves, launches at most one
//! node, and saves more than the wave.

use kerf_api::nodepool::DisruptionReason;

use super::budgets::NodePoolBudgets;
use super::command::DisruptionCommand;
use super::consolidation::{MAX_BATCH_NODES, candidates};
use super::emptiness::select_within_budgets;
use super::input::DisruptionSettings;
use super::moves;
use super::pass::{DisruptionPass, SurveyIx};
use super::simulate::SimulationEstimate;
use super::survey::Survey;
use super::wave::{can_extend, is_large_wave};
use crate::price::Price;

/// Removing a node counts as if it cost 1/50 of the node's price.
const REMOVAL_COST_DIVISOR: i128 = 50;
/// A launched node counts for its price plus 1/divisor of it. Each value is tried in turn until the
/// search needs at most one new node. Launches are penalized because the cluster's scheduler may
/// bind pods elsewhere than planned; then nodes that were chosen for certain pods do not suit the
/// others.
const LAUNCH_PENALTY_DIVISORS: [i128; 3] = [100, 4, 1];
/// Numbers of further nodes that one step tries to remove.
const TRIED_NODE_COUNTS: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// A step tries to remove nodes whose usage is below this, in thousandths.
const MAX_USAGE_PERMILLE: i128 = 999;
/// Approximate limit on the number of pods placed in all simulations together.
const MAX_PODS_PLACED: usize = 150_000;

/// Returns a command that saves more than the wave, or `None` if the wave is not large or the
/// search finds nothing better.
pub(crate) fn find_better_command(
    survey: &Survey<'_>,
    settings: &DisruptionSettings,
    budgets: &NodePoolBudgets,
    wave: &[DisruptionCommand],
) -> Option<DisruptionCommand> {
    let size: usize = wave.iter().map(|command| command.nodes.len()).sum();
    if !settings.allows_moves || !is_large_wave(size, survey.input.nodes.len()) {
        return None;
    }
    let mut pass = DisruptionPass::new(survey, settings, budgets);
    let mut search = RepackSearch::new(&mut pass, wave)?;
    let command = LAUNCH_PENALTY_DIVISORS.into_iter().find_map(|divisor| {
        search.launch_penalty_divisor = divisor;
        search.run();
        let command = moves::compute(search.pass, &search.removed).ok();
        command.filter(|command| command.replacements.len() <= 1 && command.nodes.len() <= MAX_BATCH_NODES)
    })?;
    let saved: Price = wave.iter().map(DisruptionCommand::saved).sum();
    (can_extend(&pass, std::slice::from_ref(&command)) && command.saved() > saved).then_some(command)
}

struct RepackSearch<'p, 'a, 'i> {
    pass: &'p mut DisruptionPass<'a, 'i>,
    /// Nodes that may be removed.
    candidates: Vec<SurveyIx>,
    /// Nodes that are removed, in the survey's order.
    removed: Vec<SurveyIx>,
    estimate: SimulationEstimate,
    /// One of [`LAUNCH_PENALTY_DIVISORS`].
    launch_penalty_divisor: i128,
    pods_left: usize,
}

impl<'p, 'a, 'i> RepackSearch<'p, 'a, 'i> {
    /// Starts from the wave. Returns `None` if the wave is not possible as one command.
    fn new(pass: &'p mut DisruptionPass<'a, 'i>, wave: &[DisruptionCommand]) -> Option<Self> {
        let all = candidates(pass);
        let candidates = select_within_budgets(pass, &all, &DisruptionReason::Underutilized);
        let mut removed: Vec<SurveyIx> =
            wave.iter().flat_map(|command| &command.nodes).filter_map(|node| pass.survey.find(&node.name)).collect();
        removed.sort_unstable();
        let estimate = pass.estimate_removal(&removed)?;
        let is_allowed = removed.iter().all(|ix| candidates.contains(ix));
        is_allowed.then_some(Self {
            pass,
            candidates,
            removed,
            estimate,
            launch_penalty_divisor: LAUNCH_PENALTY_DIVISORS[0],
            pods_left: MAX_PODS_PLACED,
        })
    }

    fn run(&mut self) {
        while self.remove_more() | self.restore_nodes() {}
    }

    /// Removes the nodes with the lowest estimated usage, in the number that reduces the cost most.
    /// Returns true if that reduces the cost.
    fn remove_more(&mut self) -> bool {
        let mut by_usage: Vec<(i128, SurveyIx)> = Vec::new();
        for ix in self.candidates.iter().copied().filter(|ix| self.removed.binary_search(ix).is_err()) {
            let usage = self.pass.estimated_usage_permille(&self.estimate, ix);
            by_usage.extend(usage.filter(|usage| *usage < MAX_USAGE_PERMILLE).map(|usage| (usage, ix)));
        }
        by_usage.sort_unstable();
        let lists = TRIED_NODE_COUNTS.iter().filter_map(|count| by_usage.get(..*count));
        let batches: Vec<Vec<SurveyIx>> = lists
            .map(|additional| {
                let mut all: Vec<SurveyIx> =
                    additional.iter().map(|(_, ix)| *ix).chain(self.removed.iter().copied()).collect();
                all.sort_unstable();
                all
            })
            .collect();
        let mut best = (self.cost(&self.removed, &self.estimate), None);
        for removed in batches {
            let Some(estimate) = self.estimate_removal(&removed) else { continue };
            let cost = self.cost(&removed, &estimate);
            if cost < best.0 {
                best = (cost, Some((removed, estimate)));
            }
        }
        let Some((removed, estimate)) = best.1 else { return false };
        (self.removed, self.estimate) = (removed, estimate);
        true
    }

    /// Restores nodes one by one, those with the highest usage first, if that does not increase the
    /// cost. Returns true if the cost has decreased.
    fn restore_nodes(&mut self) -> bool {
        let mut by_usage = self.pass.emptiest_first(&self.removed);
        by_usage.reverse();
        let mut cost = self.cost(&self.removed, &self.estimate);
        let mut has_changed = false;
        for ix in by_usage {
            let remaining: Vec<SurveyIx> = self.removed.iter().copied().filter(|other| *other != ix).collect();
            let Some(estimate) = self.estimate_removal(&remaining) else { continue };
            let new_cost = self.cost(&remaining, &estimate);
            if new_cost <= cost {
                has_changed |= new_cost < cost;
                (self.removed, self.estimate, cost) = (remaining, estimate, new_cost);
            }
        }
        has_changed
    }

    fn estimate_removal(&mut self, removed: &[SurveyIx]) -> Option<SimulationEstimate> {
        let pods: usize = removed.iter().map(|ix| self.pass.facts(*ix).reschedulable.len()).sum();
        self.pods_left = self.pods_left.checked_sub(pods)?;
        self.pass.estimate_removal(removed)
    }

    /// Returns the cost of the plan in the unit of prices: price of the launched nodes minus
    /// price of the removed nodes, plus the penalties for launches and removals.
    fn cost(&self, removed: &[SurveyIx], estimate: &SimulationEstimate) -> i128 {
        let nodes: Price = removed.iter().map(|ix| self.pass.facts(*ix).known_price()).sum();
        let (launched, nodes) = (estimate.price.units(), nodes.units());
        launched + launched / self.launch_penalty_divisor - nodes + nodes / REMOVAL_COST_DIVISOR
    }
}

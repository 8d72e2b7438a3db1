//! A [`DisruptionPlan`] while passes still add commands to it: the nodes and budgets at the start,
//! the commands so far, and what the budgets allow after them.

use kerf_api::slim::Str;
use rustc_hash::FxHashSet;

use super::block_reason::BlockReason;
use super::budgets::NodePoolBudgets;
use super::command::{BlockedNode, DisruptionCommand, DisruptionPlan};
use super::input::DisruptionSettings;
use super::merge_commands;
use super::pass::{PassReport, PlannedNodes};
use super::survey::{DisruptionClass, NodeFacts, Survey};
use crate::cluster::Input;
use crate::price::Price;

/// A plan under construction.
#[derive(Debug)]
pub(crate) struct PlanBuilder {
    pub(crate) budgets: NodePoolBudgets,
    pub(crate) planned: PlannedNodes,
    /// The budgets before the first command.
    initial_budgets: NodePoolBudgets,
    plan: DisruptionPlan,
    /// Names of all nodes at the start.
    initial_nodes: FxHashSet<Str>,
    /// Nodes that some method could have removed and for which there is no command or block reason
    /// yet.
    unevaluated: FxHashSet<Str>,
}

impl PlanBuilder {
    /// Starts a plan without commands.
    pub(crate) fn new(survey: &Survey<'_>) -> Self {
        let mut plan = DisruptionPlan { warnings: survey.warnings.clone(), ..DisruptionPlan::default() };
        plan.price_before = survey.nodes.iter().filter(|f| f.claim.is_some()).map(NodeFacts::known_price).sum();
        let budgets = NodePoolBudgets::new(survey, &mut plan.warnings);
        let candidates = survey.nodes.iter().filter(|facts| {
            facts.is_candidate(DisruptionClass::Graceful)
                || (facts.drift.is_some() && facts.is_candidate(DisruptionClass::Eventual))
        });
        let unevaluated: FxHashSet<Str> = candidates.map(|facts| facts.name.clone()).collect();
        plan.stats.candidates = unevaluated.len();
        let initial_nodes = survey.nodes.iter().map(|f| f.name.clone()).collect();
        Self {
            initial_budgets: budgets.clone(),
            budgets,
            planned: PlannedNodes::default(),
            plan,
            initial_nodes,
            unevaluated,
        }
    }

    /// Adds a pass to the counters.
    pub(crate) fn count_pass(&mut self, report: &PassReport) {
        self.plan.stats.passes += 1;
        self.plan.stats.simulations += report.simulations;
    }

    /// Adds the commands of a pass and returns those that are part of the plan.
    ///
    /// A command that removes nodes which the plan itself launches is merged with the commands that
    /// launch them. If that is impossible, the command is dropped, and later passes must not remove
    /// these nodes.
    pub(crate) fn add_commands(
        &mut self,
        input: &Input,
        settings: &DisruptionSettings,
        commands: Vec<DisruptionCommand>,
    ) -> Vec<DisruptionCommand> {
        let mut added = Vec::with_capacity(commands.len());
        for command in commands {
            let names = || command.nodes.iter().map(|node| &node.name);
            if names().any(|name| self.planned.launched.contains(name)) {
                let Some(merged) = merge_commands::merge_into_earlier(
                    input,
                    settings,
                    &self.initial_budgets,
                    &self.plan.commands,
                    &command,
                ) else {
                    let excluded: Vec<Str> = names().filter(|n| self.planned.launched.contains(*n)).cloned().collect();
                    self.planned.excluded.extend(excluded);
                    continue;
                };
                self.plan.commands = merged;
            } else {
                self.plan.commands.push(command.clone());
            }
            for name in names() {
                self.plan.stats.candidates_evaluated += usize::from(self.unevaluated.remove(name));
            }
            added.push(command);
        }
        self.planned.launched = merge_commands::launched_node_names(&self.plan.commands);
        self.budgets = self.initial_budgets.clone();
        for command in &self.plan.commands {
            for node in &command.nodes {
                if let Some(pool) = input.pools.iter().position(|p| p.name == node.pool) {
                    self.budgets.charge_node(pool);
                    if command.is_drift_with_replacements() {
                        self.budgets.charge_surge(pool);
                    }
                }
            }
        }
        added
    }

    /// Returns the commands so far.
    pub(crate) fn commands(&self) -> &[DisruptionCommand] {
        &self.plan.commands
    }

    /// Replaces all commands by one.
    pub(crate) fn replace_commands(
        &mut self,
        input: &Input,
        settings: &DisruptionSettings,
        command: DisruptionCommand,
    ) {
        self.plan.commands.clear();
        self.add_commands(input, settings, vec![command]);
    }

    /// Returns true if some command of the plan removes the node.
    pub(crate) fn removes_node(&self, name: &Str) -> bool {
        self.plan.commands.iter().flat_map(|command| &command.nodes).any(|node| node.name == *name)
    }

    /// Adds the block reasons of the last pass. Of the nodes that the plan launches, only those are
    /// listed that a dropped command would have removed.
    pub(crate) fn add_blocked_nodes(&mut self, report: PassReport) {
        self.plan.rejected_commands = report.rejected;
        let mut excluded: Vec<Str> = self.planned.excluded.iter().cloned().collect();
        excluded.sort_unstable();
        for blocked in report.blocked.into_iter().filter(|blocked| self.initial_nodes.contains(&blocked.node)) {
            if self.unevaluated.remove(&blocked.node) {
                self.plan.stats.candidates_evaluated += 1;
            }
            self.plan.blocked.push(blocked);
        }
        let launched =
            excluded.into_iter().map(|node| BlockedNode { node, reasons: vec![BlockReason::LaunchedByPlan] });
        self.plan.blocked.extend(launched);
        self.plan.blocked.sort_by(|a, b| a.node.cmp(&b.node));
    }

    pub(crate) fn finish(mut self, input: &Input) -> DisruptionPlan {
        self.plan.stats.budgets = self.budgets.budget_uses(input);
        let saved: Price = self.plan.commands.iter().map(DisruptionCommand::saved).sum();
        self.plan.price_after = self.plan.price_before - saved;
        self.plan
    }
}

//! A plan while passes still add to it: what was there at the start, what has been decided since, and how much of the budgets that takes.

use kerf_api::slim::Str;
use rustc_hash::FxHashSet;

use super::budgets::Budgets;
use super::command::{Command, DisruptionPlan};
use super::pass::Said;
use super::survey::{Class, Facts, Survey};
use crate::price::Price;
use crate::world::Input;

/// A plan in the making.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) budgets: Budgets,
    plan: DisruptionPlan,
    /// All nodes that were there at the start.
    known: FxHashSet<Str>,
    /// Those that some method might have taken and on which there is no verdict yet.
    open: FxHashSet<Str>,
}

impl Draft {
    /// Begins with the world as it is.
    pub(crate) fn new(survey: &Survey<'_>) -> Self {
        let mut plan = DisruptionPlan { notices: survey.notices.clone(), ..DisruptionPlan::default() };
        plan.before = survey.nodes.iter().filter(|f| f.claim.is_some()).map(Facts::known_price).sum();
        let budgets = Budgets::new(survey, &mut plan.notices);
        let might_go = survey.nodes.iter().filter(|facts| {
            facts.is_candidate(Class::Graceful) || (facts.drift.is_some() && facts.is_candidate(Class::Eventual))
        });
        let open: FxHashSet<Str> = might_go.map(|facts| facts.name.clone()).collect();
        plan.stats.candidates = open.len();
        Self { budgets, plan, known: survey.nodes.iter().map(|f| f.name.clone()).collect(), open }
    }

    /// Adds what a pass has found.
    pub(crate) fn add(&mut self, input: &Input, found: &[Command], simulations: usize) {
        self.plan.stats.passes += 1;
        self.plan.stats.simulations += simulations;
        for node in found.iter().flat_map(|command| &command.nodes) {
            if self.open.remove(&node.name) {
                self.plan.stats.candidates_evaluated += 1;
            }
            if let Some(pool) = input.pools.iter().position(|p| p.name == node.pool) {
                self.budgets.take(pool);
            }
        }
        self.plan.commands.extend(found.iter().cloned());
    }

    /// Takes over what the last pass said of the nodes that stay. Machines that are only planned are nobody's yet.
    pub(crate) fn close(&mut self, said: Said) {
        for blocked in said.blocked.into_iter().filter(|blocked| self.known.contains(&blocked.node)) {
            if self.open.remove(&blocked.node) {
                self.plan.stats.candidates_evaluated += 1;
            }
            self.plan.blocked.push(blocked);
        }
    }

    pub(crate) fn finish(mut self, input: &Input) -> DisruptionPlan {
        self.plan.stats.budgets = self.budgets.uses(input);
        let saved: Price = self.plan.commands.iter().map(Command::saved).sum();
        self.plan.after = self.plan.before - saved;
        self.plan
    }
}

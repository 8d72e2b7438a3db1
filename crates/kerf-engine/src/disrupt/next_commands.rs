//! The entry point for a controller, which carries out the commands and then calls again.
//!
//! One pass: the first method that finds a command ends it. The result has all commands of that
//! method that are independent of each other. If the method saves money, the commands are extended
//! to a wave (`wave`) or replaced by a repack (`repack`). The caller can exclude methods whose
//! commands failed.

use jiff::{SignedDuration, Timestamp};
use kerf_api::labels;
use kerf_api::slim::Str;
use rustc_hash::FxHashMap;

use super::command::{DisruptionCommand, DisruptionPlan, Method};
use super::conditions::{Consolidatable, consolidatable};
use super::input::DisruptionSettings;
use super::pass::DisruptionPass;
use super::plan_builder::PlanBuilder;
use super::survey::Survey;
use super::{repack, wave, without_failed_launches};
use crate::cluster::{Input, PoolInput};

/// Longest remaining `consolidateAfter` of a node that is worth waiting for.
const CONSOLIDATE_AFTER_MAX_WAIT: SignedDuration = SignedDuration::from_secs(30);
/// Approximate time until a node that is being deleted no longer exists.
const NODE_DELETION_WAIT: SignedDuration = SignedDuration::from_secs(5);

/// Selects the methods that a pass tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodFilter {
    after_method: Option<Method>,
    excludes_savings: bool,
}

impl MethodFilter {
    /// All methods.
    pub const ALL: Self = Self { after_method: None, excludes_savings: false };

    /// Excludes `method` and all methods before it. Use it after the commands of `method` failed.
    #[must_use]
    pub fn after_method(self, method: Method) -> Self {
        Self { after_method: Some(method), ..self }
    }

    /// Excludes methods that save money, so that only emptiness and drift remain. An earlier
    /// [`Self::after_method`] with a method that saves money is forgotten: it says nothing about
    /// the remaining methods.
    #[must_use]
    pub fn excluding_savings(self) -> Self {
        Self { after_method: self.after_method.filter(|method| !method.is_for_savings()), excludes_savings: true }
    }

    fn includes(self, method: Method) -> bool {
        self.after_method.is_none_or(|other| method > other) && !(self.excludes_savings && method.is_for_savings())
    }
}

/// Result of one method of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodReport {
    /// The method that was tried.
    pub method: Method,
    /// Number of nodes that it could remove if budgets allowed all of them.
    pub eligible: usize,
    /// Number of commands that it found.
    pub commands: usize,
}

/// Returns the time until which consolidation should wait, or `None` if it may start now.
///
/// It should wait for a group of nodes of two kinds:
/// - Nodes that are being deleted, because it is not known yet where their pods will run.
/// - Nodes whose `consolidateAfter` ends within 30 seconds. If only the other nodes were
///   consolidated now, pods would move to these, and their `consolidateAfter` would start again.
///   Savings that need all nodes together would come in small steps.
///
/// The group must have at least two nodes, and at least a quarter as many as are ready for
/// consolidation. If the caller is `already_waiting`, one node is enough.
pub fn consolidation_deferred_until(input: &Input, already_waiting: bool) -> Option<Timestamp> {
    let pools: FxHashMap<&str, &PoolInput> = input.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
    let after = |by: SignedDuration| input.at.saturating_add(by).unwrap_or(Timestamp::MAX);
    let wait_limit = after(CONSOLIDATE_AFTER_MAX_WAIT);
    let (mut ready, mut awaited, mut latest) = (0_usize, 0_usize, input.at);
    for claim in &input.node_claims {
        if claim.is_deleting || claim.is_marked_for_disruption || claim.lifecycle.is_disrupting {
            awaited += 1;
            latest = latest.max(after(NODE_DELETION_WAIT));
            continue;
        }
        let pool = claim.labels.get(labels::NODEPOOL).and_then(|name| pools.get(name));
        match pool.map(|pool| consolidatable(claim, pool, input.at)) {
            Some(Consolidatable::Yes) => ready += 1,
            Some(Consolidatable::Waiting { until }) if until <= wait_limit => {
                awaited += 1;
                latest = latest.max(until);
            }
            Some(Consolidatable::Waiting { .. } | Consolidatable::NotInitialized | Consolidatable::Disabled) | None => {
            }
        }
    }
    let is_worth_waiting = if already_waiting { awaited > 0 } else { awaited > 1 && awaited >= ready / 4 };
    is_worth_waiting.then_some(latest)
}

/// Runs one pass over the methods that `filter` includes, until one of them finds a command. Calls
/// `on_method` after each method, so that the caller can measure its duration.
///
/// Never fails. Problems of the input are warnings of the plan.
pub fn next_commands(
    input: &Input,
    settings: &DisruptionSettings,
    filter: MethodFilter,
    mut on_method: impl FnMut(MethodReport),
) -> DisruptionPlan {
    let current = without_failed_launches(input);
    let survey = Survey::new(&current);
    let mut builder = PlanBuilder::new(&survey);
    let budgets = builder.budgets.clone();
    let mut pass = DisruptionPass::new(&survey, settings, &budgets);
    let mut commands: Vec<DisruptionCommand> = Vec::new();
    for method in Method::ALL.into_iter().filter(|method| filter.includes(*method)) {
        let eligible = pass.count_eligible(method);
        if eligible > 0 {
            commands = pass.commands_of(method);
        }
        on_method(MethodReport { method, eligible, commands: commands.len() });
        if !commands.is_empty() {
            break;
        }
    }
    let can_extend = wave::can_extend(&pass, &commands);
    let mut report = pass.into_report(&commands);
    builder.count_pass(&report);
    let commands = builder.add_commands(&current, settings, commands);
    if can_extend {
        wave::extend(&current, settings, &mut builder, commands);
        if let Some(command) = repack::find_better_command(&survey, settings, &budgets, builder.commands()) {
            builder.replace_commands(&current, settings, command);
        }
        report.blocked.retain(|blocked| !builder.removes_node(&blocked.node));
    }
    builder.add_blocked_nodes(report);
    builder.finish(input)
}

/// Returns the nodes that a command removes and the nodes that receive its pods.
pub(crate) fn involved_nodes(command: &DisruptionCommand) -> impl Iterator<Item = &Str> {
    command.nodes.iter().map(|node| &node.name).chain(command.receiving_nodes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_excludes_methods_up_to_a_failed_one_and_methods_that_save_money() {
        let included =
            |filter: MethodFilter| Method::ALL.into_iter().filter(|m| filter.includes(*m)).collect::<Vec<_>>();
        let without_savings = [Method::Emptiness, Method::StaticDrift, Method::Drift];
        assert_eq!(included(MethodFilter::ALL), Method::ALL);
        assert_eq!(included(MethodFilter::ALL.excluding_savings()), without_savings);
        assert_eq!(included(MethodFilter::ALL.after_method(Method::StaticDrift).excluding_savings()), [Method::Drift]);
        assert_eq!(included(MethodFilter::ALL.excluding_savings().after_method(Method::Drift)), []);
        assert_eq!(included(MethodFilter::ALL.excluding_savings().after_method(Method::Drift).excluding_savings()), []);
        assert_eq!(
            included(MethodFilter::ALL.after_method(Method::MultiNode).excluding_savings()),
            without_savings,
            "MultiNode is a savings method, so no other method has run"
        );
    }
}

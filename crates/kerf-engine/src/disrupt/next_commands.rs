//! One look at the world, for whoever carries out what it finds and then looks again: the first method that acts, with all its
//! commands that have nothing to do with each other, and if it acts to save money, with all that can be done at once (`wave`, `repack`). A method
//! whose commands came to nothing can be passed over in the next look.

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

/// Nodes that rest no longer than this are worth waiting for.
const CONSOLIDATE_AFTER_MAX_WAIT: SignedDuration = SignedDuration::from_secs(30);
/// How long it takes a node to leave, or about.
const NODE_DELETION_WAIT: SignedDuration = SignedDuration::from_secs(5);

/// Which methods are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodFilter {
    after_method: Option<Method>,
    excludes_savings: bool,
}

impl MethodFilter {
    /// All of them.
    pub const ALL: Self = Self { after_method: None, excludes_savings: false };

    /// Of these, those that come after one whose commands came to nothing.
    #[must_use]
    pub fn after_method(self, method: Method) -> Self {
        Self { after_method: Some(method), ..self }
    }

    /// Those that do not act for money. Only what came to nothing among themselves matters to them.
    #[must_use]
    pub fn excluding_savings(self) -> Self {
        Self { after_method: self.after_method.filter(|method| !method.is_for_savings()), excludes_savings: true }
    }

    fn includes(self, method: Method) -> bool {
        self.after_method.is_none_or(|other| method > other) && !(self.excludes_savings && method.is_for_savings())
    }
}

/// What a method had to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodReport {
    /// The method.
    pub method: Method,
    /// How many nodes it could have taken, budgets aside.
    pub eligible: usize,
    /// How many commands it found.
    pub commands: usize,
}

/// Until when it is better not to act for money: a crowd of nodes is on its way out, and nobody knows yet where its pods end up; or rests under
/// its pool's `consolidateAfter`, and will not for long. Whoever takes the first few at once sends their pods to the others, which then rest
/// anew, and what can be had by looking at all of them together comes a piece at a time. None, if there is no such crowd; of one that
/// `is_awaited` already, nobody is left behind.
pub fn consolidation_deferred_until(input: &Input, is_awaited: bool) -> Option<Timestamp> {
    let pools: FxHashMap<&str, &PoolInput> = input.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
    let later = |by: SignedDuration| input.at.saturating_add(by).unwrap_or(Timestamp::MAX);
    let soon = later(CONSOLIDATE_AFTER_MAX_WAIT);
    let (mut ready, mut expected, mut latest) = (0_usize, 0_usize, input.at);
    for claim in &input.node_claims {
        if claim.is_deleting || claim.is_marked_for_disruption || claim.lifecycle.is_disrupting {
            expected += 1;
            latest = latest.max(later(NODE_DELETION_WAIT));
            continue;
        }
        let pool = claim.labels.get(labels::NODEPOOL).and_then(|name| pools.get(name));
        match pool.map(|pool| consolidatable(claim, pool, input.at)) {
            Some(Consolidatable::Yes) => ready += 1,
            Some(Consolidatable::Waiting { until }) if until <= soon => {
                expected += 1;
                latest = latest.max(until);
            }
            Some(Consolidatable::Waiting { .. } | Consolidatable::NotInitialized | Consolidatable::Disabled) | None => {
            }
        }
    }
    let is_crowd = if is_awaited { expected > 0 } else { expected > 1 && expected >= ready / 4 };
    is_crowd.then_some(latest)
}

/// One pass over the methods that are asked, until one of them acts. `hear` is told of each as it is done, so that the caller
/// can take the time.
pub fn next_commands(
    input: &Input,
    settings: &DisruptionSettings,
    asked: MethodFilter,
    mut hear: impl FnMut(MethodReport),
) -> DisruptionPlan {
    let world = without_failed_launches(input);
    let survey = Survey::new(&world);
    let mut draft = PlanBuilder::new(&survey);
    let budgets = draft.budgets.clone();
    let mut pass = DisruptionPass::new(&survey, settings, &budgets);
    let mut found: Vec<DisruptionCommand> = Vec::new();
    for method in Method::ALL.into_iter().filter(|method| asked.includes(*method)) {
        let eligible = pass.count_eligible(method);
        if eligible > 0 {
            found = pass.commands_of(method);
        }
        hear(MethodReport { method, eligible, commands: found.len() });
        if !found.is_empty() {
            break;
        }
    }
    let more_may_go = wave::can_extend(&pass, &found);
    let mut said = pass.into_report(&found);
    draft.count_pass(&said);
    let found = draft.add_commands(&world, settings, found);
    if more_may_go {
        wave::extend(&world, settings, &mut draft, found);
        if let Some(command) = repack::find_better_command(&survey, settings, &budgets, draft.commands()) {
            draft.replace_commands(&world, settings, command);
        }
        said.blocked.retain(|blocked| !draft.removes_node(&blocked.node));
    }
    draft.add_blocked_nodes(said);
    draft.finish(input)
}

/// The nodes of a command and those that take in its pods.
pub(crate) fn involved_nodes(command: &DisruptionCommand) -> impl Iterator<Item = &Str> {
    command.nodes.iter().map(|node| &node.name).chain(command.receiving_nodes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_came_to_nothing_is_not_asked_again_in_a_hurry() {
        let asked = |asked: MethodFilter| Method::ALL.into_iter().filter(|m| asked.includes(*m)).collect::<Vec<_>>();
        let pressing = [Method::Emptiness, Method::StaticDrift, Method::Drift];
        assert_eq!(asked(MethodFilter::ALL), Method::ALL);
        assert_eq!(asked(MethodFilter::ALL.excluding_savings()), pressing);
        assert_eq!(asked(MethodFilter::ALL.after_method(Method::StaticDrift).excluding_savings()), [Method::Drift]);
        assert_eq!(asked(MethodFilter::ALL.excluding_savings().after_method(Method::Drift)), []);
        assert_eq!(asked(MethodFilter::ALL.excluding_savings().after_method(Method::Drift).excluding_savings()), []);
        assert_eq!(
            asked(MethodFilter::ALL.after_method(Method::MultiNode).excluding_savings()),
            pressing,
            "that was about money"
        );
    }
}

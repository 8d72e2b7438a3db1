//! Commands of one pass that have nothing to do with each other. A controller looks again after each command; whoever plans ahead may
//! take several at once if none changes what another rests on, and saves a pass for each.
//!
//! Commands are independent when no node of one gives up or takes in pods of another, and nothing ties them together from afar: no pod with a
//! constraint on other pods than those of its node or with a volume, no machine that is also for pods which wait anyway, no pool limit, no
//! reservation, no pool in which moves are weighed against each other.

use kerf_api::labels;
use kerf_api::nodepool::ConsolidationPolicy;
use kerf_api::slim::{Pod, Str};
use rustc_hash::FxHashSet;

use super::budgets::NodePoolBudgets;
use super::command::DisruptionCommand;
use super::input::Passes;
use super::pass::{DisruptionPass, SurveyIx};

/// Independent commands, in the order in which they were found.
#[derive(Debug)]
pub(crate) struct IndependentCommands {
    commands: Vec<DisruptionCommand>,
    /// The budgets that are left with these commands.
    pub(crate) budgets: NodePoolBudgets,
    used_nodes: FxHashSet<Str>,
    /// Whether more commands may be taken.
    accepts_more: bool,
}

impl IndependentCommands {
    pub(crate) fn new(pass: &DisruptionPass<'_, '_>) -> Self {
        Self {
            commands: Vec::new(),
            budgets: pass.budgets.clone(),
            used_nodes: FxHashSet::default(),
            accepts_more: true,
        }
    }

    /// Whether the node takes part in a command already; then it must wait for the next pass.
    pub(crate) fn uses_node(&self, pass: &DisruptionPass<'_, '_>, ix: SurveyIx) -> bool {
        self.used_nodes.contains(&pass.facts(ix).name)
    }

    /// Whether more commands may be taken.
    pub(crate) fn accepts_more(&self) -> bool {
        self.accepts_more
    }

    /// Takes a command about a node if it goes with the others; the first always does.
    pub(crate) fn add_if_independent(
        &mut self,
        pass: &DisruptionPass<'_, '_>,
        ix: SurveyIx,
        command: DisruptionCommand,
    ) {
        let stands_alone = is_independent(pass, &[ix], &command);
        let is_free = command.receiving_nodes().all(|node| !self.used_nodes.contains(node));
        let goes_with_the_others = stands_alone && is_free;
        if !self.commands.is_empty() && !goes_with_the_others {
            return;
        }
        self.accepts_more = stands_alone && pass.settings.passes == Passes::All;
        self.used_nodes.extend(command.nodes.iter().map(|node| node.name.clone()));
        self.used_nodes.extend(command.receiving_nodes().cloned());
        pass.charge_budget(&mut self.budgets, ix);
        self.commands.push(command);
    }

    pub(crate) fn into_commands(self) -> Vec<DisruptionCommand> {
        self.commands
    }
}

/// Whether nothing ties the command, which is about these nodes, to others from afar.
pub(crate) fn is_independent(pass: &DisruptionPass<'_, '_>, nodes: &[SurveyIx], command: &DisruptionCommand) -> bool {
    let input = pass.survey.input;
    let settings = &pass.settings.scheduling;
    let only_moved = command.replacements.iter().flat_map(|c| &c.pods).all(|pod| command.evicts(pod));
    let unbounded = command.replacements.iter().all(|claim| {
        input.pools.iter().filter(|p| p.name == claim.pool).all(|pool| {
            let reserved = pass.survey.types_of(pool).iter().flat_map(|t| &t.offerings);
            pool.limits.is_empty() && reserved.into_iter().all(|o| o.reservation_capacity == 0)
        })
    });
    // Under this policy a move is weighed against all of its pool, which the move before it has changed.
    let facts = || nodes.iter().map(|ix| pass.facts(*ix));
    let is_weighed = command.method.is_for_savings()
        && facts()
            .filter_map(|facts| pass.survey.pool(facts))
            .any(|p| p.disruption.policy == ConsolidationPolicy::Balanced);
    only_moved
        && unbounded
        && !is_weighed
        && settings.default_spread.is_empty()
        && facts().flat_map(|facts| &facts.reschedulable).all(|pod| has_no_constraints_beyond_host(pod))
}

/// Whether a pod does not care for others beyond its own node, nor has a volume. What two such pods ask for cannot meet if they go to different
/// nodes: each new machine is a node of its own.
fn has_no_constraints_beyond_host(pod: &Pod) -> bool {
    !has_constraints_on_others(pod, |key| key != labels::HOSTNAME)
}

/// Whether no constraint ties a pod to others, and no volume to a place.
pub(crate) fn has_no_constraints_on_others(pod: &Pod) -> bool {
    !has_constraints_on_others(pod, |_| true)
}

/// Whether a pod seeks others, keeps away from others or is spread where nodes share a label that counts, or has a volume.
fn has_constraints_on_others(pod: &Pod, counts: impl Fn(&str) -> bool) -> bool {
    let seeks_or_avoids = pod.spec.affinity.as_deref().is_some_and(|affinity| {
        let (seeks, avoids) = (&affinity.pod_affinity, &affinity.pod_anti_affinity);
        let wishes = avoids.preferred.iter().map(|wish| &wish.pod_affinity_term);
        !seeks.required.is_empty()
            || !seeks.preferred.is_empty()
            || avoids.required.iter().chain(wishes).any(|term| counts(&term.topology_key))
    });
    seeks_or_avoids
        || pod.spec.topology_spread_constraints.iter().any(|spread| counts(&spread.topology_key))
        || !pod.spec.volumes.is_empty()
}

//! Commands of one pass that do not depend on each other, so that they can be decided together.
//! Karpenter decides one command per pass.
//!
//! Two commands are independent if no node of one loses or receives pods of the other, and if none
//! of the following connects them: a pod with a volume or with a constraint on pods of other nodes;
//! a replacement that is also for pending pods; pool limits; a reservation; a pool with the
//! `Balanced` policy, which scores a command against all of its pool.

use kerf_api::labels;
use kerf_api::nodepool::ConsolidationPolicy;
use kerf_api::slim::{Pod, Str};
use rustc_hash::FxHashSet;

use super::budgets::NodePoolBudgets;
use super::command::DisruptionCommand;
use super::input::Passes;
use super::pass::{DisruptionPass, SurveyIx};
use crate::catalogue::{InstanceTypeRef, InstanceTypes};

/// Independent commands, in the order in which they were found.
#[derive(Debug)]
pub(crate) struct IndependentCommands {
    commands: Vec<DisruptionCommand>,
    /// The budgets after these commands.
    pub(crate) budgets: NodePoolBudgets,
    used_nodes: FxHashSet<Str>,
    /// True if further commands may be added.
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

    /// Returns true if the node already takes part in a command. Then it must wait for the next
    /// pass.
    pub(crate) fn uses_node(&self, pass: &DisruptionPass<'_, '_>, ix: SurveyIx) -> bool {
        self.used_nodes.contains(&pass.facts(ix).name)
    }

    /// Returns true if further commands may be added.
    pub(crate) fn accepts_more(&self) -> bool {
        self.accepts_more
    }

    /// Adds a command for a node if it is independent of the others. The first command is always
    /// added.
    pub(crate) fn add_if_independent(
        &mut self,
        pass: &DisruptionPass<'_, '_>,
        ix: SurveyIx,
        command: DisruptionCommand,
    ) {
        let independent = is_independent(pass, &[ix], &command);
        let nodes_unused = command.receiving_nodes().all(|node| !self.used_nodes.contains(node));
        let can_join = independent && nodes_unused;
        if !self.commands.is_empty() && !can_join {
            return;
        }
        self.accepts_more = independent && pass.settings.passes == Passes::All;
        self.used_nodes.extend(command.nodes.iter().map(|node| node.name.clone()));
        self.used_nodes.extend(command.receiving_nodes().cloned());
        pass.charge_budget(&mut self.budgets, ix);
        if let Some(pool) = pass.facts(ix).pool.filter(|_| command.is_drift_with_replacements()) {
            self.budgets.charge_surge(pool);
        }
        self.commands.push(command);
    }

    pub(crate) fn into_commands(self) -> Vec<DisruptionCommand> {
        self.commands
    }
}

/// Returns true if nothing connects the command, which removes these nodes, with other commands.
pub(crate) fn is_independent(pass: &DisruptionPass<'_, '_>, nodes: &[SurveyIx], command: &DisruptionCommand) -> bool {
    let input = pass.survey.input;
    let settings = &pass.settings.scheduling;
    let only_evicted_pods = command.replacements.iter().flat_map(|c| &c.pods).all(|pod| command.evicts(pod));
    let without_limits = command.replacements.iter().all(|claim| {
        input.pools.iter().filter(|p| p.name == claim.pool).all(|pool| {
            let types = pass.survey.types_of(pool).into_iter().flat_map(InstanceTypes::iter);
            pool.limits.is_empty() && types.flat_map(InstanceTypeRef::offerings).all(|o| o.reservation_capacity() == 0)
        })
    });
    // The `Balanced` policy scores a command against all nodes of its pool, which an earlier
    // command changes.
    let facts = || nodes.iter().map(|ix| pass.facts(*ix));
    let is_scored = command.method.is_for_savings()
        && facts()
            .filter_map(|facts| pass.survey.pool(facts))
            .any(|p| p.disruption.policy == ConsolidationPolicy::Balanced);
    only_evicted_pods
        && without_limits
        && !is_scored
        && settings.default_spread.is_empty()
        && facts().flat_map(|facts| &facts.reschedulable).all(|pod| has_no_constraints_beyond_host(pod))
}

/// Returns true if the pod has no volume and no constraint on pods of other nodes. Two such pods
/// cannot affect each other if they move to different nodes, and each replacement is a node of its
/// own.
fn has_no_constraints_beyond_host(pod: &Pod) -> bool {
    !has_constraints_on_others(pod, |key| key != labels::HOSTNAME)
}

/// Returns true if the pod has no volume and no constraint on other pods.
pub(crate) fn has_no_constraints_on_others(pod: &Pod) -> bool {
    !has_constraints_on_others(pod, |_| true)
}

/// Returns true if the pod has a volume, pod affinity, or an anti-affinity or spread constraint
/// whose topology key `counts`.
fn has_constraints_on_others(pod: &Pod, counts: impl Fn(&str) -> bool) -> bool {
    let has_affinity = pod.spec.affinity.as_deref().is_some_and(|affinity| {
        let (pod_affinity, anti_affinity) = (&affinity.pod_affinity, &affinity.pod_anti_affinity);
        let preferred = anti_affinity.preferred.iter().map(|weighted| &weighted.pod_affinity_term);
        !pod_affinity.required.is_empty()
            || !pod_affinity.preferred.is_empty()
            || anti_affinity.required.iter().chain(preferred).any(|term| counts(&term.topology_key))
    });
    has_affinity
        || pod.spec.topology_spread_constraints.iter().any(|spread| counts(&spread.topology_key))
        || !pod.spec.volumes.is_empty()
}

//! `disruption.queue`: tracks started commands (see `start`) until they end (spec 03 §10). Once all
//! replacements are initialized, the candidates' claims are deleted. If the replacements do not
//! become initialized, the command is rolled back.
//!
//! Two invariants hold. No claim is deleted before every replacement of its command was
//! initialized. And if the process dies at any point, the next pass of its successor removes the
//! marks on nodes, and replacements become ordinary capacity.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use kerf_api::conditions::INITIALIZED;
use kerf_api::labels;
use kerf_api::nodepool::{ConsolidationPolicy, DisruptionReason, NodePool};
use kerf_api::slim::{Node, Str};
use kerf_engine::{DisruptionCommand, Method};
use kerf_runtime::{ApiError, Queue, ReconcileAction};
use kerf_state::TrackedClaim;
use tracing::error;

use super::churn_backoff::{self, DriftBackoffs, OfferingKey};
use super::decision::{Decision, log_decision};
use super::history::{CommandOutcome, DecisionHistory};
use super::taint::{self, CandidateNames};
use crate::actions;
use crate::context::Context;
use crate::error::Error;
use crate::events;
use crate::node::termination::is_reschedulable;

/// Interval between two checks of an active command. It is also the least time between taint and
/// deletion, so that a pod that was bound just before the taint is seen.
const COMMAND_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a command may take per node in the queue, and the bounds of the total.
const COMMAND_TIMEOUT_PER_NODE: Duration = Duration::from_millis(80);
const COMMAND_TIMEOUT_MIN: Duration = Duration::from_mins(10);
const COMMAND_TIMEOUT_MAX: Duration = Duration::from_hours(1);

/// Returns the time that a command may take while `nodes` nodes are in the queue.
fn command_timeout(nodes: usize) -> Duration {
    COMMAND_TIMEOUT_PER_NODE
        .saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX))
        .clamp(COMMAND_TIMEOUT_MIN, COMMAND_TIMEOUT_MAX)
}

/// All active commands.
pub(crate) struct CommandQueue {
    pub(super) ctx: Context,
    drift_backoffs: Arc<DriftBackoffs>,
    pub(super) history: Arc<DecisionHistory>,
    active_commands: Mutex<BTreeMap<Str, Arc<ActiveCommand>>>,
    queue: OnceLock<Queue<Str>>,
}

/// A command that has started and not ended.
struct ActiveCommand {
    decision: Decision,
    nodes: Vec<CommandCandidate>,
    progress: Mutex<CommandProgress>,
}

/// A node that its command deletes.
#[derive(Debug, Clone)]
pub(super) struct CommandCandidate {
    pub(super) names: CandidateNames,
    pub(super) provider_id: Str,
}

/// Progress of an active command.
#[derive(Debug, Default)]
struct CommandProgress {
    replacements: Vec<CommandReplacement>,
    /// Claims of candidates that need no more work: they are being deleted, or were dropped from
    /// the command because of a new pod.
    finished_claims: Vec<Str>,
}

/// A claim that was created for a command.
#[derive(Debug, Clone)]
pub(super) struct CommandReplacement {
    pub(super) name: Str,
    pub(super) pool: Str,
    /// Offerings that it may be launched from. Once it is initialized: the one that it was launched
    /// from.
    pub(super) offerings: Vec<OfferingKey>,
    pub(super) is_initialized: bool,
}

/// Reason for rolling back a command.
#[derive(Debug, thiserror::Error)]
enum RollbackReason {
    #[error("replacement was deleted")]
    ReplacementDeleted,
    #[error("command reached timeout, {0}")]
    Timeout(&'static str),
    #[error("pod {0} was bound to the node after the decision")]
    UnplannedPod(Str),
}

/// Result of one check of a command.
enum CommandStatus {
    Complete,
    Waiting(&'static str),
    Failed(RollbackReason),
}

impl CommandQueue {
    pub(crate) fn new(ctx: Context, drift_backoffs: Arc<DriftBackoffs>, history: Arc<DecisionHistory>) -> Self {
        Self { ctx, drift_backoffs, history, active_commands: Mutex::default(), queue: OnceLock::new() }
    }

    /// Sets the queue in which commands wait for their next check.
    pub(crate) fn set_queue(&self, queue: &Queue<Str>) {
        // `set` fails only on a second call, and there is one call, right after construction.
        let _ = self.queue.set(queue.clone());
    }

    fn active_commands(&self) -> MutexGuard<'_, BTreeMap<Str, Arc<ActiveCommand>>> {
        self.active_commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if an active command disrupts the claim.
    pub(crate) fn is_disrupting(&self, claim: &str) -> bool {
        self.active_commands().values().flat_map(|command| &command.nodes).any(|node| node.names.claim == claim)
    }

    /// Returns the claims that active commands disrupt.
    pub(crate) fn disrupting_claims(&self) -> Vec<Str> {
        self.active_commands()
            .values()
            .flat_map(|command| &command.nodes)
            .map(|node| node.names.claim.clone())
            .collect()
    }

    /// Returns the ID of the active command that a claim was created for.
    pub(crate) fn command_of_replacement(&self, claim: &str) -> Option<Str> {
        let active = self.active_commands();
        let is_command_of = |command: &ActiveCommand| {
            command.progress().replacements.iter().any(|replacement| replacement.name == claim)
        };
        active.iter().find(|(_, command)| is_command_of(command)).map(|(id, _)| id.clone())
    }

    /// Adds a started command. It is checked until it ends.
    pub(super) fn track(
        &self,
        decision: Decision,
        nodes: Vec<CommandCandidate>,
        replacements: Vec<CommandReplacement>,
    ) {
        let id = decision.id.clone();
        let progress = Mutex::new(CommandProgress { replacements, finished_claims: Vec::new() });
        self.active_commands().insert(id.clone(), Arc::new(ActiveCommand { decision, nodes, progress }));
        if let Some(queue) = self.queue.get() {
            queue.add_after(id, COMMAND_POLL_INTERVAL);
        }
    }

    /// Checks an active command once and acts on the result.
    pub(crate) async fn reconcile(&self, id: &str) -> Result<ReconcileAction, Error> {
        let Some(active) = self.active_commands().get(id).cloned() else { return Ok(ReconcileAction::Done) };
        let status = match self.check_replacements(&active).await {
            CommandStatus::Complete => self.delete_candidates(&active).await,
            other => other,
        };
        let now = self.ctx.now();
        let waiting_for = match status {
            CommandStatus::Complete => {
                self.complete(&active).await;
                return Ok(ReconcileAction::Done);
            }
            CommandStatus::Failed(reason) => {
                self.roll_back(&active, &reason).await;
                return Ok(ReconcileAction::Done);
            }
            CommandStatus::Waiting(reason) => reason,
        };
        let nodes = self.active_commands().values().map(|command| command.nodes.len()).sum();
        let age = Duration::try_from(now.duration_since(active.decision.created)).unwrap_or_default();
        if age > command_timeout(nodes) {
            self.roll_back(&active, &RollbackReason::Timeout(waiting_for)).await;
            return Ok(ReconcileAction::Done);
        }
        Ok(ReconcileAction::RequeueAfter(COMMAND_POLL_INTERVAL))
    }

    /// Checks if all replacements are initialized. Each is checked until it was initialized once;
    /// what happens to it afterwards does not matter.
    async fn check_replacements(&self, active: &ActiveCommand) -> CommandStatus {
        let reason = active.decision.command.reason().to_string();
        let pending: Vec<Str> = {
            let progress = active.progress();
            progress
                .replacements
                .iter()
                .filter(|replacement| !replacement.is_initialized)
                .map(|replacement| replacement.name.clone())
                .collect()
        };
        let mut status = CommandStatus::Complete;
        for name in pending {
            let Some(claim) = self.ctx.managed_claim(&name) else {
                match actions::claim::exists(&self.ctx, &name).await {
                    Ok(false) => return CommandStatus::Failed(RollbackReason::ReplacementDeleted),
                    Ok(true) | Err(_) => status = CommandStatus::Waiting("replacement is not in cluster state"),
                }
                continue;
            };
            self.ctx.publish(events::disruption::disruption_launching(&claim.object, &reason));
            if claim.is_terminating() || !claim.is_condition_true(INITIALIZED) {
                self.ctx.publish(events::disruption::disruption_waiting(&claim.object));
                status = CommandStatus::Waiting("replacement is not initialized");
                continue;
            }
            let until = self.ctx.now().saturating_add(self.ctx.settings.nomination_window()).unwrap_or(Timestamp::MAX);
            self.ctx.cluster.lock().nominate(&claim.engine_claim.provider_id, until);
            if let Some(replacement) =
                active.progress().replacements.iter_mut().find(|replacement| replacement.name == name)
            {
                replacement.is_initialized = true;
                replacement.offerings = launched_offering(&claim).into_iter().collect();
            }
        }
        status
    }

    /// Deletes the candidates' claims. If a pod that the command does not know runs on a candidate,
    /// the command fails; an emptiness command drops that candidate and continues.
    async fn delete_candidates(&self, active: &ActiveCommand) -> CommandStatus {
        let command = &active.decision.command;
        let finished = active.progress().finished_claims.clone();
        let mut candidates = Vec::new();
        for node in active.nodes.iter().filter(|node| !finished.contains(&node.names.claim)) {
            match self.unplanned_pod(command, node) {
                None => candidates.push(node),
                // The other nodes are still empty.
                Some(_) if command.method == Method::Emptiness => {
                    self.unmark_candidate(node).await;
                    active.progress().finished_claims.push(node.names.claim.clone());
                }
                Some(pod) => return CommandStatus::Failed(RollbackReason::UnplannedPod(pod)),
            }
        }
        let outcomes = join_all(candidates.into_iter().map(|node| self.delete_candidate(active, node))).await;
        if outcomes.into_iter().all(|is_done| is_done) {
            CommandStatus::Complete
        } else {
            CommandStatus::Waiting("deleting nodeclaims failed")
        }
    }

    /// Returns a pod on the node that is not part of the command. Returns `None` for drift, which
    /// does not guarantee a place for every pod.
    fn unplanned_pod(&self, command: &DisruptionCommand, node: &CommandCandidate) -> Option<Str> {
        match command.method {
            Method::StaticDrift | Method::Drift => return None,
            Method::Emptiness | Method::MultiNode | Method::SingleNode | Method::Move => {}
        }
        let cluster = self.ctx.cluster.lock();
        let pods = cluster.pods_on(&node.names.node).filter(|pod| is_reschedulable(pod));
        pods.map(|pod| pod.namespaced_name()).find(|pod| command.pods.binary_search(pod).is_err())
    }

    async fn delete_candidate(&self, active: &ActiveCommand, node: &CommandCandidate) -> bool {
        let command = &active.decision.command;
        let objects = {
            let cluster = self.ctx.cluster.lock();
            let claim = cluster.get::<TrackedClaim>(&node.names.claim).cloned();
            let pods = cluster.pods_on(&node.names.node).filter(|pod| is_reschedulable(pod)).count();
            claim.map(|claim| (claim, cluster.get::<Node>(&node.names.node).cloned(), pods))
        };
        let Some((claim, object, pods)) = objects.filter(|(claim, ..)| !claim.is_terminating()) else {
            active.progress().finished_claims.push(node.names.claim.clone());
            return true;
        };
        match actions::claim::delete(&self.ctx, &claim.object).await {
            Ok(()) => {}
            Err(ApiError::NotFound) => {
                active.progress().finished_claims.push(node.names.claim.clone());
                return true;
            }
            Err(ApiError::Conflict | ApiError::TimedOut | ApiError::Other(_)) => return false,
        }
        active.progress().finished_claims.push(node.names.claim.clone());
        let reason = command.reason().to_string();
        if let Some(object) = object {
            self.ctx.publish(events::disruption::node_terminating(&object, &reason));
        }
        self.ctx.publish(events::disruption::claim_terminating(&claim.object, &reason));
        let policy = match command.method {
            Method::StaticDrift | Method::Drift => "",
            Method::Emptiness | Method::MultiNode | Method::SingleNode | Method::Move => self.policy_label(&claim),
        };
        self.ctx.metrics.claim_disrupted_by_command(&claim.object, &active.decision.reason(), policy, pods);
        true
    }

    fn policy_label(&self, claim: &TrackedClaim) -> &'static str {
        let pool = claim.pool().and_then(|name| self.ctx.managed_pool(name));
        let policy =
            pool.as_deref().and_then(|pool: &NodePool| pool.spec.disruption.as_ref()?.consolidation_policy.clone());
        match policy.unwrap_or(ConsolidationPolicy::WhenEmptyOrUnderutilized) {
            ConsolidationPolicy::WhenEmpty => "when_empty",
            ConsolidationPolicy::Balanced => "balanced",
            ConsolidationPolicy::WhenEmptyOrUnderutilized | ConsolidationPolicy::Unsupported(_) => {
                "when_empty_or_underutilized"
            }
        }
    }

    async fn complete(&self, active: &ActiveCommand) {
        let decision = &active.decision;
        let now = self.ctx.now();
        let took = now.duration_since(decision.created);
        log_decision!(
            debug,
            decision,
            duration = %kerf_api::duration::Duration::from_nanos(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX)),
            "command succeeded"
        );
        self.history.record_outcome(&decision.id, CommandOutcome::Succeeded, now);
        self.active_commands().remove(&decision.id);
        if decision.command.reason() == DisruptionReason::Drifted {
            for node in &decision.command.nodes {
                self.drift_backoffs.clear(&node.pool);
            }
        }
        self.record_launch_results(active).await;
    }

    /// Rolls a command back. Replacements stay and become ordinary nodes once they are initialized.
    async fn roll_back(&self, active: &ActiveCommand, reason: &RollbackReason) {
        let decision = &active.decision;
        let failed = active.progress().replacements.iter().filter(|replacement| !replacement.is_initialized).count();
        let labels = [decision.command.decision(), &decision.reason(), decision.command.method.consolidation_type()];
        self.ctx.metrics.disruption.queue_failures.add(&labels, failed as f64);
        let finished = active.progress().finished_claims.clone();
        let remaining = active.nodes.iter().filter(|node| !finished.contains(&node.names.claim));
        join_all(remaining.map(|node| self.unmark_candidate(node))).await;
        log_decision!(
            error,
            decision,
            error = %reason,
            "failed terminating nodes while executing a disruption command"
        );
        self.history.record_outcome(&decision.id, CommandOutcome::RolledBack(reason.to_string()), self.ctx.now());
        self.active_commands().remove(&decision.id);
        self.record_drift_failure(&decision.command);
        self.record_launch_results(active).await;
    }

    /// Removes the marks of a node, and its mark for deletion in cluster state. If the API requests
    /// fail, the next pass removes the orphaned marks.
    async fn unmark_candidate(&self, node: &CommandCandidate) {
        if let Err(error) = taint::unmark(&self.ctx, &node.names).await {
            error!(error = %error, "failed to remove disruption taint and condition");
        }
        self.ctx.cluster.lock().unmark_for_deletion(&node.provider_id);
    }

    pub(super) fn record_drift_failure(&self, command: &DisruptionCommand) {
        if command.reason() != DisruptionReason::Drifted {
            return;
        }
        let now = self.ctx.now();
        for node in &command.nodes {
            if self.drift_backoffs.record_failure(&node.pool, now) {
                self.ctx.metrics.disruption.drift_backoffs.inc(&[&node.pool]);
            }
        }
    }

    /// Records which offerings replacements were launched from, and from which they failed.
    async fn record_launch_results(&self, active: &ActiveCommand) {
        let mut pools: BTreeMap<Str, (Vec<OfferingKey>, Vec<OfferingKey>)> = BTreeMap::new();
        for replacement in active.progress().replacements.clone() {
            let (failed, launched) = pools.entry(replacement.pool.clone()).or_default();
            if replacement.is_initialized {
                launched.extend(replacement.offerings);
                continue;
            }
            // If the claim was launched but not initialized, only its own offering has failed.
            let launched_from = self.ctx.managed_claim(&replacement.name).and_then(|claim| launched_offering(&claim));
            match launched_from {
                Some(offering) => failed.push(offering),
                None => failed.extend(replacement.offerings),
            }
        }
        for (pool, (failed, launched)) in pools {
            if let Err(error) = churn_backoff::write_launch_results(&self.ctx, &pool, &failed, &launched).await {
                error!(error = %error, "failed to write launch backoffs");
            }
        }
    }
}

impl ActiveCommand {
    fn progress(&self) -> MutexGuard<'_, CommandProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the offering that a claim was launched from, or `None` if it has not been launched.
fn launched_offering(claim: &TrackedClaim) -> Option<OfferingKey> {
    let label = |key: &str| claim.engine_claim.labels.get(key).map(Str::new);
    let is_launched = !claim.engine_claim.provider_id.is_empty();
    is_launched.then_some(())?;
    Some(OfferingKey {
        zone: label(labels::ZONE)?,
        capacity_type: label(labels::CAPACITY_TYPE)?,
        instance_type: label(labels::INSTANCE_TYPE)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 03 #117
    #[test]
    fn the_command_timeout_grows_with_the_number_of_nodes() {
        let minutes = |nodes| command_timeout(nodes).as_secs_f64() / 60.0;
        let expected = [10.0, 10.0, 13.0 + 20.0 / 60.0, 53.0 + 20.0 / 60.0, 60.0, 60.0];
        for (nodes, expected) in [100, 4000, 10_000, 40_000, 80_000, 100_000].into_iter().zip(expected) {
            assert!((minutes(nodes) - expected).abs() < 1e-9, "{nodes} nodes: {}", minutes(nodes));
        }
    }
}

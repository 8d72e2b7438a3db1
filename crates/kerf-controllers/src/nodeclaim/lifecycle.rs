//! `nodeclaim.lifecycle`: takes every managed claim through launch, registration and
//! initialization, and finalizes it when it is deleted (spec 04 §5). It reconciles a claim when the
//! claim or its node changes.
//!
//! Invariant: an instance is launched only after the finalizer is stored, so that no instance is
//! lost. The four steps (launch, registration, initialization, liveness) always all run, in this
//! order, on one copy of the claim, which is then written once. For the first seconds after
//! registration the reasons why a node is not ready yet are not written.

mod finalize;
mod health;
mod initialization;
mod launch;
mod liveness;
mod registration;

use std::sync::Arc;
use std::time::Duration;

use kerf_api::conditions::{Condition, ConditionSet, ConditionStatus, ObjectFacts, dependents};
use kerf_api::finalizers::TERMINATION;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_runtime::{MergePatch, ReconcileAction};
use kerf_state::TrackedClaim;

use tracing::info;

use crate::actions;
use crate::context::Context;
use crate::controllers::Reconcile;
use crate::error::{Error, Interrupted, api_result};
use crate::logs::reference;

pub(crate) use health::RegistrationHealth;
use launch::LaunchCache;

/// Condition: the instance has been launched.
const LAUNCHED: &str = "Launched";
/// Condition: the claim's node has joined the cluster.
const REGISTERED: &str = "Registered";
/// Condition: the claim's node is ready and offers all requested resources.
const INITIALIZED: &str = "Initialized";
/// Time after registration in which changing reasons for a missing initialization are not written.
const STARTUP_REASONS_DELAY: Duration = Duration::from_secs(3);
/// Condition: the termination of the instance has been requested from the provider.
const INSTANCE_TERMINATING: &str = "InstanceTerminating";

/// The controller. Its keys are names of NodeClaims.
pub(crate) struct Lifecycle {
    ctx: Context,
    launch_cache: LaunchCache,
    health: Arc<RegistrationHealth>,
}

/// The copy of a claim that the steps change.
struct ClaimUpdate {
    claim: NodeClaim,
    conditions: ConditionSet,
}

/// Result of a step that may delete the claim.
enum LifecycleStep {
    /// Run the next step; requeue the claim as given.
    Continue(ReconcileAction),
    /// The claim was deleted. Nothing is left to write.
    Deleted,
}

impl Lifecycle {
    pub(crate) fn new(ctx: Context, health: Arc<RegistrationHealth>) -> Self {
        Self { ctx, launch_cache: LaunchCache::default(), health }
    }

    async fn advance(&self, known: &TrackedClaim) -> Result<ReconcileAction, Interrupted> {
        let stored = self.ensure_finalizer(&known.object).await?;
        let mut update = ClaimUpdate::open(stored.clone());
        let (mut next, mut errors) = (ReconcileAction::Done, Vec::new());

        match self.launch(&mut update).await {
            Ok(LifecycleStep::Continue(requeue)) => next = next.soonest(requeue),
            Ok(LifecycleStep::Deleted) => return Ok(ReconcileAction::Done),
            Err(error) => errors.push(error),
        }
        for outcome in [self.register(&mut update).await, self.initialize(&mut update).await] {
            match outcome {
                Ok(requeue) => next = next.soonest(requeue),
                Err(error) => errors.push(error),
            }
        }
        match self.check_liveness(&mut update).await {
            Ok(LifecycleStep::Continue(requeue)) => next = next.soonest(requeue),
            Ok(LifecycleStep::Deleted) => return Ok(ReconcileAction::Done),
            Err(error) => errors.push(error),
        }

        if let Some(delay) = self.startup_reasons_delay(&stored, &update) {
            Error::combine(errors)?;
            return Ok(next.soonest(ReconcileAction::RequeueAfter(delay)));
        }
        let became_true = |kind: &str| update.conditions.is_true(kind) && !known.is_condition_true(kind);
        let [is_launched, is_registered, is_initialized] = [LAUNCHED, REGISTERED, INITIALIZED].map(became_true);
        let claim = self.store(&stored, update).await?;
        // Logs and metrics follow the write: if it fails with a conflict, all steps run again.
        let status = claim.status.as_ref();
        let provider_id = status.and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
        let node = status.and_then(|status| status.node_name.as_deref()).unwrap_or_default();
        if is_launched {
            launch::log_launched(&claim);
        }
        if is_registered {
            info!("provider-id" = provider_id, Node = %reference(node), "registered nodeclaim");
            self.ctx.metrics.node_registered(&claim);
        }
        if is_initialized {
            self.log_initialized(provider_id, node);
        }
        Error::combine(errors)?;
        Ok(next)
    }

    /// Returns the time for which the changes need not be written, `None` if they must be written
    /// now. The write waits if the claim registered less than [`STARTUP_REASONS_DELAY`] ago and
    /// only reasons of conditions that are still Unknown changed. A starting node passes through
    /// several such reasons within a moment, and each write would be wasted.
    fn startup_reasons_delay(&self, stored: &NodeClaim, update: &ClaimUpdate) -> Option<Duration> {
        let age = update.condition_age(REGISTERED, self.ctx.now());
        if !update.conditions.is_true(REGISTERED) || age >= STARTUP_REASONS_DELAY {
            return None;
        }
        let before = stored.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let after = update.conditions.conditions();
        let is_unknown = |condition: &Condition| condition.status == ConditionStatus::Unknown;
        let is_known = |condition: &Condition| {
            let stored = before.iter().find(|stored| stored.condition_type == condition.condition_type);
            stored.is_some_and(|stored| stored == condition || (is_unknown(stored) && is_unknown(condition)))
        };
        let mut other_changes = update.claim.clone();
        other_changes.status.get_or_insert_default().conditions = before.to_vec();
        let is_only_reasons =
            before != after && before.len() == after.len() && after.iter().all(is_known) && other_changes == *stored;
        is_only_reasons.then(|| STARTUP_REASONS_DELAY.saturating_sub(age))
    }

    async fn ensure_finalizer(&self, claim: &NodeClaim) -> Result<NodeClaim, Interrupted> {
        let mut updated = claim.clone();
        let finalizers = updated.metadata.finalizers.get_or_insert_default();
        if finalizers.iter().any(|finalizer| finalizer == TERMINATION) {
            return Ok(claim.clone());
        }
        finalizers.push(TERMINATION.to_owned());
        api_result("adding finalizer", actions::claim::update(&self.ctx, MergePatch::OBJECT, claim, &updated).await)
    }

    /// Writes the changed claim: metadata first, then status. Both writes fail if another writer
    /// has changed the claim since, so that no condition of another controller is undone. The claim
    /// is then reconciled again. This is safe because a launched instance is in the launch cache.
    async fn store(&self, stored: &NodeClaim, update: ClaimUpdate) -> Result<NodeClaim, Interrupted> {
        let ClaimUpdate { mut claim, conditions } = update;
        claim.status.get_or_insert_default().conditions = conditions.into_conditions();
        let written = actions::claim::update(&self.ctx, MergePatch::OBJECT, stored, &claim).await;
        let written = api_result("patching nodeclaim", written)?;
        let with_status = NodeClaim { status: claim.status, ..written.clone() };
        api_result(
            "patching nodeclaim status",
            actions::claim::update(&self.ctx, MergePatch::STATUS, &written, &with_status).await,
        )
    }
}

impl Reconcile for Lifecycle {
    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(claim) = self.ctx.managed_claim(name) else { return Ok(ReconcileAction::Done) };
        let outcome = if claim.is_terminating() { self.finalize(&claim).await } else { self.advance(&claim).await };
        Interrupted::into_result(outcome)
    }
}

impl ClaimUpdate {
    fn open(claim: NodeClaim) -> Self {
        let stored = claim.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let conditions = ConditionSet::open(dependents::NODECLAIM, ObjectFacts::of(&claim.metadata), stored);
        Self { claim, conditions }
    }

    fn name(&self) -> &str {
        self.claim.metadata.name.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.claim.metadata.uid.as_deref().unwrap_or_default()
    }

    fn provider_id(&self) -> &str {
        self.claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).unwrap_or_default()
    }

    /// Returns true if a condition is True or False. In that case sets it again for the object's
    /// current generation, so that a change of the spec does not make `Ready` Unknown.
    fn renew_if_settled(&mut self, kind: &str, now: jiff::Timestamp) -> bool {
        let Some(condition) = self.conditions.get(kind).cloned() else { return false };
        match condition.status {
            ConditionStatus::True => {
                self.conditions.set_true_with_reason(kind, &condition.reason, &condition.message, now);
                true
            }
            ConditionStatus::False => {
                self.conditions.set_false(kind, &condition.reason, &condition.message, now);
                true
            }
            ConditionStatus::Unknown | ConditionStatus::Unsupported(_) => false,
        }
    }

    /// Returns the time since the condition's last transition; zero if the condition does not
    /// exist.
    fn condition_age(&self, kind: &str, now: jiff::Timestamp) -> Duration {
        let since = self.conditions.get(kind).map_or(now, |condition| condition.last_transition_time.0);
        Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO)
    }
}

/// Cuts a text to its first 300 bytes and appends three dots, for conditions and Events (spec 04
/// §2.2).
fn truncated(text: &str) -> String {
    const BYTES_MAX: usize = 300;
    if text.len() < BYTES_MAX {
        return text.to_owned();
    }
    // Do not cut inside a character.
    let end = (0..=BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 04 #43 (the text; a test in the sandbox checks the condition)
    #[test]
    fn long_texts_are_cut_at_300_bytes() {
        assert_eq!(truncated(&"x".repeat(299)), "x".repeat(299));
        assert_eq!(truncated(&"x".repeat(300)), format!("{}...", "x".repeat(300)));
        assert_eq!(truncated(&"x".repeat(400)), format!("{}...", "x".repeat(300)));
        assert_eq!(truncated(&"é".repeat(200)), format!("{}...", "é".repeat(150)));
        assert_eq!(truncated(&format!("x{}", "é".repeat(200))), format!("x{}...", "é".repeat(149)));
    }
}

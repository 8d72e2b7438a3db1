//! `nodeclaim.lifecycle`: takes each managed claim through launch, registration and initialization,
//! or finalizes it (spec 04 §5). It runs whenever the claim or its node changes.
//!
//! Nothing is launched before the finalizer is stored, so that no instance can be lost. The four
//! steps (launch, registration, initialization, liveness) change one copy of the claim, always in
//! this order, and the result is written once. Short-lived reasons why a registered node is not
//! initialized yet are not written.

mod finalize;
mod health;
mod initialization;
mod launch;
mod liveness;
mod never_ready;
mod registration;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_api::conditions::{
    Condition, ConditionSet, ConditionStatus, INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, ObjectFacts, REGISTERED,
    dependents,
};
use kerf_api::finalizers::TERMINATION;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_runtime::{MergePatch, ReconcileAction};
use kerf_state::TrackedClaim;

use tracing::info;

use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted, api_result};
use kerf_operator::Reconcile;
use kerf_operator::logs::reference;

pub(crate) use health::RegistrationHealth;
use launch::LaunchCache;

/// Time after registration before the reasons for a missing initialization are written.
const STARTUP_REASONS_DELAY: Duration = Duration::from_secs(3);

pub(crate) struct Lifecycle {
    ctx: Context,
    launch_cache: LaunchCache,
    health: Arc<RegistrationHealth>,
    /// UIDs of claims that are not initialized and whose node was Ready once.
    ready_once: Mutex<BTreeSet<String>>,
    /// Time since when this process sees changes of nodes.
    started_at: jiff::Timestamp,
}

/// The copy of a claim that the steps change.
struct ClaimUpdate {
    claim: NodeClaim,
    conditions: ConditionSet,
}

/// Outcome of a step.
enum LifecycleStep {
    /// The following steps run; the reconcile runs again no later than this.
    Continue(ReconcileAction),
    /// The claim was deleted; there is nothing left to write.
    Deleted,
}

impl Lifecycle {
    pub(crate) fn new(ctx: Context, health: Arc<RegistrationHealth>) -> Self {
        let started_at = ctx.now();
        Self { ctx, launch_cache: LaunchCache::default(), health, ready_once: Mutex::default(), started_at }
    }

    fn ready_once(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // Every change is a single statement, so a panic elsewhere leaves the set valid.
        self.ready_once.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn advance(&self, tracked: &TrackedClaim) -> Result<ReconcileAction, Interrupted> {
        let stored = self.ensure_finalizer(&tracked.object).await?;
        let mut update = ClaimUpdate::open(stored.clone());
        let (mut next, mut errors) = (ReconcileAction::Done, Vec::new());

        match self.launch(&mut update).await {
            Ok(LifecycleStep::Continue(action)) => next = next.soonest(action),
            Ok(LifecycleStep::Deleted) => return Ok(ReconcileAction::Done),
            Err(error) => errors.push(error),
        }
        for outcome in [self.register(&mut update).await, self.initialize(&mut update).await] {
            match outcome {
                Ok(action) => next = next.soonest(action),
                Err(error) => errors.push(error),
            }
        }
        for outcome in [self.check_liveness(&mut update).await, self.check_never_ready(&mut update).await] {
            match outcome {
                Ok(LifecycleStep::Continue(action)) => next = next.soonest(action),
                Ok(LifecycleStep::Deleted) => return Ok(ReconcileAction::Done),
                Err(error) => errors.push(error),
            }
        }

        if let Some(delay) = self.startup_reasons_delay(&stored, &update) {
            Error::combine(errors)?;
            return Ok(next.soonest(ReconcileAction::RequeueAfter(delay)));
        }
        let is_new = |kind: &str| update.conditions.is_true(kind) && !tracked.is_condition_true(kind);
        let [is_launched, is_registered, is_initialized] = [LAUNCHED, REGISTERED, INITIALIZED].map(is_new);
        let claim = self.store(&stored, update).await?;
        // Log and count only after the write: after a conflict all steps run again.
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

    /// Returns the time for which the result need not be written: if it only updates the reasons of
    /// pending conditions, and registration was less than [`STARTUP_REASONS_DELAY`] ago. A starting
    /// node passes through several such reasons within moments, too short for a user to read them.
    fn startup_reasons_delay(&self, stored: &NodeClaim, update: &ClaimUpdate) -> Option<Duration> {
        let age = update.condition_age(REGISTERED, self.ctx.now());
        if !update.conditions.is_true(REGISTERED) || age >= STARTUP_REASONS_DELAY {
            return None;
        }
        let before = stored.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let after = update.conditions.conditions();
        let is_unknown = |condition: &Condition| condition.status == ConditionStatus::Unknown;
        let is_unchanged = |current: &Condition| {
            let stored = before.iter().find(|stored| stored.condition_type == current.condition_type);
            stored.is_some_and(|stored| stored == current || (is_unknown(stored) && is_unknown(current)))
        };
        let mut updated = update.claim.clone();
        updated.status.get_or_insert_default().conditions = before.to_vec();
        let has_only_new_reasons =
            before != after && before.len() == after.len() && after.iter().all(is_unchanged) && updated == *stored;
        has_only_new_reasons.then(|| STARTUP_REASONS_DELAY.saturating_sub(age))
    }

    async fn ensure_finalizer(&self, claim: &NodeClaim) -> Result<NodeClaim, Interrupted> {
        let mut with_finalizer = claim.clone();
        let finalizers = with_finalizer.metadata.finalizers.get_or_insert_default();
        if finalizers.iter().any(|finalizer| finalizer == TERMINATION) {
            return Ok(claim.clone());
        }
        finalizers.push(TERMINATION.to_owned());
        api_result(
            "adding finalizer",
            actions::claim::update(&self.ctx, MergePatch::OBJECT, claim, &with_finalizer).await,
        )
    }

    /// Writes the result of the steps: metadata first, then status. Each write fails with a
    /// conflict if another writer has changed the claim, so no other controller's condition is
    /// lost. Repeating the steps is safe, because the launch cache still has an instance that was
    /// just launched.
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
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(claim) = self.ctx.managed_claim(name) else { return Ok(ReconcileAction::Done) };
        let outcome = if claim.is_terminating() {
            self.ready_once().remove(claim.uid());
            self.finalize(&claim).await
        } else {
            self.advance(&claim).await
        };
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

    /// Returns true if a condition is `True` or `False`. Then also sets its observed generation to
    /// the current one, so that `Ready` does not become `Unknown` after a change of the object.
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

    /// Returns the time since the condition's last transition. Returns zero if the condition does
    /// not exist.
    fn condition_age(&self, kind: &str, now: jiff::Timestamp) -> Duration {
        let since = self.conditions.get(kind).map_or(now, |condition| condition.last_transition_time.0);
        Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO)
    }
}

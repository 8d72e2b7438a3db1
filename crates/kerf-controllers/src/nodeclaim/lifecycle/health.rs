//! Registration health of NodePools, updated by launches and registrations (spec 04 §5.7). The
//! history is in memory; its result is a condition of the NodePool.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kerf_api::conditions::{Condition, ConditionSet, ObjectFacts, dependents};
use kerf_api::labels;
use kerf_api::nodepool::NodePool;
use kerf_api::registration::{
    NODE_REGISTRATION_HEALTHY, PoolRegistrationHealth, RegistrationHistory, RegistrationOutcome, is_owned_by_pool,
};
use kerf_runtime::{ApiError, MergePatch};

use super::{ClaimUpdate, LAUNCHED};
use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted, REQUEUE_AFTER_CONFLICT};

/// The registration history of each NodePool, by UID.
#[derive(Debug, Default)]
pub(crate) struct RegistrationHealth(Mutex<BTreeMap<String, RegistrationHistory>>);

impl RegistrationHealth {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, RegistrationHistory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the health that follows from a NodePool's history.
    pub(crate) fn get(&self, uid: &str) -> PoolRegistrationHealth {
        self.lock().get(uid).map_or(PoolRegistrationHealth::Unknown, RegistrationHistory::health)
    }

    /// Restores a NodePool's history from its condition.
    pub(crate) fn restore(&self, uid: &str, condition: Option<&Condition>) {
        self.lock().insert(uid.to_owned(), RegistrationHistory::from_condition(condition));
    }

    /// Removes a NodePool's history.
    pub(crate) fn clear(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn health_after(&self, uid: &str, outcome: RegistrationOutcome) -> PoolRegistrationHealth {
        self.lock().entry(uid.to_owned()).or_default().health_after(outcome)
    }

    /// Records the outcome of a claim and updates the condition of its NodePool. Does nothing if
    /// the NodePool was deleted, or deleted and created again.
    pub(super) async fn update(
        &self,
        ctx: &Context,
        claim_update: &ClaimUpdate,
        outcome: RegistrationOutcome,
    ) -> Result<(), Interrupted> {
        let pool_name = claim_update.claim.metadata.labels.as_ref().and_then(|labels| labels.get(labels::NODEPOOL));
        let Some(pool) = pool_name.and_then(|name| ctx.managed_pool(name)) else { return Ok(()) };
        let uid = pool.metadata.uid.clone().unwrap_or_default();
        if !is_owned_by_pool(&claim_update.claim.metadata, &uid) {
            return Ok(());
        }
        let updated = with_outcome(&pool, self.health_after(&uid, outcome), claim_update, outcome, ctx.now());
        match actions::pool::update(ctx, MergePatch::STATUS, &pool, &updated).await {
            Ok(_) => {}
            Err(ApiError::NotFound) => return Ok(()),
            Err(ApiError::Conflict) => return Err(Interrupted::Requeue(REQUEUE_AFTER_CONFLICT)),
            Err(cause) => return Err(Error::Api { operation: "updating nodepool registration health", cause }.into()),
        }
        self.lock().entry(uid).or_default().record(outcome);
        Ok(())
    }
}

/// Returns the NodePool with its condition updated for an outcome.
fn with_outcome(
    pool: &NodePool,
    health: PoolRegistrationHealth,
    claim_update: &ClaimUpdate,
    outcome: RegistrationOutcome,
    now: jiff::Timestamp,
) -> NodePool {
    let mut updated = pool.clone();
    let status = updated.status.get_or_insert_default();
    let stored = std::mem::take(&mut status.conditions);
    let mut conditions = ConditionSet::open(dependents::NODEPOOL, ObjectFacts::of(&pool.metadata), stored);
    match (outcome, health) {
        (RegistrationOutcome::Registered, PoolRegistrationHealth::Healthy) => {
            conditions.set_true(NODE_REGISTRATION_HEALTHY, now);
        }
        (RegistrationOutcome::Failed, PoolRegistrationHealth::Unhealthy)
            if !conditions.is_false(NODE_REGISTRATION_HEALTHY) =>
        {
            let (reason, message) = match claim_update.conditions.get(LAUNCHED) {
                Some(launched) if !claim_update.conditions.is_true(LAUNCHED) => {
                    (launched.reason.as_str(), launched.message.as_str())
                }
                Some(_) | None => ("RegistrationFailed", "Failed to register node"),
            };
            conditions.set_false(NODE_REGISTRATION_HEALTHY, reason, message, now);
        }
        (RegistrationOutcome::Registered | RegistrationOutcome::Failed, _) => {}
    }
    status.conditions = conditions.into_conditions();
    updated
}

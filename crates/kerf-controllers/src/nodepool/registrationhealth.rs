//! `nodepool.registrationhealth`: resets a NodePool's condition `NodeRegistrationHealthy` whenever
//! the NodePool or its node class has changed. After a restart it restores the registration history
//! from the condition (spec 04 §8.4).

use std::sync::Arc;

use kerf_api::conditions::{
    AWAITING_RECONCILIATION, AWAITING_RECONCILIATION_MESSAGE, ConditionSet, ObjectFacts, dependents,
};
use kerf_api::registration::{NODE_REGISTRATION_HEALTHY, PoolRegistrationHealth, is_outdated};
use kerf_api::slim::Str;
use kerf_runtime::{MergePatch, ReconcileAction};

use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted, api_result};
use crate::nodeclaim::lifecycle::RegistrationHealth;
use kerf_operator::Reconcile;

pub(crate) struct NodePoolRegistrationHealth {
    ctx: Context,
    health: Arc<RegistrationHealth>,
}

impl NodePoolRegistrationHealth {
    pub(crate) fn new(ctx: Context, health: Arc<RegistrationHealth>) -> Self {
        Self { ctx, health }
    }

    async fn update(&self, name: &str) -> Result<ReconcileAction, Interrupted> {
        let Some(pool) = self.ctx.managed_pool(name) else { return Ok(ReconcileAction::Done) };
        let Some(class) = self.ctx.cluster.lock().class_of(&pool).cloned() else { return Ok(ReconcileAction::Done) };
        let uid = pool.metadata.uid.clone().unwrap_or_default();
        let mut updated = pool.as_ref().clone();
        let status = updated.status.get_or_insert_default();
        let stored = std::mem::take(&mut status.conditions);
        let mut conditions = ConditionSet::open(dependents::NODEPOOL, ObjectFacts::of(&pool.metadata), stored);
        let condition = conditions.get(NODE_REGISTRATION_HEALTHY).cloned();
        if self.health.get(&uid) == PoolRegistrationHealth::Unknown {
            self.health.restore(&uid, condition.as_ref());
        }
        let class_generation = class.metadata.generation.unwrap_or_default();
        let pool_generation = pool.metadata.generation.unwrap_or_default();
        let is_outdated =
            is_outdated(condition.as_ref(), pool_generation, status.node_class_observed_generation, class_generation);
        if is_outdated {
            conditions.set_unknown(
                NODE_REGISTRATION_HEALTHY,
                AWAITING_RECONCILIATION,
                AWAITING_RECONCILIATION_MESSAGE,
                self.ctx.now(),
            );
        }
        status.node_class_observed_generation = Some(class_generation);
        status.conditions = conditions.into_conditions();
        api_result(
            "patching nodepool status",
            actions::pool::update(&self.ctx, MergePatch::STATUS, &pool, &updated).await,
        )?;
        if is_outdated {
            self.health.clear(&uid);
        }
        Ok(ReconcileAction::Done)
    }
}

impl Reconcile for NodePoolRegistrationHealth {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        Interrupted::into_result(self.update(name).await)
    }
}

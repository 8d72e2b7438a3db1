//! The controllers of NodePools.

pub(crate) mod cost;
pub(crate) mod counter;
pub(crate) mod hash;
pub(crate) mod readiness;
pub(crate) mod registrationhealth;
pub(crate) mod validation;

use jiff::Timestamp;
use kerf_api::conditions::{ConditionSet, ObjectFacts, dependents};
use kerf_api::nodepool::NodePool;
use kerf_runtime::{MergePatch, ReconcileAction};

use crate::actions;
use crate::context::Context;
use crate::error::{Interrupted, api_result};

/// Changes conditions of a NodePool with `change` and writes them if they differ.
async fn update_conditions(
    ctx: &Context,
    pool: &NodePool,
    change: impl FnOnce(&mut ConditionSet, Timestamp),
) -> Result<ReconcileAction, Interrupted> {
    let mut updated = pool.clone();
    let status = updated.status.get_or_insert_default();
    let stored = std::mem::take(&mut status.conditions);
    let mut conditions = ConditionSet::open(dependents::NODEPOOL, ObjectFacts::of(&pool.metadata), stored);
    change(&mut conditions, ctx.now());
    status.conditions = conditions.into_conditions();
    let written = actions::pool::update(ctx, MergePatch::STATUS, pool, &updated).await;
    api_result("patching nodepool status", written).map(|_| ReconcileAction::Done)
}

//! `nodepool.readiness`: sets a NodePool's condition `NodeClassReady` (spec 04 §8.3). Only
//! NodePools that are ready get nodes for pods.

use kerf_api::conditions::{ConditionStatus, NODE_CLASS_READY, READY};
use kerf_api::slim::Str;
use kerf_runtime::ReconcileAction;
use kerf_state::NodeClass;

use crate::context::Context;
use crate::error::{Error, Interrupted};
use kerf_operator::Reconcile;

pub(crate) struct Readiness {
    ctx: Context,
}

impl Readiness {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }
}

impl Reconcile for Readiness {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(pool) = self.ctx.managed_pool(name) else { return Ok(ReconcileAction::Done) };
        let class = {
            let cluster = self.ctx.cluster.lock();
            // Until node classes are listed, an unknown class need not be missing.
            if !cluster.is_node_class_kind_listed(&pool.spec.template.spec.node_class_ref) {
                return Ok(ReconcileAction::RequeueWithBackoff);
            }
            cluster.class_of(&pool).cloned()
        };
        let outcome =
            super::update_conditions(&self.ctx, &pool, |conditions, now| match check_node_class(class.as_deref()) {
                Ok(()) => {
                    conditions.set_true(NODE_CLASS_READY, now);
                }
                Err((reason, message)) => {
                    conditions.set_false(NODE_CLASS_READY, &reason, &message, now);
                }
            });
        Interrupted::into_result(outcome.await)
    }
}

/// Checks if a node class can be used. The error is reason and message of the condition.
fn check_node_class(class: Option<&NodeClass>) -> Result<(), (String, String)> {
    let not_ready = |reason: &str, message: &str| Err((reason.to_owned(), message.to_owned()));
    let Some(class) = class else { return not_ready("NodeClassNotFound", "NodeClass not found on cluster") };
    if class.metadata.deletion_timestamp.is_some() {
        return not_ready("NodeClassTerminating", "NodeClass is Terminating");
    }
    let ready = class.conditions.iter().find(|condition| condition.condition_type == READY);
    match ready.map(|condition| (&condition.status, condition)) {
        Some((ConditionStatus::True, _)) => Ok(()),
        Some((ConditionStatus::False, condition)) => not_ready(&condition.reason, &condition.message),
        Some((ConditionStatus::Unknown | ConditionStatus::Unsupported(_), _)) | None => {
            not_ready("NodeClassReadinessUnknown", "Node Class Readiness Unknown")
        }
    }
}

//! `provisioner.trigger.pod` and `provisioner.trigger.node`: pending pods and nodes that are about
//! to be deleted trigger a provisioning batch, again every ten seconds while they exist (spec 02
//! §1.1).

use std::sync::Arc;
use std::time::Duration;

use kerf_api::slim::{Node, Pod, Str, TaintEffect};
use kerf_api::taints::DISRUPTED;
use kerf_runtime::ReconcileAction;

use super::batch::Batcher;
use crate::context::Context;
use crate::error::Error;
use kerf_operator::Reconcile;

/// Interval at which a pod or node that still needs a decision triggers again.
const RETRIGGER_INTERVAL: Duration = Duration::from_secs(10);

/// Triggers a batch for each pending pod.
pub(crate) struct PodTrigger {
    ctx: Context,
    batcher: Arc<Batcher>,
}

impl PodTrigger {
    pub(crate) fn new(ctx: Context, batcher: Arc<Batcher>) -> Self {
        Self { ctx, batcher }
    }
}

impl Reconcile for PodTrigger {
    type Error = Error;

    async fn reconcile(&self, key: &Str) -> Result<ReconcileAction, Error> {
        let Some(pod) = self.ctx.cluster.lock().get::<Pod>(key).cloned() else { return Ok(ReconcileAction::Done) };
        if !kerf_engine::is_provisionable(&pod, &self.ctx.settings.engine) {
            return Ok(ReconcileAction::Done);
        }
        self.ctx.metrics.pod_acknowledged(key, self.ctx.now());
        self.batcher.trigger(&pod.metadata.uid);
        Ok(ReconcileAction::RequeueAfter(RETRIGGER_INTERVAL))
    }
}

/// Triggers a batch for each node that is about to be deleted.
pub(crate) struct NodeTrigger {
    ctx: Context,
    batcher: Arc<Batcher>,
}

impl NodeTrigger {
    pub(crate) fn new(ctx: Context, batcher: Arc<Batcher>) -> Self {
        Self { ctx, batcher }
    }
}

impl Reconcile for NodeTrigger {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(node) = self.ctx.cluster.lock().get::<Node>(name).cloned() else { return Ok(ReconcileAction::Done) };
        if !is_disrupted(&node) {
            return Ok(ReconcileAction::Done);
        }
        self.batcher.trigger(&node.metadata.uid);
        Ok(ReconcileAction::RequeueAfter(RETRIGGER_INTERVAL))
    }
}

/// Returns true if a node carries the taint of nodes that are about to be deleted.
pub(crate) fn is_disrupted(node: &Node) -> bool {
    node.spec.taints.iter().any(|taint| taint.key == DISRUPTED && taint.effect == TaintEffect::NoSchedule)
}

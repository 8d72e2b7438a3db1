//! Nodes that register and are never Ready (spec 04 §5.6): a kubelet that fails, or a network that
//! never starts. Their pods would wait for ever, because decisions count the node as capacity that
//! is about to be available. The claim is deleted once, with an Event; its pods get another claim,
//! which carries an annotation. That claim is not deleted for this reason, unless other nodes of
//! its NodePool became Ready meanwhile: then the cause is the instance, not the NodePool.
//!
//! A node that was Ready once is not concerned: startup taints and devices may take any time.

use std::time::Duration;

use jiff::Timestamp;
use kerf_api::annotations::kerf::REPLACES_NEVER_READY;
use kerf_api::labels::NODEPOOL;
use kerf_api::slim::{Node, NodeCondition};
use kerf_runtime::{ApiError, ReconcileAction};
use tracing::info;

use super::{ClaimUpdate, INITIALIZED, Lifecycle, LifecycleStep, REGISTERED};
use crate::actions;
use crate::error::Error;
use crate::events;
use kerf_operator::logs::reference;

/// Time after registration within which a node must have been Ready once.
const NEVER_READY_TIMEOUT: Duration = Duration::from_mins(30);
/// Time between two checks whether other nodes of a replacement's NodePool became Ready.
const REPLACEMENT_CHECK_INTERVAL: Duration = Duration::from_mins(5);

impl Lifecycle {
    pub(super) async fn check_never_ready(&self, update: &mut ClaimUpdate) -> Result<LifecycleStep, Error> {
        let uid = update.uid().to_owned();
        if update.conditions.is_true(INITIALIZED) || !update.conditions.is_true(REGISTERED) {
            self.ready_once().remove(&uid);
            return Ok(LifecycleStep::Continue(ReconcileAction::Done));
        }
        let node = {
            let cluster = self.ctx.cluster.lock();
            let mut nodes = cluster.nodes_of(update.provider_id());
            let first = nodes.next().cloned();
            first.filter(|_| nodes.next().is_none())
        };
        let Some(node) = node else { return Ok(LifecycleStep::Continue(ReconcileAction::Done)) };
        let ready = ready_condition(&node);
        if ready.is_some_and(|ready| ready.status == "True") {
            self.ready_once().insert(uid);
            return Ok(LifecycleStep::Continue(ReconcileAction::Done));
        }
        if self.ready_once().contains(&uid) {
            return Ok(LifecycleStep::Continue(ReconcileAction::Done));
        }
        let now = self.ctx.now();
        let registered = update.conditions.get(REGISTERED).map_or(now, |condition| condition.last_transition_time.0);
        // An earlier process may have seen the node Ready. Then `Ready` has changed since.
        let changed = ready.and_then(|ready| ready.last_transition_time).filter(|_| registered < self.started_at);
        let since = changed.map_or(registered, |changed| changed.max(registered));
        let age = Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO);
        if age < NEVER_READY_TIMEOUT {
            let left = NEVER_READY_TIMEOUT.saturating_sub(age);
            return Ok(LifecycleStep::Continue(ReconcileAction::RequeueAfter(left)));
        }
        let annotations = update.claim.metadata.annotations.as_ref();
        let is_replacement = annotations.is_some_and(|annotations| annotations.contains_key(REPLACES_NEVER_READY));
        if is_replacement && !self.has_initialized_claim_since(update, registered) {
            return Ok(LifecycleStep::Continue(ReconcileAction::RequeueAfter(REPLACEMENT_CHECK_INTERVAL)));
        }
        self.delete_never_ready(update, &node).await
    }

    /// Returns true if another claim of the claim's NodePool was initialized after `since`.
    fn has_initialized_claim_since(&self, update: &ClaimUpdate, since: Timestamp) -> bool {
        let labels = update.claim.metadata.labels.as_ref();
        let Some(pool) = labels.and_then(|labels| labels.get(NODEPOOL)) else { return false };
        let cluster = self.ctx.cluster.lock();
        cluster.claims_of_pool(pool).any(|other| {
            let lifecycle = &other.engine_claim.lifecycle;
            lifecycle.is_initialized
                && lifecycle.initialized_at.is_some_and(|at| at > since)
                && other.name() != update.name()
        })
    }

    async fn delete_never_ready(&self, update: &ClaimUpdate, node: &Node) -> Result<LifecycleStep, Error> {
        // Recorded before the deletion: the next decision may follow at once.
        self.ctx.cluster.lock().record_never_ready(update.name());
        match actions::claim::delete(&self.ctx, &update.claim).await {
            Ok(()) => {}
            Err(ApiError::NotFound) => return Ok(LifecycleStep::Deleted),
            Err(cause) => return Err(Error::Api { operation: "deleting nodeclaim", cause }),
        }
        info!(Node = %reference(&node.metadata.name), "replacing a node that was never ready");
        self.ctx.metrics.claim_disrupted(&update.claim, "never_ready", 0);
        for object in [events::claim_reference(&update.claim), events::node_reference(node)] {
            self.ctx.publish(events::node_never_ready(object, NEVER_READY_TIMEOUT));
        }
        Ok(LifecycleStep::Deleted)
    }
}

fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    node.status.conditions.iter().find(|condition| condition.condition_type == "Ready")
}

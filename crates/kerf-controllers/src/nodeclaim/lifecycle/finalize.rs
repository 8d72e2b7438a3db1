//! Finalization of a deleted claim (spec 04 §5.8): its nodes are drained and deleted, then its
//! instance is terminated, then the claim's finalizer is removed.

use std::time::Duration;

use kerf_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use kerf_api::finalizers::TERMINATION;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Node;
use kerf_cloud::InstanceError;
use kerf_runtime::{ApiError, MergePatch, ReconcileAction};
use kerf_state::TrackedClaim;
use tracing::info;

use super::{ClaimUpdate, INSTANCE_TERMINATING, Lifecycle, REGISTERED, launch};
use crate::actions;
use crate::error::{Error, Interrupted, REQUEUE_AFTER_CONFLICT, api_result};
use crate::events;
use kerf_operator::logs::reference;

/// Interval between two checks of an instance that is being terminated.
const INSTANCE_POLL_INTERVAL: Duration = Duration::from_secs(5);

impl Lifecycle {
    pub(super) async fn finalize(&self, tracked: &TrackedClaim) -> Result<ReconcileAction, Interrupted> {
        let has_finalizer =
            tracked.object.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TERMINATION);
        if !has_finalizer {
            return Ok(ReconcileAction::Done);
        }
        let tracked = &self.ensure_instance_recorded(tracked).await?;
        let claim = self.ensure_termination_timestamp(&tracked.object).await?;
        if self.has_registered_node(tracked) && self.delete_nodes(&tracked.engine_claim.provider_id).await? {
            return Ok(ReconcileAction::Done);
        }
        let claim = if tracked.engine_claim.provider_id.is_empty() {
            claim
        } else {
            let is_terminated = match self.ctx.cloud.delete(&tracked.engine_claim.provider_id, Some(&claim)).await {
                Ok(()) => false,
                Err(InstanceError::NotFound(_)) => true,
                Err(cause) => {
                    return Err(Error::Cloud { operation: "terminating instance", cause: Box::new(cause) }.into());
                }
            };
            let claim = self.mark_instance_terminating(claim).await?;
            if !is_terminated {
                return Ok(ReconcileAction::RequeueAfter(INSTANCE_POLL_INTERVAL));
            }
            let conditions = claim.status.as_ref().map_or(&[][..], |status| &status.conditions);
            if let Some(condition) = conditions.iter().find(|c| c.condition_type == INSTANCE_TERMINATING) {
                self.ctx.metrics.instance_terminated(&claim, condition.last_transition_time.0, self.ctx.now());
            }
            claim
        };
        let mut without_finalizer = claim.clone();
        without_finalizer.metadata.finalizers.get_or_insert_default().retain(|finalizer| finalizer != TERMINATION);
        api_result(
            "removing finalizer",
            actions::claim::update(&self.ctx, MergePatch::OBJECT, &claim, &without_finalizer).await,
        )?;
        let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref()).unwrap_or_default();
        info!("provider-id" = %tracked.engine_claim.provider_id, Node = %reference(node), "deleted nodeclaim");
        self.ctx.metrics.claim_terminated(&claim, self.ctx.now());
        Ok(ReconcileAction::Done)
    }

    /// Returns the claim with its launched instance. Records the instance first if the write after
    /// its launch failed because the claim was being deleted.
    async fn ensure_instance_recorded(&self, tracked: &TrackedClaim) -> Result<TrackedClaim, Interrupted> {
        let instance = self.launch_cache.get(tracked.uid(), self.ctx.now());
        let Some(instance) = instance.filter(|_| tracked.engine_claim.provider_id.is_empty()) else {
            return Ok(tracked.clone());
        };
        let mut update = ClaimUpdate::open(tracked.object.clone());
        launch::record_instance(&mut update, instance, self.ctx.now());
        let written = self.store(&tracked.object, update).await?;
        launch::log_launched(&written);
        Ok(TrackedClaim::from(written))
    }

    /// Returns true if a node of the instance has been registered: the claim has the condition, or
    /// the node carries Kerf's finalizer because the write of the condition is still missing.
    fn has_registered_node(&self, tracked: &TrackedClaim) -> bool {
        let cluster = self.ctx.cluster.lock();
        let has_finalizer = |node: &Node| node.metadata.finalizers.iter().any(|finalizer| finalizer == TERMINATION);
        tracked.is_condition_true(REGISTERED)
            || cluster.nodes_of(&tracked.engine_claim.provider_id).any(|node| has_finalizer(node))
    }

    /// Writes the time at which the drain must end, if the claim has a termination grace period and
    /// no timestamp yet.
    async fn ensure_termination_timestamp(&self, claim: &NodeClaim) -> Result<NodeClaim, Interrupted> {
        let is_set =
            claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(NODECLAIM_TERMINATION_TIMESTAMP));
        let (Some(grace), Some(deleted), false) =
            (claim.spec.termination_grace_period.as_ref(), claim.metadata.deletion_timestamp.as_ref(), is_set)
        else {
            return Ok(claim.clone());
        };
        let grace = match grace.as_str().parse::<kerf_api::duration::Duration>() {
            Ok(grace) => grace,
            // Admission accepts durations that are too long to represent, and the spec of a claim
            // cannot be changed. Such a drain has no end.
            Err(error) => {
                self.ctx.publish(events::unreadable_grace_period(claim, &error.to_string()));
                return Ok(claim.clone());
            }
        };
        let at = grace.after(deleted.0);
        let at = jiff::Timestamp::from_second(at.as_second()).unwrap_or(at).to_string();
        let mut annotated = claim.clone();
        let annotations = annotated.metadata.annotations.get_or_insert_default();
        annotations.insert(NODECLAIM_TERMINATION_TIMESTAMP.to_owned(), at.clone());
        let written = actions::claim::update(&self.ctx, MergePatch::OBJECT, claim, &annotated).await;
        let written = api_result("annotating nodeclaim", written)?;
        info!(
            NodeClaim = claim.metadata.name.as_deref().unwrap_or_default(),
            "karpenter.sh/nodeclaim-termination-timestamp" = at,
            "annotated nodeclaim"
        );
        self.ctx.publish(events::termination_grace_period_expiring(claim, &at));
        Ok(written)
    }

    /// Deletes the instance's nodes, which drains them. Returns true if any node still exists.
    async fn delete_nodes(&self, provider_id: &str) -> Result<bool, Interrupted> {
        let nodes: Vec<_> = self.ctx.cluster.lock().nodes_of(provider_id).cloned().collect();
        for node in nodes.iter().filter(|node| !node.metadata.is_terminating()) {
            match actions::node::delete(&self.ctx, &node.metadata.name, &node.metadata.uid).await {
                Ok(()) | Err(ApiError::NotFound) => {}
                Err(ApiError::Conflict) => return Err(Interrupted::Requeue(REQUEUE_AFTER_CONFLICT)),
                Err(cause) => return Err(Error::Api { operation: "deleting node", cause }.into()),
            }
        }
        Ok(!nodes.is_empty())
    }

    async fn mark_instance_terminating(&self, claim: NodeClaim) -> Result<NodeClaim, Interrupted> {
        let ClaimUpdate { claim: mut updated, mut conditions } = ClaimUpdate::open(claim.clone());
        conditions.set_true(INSTANCE_TERMINATING, self.ctx.now());
        updated.status.get_or_insert_default().conditions = conditions.into_conditions();
        api_result(
            "patching nodeclaim status",
            actions::claim::update(&self.ctx, MergePatch::STATUS, &claim, &updated).await,
        )
    }
}

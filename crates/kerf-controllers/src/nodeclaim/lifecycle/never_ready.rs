//! Nodes that register and are never Ready (spec 04 §5.6): a kubelet that fails, or a network that
//! never starts. Their pods would wait for ever, because decisions count the node as capacity that
//! is about to be available. The claim is deleted, with an Event; its pods get another claim, which
//! carries annotations. Each replacement in a row has twice the time of the one before, so that a
//! cause that lasts does not create instance after instance, and pods run soon after it ends. If
//! another node of the NodePool became Ready meanwhile, the cause is the instance rather than the
//! NodePool, and half of the time is enough.
//!
//! A node that was Ready once is not concerned: startup taints and devices may take any time.

use std::time::Duration;

use jiff::Timestamp;
use kerf_api::annotations::kerf::{NEVER_READY_REPLACEMENTS, REPLACES_NEVER_READY};
use kerf_api::labels::NODEPOOL;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::{Node, NodeCondition};
use kerf_runtime::{ApiError, ReconcileAction};
use kerf_state::NeverReadyClaim;
use tracing::info;

use super::{ClaimUpdate, INITIALIZED, Lifecycle, LifecycleStep, REGISTERED};
use crate::actions;
use crate::error::Error;
use crate::events;
use kerf_operator::logs::reference;

/// Time after registration within which a node must have been Ready once. Doubles with each
/// replacement in a row.
const FIRST_TIMEOUT: Duration = Duration::from_mins(30);
/// Upper bound of the doubled times.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(8);
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
        let earlier = earlier_replacements(&update.claim);
        let timeout = never_ready_timeout(earlier);
        let shorter = if earlier == 0 { timeout } else { timeout / 2 };
        if age < shorter {
            return Ok(LifecycleStep::Continue(ReconcileAction::RequeueAfter(shorter.saturating_sub(age))));
        }
        if age < timeout && !self.has_initialized_claim_since(update, registered) {
            let left = timeout.saturating_sub(age).min(REPLACEMENT_CHECK_INTERVAL);
            return Ok(LifecycleStep::Continue(ReconcileAction::RequeueAfter(left)));
        }
        let waited = if age < timeout { shorter } else { timeout };
        self.delete_never_ready(update, &node, earlier, waited).await
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

    async fn delete_never_ready(
        &self,
        update: &ClaimUpdate,
        node: &Node,
        earlier: u32,
        waited: Duration,
    ) -> Result<LifecycleStep, Error> {
        // Recorded before the deletion: the next decision may follow at once.
        let replaced = NeverReadyClaim { name: update.name().into(), count: earlier.saturating_add(1) };
        self.ctx.cluster.lock().record_never_ready(&replaced, self.ctx.now());
        match actions::claim::delete(&self.ctx, &update.claim).await {
            Ok(()) => {}
            Err(ApiError::NotFound) => return Ok(LifecycleStep::Deleted),
            Err(cause) => return Err(Error::Api { operation: "deleting nodeclaim", cause }),
        }
        info!(Node = %reference(&node.metadata.name), "replacing a node that was never ready");
        self.ctx.metrics.claim_disrupted(&update.claim, "never_ready", 0);
        for object in [events::claim_reference(&update.claim), events::node_reference(node)] {
            self.ctx.publish(events::node_never_ready(object, waited));
        }
        Ok(LifecycleStep::Deleted)
    }
}

/// Returns the number of claims in a row that were deleted before this one because their nodes were
/// never Ready. A claim whose number cannot be read has one.
fn earlier_replacements(claim: &NodeClaim) -> u32 {
    let annotation = |key| claim.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
    if annotation(REPLACES_NEVER_READY).is_none() {
        return 0;
    }
    annotation(NEVER_READY_REPLACEMENTS).and_then(|count| count.parse().ok()).unwrap_or(1).max(1)
}

/// Returns the time after registration within which a node must have been Ready once.
fn never_ready_timeout(earlier: u32) -> Duration {
    let factor = 1_u32.checked_shl(earlier).unwrap_or(u32::MAX);
    FIRST_TIMEOUT.saturating_mul(factor).min(LONGEST_TIMEOUT)
}

fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    node.status.conditions.iter().find(|condition| condition.condition_type == "Ready")
}

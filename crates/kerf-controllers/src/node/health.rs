//! `node.health`: deletes unhealthy nodes, as defined by the provider's repair policies (spec 03
//! §12.3). It runs only with the feature gate `NodeRepair`.
//! It reconciles a managed node when its conditions change, and again when the policy's toleration
//! of an unhealthy condition ends.
//!
//! An unhealthy node cannot be drained, so its NodeClaim's termination timestamp is set to now. If
//! many nodes are unhealthy at once, the cause lies outside the nodes and none is deleted.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use kerf_api::labels;
use kerf_api::slim::{Node, Str};
use kerf_cloud::RepairPolicy;
use kerf_runtime::{MergePatch, OptimisticLock, PatchTarget, ReconcileAction};
use kerf_state::{Cluster, TrackedClaim};
use tracing::info;

use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted, api_result};
use crate::events;
use crate::nodeclaim::delete_disrupted;
use kerf_operator::Reconcile;
use kerf_operator::logs::reference;

/// A node is repaired only if at most this percentage of nodes is unhealthy. The allowed number of
/// nodes is rounded up.
const UNHEALTHY_PERCENT_MAX: usize = 20;
/// Delay until the next check when too many nodes were unhealthy.
const REPAIR_BLOCKED_RETRY_DELAY: Duration = Duration::from_mins(5);

/// The controller. Its keys are names of Nodes.
pub(crate) struct NodeHealth {
    ctx: Context,
}

/// A repair policy whose condition a node has.
struct DueRepair {
    policy: RepairPolicy,
    /// The time at which the policy's toleration of the condition ends.
    due: Timestamp,
}

impl NodeHealth {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }

    /// Returns true if the feature gate is on and the provider has repair policies.
    pub(crate) fn is_enabled(&self) -> bool {
        self.ctx.settings.node_repair && !self.ctx.cloud.repair_policies().is_empty()
    }

    async fn repair(&self, claim: &Arc<TrackedClaim>, policy: RepairPolicy) -> Result<ReconcileAction, Interrupted> {
        let now = self.ctx.now();
        let annotation = claim.engine_claim.annotations.get(NODECLAIM_TERMINATION_TIMESTAMP);
        let is_past = annotation.and_then(|text| text.parse::<Timestamp>().ok()).is_some_and(|end| end <= now);
        if !is_past {
            let end = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
            let mut annotated = claim.object.clone();
            let annotations = annotated.metadata.annotations.get_or_insert_default();
            annotations.insert(NODECLAIM_TERMINATION_TIMESTAMP.to_owned(), end.clone());
            let write = MergePatch { target: PatchTarget::Object, lock: OptimisticLock::None };
            let stored = actions::claim::update(&self.ctx, write, &claim.object, &annotated).await;
            api_result("annotating nodeclaim", stored)?;
            info!("karpenter.sh/nodeclaim-termination-timestamp" = end, "annotated nodeclaim");
        }
        if !claim.is_terminating() && delete_disrupted(&self.ctx, claim, "unhealthy").await? {
            info!(NodeClaim = %reference(claim.name()), "deleting unhealthy node");
            self.ctx.metrics.claim_unhealthy(&claim.object, policy.condition);
        }
        Ok(ReconcileAction::Done)
    }

    fn publish_repair_blocked(&self, node: &Node, claim: &TrackedClaim) {
        let pool = claim.pool().and_then(|name| self.ctx.managed_pool(name));
        let message = if claim.pool().is_some() {
            "more than 20% nodes are unhealthy in the nodepool"
        } else {
            "more then 20% nodes are unhealthy in the cluster"
        };
        let references = [events::node_reference(node), events::claim_reference(&claim.object)];
        for reference in references.into_iter().chain(pool.as_deref().map(events::pool_reference)) {
            self.ctx.publish(events::node_repair_blocked(reference, message));
        }
    }
}

impl Reconcile for NodeHealth {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let (node, claim) = {
            let cluster = self.ctx.cluster.lock();
            let Some(node) = cluster.get::<Node>(name) else { return Ok(ReconcileAction::Done) };
            let mut claims = cluster.claims_of(&node.spec.provider_id);
            let (Some(claim), None) = (claims.next(), claims.next()) else { return Ok(ReconcileAction::Done) };
            (node.clone(), claim.clone())
        };
        if !self.ctx.manages_claim(&claim) {
            return Ok(ReconcileAction::Done);
        }
        let policies = self.ctx.cloud.repair_policies();
        let Some(repair) = first_due_repair(policies, &node) else { return Ok(ReconcileAction::Done) };
        let now = self.ctx.now();
        if now < repair.due {
            return Ok(ReconcileAction::RequeueAfter(
                Duration::try_from(repair.due.duration_since(now)).unwrap_or_default(),
            ));
        }
        if has_too_many_unhealthy_nodes(&self.ctx.cluster.lock(), policies, claim.pool()) {
            self.publish_repair_blocked(&node, &claim);
            return Ok(ReconcileAction::RequeueAfter(REPAIR_BLOCKED_RETRY_DELAY));
        }
        Interrupted::into_result(self.repair(&claim, repair.policy).await)
    }
}

/// Returns the policy whose toleration ends first; of several that end at one time, the first in
/// the provider's order. Returns `None` if no policy matches the node.
fn first_due_repair(policies: &[RepairPolicy], node: &Node) -> Option<DueRepair> {
    let repairs = policies.iter().filter_map(|policy| {
        let since = unhealthy_since(*policy, node)?;
        Some(DueRepair { policy: *policy, due: since.checked_add(policy.toleration).unwrap_or(Timestamp::MAX) })
    });
    repairs.min_by_key(|repair| repair.due)
}

/// Returns the time since which a node has the condition of a policy, `None` if it does not have
/// it. A condition without a transition time counts as having been there always.
fn unhealthy_since(policy: RepairPolicy, node: &Node) -> Option<Timestamp> {
    let mut conditions = node.status.conditions.iter();
    let condition = conditions.find(|c| c.condition_type == policy.condition && c.status == policy.status)?;
    Some(condition.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH))
}

/// Returns true if more than [`UNHEALTHY_PERCENT_MAX`] of the nodes are unhealthy: of the nodes of
/// the pool, or of all nodes if the claim has no pool. The cause then lies outside the nodes.
fn has_too_many_unhealthy_nodes(cluster: &Cluster, policies: &[RepairPolicy], pool: Option<&str>) -> bool {
    let is_counted = |node: &&Arc<Node>| pool.is_none_or(|pool| node.metadata.labels.has_value(labels::NODEPOOL, pool));
    let is_unhealthy = |node: &Arc<Node>| policies.iter().any(|policy| unhealthy_since(*policy, node).is_some());
    let (mut total, mut unhealthy) = (0_usize, 0);
    for node in cluster.all::<Node>().values().filter(is_counted) {
        total += 1;
        unhealthy += usize::from(is_unhealthy(node));
    }
    unhealthy > (total * UNHEALTHY_PERCENT_MAX).div_ceil(100)
}

//! `node.termination`: a Node that is being deleted is tainted, drained, parted from its volumes and its machine, and only then let go
//! (spec 04 §7). It acts on managed Nodes that carry our finalizer; everything it needs to know between two looks is in the API.

mod drain;
mod eviction;
mod eviction_order;
mod pods;
mod volumes;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use kerf_api::conditions::{ConditionSet, ObjectFacts, dependents};
use kerf_api::finalizers::TERMINATION;
use kerf_api::slim::{Node, Str, TaintEffect};
use kerf_api::{labels, taints};
use kerf_cloud::InstanceError;
use kerf_runtime::{ApiError, MergePatch, ReconcileAction};
use kerf_state::TrackedClaim;
use tracing::info;

pub(crate) use eviction::EvictionQueue;
pub(crate) use pods::{is_protected, is_reschedulable};

use crate::actions;
use crate::context::Context;
use crate::controllers::Reconcile;
use crate::error::{Error, Interrupted, REQUEUE_AFTER_CONFLICT, api_result};
use crate::events;
use crate::logs::reference;

/// How often a node that waits for something is looked at.
const NODE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often a machine that is being terminated is looked at.
const INSTANCE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Set at termination, so that load balancers stop sending before pods go.
const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const EXCLUDED_BY: &str = "karpenter";

const DRAINED: &str = "Drained";
const VOLUMES_DETACHED: &str = "VolumesDetached";
const INSTANCE_TERMINATING: &str = "InstanceTerminating";

/// The controller.
pub(crate) struct NodeTermination {
    ctx: Context,
    evictions: Arc<EvictionQueue>,
    /// Nodes whose finalizer we have removed and that the watch still shows, by uid: they are counted once.
    finalized_nodes: Mutex<BTreeSet<Str>>,
}

/// A node on its way out, with all that one look at it needs.
struct TerminatingNode {
    node: Arc<Node>,
    /// Its claim; none if there is none, or more than one.
    claim: Option<Arc<TrackedClaim>>,
    /// When draining ends, whatever is still on the node.
    deadline: Option<Timestamp>,
    /// The claim's conditions, as this look leaves them.
    conditions: Option<ConditionSet>,
    now: Timestamp,
}

/// Whether a step is over.
enum TerminationStep {
    Complete,
    Requeue(ReconcileAction),
}

impl NodeTermination {
    pub(crate) fn new(ctx: Context, evictions: Arc<EvictionQueue>) -> Self {
        Self { ctx, evictions, finalized_nodes: Mutex::default() }
    }

    async fn terminate(&self, name: &str) -> Result<ReconcileAction, Interrupted> {
        let Some((node, claim)) = self.find_terminating(name) else { return Ok(ReconcileAction::Done) };
        if let Some(claim) = claim.as_ref().filter(|claim| !claim.is_terminating()) {
            match actions::claim::delete(&self.ctx, &claim.object).await {
                Ok(()) | Err(ApiError::NotFound) => {}
                Err(ApiError::Conflict) => return Ok(REQUEUE_AFTER_CONFLICT),
                Err(cause) => return Err(Error::Api { doing: "deleting nodeclaim", cause }.into()),
            }
        }
        if self.is_instance_gone(&node).await? {
            return self.remove_finalizer(&node, claim.as_deref()).await;
        }
        // The deletion above is in the index now, and with it what else has come in meanwhile.
        let Some((node, claim)) = self.find_terminating(name) else { return Ok(ReconcileAction::Done) };
        let mut leaving = self.terminating_node(node, claim)?;
        self.taint(&leaving).await?;
        let outcome = self.run_steps(&mut leaving).await;
        self.write_conditions(&leaving).await?;
        match outcome? {
            TerminationStep::Requeue(next) => Ok(next),
            TerminationStep::Complete => self.remove_finalizer(&leaving.node, leaving.claim.as_deref()).await,
        }
    }

    /// The node, if it is ours to terminate, and its claim.
    fn find_terminating(&self, name: &str) -> Option<(Arc<Node>, Option<Arc<TrackedClaim>>)> {
        let cluster = self.ctx.cluster.lock();
        let node = cluster.get::<Node>(name).filter(|node| node.metadata.is_terminating())?;
        let metadata = &node.metadata;
        let is_managed =
            self.ctx.cloud.node_classes().iter().any(|kind| metadata.labels.get(&kind.label_key()).is_some());
        let is_ours = is_managed && metadata.finalizers.iter().any(|finalizer| finalizer == TERMINATION);
        if !is_ours || self.finalized_nodes().contains(&metadata.uid) {
            return None;
        }
        let mut claims = cluster.claims_of(&node.spec.provider_id);
        let claim = claims.next().filter(|_| claims.next().is_none()).cloned();
        Some((node.clone(), claim))
    }

    fn terminating_node(&self, node: Arc<Node>, claim: Option<Arc<TrackedClaim>>) -> Result<TerminatingNode, Error> {
        let deadline =
            claim.as_deref().and_then(|claim| claim.engine_claim.annotations.get(NODECLAIM_TERMINATION_TIMESTAMP));
        if let Some(text) = deadline {
            self.ctx.publish(events::node_termination_grace_period_expiring(&node, text));
        }
        let deadline = deadline
            .map(|text| {
                text.parse::<Timestamp>().map_err(|why| {
                    Error::Invalid(format!("parsing annotation, {why} (annotation={NODECLAIM_TERMINATION_TIMESTAMP})"))
                })
            })
            .transpose()?;
        let conditions = claim.as_deref().map(|claim| {
            let stored = claim.object.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
            ConditionSet::open(dependents::NODECLAIM, ObjectFacts::of(&claim.object.metadata), stored)
        });
        Ok(TerminatingNode { node, claim, deadline, conditions, now: self.ctx.now() })
    }

    /// A kubelet that answers proves its machine; of others the provider is asked (spec 04 §7.3).
    async fn is_instance_gone(&self, node: &Node) -> Result<bool, Error> {
        let is_ready = node.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "True");
        if is_ready {
            return Ok(false);
        }
        match self.ctx.cloud.get(&node.spec.provider_id).await {
            Ok(_) => Ok(false),
            Err(InstanceError::NotFound(_)) => Ok(true),
            Err(cause) => Err(Error::Cloud { doing: "getting nodeclaim", cause: Box::new(cause) }),
        }
    }

    /// No pod comes any more, and no traffic from outside (spec 04 §7.4).
    async fn taint(&self, leaving: &TerminatingNode) -> Result<(), Interrupted> {
        let node = &leaving.node;
        let is_tainted =
            node.spec.taints.iter().any(|t| t.key == taints::DISRUPTED && t.effect == TaintEffect::NoSchedule);
        if is_tainted && node.metadata.labels.has_value(EXCLUDE_BALANCERS, EXCLUDED_BY) {
            return Ok(());
        }
        let before = api_result("getting node", actions::node::read(&self.ctx, &node.metadata.name).await)?;
        let mut after = before.clone();
        let all = after.spec.get_or_insert_default().taints.get_or_insert_default();
        if !all.iter().any(|taint| taint.key == taints::DISRUPTED && taint.effect == "NoSchedule") {
            all.retain(|taint| taint.key != taints::DISRUPTED);
            all.push(k8s_openapi::api::core::v1::Taint {
                key: taints::DISRUPTED.to_owned(),
                effect: "NoSchedule".to_owned(),
                ..k8s_openapi::api::core::v1::Taint::default()
            });
        }
        let all = after.metadata.labels.get_or_insert_default();
        all.insert(EXCLUDE_BALANCERS.to_owned(), EXCLUDED_BY.to_owned());
        if before == after {
            return Ok(());
        }
        api_result("tainting node", actions::node::update(&self.ctx, &before, &after).await)?;
        info!(
            NodeClaim = %reference(leaving.claim.as_deref().map_or("", |claim| claim.name())),
            "taint.Key" = taints::DISRUPTED,
            "taint.Value" = "",
            "taint.Effect" = "NoSchedule",
            "tainted node"
        );
        Ok(())
    }

    /// Pods, then volumes, then the machine; the first that is not done yet is where it stops.
    async fn run_steps(&self, leaving: &mut TerminatingNode) -> Result<TerminationStep, Error> {
        if let TerminationStep::Requeue(next) = self.drain(leaving) {
            return Ok(TerminationStep::Requeue(next));
        }
        if let TerminationStep::Requeue(next) = self.await_volume_detachment(leaving) {
            return Ok(TerminationStep::Requeue(next));
        }
        self.terminate_instance(leaving).await
    }

    async fn terminate_instance(&self, leaving: &mut TerminatingNode) -> Result<TerminationStep, Error> {
        let Some(claim) = &leaving.claim else { return Ok(TerminationStep::Complete) };
        let is_gone = match self.ctx.cloud.delete(&claim.engine_claim.provider_id).await {
            Ok(()) => false,
            Err(InstanceError::NotFound(_)) => true,
            Err(cause) => {
                return Err(Error::Cloud { doing: "terminating cloudprovider instance", cause: Box::new(cause) });
            }
        };
        if let Some(conditions) = &mut leaving.conditions {
            conditions.set_true(INSTANCE_TERMINATING, leaving.now);
        }
        Ok(if is_gone {
            TerminationStep::Complete
        } else {
            TerminationStep::Requeue(ReconcileAction::RequeueAfter(INSTANCE_POLL_INTERVAL))
        })
    }

    /// Stores what this look made of the claim's conditions.
    async fn write_conditions(&self, leaving: &TerminatingNode) -> Result<(), Interrupted> {
        let (Some(claim), Some(conditions)) = (&leaving.claim, &leaving.conditions) else { return Ok(()) };
        let was_drained = claim.is_condition_true(DRAINED);
        let mut after = claim.object.clone();
        after.status.get_or_insert_default().conditions = conditions.conditions().to_vec();
        match actions::claim::update(&self.ctx, MergePatch::STATUS, &claim.object, &after).await {
            Ok(_) | Err(ApiError::NotFound) => {}
            Err(ApiError::Conflict) => return Err(Interrupted::Requeue(REQUEUE_AFTER_CONFLICT)),
            Err(cause) => return Err(Error::Api { doing: "patching nodeclaim status", cause }.into()),
        }
        if !was_drained && conditions.is_true(DRAINED) {
            self.ctx.metrics.nodes_drained.inc(&[pool_of(&leaving.node)]);
        }
        Ok(())
    }

    /// Lets the node go (spec 04 §7.9).
    async fn remove_finalizer(
        &self,
        node: &Node,
        claim: Option<&TrackedClaim>,
    ) -> Result<ReconcileAction, Interrupted> {
        let metadata = &node.metadata;
        api_result("removing finalizer", actions::node::remove_finalizer(&self.ctx, &metadata.name).await)?;
        self.finalized_nodes().insert(metadata.uid.clone());
        let (pool, zone) = (pool_of(node), metadata.labels.get(labels::ZONE).unwrap_or_default());
        let now = self.ctx.now();
        let metrics = &self.ctx.metrics;
        metrics.nodes_terminated.inc(&[pool, zone]);
        let since = |then: Option<Timestamp>| then.map(|then| now.duration_since(then).as_secs_f64());
        if let Some(seconds) = since(metadata.deletion_timestamp) {
            metrics.nodes_termination_duration.observe(&[pool], seconds, now);
        }
        if let Some(seconds) = since(metadata.creation_timestamp) {
            metrics.nodes_lifetime_duration.observe(&[pool], seconds);
        }
        info!(NodeClaim = %reference(claim.map_or("", |claim| claim.name())), "deleted node");
        Ok(ReconcileAction::Done)
    }

    /// The node is out of the index: nothing about it needs to be remembered.
    pub(crate) fn forget(&self, node: &Node) {
        self.finalized_nodes().remove(&node.metadata.uid);
    }

    fn finalized_nodes(&self) -> std::sync::MutexGuard<'_, BTreeSet<Str>> {
        self.finalized_nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconcile for NodeTermination {
    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        Interrupted::into_result(self.terminate(name).await)
    }
}

fn pool_of(node: &Node) -> &str {
    node.metadata.labels.get(labels::NODEPOOL).unwrap_or_default()
}

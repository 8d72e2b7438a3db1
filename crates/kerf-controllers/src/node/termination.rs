//! `node.termination`: takes a deleting Node through its termination (spec 04 §7): taint, drain,
//! wait for volume detachment, terminate the instance, remove the finalizer.
//! It acts on managed Nodes that carry Karpenter's termination finalizer. Between two reconciles
//! all progress is in the API, so a restart loses nothing.

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
use kerf_api::conditions::{ConditionSet, DRAINED, INSTANCE_TERMINATING, ObjectFacts, VOLUMES_DETACHED, dependents};
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
use crate::error::{Error, Interrupted, REQUEUE_AFTER_CONFLICT, api_result};
use crate::events;
use kerf_operator::Reconcile;
use kerf_operator::logs::reference;

/// Delay between two checks of a node that waits for pods or volumes.
const NODE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Delay between two checks of an instance that is being terminated.
const INSTANCE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Label that makes load balancers stop sending traffic. It is set before the pods are evicted.
const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const EXCLUDED_BY: &str = "karpenter";

/// The controller. Its keys are names of Nodes.
pub(crate) struct NodeTermination {
    ctx: Context,
    evictions: Arc<EvictionQueue>,
    /// Uids of nodes whose finalizer is removed and which the watch still shows. Without them the
    /// metrics would count a node twice.
    finalized_nodes: Mutex<BTreeSet<Str>>,
}

/// A deleting node with everything that one reconcile needs.
struct TerminatingNode {
    node: Arc<Node>,
    /// The node's NodeClaim. `None` if there is none or more than one.
    claim: Option<Arc<TrackedClaim>>,
    /// The time at which draining ends, whatever pods are left. `None` if the claim sets no limit.
    deadline: Option<Timestamp>,
    /// The claim's conditions as changed by this reconcile. `None` without a claim.
    conditions: Option<ConditionSet>,
    now: Timestamp,
}

/// Result of one step of the termination.
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
                Err(cause) => return Err(Error::Api { operation: "deleting nodeclaim", cause }.into()),
            }
        }
        if self.is_instance_gone(&node).await? {
            return self.remove_finalizer(&node, claim.as_deref()).await;
        }
        // Read again: the cluster state now contains the deletion above and other changes that
        // arrived during the requests.
        let Some((node, claim)) = self.find_terminating(name) else { return Ok(ReconcileAction::Done) };
        let mut terminating = self.terminating_node(node, claim)?;
        self.taint(&terminating).await?;
        let outcome = self.run_steps(&mut terminating).await;
        self.write_conditions(&terminating).await?;
        match outcome? {
            TerminationStep::Requeue(next) => Ok(next),
            TerminationStep::Complete => self.remove_finalizer(&terminating.node, terminating.claim.as_deref()).await,
        }
    }

    /// Returns the node and its claim. Returns `None` if the node is not deleting, not managed, has
    /// no termination finalizer or is already finalized.
    fn find_terminating(&self, name: &str) -> Option<(Arc<Node>, Option<Arc<TrackedClaim>>)> {
        let cluster = self.ctx.cluster.lock();
        let node = cluster.get::<Node>(name).filter(|node| node.metadata.is_terminating())?;
        let metadata = &node.metadata;
        let is_managed =
            self.ctx.cloud.node_classes().iter().any(|kind| metadata.labels.get(&kind.label_key()).is_some());
        let is_handled = is_managed && metadata.finalizers.iter().any(|finalizer| finalizer == TERMINATION);
        if !is_handled || self.finalized_nodes().contains(&metadata.uid) {
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

    /// Returns true if the node's instance no longer exists. A node that is Ready has an instance;
    /// for all others this asks the provider (spec 04 §7.3).
    async fn is_instance_gone(&self, node: &Node) -> Result<bool, Error> {
        let is_ready = node.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "True");
        if is_ready {
            return Ok(false);
        }
        match self.ctx.cloud.get(&node.spec.provider_id).await {
            Ok(_) => Ok(false),
            Err(InstanceError::NotFound(_)) => Ok(true),
            Err(cause) => Err(Error::Cloud { operation: "getting nodeclaim", cause: Box::new(cause) }),
        }
    }

    /// Sets the disrupted taint, which keeps new pods off the node, and the label that stops
    /// external traffic (spec 04 §7.4).
    async fn taint(&self, terminating: &TerminatingNode) -> Result<(), Interrupted> {
        let node = &terminating.node;
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
            NodeClaim = %reference(terminating.claim.as_deref().map_or("", |claim| claim.name())),
            "taint.Key" = taints::DISRUPTED,
            "taint.Value" = "",
            "taint.Effect" = "NoSchedule",
            "tainted node"
        );
        Ok(())
    }

    /// Runs the steps in order: pods, volumes, instance. Stops at the first step that is not
    /// complete.
    async fn run_steps(&self, terminating: &mut TerminatingNode) -> Result<TerminationStep, Error> {
        if let TerminationStep::Requeue(next) = self.drain(terminating) {
            return Ok(TerminationStep::Requeue(next));
        }
        if let TerminationStep::Requeue(next) = self.await_volume_detachment(terminating) {
            return Ok(TerminationStep::Requeue(next));
        }
        self.terminate_instance(terminating).await
    }

    async fn terminate_instance(&self, terminating: &mut TerminatingNode) -> Result<TerminationStep, Error> {
        let Some(claim) = &terminating.claim else { return Ok(TerminationStep::Complete) };
        let is_gone = match self.ctx.cloud.delete(&claim.engine_claim.provider_id, Some(&claim.object)).await {
            Ok(()) => false,
            Err(InstanceError::NotFound(_)) => true,
            Err(cause) => {
                return Err(Error::Cloud { operation: "terminating cloudprovider instance", cause: Box::new(cause) });
            }
        };
        if let Some(conditions) = &mut terminating.conditions {
            conditions.set_true(INSTANCE_TERMINATING, terminating.now);
        }
        Ok(if is_gone {
            TerminationStep::Complete
        } else {
            TerminationStep::Requeue(ReconcileAction::RequeueAfter(INSTANCE_POLL_INTERVAL))
        })
    }

    /// Writes the claim's conditions as changed by this reconcile.
    async fn write_conditions(&self, terminating: &TerminatingNode) -> Result<(), Interrupted> {
        let (Some(claim), Some(conditions)) = (&terminating.claim, &terminating.conditions) else { return Ok(()) };
        let was_drained = claim.is_condition_true(DRAINED);
        let mut after = claim.object.clone();
        after.status.get_or_insert_default().conditions = conditions.conditions().to_vec();
        match actions::claim::update(&self.ctx, MergePatch::STATUS, &claim.object, &after).await {
            Ok(_) | Err(ApiError::NotFound) => {}
            Err(ApiError::Conflict) => return Err(Interrupted::Requeue(REQUEUE_AFTER_CONFLICT)),
            Err(cause) => return Err(Error::Api { operation: "patching nodeclaim status", cause }.into()),
        }
        if !was_drained && conditions.is_true(DRAINED) {
            self.ctx.metrics.nodes_drained.inc(&[pool_of(&terminating.node)]);
        }
        Ok(())
    }

    /// Removes the finalizer, which lets the API server delete the node (spec 04 §7.9).
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

    /// Forgets a node that the watch no longer shows.
    pub(crate) fn forget(&self, node: &Node) {
        self.finalized_nodes().remove(&node.metadata.uid);
    }

    fn finalized_nodes(&self) -> std::sync::MutexGuard<'_, BTreeSet<Str>> {
        self.finalized_nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconcile for NodeTermination {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        Interrupted::into_result(self.terminate(name).await)
    }
}

fn pool_of(node: &Node) -> &str {
    node.metadata.labels.get(labels::NODEPOOL).unwrap_or_default()
}

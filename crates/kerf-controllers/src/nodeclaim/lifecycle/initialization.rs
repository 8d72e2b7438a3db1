//! Initialization (spec 04 §5.5): checks that the registered node is ready, has no startup taints
//! left and offers all requested resources.

use std::collections::BTreeMap;

use kerf_api::labels;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Node, ResourceList, Taint};
use kerf_api::taints::{Taint as WrittenTaint, is_ephemeral};
use kerf_runtime::{ApiError, ReconcileAction};
use tracing::info;

use super::{ClaimUpdate, INITIALIZED, Lifecycle, REGISTERED};
use crate::actions;
use crate::error::Error;
use kerf_operator::logs::{json, reference};

/// Why a node is not initialized: reason and message of the condition.
struct UninitializedReason {
    reason: &'static str,
    message: String,
}

impl Lifecycle {
    pub(super) async fn initialize(&self, update: &mut ClaimUpdate) -> Result<ReconcileAction, Error> {
        let now = self.ctx.now();
        if update.renew_if_settled(INITIALIZED, now) || !update.conditions.is_true(REGISTERED) {
            return Ok(ReconcileAction::Done);
        }
        let node = {
            let cluster = self.ctx.cluster.lock();
            let mut nodes = cluster.nodes_of(update.provider_id());
            let first = nodes.next().cloned();
            first.filter(|_| nodes.next().is_none())
        };
        let missing = match &node {
            None => Some(uninitialized("NodeNotFound", "Node not registered with cluster".to_owned())),
            Some(node) => first_uninitialized_reason(update, node),
        };
        let (Some(node), None) = (&node, &missing) else {
            if let Some(missing) = missing {
                update.conditions.set_unknown(INITIALIZED, missing.reason, &missing.message, now);
            }
            return Ok(ReconcileAction::Done);
        };
        // The label may exist already, if only the write of the claim failed the last time.
        if !node.metadata.labels.has_value(labels::INITIALIZED, "true") {
            match actions::node::set_label(&self.ctx, &node.metadata.name, labels::INITIALIZED, "true").await {
                Ok(()) => {}
                Err(ApiError::NotFound | ApiError::Conflict) => return Ok(ReconcileAction::RequeueWithBackoff),
                Err(cause) => return Err(Error::Api { operation: "patching node", cause }),
            }
        }
        update.conditions.set_true(INITIALIZED, self.ctx.now());
        Ok(ReconcileAction::Done)
    }

    /// Logs that a claim is initialized, with the node's allocatable resources.
    pub(super) fn log_initialized(&self, provider_id: &str, node: &str) {
        let node_object = self.ctx.cluster.lock().get::<Node>(node).cloned();
        let allocatable =
            node_object.as_deref().map(|node| &node.status.allocatable).into_iter().flat_map(ResourceList::iter);
        let allocatable: BTreeMap<_, _> =
            allocatable.map(|(name, amount)| (name.as_str(), amount.to_string())).collect();
        info!(
            "provider-id" = provider_id,
            Node = %reference(node),
            allocatable = %json(&allocatable),
            "initialized nodeclaim"
        );
    }
}

fn uninitialized(reason: &'static str, message: String) -> UninitializedReason {
    UninitializedReason { reason, message }
}

/// Returns the first reason why the node is not initialized, in the order of spec 04 §5.5.
fn first_uninitialized_reason(update: &ClaimUpdate, node: &Node) -> Option<UninitializedReason> {
    let is_ready = node.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "True");
    if !is_ready {
        return Some(uninitialized("NodeNotReady", "Node status is NotReady".to_owned()));
    }
    let startup = update.claim.spec.startup_taints.as_deref().unwrap_or_default();
    let matches = |taint: &Taint, other: &WrittenTaint| taint.key == other.key && taint.effect == other.effect;
    if let Some(taint) = node.spec.taints.iter().find(|taint| startup.iter().any(|other| matches(taint, other))) {
        return Some(uninitialized(
            "StartupTaintsExist",
            format!("StartupTaint \"{}\" still exists", format_taint(taint)),
        ));
    }
    if let Some(taint) = node.spec.taints.iter().find(|taint| is_ephemeral(&taint.key, &taint.effect)) {
        return Some(uninitialized(
            "KnownEphemeralTaintsExist",
            format!("KnownEphemeralTaint \"{}\" still exists", format_taint(taint)),
        ));
    }
    let requests = update.claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let is_requested = |text: &str| text.parse::<Quantity>().is_ok_and(|amount| !amount.is_zero());
    let is_offered = |name: &str| node.status.allocatable.get(name).is_some_and(|amount| !amount.is_zero());
    let missing =
        requests.into_iter().flatten().find(|(name, requested)| is_requested(&requested.text()) && !is_offered(name));
    missing.map(|(name, _)| {
        uninitialized("ResourceNotRegistered", format!("Resource \"{name}\" was requested but not registered"))
    })
}

fn format_taint(taint: &Taint) -> String {
    if taint.value.is_empty() {
        format!("{}:{}", taint.key, taint.effect)
    } else {
        format!("{}={}:{}", taint.key, taint.value, taint.effect)
    }
}

//! Registration (spec 04 §5.4): the instance's node has joined the cluster; it gets the finalizer,
//! owner, labels, annotations and taints of its claim.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kerf_api::finalizers::TERMINATION;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::registration::RegistrationOutcome;
use kerf_api::{labels, slim, taints};
use kerf_cloud::HookResult;
use kerf_runtime::{ApiError, ReconcileAction};
use tracing::error;

use super::{ClaimUpdate, Lifecycle, REGISTERED};
use crate::actions;
use crate::error::{Error, Interrupted, REQUEUE_AFTER_CONFLICT};
use crate::events;

/// Nodes with the claim's provider ID.
enum MatchedNodes {
    None,
    One(Arc<slim::Node>),
    Several,
}

/// Progress of a node's registration.
enum RegistrationProgress {
    Done,
    Pending(ReconcileAction),
}

/// Combined results of all registration hooks.
struct HookResults {
    pending: Vec<String>,
    next: ReconcileAction,
    errors: Vec<Error>,
}

impl Lifecycle {
    pub(super) async fn register(&self, update: &mut ClaimUpdate) -> Result<ReconcileAction, Error> {
        let now = self.ctx.now();
        if update.renew_if_settled(REGISTERED, now) {
            return Ok(ReconcileAction::Done);
        }
        let node = match self.find_node(update.provider_id()) {
            MatchedNodes::One(node) => node,
            MatchedNodes::None => {
                update.conditions.set_unknown(REGISTERED, "NodeNotFound", "Node not registered with cluster", now);
                return Ok(ReconcileAction::Done);
            }
            MatchedNodes::Several => {
                let message = "Invariant violated, matched multiple nodes";
                update.conditions.set_false(REGISTERED, "MultipleNodesFound", message, now);
                return Ok(ReconcileAction::Done);
            }
        };
        // The node may be registered already, if only the write of the claim failed the last time.
        let is_registered = self.ctx.cloud.registration_hooks().is_empty() && is_registered(&update.claim, &node);
        if !is_registered {
            match self.register_node(update, &node.metadata.name).await? {
                RegistrationProgress::Done => {}
                RegistrationProgress::Pending(next) => return Ok(next),
            }
        }
        match self.health.update(&self.ctx, update, RegistrationOutcome::Registered).await {
            Ok(()) => {}
            Err(Interrupted::Requeue(next)) => return Ok(next),
            Err(Interrupted::Failed(error)) => return Err(error),
        }
        update.claim.status.get_or_insert_default().node_name = Some(node.metadata.name.to_string());
        update.conditions.set_true(REGISTERED, self.ctx.now());
        Ok(ReconcileAction::Done)
    }

    /// Syncs the node with its claim. If no hook is pending, also removes the taint that keeps pods
    /// away.
    async fn register_node(&self, update: &mut ClaimUpdate, name: &str) -> Result<RegistrationProgress, Error> {
        let now = self.ctx.now();
        let stored = match actions::node::read(&self.ctx, name).await {
            Ok(node) => node,
            // Cluster state is outdated: the node has been deleted again.
            Err(ApiError::NotFound) => return Ok(RegistrationProgress::Pending(ReconcileAction::RequeueWithBackoff)),
            Err(cause) => return Err(Error::Api { operation: "getting node", cause }),
        };
        let lacks_unregistered_taint =
            !has_label(&stored, labels::REGISTERED) && !node_taints(&stored).iter().any(is_unregistered);

        let mut node = stored.clone();
        sync_node(&update.claim, &mut node);
        let hooks = self.run_hooks(update).await;
        if hooks.pending.is_empty() {
            // A hook may have added labels and annotations to the claim.
            sync_node(&update.claim, &mut node);
            node.spec.get_or_insert_default().taints.get_or_insert_default().retain(|taint| !is_unregistered(taint));
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert(labels::REGISTERED.to_owned(), "true".to_owned());
        } else {
            update.conditions.set_unknown(REGISTERED, "RegistrationHookPending", &hooks.pending.join(", "), now);
        }
        match actions::node::update(&self.ctx, &stored, &node).await {
            Ok(()) => {}
            Err(ApiError::Conflict) => return Ok(RegistrationProgress::Pending(REQUEUE_AFTER_CONFLICT)),
            Err(ApiError::NotFound) => return Ok(RegistrationProgress::Pending(ReconcileAction::RequeueWithBackoff)),
            Err(cause) => return Err(Error::Api { operation: "patching node", cause }),
        }
        // Log only after the write: after a conflict the whole step runs again.
        if lacks_unregistered_taint {
            error!(NodeClaim = update.name(), taint = taints::UNREGISTERED, "node claim registration error");
            self.ctx.publish(events::unregistered_taint_missing(&update.claim));
        }
        if hooks.pending.is_empty() {
            return Ok(RegistrationProgress::Done);
        }
        Error::combine(hooks.errors)?;
        Ok(RegistrationProgress::Pending(hooks.next))
    }

    fn find_node(&self, provider_id: &str) -> MatchedNodes {
        let cluster = self.ctx.cluster.lock();
        let mut nodes = cluster.nodes_of(provider_id);
        match (nodes.next(), nodes.next()) {
            (None, _) => MatchedNodes::None,
            (Some(node), None) => MatchedNodes::One(node.clone()),
            (Some(_), Some(_)) => MatchedNodes::Several,
        }
    }

    /// Calls all hooks, even if the first one is pending. Adds their labels and annotations to the
    /// claim.
    async fn run_hooks(&self, update: &mut ClaimUpdate) -> HookResults {
        let hooks = self.ctx.cloud.registration_hooks();
        let results = join_all(hooks.iter().map(|hook| hook.check_registration(&update.claim))).await;
        let mut combined = HookResults { pending: Vec::new(), next: ReconcileAction::Done, errors: Vec::new() };
        for (hook, result) in hooks.iter().zip(results) {
            match result {
                Ok(progress) => {
                    if progress.is_pending() {
                        combined.pending.push(hook.name().to_owned());
                        combined.next = combined.next.soonest(hook_requeue(&progress));
                    }
                    let metadata = &mut update.claim.metadata;
                    metadata.labels.get_or_insert_default().extend(progress.labels);
                    metadata.annotations.get_or_insert_default().extend(progress.annotations);
                }
                Err(cause) => {
                    combined.pending.push(hook.name().to_owned());
                    combined.errors.push(Error::Hook { name: hook.name().to_owned(), cause });
                }
            }
        }
        combined
    }
}

fn hook_requeue(progress: &HookResult) -> ReconcileAction {
    if progress.requeue {
        ReconcileAction::RequeueWithBackoff
    } else {
        ReconcileAction::RequeueAfter(progress.requeue_after)
    }
}

/// Adds the finalizer, and the claim's owner reference, taints, annotations and labels to the node.
/// Adds no taints if the node has the label `karpenter.sh/do-not-sync-taints=true`.
fn sync_node(claim: &NodeClaim, node: &mut Node) {
    let finalizers = node.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == TERMINATION) {
        finalizers.push(TERMINATION.to_owned());
    }
    add_owner_reference(claim, node);
    let syncs_taints = node
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(labels::DO_NOT_SYNC_TAINTS))
        .is_none_or(|value| value != "true");
    if syncs_taints {
        let claim_taints = claim.spec.taints.iter().flatten().chain(claim.spec.startup_taints.iter().flatten());
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        for taint in claim_taints {
            if !taints.iter().any(|existing| existing.key == taint.key && existing.effect == taint.effect.as_str()) {
                taints.push(Taint {
                    key: taint.key.clone(),
                    effect: taint.effect.as_str().to_owned(),
                    value: taint.value.clone(),
                    time_added: taint.time_added.clone(),
                });
            }
        }
    }
    let pairs_of = |pairs: &Option<std::collections::BTreeMap<String, String>>| pairs.clone().unwrap_or_default();
    node.metadata.annotations.get_or_insert_default().extend(pairs_of(&claim.metadata.annotations));
    node.metadata.labels.get_or_insert_default().extend(pairs_of(&claim.metadata.labels));
}

fn add_owner_reference(claim: &NodeClaim, node: &mut Node) {
    let owner = OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodeClaim".to_owned(),
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    let owners = node.metadata.owner_references.get_or_insert_default();
    let is_same_owner =
        |o: &OwnerReference| o.api_version == owner.api_version && o.kind == owner.kind && o.uid == owner.uid;
    if !owners.iter().any(is_same_owner) {
        owners.push(owner);
    }
}

/// Returns true if the node is completely registered; one write contains all of it. The label alone
/// does not prove it: a node that joined with that label has no claim as its owner. Startup taints
/// are not checked, because they may have been removed since.
fn is_registered(claim: &NodeClaim, node: &slim::Node) -> bool {
    let is_tainted = node.spec.taints.iter().any(|taint| taint.key == taints::UNREGISTERED);
    let has_finalizer = node.metadata.finalizers.iter().any(|finalizer| finalizer == TERMINATION);
    let is_owned =
        node.metadata.owner_references.iter().any(|owner| Some(owner.uid.as_str()) == claim.metadata.uid.as_deref());
    let is_labelled =
        claim.metadata.labels.iter().flatten().all(|(key, value)| node.metadata.labels.has_value(key, value));
    has_finalizer
        && is_owned
        && is_labelled
        && !is_tainted
        && node.metadata.labels.has_value(labels::REGISTERED, "true")
}

fn has_label(node: &Node, key: &str) -> bool {
    node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key))
}

fn node_taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

fn is_unregistered(taint: &Taint) -> bool {
    taint.key == taints::UNREGISTERED && taint.effect == "NoExecute"
}

//! `nodeclaim.tagging`: tags the instance of a claim with the names of claim and node once the node
//! is known (spec 06 §13). The tags are no launch tags, so that equal claims can be launched
//! together.

use std::sync::Arc;
use std::time::Duration;

use kerf_api::annotations::aws::{CLUSTER_NAME_TAGGED, TAGGED};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_cloud::ProviderSetup;
use kerf_operator::logs::ObjectKind;
use kerf_operator::{Concurrency, ControllerName, Reconcile, ReconcileError};
use kerf_runtime::{ApiError, MergePatch, OptimisticLock, PatchTarget, ReconcileAction};
use kerf_state::TrackedClaim;
use kube::Api;
use tracing::error;

use crate::context::AwsContext;
use crate::instances::{CLUSTER_NAME_TAG, InstanceCallError, NODECLAIM_TAG, ReadFrom, parse_provider_id};
use crate::ports::Tags;

/// Pause after each `CreateTags`. With one worker it limits the calls to one per second.
const PAUSE_AFTER_TAGGING: Duration = Duration::from_secs(1);
/// Tag that the EC2 console shows as the name of an instance.
const NAME_TAG: &str = "Name";

/// The controller.
pub(crate) struct NodeClaimTagging {
    context: Arc<AwsContext>,
}

/// Failure to tag an instance or to record it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaggingError {
    #[error("tagging nodeclaim, {0}")]
    Instance(#[source] InstanceCallError),
    #[error("patching nodeclaim, {0}")]
    Patch(#[source] ApiError),
}

impl ReconcileError for TaggingError {
    fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        match self {
            Self::Instance(cause) => cause.log_fields(),
            Self::Patch(_) => Vec::new(),
        }
    }
}

impl NodeClaimTagging {
    /// Adds the controller, and the handler that enqueues claims whose instance is not tagged.
    pub(crate) fn add_to(setup: &mut ProviderSetup<'_>, context: Arc<AwsContext>) {
        let name = ControllerName::of_kind("nodeclaim.tagging", ObjectKind::of::<NodeClaim>());
        let registered = setup.set.add::<Self>(name, Self { context }, Concurrency::reasonable(1));
        setup.set.handlers_mut().add::<TrackedClaim>(move |change| {
            if let Some(claim) = change.after.as_ref().filter(|claim| is_taggable(&claim.object)) {
                registered.enqueue(claim.name());
            }
        });
    }

    async fn tag_instance(&self, claim: &NodeClaim, id: &str) -> Result<(), InstanceCallError> {
        let instance = self.context.instances.get(id, ReadFrom::Ec2).await?;
        let status = claim.status.as_ref();
        let node_name = status.and_then(|status| status.node_name.clone()).unwrap_or_default();
        let mut tags = Tags::from([
            (NAME_TAG.to_owned(), node_name),
            (NODECLAIM_TAG.to_owned(), claim.metadata.name.clone().unwrap_or_default()),
            (CLUSTER_NAME_TAG.to_owned(), self.context.settings.cluster_name.clone()),
        ]);
        // A tag of the user stays, whatever its value is.
        tags.retain(|key, _| !instance.tags.contains_key(key));
        if tags.is_empty() {
            return Ok(());
        }
        let result = self.context.instances.tag(id, tags).await;
        tokio::time::sleep(PAUSE_AFTER_TAGGING).await;
        result
    }
}

impl Reconcile for NodeClaimTagging {
    type Error = TaggingError;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, TaggingError> {
        let claim = self.context.cluster.lock().get::<TrackedClaim>(name).cloned();
        let Some(claim) = claim.filter(|claim| is_taggable(&claim.object)) else { return Ok(ReconcileAction::Done) };
        let provider_id = claim.object.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let id = match parse_provider_id(provider_id.unwrap_or_default()) {
            Ok(id) => id,
            Err(cause) => {
                error!(error = %cause, "failed parsing instance id");
                return Ok(ReconcileAction::Done);
            }
        };
        match self.tag_instance(&claim.object, id).await {
            Ok(()) => {}
            Err(InstanceCallError::NotFound(_)) => return Ok(ReconcileAction::Done),
            Err(cause) => return Err(TaggingError::Instance(cause)),
        }
        let mut tagged = claim.object.clone();
        let annotations = tagged.metadata.annotations.get_or_insert_default();
        for key in [TAGGED, CLUSTER_NAME_TAGGED] {
            annotations.insert(key.to_owned(), "true".to_owned());
        }
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        let patch = MergePatch { target: PatchTarget::Object, lock: OptimisticLock::None };
        match patch.send(&api, &claim.object, &tagged).await {
            Ok(_) | Err(ApiError::NotFound) => Ok(ReconcileAction::Done),
            Err(cause) => Err(TaggingError::Patch(cause)),
        }
    }
}

/// Returns true if the instance of a claim can be tagged and is not tagged yet.
fn is_taggable(claim: &NodeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    let is_true = |key: &&str| annotations.and_then(|all| all.get(*key)).is_some_and(|value| value == "true");
    let has_node =
        claim.status.as_ref().and_then(|status| status.node_name.as_deref()).is_some_and(|name| !name.is_empty());
    let is_tagged = [TAGGED, CLUSTER_NAME_TAGGED].iter().all(is_true);
    has_node && !is_tagged && claim.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests;

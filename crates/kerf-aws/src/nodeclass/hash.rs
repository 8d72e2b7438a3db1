//! `nodeclass.hash`: writes the drift hash of a class into its annotations, and migrates claims
//! with another hash version (spec 06 §6.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::annotations::aws::{EC2NODECLASS_HASH, EC2NODECLASS_HASH_VERSION};
use kerf_api::conditions::DRIFTED;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::hash::{self, Migration, ec2nodeclass_hash, migration};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_operator::Reconcile;
use kerf_runtime::{ApiError, MergePatch, OptimisticLock, PatchTarget, ReconcileAction};
use kube::Api;

use super::error::{NodeClassError, NodeClassErrors};
use super::{claims_of_class, find_class};
use crate::context::AwsContext;

/// A merge patch changes single annotations, so those of other writers are kept without a lock.
const UNLOCKED: MergePatch = MergePatch { target: PatchTarget::Object, lock: OptimisticLock::None };

/// The controller.
pub(super) struct NodeClassHash {
    context: Arc<AwsContext>,
}

impl NodeClassHash {
    pub(super) fn new(context: Arc<AwsContext>) -> Self {
        Self { context }
    }

    /// Writes version and hash of all claims whose version differs. Visits all claims even if one
    /// cannot be written.
    async fn migrate_claims(&self, class: &str, hash: &str) -> Result<(), NodeClassErrors> {
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        let mut errors = Vec::new();
        for claim in claims_of_class(&self.context.cluster, class) {
            match UNLOCKED.send(&api, &claim.object, &migrated(&claim.object, hash)).await {
                Ok(_) | Err(ApiError::NotFound) => {}
                Err(cause) => errors.push(NodeClassError::Api { operation: "patching nodeclaim", cause }),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(NodeClassErrors(errors)) }
    }
}

impl Reconcile for NodeClassHash {
    type Error = NodeClassErrors;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, NodeClassErrors> {
        let Some(class) = find_class(&self.context.cluster, name).map_err(NodeClassError::from)? else {
            return Ok(ReconcileAction::Done);
        };
        let hash = class_hash(&self.context, &class).map_err(NodeClassError::from)?;
        let version = class.metadata.annotations.as_ref().and_then(|all| all.get(EC2NODECLASS_HASH_VERSION));
        if version.map(String::as_str) != Some(hash::EC2NODECLASS_HASH_VERSION) {
            self.migrate_claims(name, &hash).await?;
        }
        let mut hashed = class.clone();
        set_annotations(hashed.metadata.annotations.get_or_insert_default(), Some(&hash));
        let api: Api<EC2NodeClass> = Api::all(self.context.client.clone());
        match UNLOCKED.send(&api, &class, &hashed).await {
            Ok(_) | Err(ApiError::NotFound) => Ok(ReconcileAction::Done),
            Err(cause) => Err(NodeClassError::Api { operation: "patching nodeclass", cause }.into()),
        }
    }
}

/// Returns the drift hash of a class in decimal.
pub(super) fn class_hash(
    context: &AwsContext,
    class: &EC2NodeClass,
) -> Result<String, kerf_api::quantity::QuantityError> {
    let facts = context.discovery.facts().get();
    let hash = ec2nodeclass_hash(&class.spec.clone().unwrap_or_default(), facts.ca_bundle.as_deref().unwrap_or(""))?;
    Ok(hash.to_string())
}

fn migrated(claim: &NodeClaim, hash: &str) -> NodeClaim {
    let version = claim.metadata.annotations.as_ref().and_then(|all| all.get(EC2NODECLASS_HASH_VERSION));
    let conditions = claim.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let has_drifted_condition = conditions.iter().any(|condition| condition.condition_type == DRIFTED);
    let mut migrated = claim.clone();
    let annotations = migrated.metadata.annotations.get_or_insert_default();
    match migration(version.map(String::as_str), has_drifted_condition, hash::EC2NODECLASS_HASH_VERSION) {
        Migration::Keep => {}
        Migration::SetVersion => set_annotations(annotations, None),
        Migration::SetVersionAndHash => set_annotations(annotations, Some(hash)),
    }
    migrated
}

fn set_annotations(annotations: &mut BTreeMap<String, String>, hash: Option<&str>) {
    annotations.insert(EC2NODECLASS_HASH_VERSION.to_owned(), hash::EC2NODECLASS_HASH_VERSION.to_owned());
    if let Some(hash) = hash {
        annotations.insert(EC2NODECLASS_HASH.to_owned(), hash.to_owned());
    }
}

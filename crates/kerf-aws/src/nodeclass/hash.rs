//! `nodeclass.hash`: writes the drift hash of a class into its annotations, and migrates claims
//! with another hash version (spec 06 §6.2, spec 12 §7.3).
//!
//! Invariant: claims are written before their class. While versions differ nothing drifts, so the
//! process may end at any point.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::annotations::aws::{EC2NODECLASS_HASH, EC2NODECLASS_HASH_VERSION};
use kerf_api::conditions::DRIFTED;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::hash::{self, Migration, ec2nodeclass_hash, ec2nodeclass_hash_v5, migration};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_operator::Reconcile;
use kerf_runtime::{ApiError, MergePatch, OptimisticLock, PatchTarget, ReconcileAction};
use kube::Api;
use kube::core::ObjectMeta;

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
    async fn migrate_claims(&self, class: &str, target: &MigrationTarget) -> Result<(), NodeClassErrors> {
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        let mut errors = Vec::new();
        for claim in claims_of_class(&self.context.cluster, class) {
            match UNLOCKED.send(&api, &claim.object, &migrated(&claim.object, target)).await {
                Ok(_) | Err(ApiError::NotFound) => {}
                Err(cause) => errors.push(NodeClassError::Api { operation: "patching nodeclaim", cause }),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(NodeClassErrors(errors)) }
    }

    /// Returns the class's present hash of version `v5` if its annotation of that version has
    /// another one: the class was edited, and no controller has compared its claims since. Returns
    /// `None` if it was not edited, or if this cannot be known.
    fn hash_if_edited_since_v5(&self, class: &EC2NodeClass) -> Option<String> {
        if annotation(&class.metadata, EC2NODECLASS_HASH_VERSION) != Some(hash::EC2NODECLASS_HASH_VERSION_V5) {
            return None;
        }
        let annotated = annotation(&class.metadata, EC2NODECLASS_HASH)?;
        let facts = self.context.discovery.facts().get();
        let spec = class.spec.clone().unwrap_or_default();
        // Karpenter 1.14 cannot read the spec of a class without such a hash.
        let present = ec2nodeclass_hash_v5(&spec, facts.ca_bundle.as_deref().unwrap_or_default()).ok()?.to_string();
        if present == annotated { None } else { Some(present) }
    }
}

/// The hash that claims get when their hash version changes.
struct MigrationTarget {
    /// Hash of the class in the current version.
    hash: String,
    /// Present `v5` hash of a class that was edited under `v5`; claims with another one have
    /// drifted. `None` for all other classes.
    edited_from_v5: Option<String>,
}

impl MigrationTarget {
    /// Returns true if the claim was launched before the class was edited, so that its drift is not
    /// recorded yet.
    fn has_unrecorded_drift(&self, claim: &NodeClaim) -> bool {
        let Some(present) = &self.edited_from_v5 else { return false };
        annotation(&claim.metadata, EC2NODECLASS_HASH_VERSION) == Some(hash::EC2NODECLASS_HASH_VERSION_V5)
            && annotation(&claim.metadata, EC2NODECLASS_HASH).is_some_and(|own| own != present)
    }
}

impl Reconcile for NodeClassHash {
    type Error = NodeClassErrors;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, NodeClassErrors> {
        let Some(class) = find_class(&self.context.cluster, name).map_err(NodeClassError::from)? else {
            return Ok(ReconcileAction::Done);
        };
        let hash = class_hash(&self.context, &class).map_err(NodeClassError::from)?;
        if annotation(&class.metadata, EC2NODECLASS_HASH_VERSION) != Some(hash::EC2NODECLASS_HASH_VERSION) {
            let edited_from_v5 = self.hash_if_edited_since_v5(&class);
            self.migrate_claims(name, &MigrationTarget { hash: hash.clone(), edited_from_v5 }).await?;
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

/// Returns the claim with the current hash version. A hash of another version never equals the
/// current one, so a claim that keeps its hash is found to have drifted.
fn migrated(claim: &NodeClaim, target: &MigrationTarget) -> NodeClaim {
    let version = annotation(&claim.metadata, EC2NODECLASS_HASH_VERSION);
    let conditions = claim.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let has_drifted_condition = conditions.iter().any(|condition| condition.condition_type == DRIFTED);
    let has_drifted = has_drifted_condition || target.has_unrecorded_drift(claim);
    let mut migrated = claim.clone();
    let annotations = migrated.metadata.annotations.get_or_insert_default();
    match migration(version, has_drifted, hash::EC2NODECLASS_HASH_VERSION) {
        Migration::Keep => {}
        Migration::SetVersion => set_annotations(annotations, None),
        Migration::SetVersionAndHash => set_annotations(annotations, Some(&target.hash)),
    }
    migrated
}

fn annotation<'m>(metadata: &'m ObjectMeta, name: &str) -> Option<&'m str> {
    metadata.annotations.as_ref().and_then(|all| all.get(name)).map(String::as_str)
}

fn set_annotations(annotations: &mut BTreeMap<String, String>, hash: Option<&str>) {
    annotations.insert(EC2NODECLASS_HASH_VERSION.to_owned(), hash::EC2NODECLASS_HASH_VERSION.to_owned());
    if let Some(hash) = hash {
        annotations.insert(EC2NODECLASS_HASH.to_owned(), hash.to_owned());
    }
}

//! `nodepool.hash`: writes a NodePool's drift hash into its annotations, and migrates claims with
//! an older hash version (spec 04 §8.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use kerf_api::conditions::DRIFTED;
use kerf_api::hash::{self, Migration, migration, nodepool_hash};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_runtime::{ApiError, MergePatch, OptimisticLock, PatchTarget, ReconcileAction};
use kerf_state::TrackedClaim;

use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted, api_result};
use kerf_operator::Reconcile;

/// A merge patch changes single annotations, so those of other writers are kept without a lock.
const UNLOCKED: MergePatch = MergePatch { target: PatchTarget::Object, lock: OptimisticLock::None };

pub(crate) struct NodePoolHash {
    ctx: Context,
}

impl NodePoolHash {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }

    async fn write(&self, pool: &NodePool, hash: &str) -> Result<ReconcileAction, Interrupted> {
        let version = pool.metadata.annotations.as_ref().and_then(|all| all.get(NODEPOOL_HASH_VERSION));
        if version.map(String::as_str) != Some(hash::NODEPOOL_HASH_VERSION) {
            self.migrate_claims(pool, hash).await?;
        }
        let mut hashed = pool.clone();
        set_hash_annotations(hashed.metadata.annotations.get_or_insert_default(), Some(hash));
        api_result("patching nodepool", actions::pool::update(&self.ctx, UNLOCKED, pool, &hashed).await)?;
        Ok(ReconcileAction::Done)
    }

    async fn migrate_claims(&self, pool: &NodePool, hash: &str) -> Result<(), Error> {
        let name = pool.metadata.name.as_deref();
        let claims: Vec<Arc<TrackedClaim>> = {
            let cluster = self.ctx.cluster.lock();
            let all = cluster.all::<TrackedClaim>().values();
            all.filter(|claim| claim.pool() == name && self.ctx.manages_claim(claim)).cloned().collect()
        };
        for claim in claims {
            let migrated = migrated(&claim.object, hash);
            match actions::claim::update(&self.ctx, UNLOCKED, &claim.object, &migrated).await {
                Ok(_) | Err(ApiError::NotFound) => {}
                Err(cause) => return Err(Error::Api { operation: "patching nodeclaim", cause }),
            }
        }
        Ok(())
    }
}

impl Reconcile for NodePoolHash {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(pool) = self.ctx.managed_pool(name) else { return Ok(ReconcileAction::Done) };
        // A template with an invalid duration has no hash; `nodepool.validation` reports the field.
        let Ok(hash) = nodepool_hash(&pool.spec.template) else { return Ok(ReconcileAction::Done) };
        Interrupted::into_result(self.write(&pool, &hash.to_string()).await)
    }
}

fn migrated(claim: &NodeClaim, hash: &str) -> NodeClaim {
    let version = claim.metadata.annotations.as_ref().and_then(|all| all.get(NODEPOOL_HASH_VERSION));
    let conditions = claim.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let has_drifted = conditions.iter().any(|condition| condition.condition_type == DRIFTED);
    let mut migrated = claim.clone();
    let annotations = migrated.metadata.annotations.get_or_insert_default();
    match migration(version.map(String::as_str), has_drifted, hash::NODEPOOL_HASH_VERSION) {
        Migration::Keep => {}
        Migration::SetVersion => set_hash_annotations(annotations, None),
        Migration::SetVersionAndHash => set_hash_annotations(annotations, Some(hash)),
    }
    migrated
}

fn set_hash_annotations(annotations: &mut BTreeMap<String, String>, hash: Option<&str>) {
    annotations.insert(NODEPOOL_HASH_VERSION.to_owned(), hash::NODEPOOL_HASH_VERSION.to_owned());
    if let Some(hash) = hash {
        annotations.insert(NODEPOOL_HASH.to_owned(), hash.to_owned());
    }
}

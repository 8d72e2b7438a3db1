//! `nodeclaim.garbagecollection` and `instance.garbagecollection`: every two minutes, deletes
//! claims whose instance does not exist any more (spec 04 §6.2), and terminates instances that
//! belong to no claim. Both use one list of instances, so that an action of one cannot mislead the
//! other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kerf_api::slim::Str;
use kerf_cloud::{Instance, InstanceError};
use kerf_runtime::ReconcileAction;
use kerf_state::TrackedClaim;
use tracing::debug;

use super::delete_disrupted;
use crate::context::Context;
use crate::controllers::Reconcile;
use crate::error::Error;
use crate::logs::reference;

/// Time between two lists of the instances.
const COLLECTION_INTERVAL: Duration = Duration::from_mins(2);
/// The largest number of concurrent deletions.
const CONCURRENT_DELETIONS_MAX: usize = 20;
/// Minimum age of an instance before it counts as orphaned. The claim of a younger instance may not
/// have recorded it yet.
const INSTANCE_AGE_MIN: Duration = Duration::from_secs(30);

/// The controller. It has a single key and handles all claims and instances at once.
pub(crate) struct GarbageCollection {
    ctx: Context,
}

impl GarbageCollection {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }

    async fn collect_claims(&self, instances: &[Instance]) -> Vec<Error> {
        let existing: BTreeSet<&str> = instances
            .iter()
            .filter(|instance| !instance.is_terminating)
            .map(|instance| instance.provider_id.as_str())
            .collect();
        let lost_claims: Vec<Arc<TrackedClaim>> = {
            let cluster = self.ctx.cluster.lock();
            let all = cluster.all::<TrackedClaim>().values();
            all.filter(|claim| {
                self.ctx.manages_claim(claim)
                    && claim.is_condition_true("Registered")
                    && !claim.is_terminating()
                    && !existing.contains(claim.engine_claim.provider_id.as_str())
                    && !has_ready_node(&cluster, claim)
            })
            .cloned()
            .collect()
        };
        let mut errors = Vec::new();
        for chunk in lost_claims.chunks(CONCURRENT_DELETIONS_MAX) {
            errors.extend(join_all(chunk.iter().map(|claim| self.collect_claim(claim))).await.into_iter().flatten());
        }
        errors
    }

    async fn collect_claim(&self, claim: &TrackedClaim) -> Option<Error> {
        debug!(NodeClaim = %reference(&claim.engine_claim.name), "garbage collecting nodeclaim with no cloudprovider representation");
        delete_disrupted(&self.ctx, claim, "garbage_collected").await.err()
    }

    async fn collect_instances(&self, instances: &[Instance]) -> Vec<Error> {
        let now = self.ctx.now();
        let orphans: Vec<&Instance> = {
            let cluster = self.ctx.cluster.lock();
            let is_claimed = |instance: &Instance| {
                cluster.claims_of(&instance.provider_id).next().is_some()
                    // A claim without a recorded instance finds this one when its launch is
                    // repeated.
                    || instance.claim.as_ref().is_some_and(|name| {
                        cluster.get::<TrackedClaim>(name).is_some_and(|claim| claim.engine_claim.provider_id.is_empty())
                    })
            };
            let is_old_enough = |instance: &Instance| {
                let age = instance.launched_at.map(|at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
                age.is_some_and(|age| age >= INSTANCE_AGE_MIN)
            };
            instances.iter().filter(|m| !m.is_terminating && is_old_enough(m) && !is_claimed(m)).collect()
        };
        let mut errors = Vec::new();
        for chunk in orphans.chunks(CONCURRENT_DELETIONS_MAX) {
            let deletions = chunk.iter().map(|instance| self.collect_instance(instance));
            errors.extend(join_all(deletions).await.into_iter().flatten());
        }
        errors
    }

    async fn collect_instance(&self, instance: &Instance) -> Option<Error> {
        debug!("provider-id" = instance.provider_id, "garbage collecting instance with no nodeclaim");
        match self.ctx.cloud.delete(&instance.provider_id).await {
            Ok(()) | Err(InstanceError::NotFound(_)) => None,
            Err(cause) => Some(Error::Cloud { doing: "terminating instance", cause: Box::new(cause) }),
        }
    }
}

impl Reconcile for GarbageCollection {
    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, Error> {
        // Before the first sync a claim may be unknown, and its instance would be terminated.
        let is_synced = {
            let mut cluster = self.ctx.cluster.lock();
            cluster.check_synced().is_synced() || cluster.has_been_synced()
        };
        if !is_synced {
            return Ok(ReconcileAction::RequeueAfter(Duration::from_secs(1)));
        }
        let instances = self
            .ctx
            .cloud
            .list()
            .await
            .map_err(|cause| Error::Cloud { doing: "listing instances", cause: Box::new(cause) })?;
        let mut errors = self.collect_claims(&instances).await;
        errors.extend(self.collect_instances(&instances).await);
        Error::combine(errors)?;
        Ok(ReconcileAction::RequeueAfter(COLLECTION_INTERVAL))
    }
}

/// Returns true if the claim's only node is Ready. The instance then exists, and the cloud's list
/// is out of date.
fn has_ready_node(cluster: &kerf_state::Cluster, claim: &TrackedClaim) -> bool {
    let mut nodes = cluster.nodes_of(&claim.engine_claim.provider_id);
    let (first, second) = (nodes.next(), nodes.next());
    second.is_none()
        && first.is_some_and(|node| {
            node.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "True")
        })
}

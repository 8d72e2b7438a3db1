//! `nodeclaim.garbagecollection` and `instance.garbagecollection`: every two minutes delete claims
//! whose instance no longer exists (spec 04 §6.2), and terminate instances without a claim. Both
//! use one list of instances, so neither sees the deletions of the other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kerf_api::conditions::REGISTERED;
use kerf_api::slim::Str;
use kerf_cloud::{Instance, InstanceError};
use kerf_runtime::ReconcileAction;
use kerf_state::TrackedClaim;
use tracing::debug;

use super::delete_disrupted;
use crate::context::Context;
use crate::error::Error;
use kerf_operator::Reconcile;
use kerf_operator::logs::reference;

/// Interval between two lists of instances.
const COLLECTION_INTERVAL: Duration = Duration::from_mins(2);
/// Number of concurrent deletions.
const CONCURRENT_DELETIONS_MAX: usize = 20;
/// A younger instance may belong to a claim that has not recorded it yet.
const INSTANCE_AGE_MIN: Duration = Duration::from_secs(30);

pub(crate) struct GarbageCollection {
    ctx: Context,
}

impl GarbageCollection {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }

    async fn collect_claims(&self, instances: &[Instance]) -> Vec<Error> {
        let running_ids: BTreeSet<&str> = instances
            .iter()
            .filter(|instance| !instance.is_terminating)
            .map(|instance| instance.provider_id.as_str())
            .collect();
        let claims: Vec<Arc<TrackedClaim>> = {
            let cluster = self.ctx.cluster.lock();
            let all = cluster.all::<TrackedClaim>().values();
            all.filter(|claim| {
                self.ctx.manages_claim(claim)
                    && claim.is_condition_true(REGISTERED)
                    && !claim.is_terminating()
                    && !running_ids.contains(claim.engine_claim.provider_id.as_str())
                    && !has_ready_node(&cluster, claim)
            })
            .cloned()
            .collect()
        };
        let mut errors = Vec::new();
        for chunk in claims.chunks(CONCURRENT_DELETIONS_MAX) {
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
                    // A claim that has not recorded its instance yet gets the same instance when
                    // its launch is repeated.
                    || instance.claim.as_ref().is_some_and(|name| {
                        cluster.get::<TrackedClaim>(name).is_some_and(|claim| claim.engine_claim.provider_id.is_empty())
                    })
            };
            let is_old_enough = |instance: &Instance| {
                let age = instance.launched_at.map(|at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
                age.is_some_and(|age| age >= INSTANCE_AGE_MIN)
            };
            instances
                .iter()
                .filter(|instance| !instance.is_terminating && is_old_enough(instance) && !is_claimed(instance))
                .collect()
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
            Err(cause) => Some(Error::Cloud { operation: "terminating instance", cause: Box::new(cause) }),
        }
    }
}

impl Reconcile for GarbageCollection {
    type Error = Error;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, Error> {
        // Cluster state must be synced: otherwise an instance would be terminated because its claim
        // is not known yet.
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
            .map_err(|cause| Error::Cloud { operation: "listing instances", cause: Box::new(cause) })?;
        let mut errors = self.collect_claims(&instances).await;
        errors.extend(self.collect_instances(&instances).await);
        Error::combine(errors)?;
        Ok(ReconcileAction::RequeueAfter(COLLECTION_INTERVAL))
    }
}

/// Returns true if the claim has exactly one node and it is ready. Then the provider's list of
/// instances is outdated.
fn has_ready_node(cluster: &kerf_state::Cluster, claim: &TrackedClaim) -> bool {
    let mut nodes = cluster.nodes_of(&claim.engine_claim.provider_id);
    let (first, second) = (nodes.next(), nodes.next());
    second.is_none()
        && first.is_some_and(|node| {
            node.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "True")
        })
}

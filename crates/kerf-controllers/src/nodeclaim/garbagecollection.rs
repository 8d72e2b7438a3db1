//! `nodeclaim.garbagecollection`: every two minutes deletes claims whose instance no longer exists
//! (spec 04 §6.2). Instances without a claim are the provider's to terminate
//! ([`kerf_cloud::InstanceGarbageCollection`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kerf_api::conditions::REGISTERED;
use kerf_api::slim::Str;
use kerf_cloud::Instance;
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
}

impl Reconcile for GarbageCollection {
    type Error = Error;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, Error> {
        // Without synced cluster state a claim could look as if it had no node.
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
        Error::combine(self.collect_claims(&instances).await)?;
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

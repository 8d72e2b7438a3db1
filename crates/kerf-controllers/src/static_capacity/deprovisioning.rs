//! `static.deprovisioning`: deletes the surplus claims of a static NodePool (spec 04 §9.2), the
//! least disruptive first. It runs whenever the NodePool changes or one of its claims is created or
//! deleted, and every minute. Disruption budgets do not apply; the nodes are drained like any
//! other.

use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use kerf_api::slim::{Pod, Str};
use kerf_engine::eviction_cost;
use kerf_runtime::{ApiError, ReconcileAction};
use kerf_state::{Cluster, StateNode, TrackedClaim};
use tracing::{debug, info};

use super::{POOL_CHECK_INTERVAL, static_pool};
use crate::actions;
use crate::context::Context;
use crate::error::Error;
use crate::node::termination::is_protected;
use kerf_operator::Reconcile;
use kerf_operator::logs::reference;

pub(crate) struct StaticDeprovisioning {
    ctx: Context,
}

impl StaticDeprovisioning {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }

    async fn delete(&self, claim: &TrackedClaim) -> Result<(), Error> {
        match actions::claim::delete(&self.ctx, &claim.object).await {
            Ok(()) => {
                debug!(NodeClaim = %reference(claim.name()), "deleting nodeclaim");
                Ok(())
            }
            Err(ApiError::NotFound) => Ok(()),
            Err(cause) => Err(Error::Api { operation: "deleting nodeclaim", cause }),
        }
    }
}

impl Reconcile for StaticDeprovisioning {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some((_, replicas)) = static_pool(&self.ctx, name) else { return Ok(ReconcileAction::Done) };
        let claims = {
            let cluster = self.ctx.cluster.lock();
            let active = cluster.pool_claims(name).active;
            let count = active.saturating_sub(replicas);
            if count == 0 {
                return Ok(ReconcileAction::RequeueAfter(POOL_CHECK_INTERVAL));
            }
            info!(
                current = active,
                desired = replicas,
                "deprovision-count" = count,
                "deprovisioning nodeclaims to satisfy replica count"
            );
            claims_to_delete(&cluster, name, count, self.ctx.now())
        };
        let deleted = join_all(claims.iter().map(|claim| self.delete(claim))).await;
        let errors: Vec<Error> = deleted.into_iter().filter_map(Result::err).collect();
        Error::combine(errors).map_err(|cause| cause.with_context("failed to deprovision nodeclaims"))?;
        Ok(ReconcileAction::RequeueAfter(POOL_CHECK_INTERVAL))
    }
}

/// Rank of a claim for deletion. Lower ranks disrupt less and are deleted first.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum DeletionRank {
    /// The claim has no instance yet.
    Unlaunched,
    /// Only DaemonSet pods run on the node.
    Empty,
    /// Sum of the pods' eviction costs, times the remaining fraction of the claim's `expireAfter`.
    Busy(f64),
    /// The cost of `Busy`; at least one pod is protected from disruption.
    Protected(f64),
}

/// Returns the `count` claims of a NodePool to delete first, or fewer if there are fewer.
fn claims_to_delete(cluster: &Cluster, pool: &str, count: usize, now: Timestamp) -> Vec<Arc<TrackedClaim>> {
    let unlaunched =
        cluster.claims_of_pool(pool).filter(|c| c.engine_claim.provider_id.is_empty() && !c.engine_claim.is_deleting);
    let nodes = cluster.state_nodes().filter(|node| !node.is_marked_for_deletion());
    let launched = nodes.filter_map(|node| {
        let claim = node.claim.filter(|claim| claim.pool() == Some(pool) && !cluster.is_pending_disruption(claim))?;
        Some((deletion_rank(cluster, &node, claim, now), claim.name().clone()))
    });
    let mut ranked: Vec<(DeletionRank, Str)> =
        unlaunched.map(|claim| (DeletionRank::Unlaunched, claim.name().clone())).chain(launched).collect();
    // Costs are sums of clamped numbers and never NaN, so they can always be compared.
    ranked.sort_by(|(a, one), (b, other)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal).then(one.cmp(other)));
    ranked.into_iter().take(count).filter_map(|(_, name)| cluster.get::<TrackedClaim>(&name).cloned()).collect()
}

fn deletion_rank(cluster: &Cluster, node: &StateNode<'_>, claim: &TrackedClaim, now: Timestamp) -> DeletionRank {
    let name = node.node.map(|node| node.metadata.name.as_str()).unwrap_or_default();
    let pods: Vec<&Pod> = cluster.pods_on(name).map(AsRef::as_ref).filter(|pod| !pod.is_terminal()).collect();
    let is_protected = pods.iter().any(|pod| !pod.is_terminating() && is_protected(pod, now));
    if !is_protected && pods.iter().all(|pod| pod.is_owned_by_daemonset()) {
        return DeletionRank::Empty;
    }
    let cost = pods.iter().map(|pod| eviction_cost(pod)).sum::<f64>() * remaining_life_fraction(claim, now);
    if is_protected { DeletionRank::Protected(cost) } else { DeletionRank::Busy(cost) }
}

/// Returns the remaining fraction of the claim's `expireAfter`, from 1 to 0. Returns 1 if the claim
/// does not expire.
fn remaining_life_fraction(claim: &TrackedClaim, now: Timestamp) -> f64 {
    let (Some(expire_after), Some(created)) =
        (claim.engine_claim.lifecycle.expire_after, claim.engine_claim.lifecycle.created)
    else {
        return 1.0;
    };
    let lifetime_seconds = expire_after.after(created).duration_since(created).as_secs_f64();
    if lifetime_seconds <= 0.0 {
        return 0.0;
    }
    (1.0 - now.duration_since(created).as_secs_f64() / lifetime_seconds).clamp(0.0, 1.0)
}

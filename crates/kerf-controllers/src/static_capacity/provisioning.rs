//! `static.provisioning`: creates the claims that a static pool lacks (spec 04 §9.1), from the pool's template alone. It acts whenever the
//! pool changes or one of its claims comes or goes, and every minute.
//!
//! Room under the pool's node limit is reserved before anything is created and given back when the claim is there, so that the limit holds
//! although replacements of drifted nodes may be created at the same time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use kerf_api::conditions::{ConditionStatus, READY};
use kerf_api::nodepool::{NODES_RESOURCE, NodePool};
use kerf_api::quantity::Quantity;
use kerf_api::slim::Str;
use kerf_engine::{PlannedClaim, claim_from_template};
use kerf_runtime::ReconcileAction;
use kerf_state::{NodeClassState, to_engine_pool as as_seen};
use tracing::info;

use super::{POOL_CHECK_INTERVAL, static_pool};
use crate::actions;
use crate::context::Context;
use crate::controllers::Reconcile;
use crate::error::Error;
use crate::logs::reference;
use crate::provisioning::claim::build_claim;

/// When a pool that may have no more nodes is looked at again.
const LIMIT_REACHED_RETRY_DELAY: Duration = Duration::from_secs(30);
/// When a picture that is not whole is looked at again.
const UNSYNCED_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The shortest and the longest pause between two rounds of claims for one pool.
const ROUND_PAUSE_BOUNDS: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(1)];

/// The controller.
pub(crate) struct StaticProvisioning {
    ctx: Context,
    /// The last round of each pool.
    rounds: Mutex<BTreeMap<String, CreationRound>>,
}

/// Claims that were created for a pool. Where machines cannot be had, claims are deleted as soon as they are created; without a pause that
/// grows, one round would follow the other as fast as the API server can answer.
#[derive(Debug, Clone, Copy)]
struct CreationRound {
    generation: Option<i64>,
    at: Timestamp,
    pause: Duration,
}

impl StaticProvisioning {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx, rounds: Mutex::default() }
    }

    /// How long a pool still has to wait for its next round; if not at all, this is it. Whoever changes the pool need not wait.
    fn wait_or_begin_round(&self, pool: &NodePool, name: &str) -> Option<Duration> {
        let (now, generation) = (self.ctx.now(), pool.metadata.generation);
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let last = rounds.get(name).filter(|last| last.generation == generation);
        let pause = match last.map(|last| (last, Duration::try_from(now.duration_since(last.at)).unwrap_or_default())) {
            Some((last, since)) if since < last.pause => return Some(last.pause.saturating_sub(since)),
            Some((last, since)) if since < last.pause * 2 => (last.pause * 2).min(ROUND_PAUSE_BOUNDS[1]),
            Some(_) | None => ROUND_PAUSE_BOUNDS[0],
        };
        rounds.insert(name.to_owned(), CreationRound { generation, at: now, pause });
        None
    }

    async fn create(&self, planned: &PlannedClaim, pool: &NodePool, name: &str) -> Result<(), Error> {
        let outcome = actions::claim::create(&self.ctx, &build_claim(planned, pool)).await;
        // The claim is known by now, or there is none: either way its room is no longer only spoken for.
        self.ctx.cluster.lock().release_nodes(name, 1);
        let created = outcome.map_err(|cause| Error::Api { doing: "creating node claim", cause })?;
        let claim = created.metadata.name.as_deref().unwrap_or_default();
        info!(NodePool = %reference(name), NodeClaim = %reference(claim), "created nodeclaim");
        self.ctx.metrics.claim_created(&created, "provisioned");
        Ok(())
    }
}

impl Reconcile for StaticProvisioning {
    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some((pool, replicas)) = static_pool(&self.ctx, name).filter(|(pool, _)| is_ready(pool)) else {
            return Ok(ReconcileAction::Done);
        };
        let granted = {
            let mut cluster = self.ctx.cluster.lock();
            // Once the picture has been whole, a claim that is not launched yet is counted like any other.
            if !cluster.has_been_synced() && !cluster.check_synced().is_synced() {
                return Ok(ReconcileAction::RequeueAfter(UNSYNCED_RETRY_DELAY));
            }
            let claims = cluster.pool_claims(name);
            // The replacements of nodes that are about to go are somebody else's business.
            if claims.active + claims.pending_disruption >= replicas {
                return Ok(ReconcileAction::RequeueAfter(POOL_CHECK_INTERVAL));
            }
            if let Some(wait) = self.wait_or_begin_round(&pool, name) {
                return Ok(ReconcileAction::RequeueAfter(wait));
            }
            // Replacements that are being created will be there in a moment.
            let missing = (replicas - claims.active).saturating_sub(cluster.reserved_nodes(name));
            if missing == 0 {
                return Ok(ReconcileAction::RequeueAfter(POOL_CHECK_INTERVAL));
            }
            let granted = cluster.reserve_nodes(name, node_limit(&pool), missing);
            if granted > 0 {
                info!(
                    current = claims.active,
                    desired = replicas,
                    "provision-count" = granted,
                    "provisioning nodeclaims to satisfy replica count"
                );
            }
            granted
        };
        if granted == 0 {
            info!("nodepool node limit reached");
            return Ok(ReconcileAction::RequeueAfter(LIMIT_REACHED_RETRY_DELAY));
        }
        let planned =
            claim_from_template(&as_seen(&pool, &NodeClassState::Ready, None), &[], self.ctx.cloud.label_rules());
        let created = join_all((0..granted).map(|_| self.create(&planned, &pool, name))).await;
        let errors: Vec<Error> = created.into_iter().filter_map(Result::err).collect();
        Error::combine(errors).map_err(|cause| cause.with_context("creating nodeclaims"))?;
        Ok(ReconcileAction::RequeueAfter(POOL_CHECK_INTERVAL))
    }
}

fn is_ready(pool: &NodePool) -> bool {
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions.iter().any(|condition| condition.condition_type == READY && condition.status == ConditionStatus::True)
}

/// How many nodes the pool may have. A limit that is no quantity limits to nothing.
pub(crate) fn node_limit(pool: &NodePool) -> Option<usize> {
    let limit = pool.spec.limits.as_ref()?.get(NODES_RESOURCE)?;
    let most = limit.text().parse::<Quantity>().unwrap_or(Quantity::ZERO);
    Some(usize::try_from(most.value()).unwrap_or(0))
}

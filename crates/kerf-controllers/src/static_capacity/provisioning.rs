//! `static.provisioning`: creates the missing claims of a static NodePool (spec 04 §9.1), from the
//! NodePool's template alone. It runs whenever the NodePool changes or one of its claims is created
//! or deleted, and every minute.
//!
//! Nodes are reserved under the NodePool's node limit before claims are created, and released once
//! the claims exist. So the limit holds even if drifted nodes are replaced at the same time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use kerf_api::conditions::{ConditionStatus, READY};
use kerf_api::nodepool::{NODES_RESOURCE, NodePool};
use kerf_api::quantity::Quantity;
use kerf_api::slim::Str;
use kerf_engine::catalogue::InstanceTypes;
use kerf_engine::{PlannedClaim, claim_from_template};
use kerf_runtime::{ApiError, ReconcileAction};
use kerf_state::{NodeClassState, to_engine_pool};
use tracing::info;

use super::{POOL_CHECK_INTERVAL, static_pool};
use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted};
use crate::provisioning::claim::{annotate_never_ready, build_claim};
use kerf_operator::Reconcile;
use kerf_operator::logs::reference;

/// Delay before a NodePool that has reached its node limit is checked again.
const LIMIT_REACHED_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Delay before the next attempt while cluster state is not synced.
const UNSYNCED_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Shortest and longest pause between two rounds of claim creation for one NodePool.
const ROUND_PAUSE_BOUNDS: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(1)];

pub(crate) struct StaticProvisioning {
    ctx: Context,
    /// The last round of each NodePool, by name.
    rounds: Mutex<BTreeMap<String, CreationRound>>,
}

/// One round of claim creation for a NodePool. If the provider has no capacity, claims are deleted
/// soon after their creation. Without a growing pause one round would follow another as fast as the
/// API server responds.
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

    /// Returns the remaining pause before the NodePool's next round. If there is none, records that
    /// a round begins now and returns `None`. A changed NodePool need not wait.
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

    /// Fails unless the API server has this NodePool and is not deleting it. With foreground
    /// deletion the deletions of the claims arrive before the deletion of their NodePool.
    async fn check_not_deleted(&self, pool: &NodePool, name: &str) -> Result<(), Interrupted> {
        match actions::pool::read(&self.ctx, name).await {
            Ok(stored) if stored.metadata.deletion_timestamp.is_none() && stored.metadata.uid == pool.metadata.uid => {
                Ok(())
            }
            Ok(_) | Err(ApiError::NotFound) => Err(Interrupted::Requeue(ReconcileAction::Done)),
            Err(cause) => Err(Error::Api { operation: "getting nodepool", cause }.into()),
        }
    }

    async fn create(&self, planned: &PlannedClaim, pool: &NodePool, name: &str) -> Result<(), Error> {
        let mut node_claim = build_claim(planned, pool);
        let replaced = self.ctx.cluster.lock().take_never_ready_of_pool(name, self.ctx.now());
        if let Some(replaced) = &replaced {
            annotate_never_ready(&mut node_claim, replaced);
        }
        let outcome = actions::claim::create(&self.ctx, &node_claim).await;
        // Cluster state contains the claim now, or its creation has failed; the reservation is not
        // needed in either case.
        {
            let mut cluster = self.ctx.cluster.lock();
            cluster.release_nodes(name, 1);
            if let (Some(replaced), Err(_)) = (replaced, &outcome) {
                cluster.put_back_never_ready_of_pool(name, replaced, self.ctx.now());
            }
        }
        let created = outcome.map_err(|cause| Error::Api { operation: "creating node claim", cause })?;
        let claim = created.metadata.name.as_deref().unwrap_or_default();
        info!(NodePool = %reference(name), NodeClaim = %reference(claim), "created nodeclaim");
        self.ctx.metrics.claim_created(&created, "provisioned");
        Ok(())
    }
}

impl Reconcile for StaticProvisioning {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some((pool, replicas)) = static_pool(&self.ctx, name).filter(|(pool, _)| is_ready(pool)) else {
            return Ok(ReconcileAction::Done);
        };
        let granted = {
            let mut cluster = self.ctx.cluster.lock();
            // After the first sync, claims that are not launched yet are counted like all others.
            if !cluster.has_been_synced() && !cluster.check_synced().is_synced() {
                return Ok(ReconcileAction::RequeueAfter(UNSYNCED_RETRY_DELAY));
            }
            let claims = cluster.pool_claims(name);
            // Claims that are about to be disrupted still count: disruption creates their
            // replacements.
            if claims.active + claims.pending_disruption >= replicas {
                return Ok(ReconcileAction::RequeueAfter(POOL_CHECK_INTERVAL));
            }
            if let Some(wait) = self.wait_or_begin_round(&pool, name) {
                return Ok(ReconcileAction::RequeueAfter(wait));
            }
            // Reserved nodes are replacements that are being created.
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
        if let Err(error) = self.check_not_deleted(&pool, name).await {
            self.ctx.cluster.lock().release_nodes(name, granted);
            return match error {
                Interrupted::Requeue(action) => Ok(action),
                Interrupted::Failed(error) => Err(error),
            };
        }
        let planned = claim_from_template(
            &to_engine_pool(&pool, &NodeClassState::Ready, None),
            &InstanceTypes::default(),
            self.ctx.cloud.label_rules(),
        );
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

/// Returns the number of nodes that the NodePool may have, or `None` without a limit. A limit that
/// is not a valid quantity counts as zero.
pub(crate) fn node_limit(pool: &NodePool) -> Option<usize> {
    let limit = pool.spec.limits.as_ref()?.get(NODES_RESOURCE)?;
    let max = limit.text().parse::<Quantity>().unwrap_or(Quantity::ZERO);
    Some(usize::try_from(max.value()).unwrap_or(0))
}

//! `nodeclaim.disruption`: says on every claim of a pool of ours whether it has drifted and whether it may be consolidated (spec 03 §2).
//! It acts whenever the claim, its pool or its node class changes, every five minutes for what only the provider can tell, and at the
//! instant at which a claim's waiting time ends.
//!
//! What is said is what the engine says of the same claim, so `kerf plan` and the conditions never differ. A step that fails leaves its
//! condition as it was and does not keep the other from being written.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use kerf_api::conditions::{ConditionSet, ObjectFacts, dependents};
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_cloud::InstanceError;
use kerf_engine::{Consolidatable, PoolInput, TemplateHash, consolidatable, drift_reason, must_verify_type};
use kerf_runtime::{MergePatch, ReconcileAction};
use kerf_state::{NodeClassState, TrackedClaim, to_engine_pool as as_seen};
use tracing::debug;

use crate::actions;
use crate::context::Context;
use crate::controllers::Reconcile;
use crate::error::{Error, Interrupted, api_result};

const LAUNCHED: &str = "Launched";
const INITIALIZED: &str = "Initialized";
const DRIFTED: &str = "Drifted";
const CONSOLIDATABLE: &str = "Consolidatable";

/// How often a claim's drift is looked at, whatever happens to it.
const DRIFT_CHECK_INTERVAL: Duration = Duration::from_mins(5);
/// How long a type that was found in its pool's list is not looked for again.
const TYPE_VERIFIED_TTL: Duration = Duration::from_mins(30);

/// The controller.
pub(crate) struct ClaimDisruption {
    ctx: Context,
    /// Until when the type of a claim counts as found, by uid.
    types_verified_until: Mutex<BTreeMap<String, Timestamp>>,
    /// What claims were last told of each pool.
    pool_versions: Mutex<BTreeMap<Str, PoolVersion>>,
}

/// All of a pool that claims are compared with: its status changes with every node, and is none of their business.
#[derive(PartialEq, Eq)]
struct PoolVersion {
    uid: Option<String>,
    generation: Option<i64>,
    hash: Option<TemplateHash>,
}

impl ClaimDisruption {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx, types_verified_until: Mutex::default(), pool_versions: Mutex::default() }
    }

    /// Whether a pool is another one for its claims than when they were last told of it.
    pub(crate) fn update_pool_version(&self, pool: &NodePool) -> bool {
        let version = PoolVersion {
            uid: pool.metadata.uid.clone(),
            generation: pool.metadata.generation,
            hash: template_hash(pool),
        };
        let name = Str::from(pool.metadata.name.as_deref().unwrap_or_default());
        let mut told = self.pool_versions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = told.get(&name) == Some(&version);
        told.insert(name, version);
        !is_known
    }

    /// The pool is gone.
    pub(crate) fn forget_pool(&self, pool: &str) {
        self.pool_versions.lock().unwrap_or_else(PoisonError::into_inner).remove(pool);
    }

    async fn set_drifted(
        &self,
        conditions: &mut ConditionSet,
        claim: &TrackedClaim,
        pool: &PoolInput,
        object: &NodePool,
    ) -> Result<ReconcileAction, Error> {
        if !conditions.is_true(LAUNCHED) {
            if clear_condition(conditions, DRIFTED) {
                debug!("removing drift status condition, isn't launched");
            }
            return Ok(ReconcileAction::Done);
        }
        match self.check_drift(claim, pool, object).await? {
            DriftCheck::Unknown => {}
            DriftCheck::NotDrifted => {
                if clear_condition(conditions, DRIFTED) {
                    debug!("removing drifted status condition, not drifted");
                }
            }
            DriftCheck::Drifted(reason) => {
                if conditions.get(DRIFTED).is_none() {
                    debug!(reason = reason.as_str(), "marking drifted");
                }
                conditions.set_true_with_reason(DRIFTED, &reason, &reason, self.ctx.now());
            }
        }
        Ok(ReconcileAction::RequeueAfter(DRIFT_CHECK_INTERVAL))
    }

    /// Asks in the order of spec 03 §2.1, the dearest question last.
    async fn check_drift(
        &self,
        claim: &TrackedClaim,
        pool: &PoolInput,
        object: &NodePool,
    ) -> Result<DriftCheck, Error> {
        let (now, rules) = (self.ctx.now(), self.ctx.cloud.label_rules());
        let mut seen = claim.engine_claim.clone();
        seen.lifecycle.provider_drift = None;
        seen.lifecycle.type_verified_until = Some(Timestamp::MAX);
        if let Some(reason) = drift_reason(&seen, pool, &[], rules, now) {
            return Ok(DriftCheck::Drifted(reason));
        }
        seen.lifecycle.type_verified_until = self.types_verified_until().get(claim.uid()).copied();
        if must_verify_type(&seen, now) {
            let types = self.ctx.cloud.instance_types(object).await;
            let types = types.map_err(|cause| Error::Cloud { doing: "getting instance types", cause: cause.into() })?;
            if let Some(reason) = drift_reason(&seen, pool, &types, rules, now) {
                return Ok(DriftCheck::Drifted(reason));
            }
            let mut verified = self.types_verified_until();
            verified.retain(|_, until| now < *until);
            verified.insert(claim.uid().to_owned(), now.checked_add(TYPE_VERIFIED_TTL).unwrap_or(Timestamp::MAX));
        }
        match self.ctx.cloud.drift(&claim.object).await {
            Ok(None) => Ok(DriftCheck::NotDrifted),
            Ok(Some(reason)) => Ok(DriftCheck::Drifted(Str::from(reason))),
            Err(why) => match InstanceError::classify(why.0) {
                // Its end is somebody else's business.
                InstanceError::NotFound(_) => Ok(DriftCheck::Unknown),
                InstanceError::Other(cause) => Err(Error::Cloud { doing: "checking drift", cause }),
            },
        }
    }

    fn set_consolidatable(
        &self,
        conditions: &mut ConditionSet,
        claim: &TrackedClaim,
        pool: &PoolInput,
    ) -> ReconcileAction {
        let now = self.ctx.now();
        let mut seen = claim.engine_claim.clone();
        seen.lifecycle.is_initialized = conditions.is_true(INITIALIZED);
        match consolidatable(&seen, pool, now) {
            Consolidatable::Yes => {
                if conditions.get(CONSOLIDATABLE).is_none() {
                    debug!("marking consolidatable");
                }
                conditions.set_true(CONSOLIDATABLE, now);
                ReconcileAction::Done
            }
            Consolidatable::Disabled => {
                if clear_condition(conditions, CONSOLIDATABLE) {
                    debug!(reason = "consolidation is disabled", "removing consolidatable status condition");
                }
                ReconcileAction::Done
            }
            Consolidatable::NotInitialized => {
                if clear_condition(conditions, CONSOLIDATABLE) {
                    debug!(reason = "nodeclaim isn't initialized", "removing consolidatable status condition");
                }
                ReconcileAction::Done
            }
            Consolidatable::Waiting { until } => {
                if clear_condition(conditions, CONSOLIDATABLE) {
                    let since = seen.lifecycle.last_pod_event.or(seen.lifecycle.initialized_at).unwrap_or(now);
                    debug!(
                        reason = "consolidateAfter window not yet elapsed",
                        lastPodEventTime = %since,
                        consolidateAfter = pool.disruption.consolidate_after.map(|wait| wait.to_string()),
                        timeSincePodEvent = ?elapsed(since, now),
                        "removing consolidatable status condition"
                    );
                }
                ReconcileAction::RequeueAfter(elapsed(now, until))
            }
        }
    }

    fn types_verified_until(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.types_verified_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconcile for ClaimDisruption {
    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(claim) = self.ctx.managed_claim(name).filter(|claim| !claim.is_terminating()) else {
            return Ok(ReconcileAction::Done);
        };
        let Some(object) = claim.pool().and_then(|pool| self.ctx.managed_pool(pool)) else {
            return Ok(ReconcileAction::Done);
        };
        // What is written on the pool counts, not what will be: claims of an older hash version are taken along before it is.
        let mut pool = as_seen(&object, &NodeClassState::Ready, None);
        pool.disruption.hash = template_hash(&object);

        let mut told = claim.object.clone();
        let status = told.status.get_or_insert_default();
        let stored = std::mem::take(&mut status.conditions);
        let facts = ObjectFacts::of(&claim.object.metadata);
        let mut conditions = ConditionSet::open(dependents::NODECLAIM, facts, stored.clone());
        let drift = self.set_drifted(&mut conditions, &claim, &pool, &object).await;
        let wait = match pool.disruption.replicas {
            None => self.set_consolidatable(&mut conditions, &claim, &pool),
            // The nodes of a static pool are all wanted.
            Some(_) => ReconcileAction::Done,
        };
        let is_same = |kind: &str| conditions.get(kind) == stored.iter().find(|c| c.condition_type == kind);
        if is_same(DRIFTED) && is_same(CONSOLIDATABLE) {
            // The other conditions are for others to open.
            return Ok(drift?.soonest(wait));
        }
        status.conditions = conditions.into_conditions();
        let written = actions::claim::update(&self.ctx, MergePatch::STATUS, &claim.object, &told).await;
        match api_result("patching nodeclaim status", written) {
            Ok(_) => Ok(drift?.soonest(wait)),
            stopped => Interrupted::into_result(stopped.map(|_| ReconcileAction::Done)),
        }
    }
}

/// Whether a claim has drifted.
enum DriftCheck {
    /// It has not.
    NotDrifted,
    /// It has, for this reason.
    Drifted(Str),
    /// Its machine is gone, and with it everything to compare.
    Unknown,
}

/// Removes a condition; says whether it was there.
fn clear_condition(conditions: &mut ConditionSet, kind: &str) -> bool {
    // Only dependents cannot be cleared, and these two are none.
    conditions.clear(kind).unwrap_or(false)
}

/// The hash that is written on a pool, if all of it is.
fn template_hash(pool: &NodePool) -> Option<TemplateHash> {
    let annotations = pool.metadata.annotations.as_ref()?;
    let written = |key: &str| annotations.get(key).map(|text| Str::from(text.as_str()));
    Some(TemplateHash { hash: written(NODEPOOL_HASH)?, version: written(NODEPOOL_HASH_VERSION)? })
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

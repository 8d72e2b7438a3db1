//! `nodeclaim.disruption`: sets the conditions `Drifted` and `Consolidatable` of every claim whose
//! NodePool is managed (spec 03 §2). It runs whenever the claim, its NodePool or its node class
//! changes, every five minutes for drift that only the provider can detect, and at the end of the
//! claim's `consolidateAfter`.
//!
//! The engine computes both conditions, so `kerf plan` and the conditions never differ. A check
//! that fails leaves its condition unchanged and does not prevent the other from being written.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use kerf_api::conditions::{CONSOLIDATABLE, ConditionSet, DRIFTED, INITIALIZED, LAUNCHED, ObjectFacts, dependents};
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_cloud::InstanceError;
use kerf_engine::{Consolidatable, PoolInput, TemplateHash, consolidatable, drift_reason, must_verify_type};
use kerf_runtime::{MergePatch, ReconcileAction};
use kerf_state::{NodeClassState, TrackedClaim, to_engine_pool};
use tracing::debug;

use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted, api_result};
use kerf_operator::Reconcile;

/// Interval between two drift checks without any event.
const DRIFT_CHECK_INTERVAL: Duration = Duration::from_mins(5);
/// Time for which an instance type that the provider listed is not verified again.
const TYPE_VERIFIED_TTL: Duration = Duration::from_mins(30);

pub(crate) struct ClaimDisruption {
    ctx: Context,
    /// Time until which the instance type of a claim counts as verified, by UID.
    types_verified_until: Mutex<BTreeMap<String, Timestamp>>,
    /// The version of each NodePool with which its claims were last enqueued.
    pool_versions: Mutex<BTreeMap<Str, PoolVersion>>,
}

/// The fields of a NodePool that claims are compared with. Its status is not one of them: it
/// changes with every node.
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

    /// Records the NodePool's version. Returns true if it differs from the recorded one, so that
    /// the claims of the NodePool must be checked again.
    pub(crate) fn update_pool_version(&self, pool: &NodePool) -> bool {
        let version = PoolVersion {
            uid: pool.metadata.uid.clone(),
            generation: pool.metadata.generation,
            hash: template_hash(pool),
        };
        let name = Str::from(pool.metadata.name.as_deref().unwrap_or_default());
        let mut versions = self.pool_versions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = versions.get(&name) == Some(&version);
        versions.insert(name, version);
        !is_known
    }

    /// Removes the recorded version of a deleted NodePool.
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

    /// Checks drift in the order of spec 03 §2.1; the most expensive check, a call to the provider,
    /// is last.
    async fn check_drift(
        &self,
        claim: &TrackedClaim,
        pool: &PoolInput,
        object: &NodePool,
    ) -> Result<DriftCheck, Error> {
        let (now, rules) = (self.ctx.now(), self.ctx.cloud.label_rules());
        let mut engine_claim = claim.engine_claim.clone();
        engine_claim.lifecycle.provider_drift = None;
        engine_claim.lifecycle.type_verified_until = Some(Timestamp::MAX);
        if let Some(reason) = drift_reason(&engine_claim, pool, &[], rules, now) {
            return Ok(DriftCheck::Drifted(reason));
        }
        engine_claim.lifecycle.type_verified_until = self.types_verified_until().get(claim.uid()).copied();
        if must_verify_type(&engine_claim, now) {
            let types = self.ctx.cloud.instance_types(object).await;
            let types =
                types.map_err(|cause| Error::Cloud { operation: "getting instance types", cause: cause.into() })?;
            if let Some(reason) = drift_reason(&engine_claim, pool, types.types(), rules, now) {
                return Ok(DriftCheck::Drifted(reason));
            }
            let mut verified = self.types_verified_until();
            verified.retain(|_, until| now < *until);
            verified.insert(claim.uid().to_owned(), now.checked_add(TYPE_VERIFIED_TTL).unwrap_or(Timestamp::MAX));
        }
        match self.ctx.cloud.drift(&claim.object).await {
            Ok(None) => Ok(DriftCheck::NotDrifted),
            Ok(Some(reason)) => Ok(DriftCheck::Drifted(Str::from(reason))),
            Err(error) => match InstanceError::classify(error.0) {
                // `nodeclaim.garbagecollection` deletes claims without an instance.
                InstanceError::NotFound(_) => Ok(DriftCheck::Unknown),
                InstanceError::Other(cause) => Err(Error::Cloud { operation: "checking drift", cause }),
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
        let mut engine_claim = claim.engine_claim.clone();
        engine_claim.lifecycle.is_initialized = conditions.is_true(INITIALIZED);
        match consolidatable(&engine_claim, pool, now) {
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
                    let since =
                        engine_claim.lifecycle.last_pod_event.or(engine_claim.lifecycle.initialized_at).unwrap_or(now);
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
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(claim) = self.ctx.managed_claim(name).filter(|claim| !claim.is_terminating()) else {
            return Ok(ReconcileAction::Done);
        };
        let Some(object) = claim.pool().and_then(|pool| self.ctx.managed_pool(pool)) else {
            return Ok(ReconcileAction::Done);
        };
        // Use the hash in the NodePool's annotations, not the one of its current template: claims
        // with an older hash version are migrated before the annotation is written.
        let mut pool = to_engine_pool(&object, &NodeClassState::Ready, None);
        pool.disruption.hash = template_hash(&object);

        let mut updated = claim.object.clone();
        let status = updated.status.get_or_insert_default();
        let stored = std::mem::take(&mut status.conditions);
        let facts = ObjectFacts::of(&claim.object.metadata);
        let mut conditions = ConditionSet::open(dependents::NODECLAIM, facts, stored.clone());
        let drift = self.set_drifted(&mut conditions, &claim, &pool, &object).await;
        let wait = match pool.disruption.replicas {
            None => self.set_consolidatable(&mut conditions, &claim, &pool),
            // All nodes of a static NodePool are wanted, whatever pods they run.
            Some(_) => ReconcileAction::Done,
        };
        let is_same = |kind: &str| conditions.get(kind) == stored.iter().find(|c| c.condition_type == kind);
        if is_same(DRIFTED) && is_same(CONSOLIDATABLE) {
            // Opening the set adds missing conditions; writing those is up to other controllers.
            return Ok(drift?.soonest(wait));
        }
        status.conditions = conditions.into_conditions();
        let written = actions::claim::update(&self.ctx, MergePatch::STATUS, &claim.object, &updated).await;
        match api_result("patching nodeclaim status", written) {
            Ok(_) => Ok(drift?.soonest(wait)),
            interrupted => Interrupted::into_result(interrupted.map(|_| ReconcileAction::Done)),
        }
    }
}

/// Result of a drift check.
enum DriftCheck {
    NotDrifted,
    /// The claim has drifted, for this reason.
    Drifted(Str),
    /// The claim has no instance any more, so there is nothing to compare.
    Unknown,
}

/// Removes a condition. Returns true if it existed.
fn clear_condition(conditions: &mut ConditionSet, kind: &str) -> bool {
    // Only dependent conditions cannot be cleared, and neither of these is one.
    conditions.clear(kind).unwrap_or(false)
}

/// Returns the hash in the NodePool's annotations. Returns `None` if the hash or its version is
/// missing.
fn template_hash(pool: &NodePool) -> Option<TemplateHash> {
    let annotations = pool.metadata.annotations.as_ref()?;
    let annotation = |key: &str| annotations.get(key).map(|text| Str::from(text.as_str()));
    Some(TemplateHash { hash: annotation(NODEPOOL_HASH)?, version: annotation(NODEPOOL_HASH_VERSION)? })
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

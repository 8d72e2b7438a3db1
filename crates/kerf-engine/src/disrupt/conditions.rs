//! The conditions of a NodeClaim that disruption reads, computed from the objects (spec 03 §2,
//! §12.1): `Drifted`, `Consolidatable`, and the expiration time.
//!
//! The controllers write the results as conditions, and `kerf plan` calls the functions directly.
//! So both decide on the same values.

use jiff::{SignedDuration, Timestamp};
use kerf_api::annotations;
use kerf_api::hash::{HashAnnotations, is_drifted};
use kerf_api::labels::{self, LabelRules};
use kerf_api::slim::Str;

use crate::catalogue::InstanceType;
use crate::cluster::{NodeClaimInput, PoolInput};
use crate::pod::requirements::expression_requirement;
use crate::requirement::{Requirement, Requirements, UndefinedLabels};

/// Minimum age of a claim before a missing instance type counts as drift.
const TYPE_CHECK_AGE: SignedDuration = SignedDuration::from_hours(1);

/// Result of [`consolidatable`], which becomes the condition `Consolidatable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consolidatable {
    /// Consolidation may remove the node.
    Yes,
    /// The NodePool has `consolidateAfter: Never`.
    Disabled,
    /// The claim is not initialized.
    NotInitialized,
    /// The pool's `consolidateAfter` has not passed since the last pod event.
    Waiting {
        /// End of the wait.
        until: Timestamp,
    },
}

/// Returns whether a claim may be consolidated at a time. A claim with neither a pod event nor an
/// initialization time has waited long enough.
pub fn consolidatable(claim: &NodeClaimInput, pool: &PoolInput, at: Timestamp) -> Consolidatable {
    let Some(wait) = pool.disruption.consolidate_after else { return Consolidatable::Disabled };
    if !claim.lifecycle.is_initialized {
        return Consolidatable::NotInitialized;
    }
    let since = claim.lifecycle.last_pod_event.or(claim.lifecycle.initialized_at);
    match since.map(|since| wait.after(since)) {
        Some(until) if wait.nanos() > 0 && at < until => Consolidatable::Waiting { until },
        Some(_) | None => Consolidatable::Yes,
    }
}

/// Returns the reason why a claim has drifted (condition `Drifted`), or `None`. If several reasons
/// hold, the first one in the order of spec 03 §2.1 counts. `types` are the pool's instance types.
pub fn drift(
    claim: &NodeClaimInput,
    pool: &PoolInput,
    types: &[InstanceType],
    rules: &LabelRules,
    at: Timestamp,
) -> Option<Str> {
    if !claim.lifecycle.is_launched {
        return None;
    }
    if hash_differs(claim, pool) {
        return Some(Str::new_static("NodePoolDrifted"));
    }
    let claim_requirements = Requirements::from_labels(rules, &claim.labels);
    let required: Requirements =
        pool.requirements.iter().map(|r| expression_requirement(&r.expression, rules)).collect();
    if claim_requirements.compatible(&required, UndefinedLabels::Reject).is_err() {
        return Some(Str::new_static("RequirementsDrifted"));
    }
    if must_verify_type(claim, at) && !is_still_offered(claim, types, rules) {
        return Some(Str::new_static("InstanceTypeNotFound"));
    }
    claim.lifecycle.provider_drift.clone()
}

fn hash_differs(claim: &NodeClaimInput, pool: &PoolInput) -> bool {
    let pool_hash = pool.disruption.hash.as_ref().map_or_else(HashAnnotations::default, |hash| HashAnnotations {
        hash: Some(&hash.hash),
        version: Some(&hash.version),
    });
    let claim_hash = HashAnnotations {
        hash: claim.annotations.get(annotations::NODEPOOL_HASH),
        version: claim.annotations.get(annotations::NODEPOOL_HASH_VERSION),
    };
    is_drifted(pool_hash, claim_hash)
}

/// Returns true if drift detection must check that the claim's instance type still exists: the
/// claim is older than one hour and its last verification has expired.
pub fn must_verify_type(claim: &NodeClaimInput, at: Timestamp) -> bool {
    let is_old = claim.lifecycle.created.is_some_and(|created| at.duration_since(created) > TYPE_CHECK_AGE);
    is_old && claim.lifecycle.type_verified_until.is_none_or(|until| until <= at)
}

/// Returns true if the claim's instance type still has an offering that matches the claim's labels,
/// available or not.
fn is_still_offered(claim: &NodeClaimInput, types: &[InstanceType], rules: &LabelRules) -> bool {
    let type_name = claim.labels.get(labels::INSTANCE_TYPE);
    let Some(instance_type) = type_name.and_then(|name| types.iter().find(|t| t.name == name)) else { return false };
    let mut claim_requirements = Requirements::from_labels(rules, &claim.labels);
    if claim.labels.has_value(labels::CAPACITY_TYPE, labels::CAPACITY_TYPE_RESERVED) {
        // When a reservation ends, its instance keeps running as an on-demand instance.
        let capacity_types = [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_ON_DEMAND].map(Str::new_static);
        claim_requirements.replace(Requirement::one_of(labels::CAPACITY_TYPE, capacity_types));
        let reservation_keys: Vec<Str> =
            claim_requirements.iter().map(Requirement::key).filter(|key| is_reservation_label(key)).cloned().collect();
        for key in reservation_keys {
            claim_requirements.remove(&key);
        }
    }
    instance_type
        .offerings
        .iter()
        .any(|o| claim_requirements.compatible(&o.requirements, UndefinedLabels::AllowWellKnown(rules)).is_ok())
}

/// Returns true for labels that only instances of a reservation carry.
fn is_reservation_label(key: &str) -> bool {
    key == labels::aws::CAPACITY_RESERVATION_ID
        || key == labels::aws::CAPACITY_RESERVATION_TYPE
        || key == labels::aws::CAPACITY_RESERVATION_INTERRUPTIBLE
        || key.ends_with("reservation-id")
}

/// Returns the time at which the claim expires, whatever runs on its node. Returns `None` if it
/// never expires (spec 03 §12.1).
pub fn expires_at(claim: &NodeClaimInput) -> Option<Timestamp> {
    Some(claim.lifecycle.expire_after?.after(claim.lifecycle.created?))
}

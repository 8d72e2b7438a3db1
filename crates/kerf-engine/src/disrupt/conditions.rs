//! The conditions of a claim that disruption reads, computed from the objects themselves (spec 03 §2, §12.1): has it drifted, may
//! it be consolidated, has it expired. The controllers write what these functions say; `kerf plan` asks them directly, so both see the same.

use jiff::{SignedDuration, Timestamp};
use kerf_api::annotations;
use kerf_api::hash::{HashAnnotations, is_drifted};
use kerf_api::labels::{self, LabelRules};
use kerf_api::slim::Str;

use crate::catalogue::InstanceType;
use crate::cluster::{NodeClaimInput, PoolInput};
use crate::pod::requirements::expression_requirement;
use crate::requirement::{Requirement, Requirements, UndefinedLabels};

/// How old a claim must be before a missing instance type counts.
const TYPE_CHECK_AGE: SignedDuration = SignedDuration::from_hours(1);

/// Whether a claim may be consolidated (condition `Consolidatable`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consolidatable {
    /// It may.
    Yes,
    /// Its pool says `Never`.
    Disabled,
    /// It is not initialized.
    NotInitialized,
    /// Pods came or went not long enough ago.
    Waiting {
        /// When the wait is over.
        until: Timestamp,
    },
}

/// Whether a claim may be consolidated at an instant. A claim without any time to count from has waited long enough.
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

/// Why a claim has drifted (condition `Drifted`), or none. The first that holds counts, in the order of spec 03 §2.1. `types` are the
/// pool's instance types.
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
    let carried = Requirements::from_labels(rules, &claim.labels);
    let asked: Requirements = pool.requirements.iter().map(|r| expression_requirement(&r.expression, rules)).collect();
    if carried.compatible(&asked, UndefinedLabels::Reject).is_err() {
        return Some(Str::new_static("RequirementsDrifted"));
    }
    if must_verify_type(claim, at) && !is_still_offered(claim, types, rules) {
        return Some(Str::new_static("InstanceTypeNotFound"));
    }
    claim.lifecycle.provider_drift.clone()
}

fn hash_differs(claim: &NodeClaimInput, pool: &PoolInput) -> bool {
    let source = pool.disruption.hash.as_ref().map_or_else(HashAnnotations::default, |hash| HashAnnotations {
        hash: Some(&hash.hash),
        version: Some(&hash.version),
    });
    let carried = HashAnnotations {
        hash: claim.annotations.get(annotations::NODEPOOL_HASH),
        version: claim.annotations.get(annotations::NODEPOOL_HASH_VERSION),
    };
    is_drifted(source, carried)
}

/// Whether it must be looked whether the claim's instance type is still there: only of one that is not young, and now and then.
pub fn must_verify_type(claim: &NodeClaimInput, at: Timestamp) -> bool {
    let is_old = claim.lifecycle.created.is_some_and(|created| at.duration_since(created) > TYPE_CHECK_AGE);
    is_old && claim.lifecycle.type_verified_until.is_none_or(|until| until <= at)
}

/// Whether the claim's type is still there with an offering like the one that it was launched from, available or not.
fn is_still_offered(claim: &NodeClaimInput, types: &[InstanceType], rules: &LabelRules) -> bool {
    let named = claim.labels.get(labels::INSTANCE_TYPE);
    let Some(described) = named.and_then(|name| types.iter().find(|t| t.name == name)) else { return false };
    let mut carried = Requirements::from_labels(rules, &claim.labels);
    if claim.labels.has_value(labels::CAPACITY_TYPE, labels::CAPACITY_TYPE_RESERVED) {
        // A reservation that ended leaves its machine behind as an on-demand one.
        let either = [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_ON_DEMAND].map(Str::new_static);
        carried.replace(Requirement::one_of(labels::CAPACITY_TYPE, either));
        let of_reservations: Vec<Str> =
            carried.iter().map(Requirement::key).filter(|key| is_reservation_label(key)).cloned().collect();
        for key in of_reservations {
            carried.remove(&key);
        }
    }
    described
        .offerings
        .iter()
        .any(|o| carried.compatible(&o.requirements, UndefinedLabels::AllowWellKnown(rules)).is_ok())
}

/// Labels that only machines of reservations carry.
fn is_reservation_label(key: &str) -> bool {
    key == labels::aws::CAPACITY_RESERVATION_ID
        || key == labels::aws::CAPACITY_RESERVATION_TYPE
        || key == labels::aws::CAPACITY_RESERVATION_INTERRUPTIBLE
        || key.ends_with("reservation-id")
}

/// When the claim must go whatever runs on it; none if never (spec 03 §12.1).
pub fn expires_at(claim: &NodeClaimInput) -> Option<Timestamp> {
    Some(claim.lifecycle.expire_after?.after(claim.lifecycle.created?))
}

//! The status of a Deployment: its pod counts and the conditions `Available` and `Progressing`,
//! which `kubectl rollout status` reads.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::Rollout;
use crate::api::object::rfc3339_seconds;
use crate::api::status::ApiResult;
use crate::cluster::control_plane::{ControlPlane, RunAgain};
use crate::cluster::kind::ControlPlaneKind;
use crate::cluster::objects::{Condition, find_condition};
use crate::cluster::pods::ignore_not_found_or_conflict;
use crate::cluster::replicaset::status_differs;

/// Pod counts of a Deployment's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    replicas: i64,
    updated: i64,
    ready: i64,
    available: i64,
    unavailable: i64,
}

fn count(rollout: &Rollout) -> Counts {
    let sum = |field: &str| rollout.all_sets().map(|set| set.status_count(field)).sum::<i64>();
    let desired: i64 = rollout.all_sets().map(|set| set.replicas()).sum();
    let available = sum("availableReplicas");
    Counts {
        replicas: sum("replicas"),
        updated: rollout.new.as_ref().map_or(0, |new| new.status_count("replicas")),
        ready: sum("readyReplicas"),
        available,
        unavailable: (desired - available).max(0),
    }
}

/// Returns true if the rollout is complete: all desired pods are updated and available, and no
/// others exist.
pub(super) fn is_complete(rollout: &Rollout) -> bool {
    let counts = count(rollout);
    let desired = rollout.desired_replicas();
    counts.updated == desired && counts.replicas == desired && counts.available == desired
}

fn conditions(rollout: &Rollout) -> Vec<Condition> {
    let conditions = rollout.deployment.status.get("conditions").cloned().unwrap_or_default();
    serde_json::from_value(conditions).unwrap_or_default()
}

/// Writes the status if it differs. `created` is the name of a ReplicaSet that was just created.
pub(super) fn write_status(plane: &ControlPlane, rollout: &Rollout, created: Option<String>) -> ApiResult<RunAgain> {
    let counts = count(rollout);
    let (_, unavailable) = rollout.max_surge_and_unavailable();
    let mut conditions = conditions(rollout);
    let is_available = counts.available >= rollout.desired_replicas() - unavailable;
    let (status, reason, message) = if is_available {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    let now = plane.now();
    let progressing = progressing_condition(rollout, counts, &conditions, created, now);
    set_condition(&mut conditions, "Available", (status, reason, message.into()), now, false);
    let mut run_again = RunAgain::WhenChanged;
    if let Some((text, has_progressed)) = progressing {
        let wait = time_until_deadline(rollout, now, &conditions).filter(|_| text.0 == "True");
        set_condition(&mut conditions, "Progressing", text, now, has_progressed);
        run_again = wait.map_or(run_again, RunAgain::After);
    }
    let conditions: Vec<Value> = conditions.iter().map(to_json).collect();
    let status = json!({
        "observedGeneration": rollout.deployment.metadata.generation,
        "replicas": counts.replicas, "updatedReplicas": counts.updated, "readyReplicas": counts.ready,
        "availableReplicas": counts.available, "unavailableReplicas": counts.unavailable,
        "conditions": conditions,
    });
    if status_differs(&rollout.deployment.status, &status) {
        ignore_not_found_or_conflict(plane.controller_client.merge_patch_status(
            ControlPlaneKind::Deployment,
            &rollout.key,
            &status,
        ))?;
    }
    Ok(run_again)
}

type ConditionText = (&'static str, &'static str, String);

/// Returns the new `Progressing` condition, and true if the rollout has made progress. Returns
/// `None` if the condition stays as it is.
fn progressing_condition(
    rollout: &Rollout,
    counts: Counts,
    conditions: &[Condition],
    created: Option<String>,
    now: jiff::Timestamp,
) -> Option<(ConditionText, bool)> {
    if let Some(name) = created {
        let message = format!("Created new replica set \"{name}\"");
        return Some((("True", "NewReplicaSetCreated", message), true));
    }
    rollout.deployment.spec.progress_deadline_seconds?;
    if rollout.deployment.spec.paused {
        return None;
    }
    let current = find_condition(conditions, "Progressing");
    let was_available = current.is_some_and(|current| current.reason == "NewReplicaSetAvailable");
    if was_available && counts.replicas == counts.updated {
        return None;
    }
    let name = rollout.new.as_ref().map_or(&rollout.deployment.metadata.name, |new| &new.metadata.name);
    if is_complete(rollout) {
        let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
        return Some((("True", "NewReplicaSetAvailable", message), true));
    }
    let deployment = &rollout.deployment;
    let old = |replicas: i64, updated: i64| replicas - updated;
    let has_progressed = counts.updated > deployment.status_count("updatedReplicas")
        || old(counts.replicas, counts.updated)
            < old(deployment.status_count("replicas"), deployment.status_count("updatedReplicas"))
        || counts.ready > deployment.status_count("readyReplicas")
        || counts.available > deployment.status_count("availableReplicas");
    if has_progressed {
        let message = format!("ReplicaSet \"{name}\" is progressing.");
        return Some((("True", "ReplicaSetUpdated", message), true));
    }
    if time_until_deadline(rollout, now, conditions).is_some_and(|left| left.is_zero()) {
        let message = format!("ReplicaSet \"{name}\" has timed out progressing.");
        return Some((("False", "ProgressDeadlineExceeded", message), false));
    }
    let current = current?;
    let status = if current.status == "False" { "False" } else { "True" };
    let reason = [
        "NewReplicaSetCreated",
        "FoundNewReplicaSet",
        "ReplicaSetUpdated",
        "ProgressDeadlineExceeded",
        "DeploymentResumed",
    ]
    .into_iter()
    .find(|reason| *reason == current.reason)
    .unwrap_or("ReplicaSetUpdated");
    Some(((status, reason, current.message.to_string()), false))
}

/// Returns the time left until the progress deadline, zero if it has passed. Returns `None` if no
/// deadline applies.
fn time_until_deadline(rollout: &Rollout, now: jiff::Timestamp, conditions: &[Condition]) -> Option<Duration> {
    let limit = rollout.deployment.spec.progress_deadline_seconds?;
    let current = find_condition(conditions, "Progressing")?;
    if current.reason == "NewReplicaSetAvailable" || current.status == "Unknown" {
        return None;
    }
    let since = current.last_update_time.or(current.last_transition_time)?;
    let deadline = since.checked_add(SignedDuration::from_secs(limit)).ok()?;
    Some(if deadline <= now { Duration::ZERO } else { deadline.duration_since(now).unsigned_abs() })
}

fn set_condition(
    conditions: &mut Vec<Condition>,
    kind: &str,
    text: ConditionText,
    now: jiff::Timestamp,
    has_progressed: bool,
) {
    let (status, reason, message) = text;
    let before =
        conditions.iter().position(|condition| condition.kind == kind).map(|position| conditions.remove(position));
    let has_same_status = |before: &Condition| before.status == status;
    let is_unchanged = |before: &Condition| has_same_status(before) && before.reason == reason && !has_progressed;
    let now = Some(now);
    conditions.push(Condition {
        last_heartbeat_time: None,
        kind: kind.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        last_transition_time: before
            .as_ref()
            .filter(|before| has_same_status(before))
            .map_or(now, |before| before.last_transition_time),
        last_update_time: before
            .as_ref()
            .filter(|before| is_unchanged(before))
            .map_or(now, |before| before.last_update_time),
    });
    conditions.sort_by(|a, b| a.kind.cmp(&b.kind));
}

fn to_json(condition: &Condition) -> Value {
    json!({
        "type": condition.kind, "status": condition.status, "reason": condition.reason, "message": condition.message,
        "lastTransitionTime": condition.last_transition_time.map(rfc3339_seconds),
        "lastUpdateTime": condition.last_update_time.map(rfc3339_seconds),
    })
}

/// Updates the `Progressing` condition when a Deployment is paused or resumed.
pub(super) fn write_paused_condition(plane: &ControlPlane, rollout: &Rollout) -> ApiResult<()> {
    if rollout.deployment.spec.progress_deadline_seconds.is_none() {
        return Ok(());
    }
    let mut conditions = conditions(rollout);
    let is_recorded =
        find_condition(&conditions, "Progressing").is_some_and(|current| current.reason == "DeploymentPaused");
    let text = match (rollout.deployment.spec.paused, is_recorded) {
        (true, false) => ("Unknown", "DeploymentPaused", "Deployment is paused".to_string()),
        (false, true) => ("Unknown", "DeploymentResumed", "Deployment is resumed".to_string()),
        _ => return Ok(()),
    };
    set_condition(&mut conditions, "Progressing", text, plane.now(), true);
    let conditions: Vec<Value> = conditions.iter().map(to_json).collect();
    ignore_not_found_or_conflict(plane.controller_client.merge_patch_status(
        ControlPlaneKind::Deployment,
        &rollout.key,
        &json!({"conditions": conditions}),
    ))
}

//! The ReplicaSet controller: creates and deletes pods until their number equals `spec.replicas`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::control_plane::{ControlPlane, RunAgain};
use super::events::{EventComponent, EventType};
use super::kind::ControlPlaneKind;
use super::objects::{Pod, Workload};
use super::pods::{
    MAX_PODS_PER_PASS, count_ready, from_template, ignore_not_found_or_conflict, sort_by_deletion_order,
};
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("replicaset-controller");

/// Creates or deletes pods until their number is the desired one, and writes the status.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(set) = plane.cache.replica_sets.get(key) else { return Ok(RunAgain::WhenChanged) };
    let pods = plane.claim_pods(ControlPlaneKind::ReplicaSet, &set.metadata, set.selector().as_ref())?;
    let active: Vec<Arc<Pod>> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
    let outcome = if set.metadata.is_deleting() { Ok(()) } else { manage_replicas(plane, &set, active.clone()) };
    let run_again =
        write_status(plane, key, &set, &active, outcome.as_ref().err().map(|error| error.message().to_string()))?;
    outcome?;
    Ok(run_again)
}

fn manage_replicas(plane: &mut ControlPlane, set: &Workload, mut active: Vec<Arc<Pod>>) -> ApiResult<()> {
    let desired = usize::try_from(set.replicas()).unwrap_or_default();
    if active.len() < desired {
        let pod = from_template(&set.spec.template, (ControlPlaneKind::ReplicaSet, &set.metadata));
        for _ in 0..(desired - active.len()).min(MAX_PODS_PER_PASS) {
            create(plane, set, &pod)?;
        }
    } else if active.len() > desired {
        sort_by_deletion_order(&mut active);
        for pod in active.iter().take((active.len() - desired).min(MAX_PODS_PER_PASS)) {
            ignore_not_found_or_conflict(plane.controller_client.delete(
                ControlPlaneKind::Pod,
                &pod.metadata.key(),
                &pod.metadata.uid,
            ))?;
            let message = format!("Deleted pod: {}", pod.metadata.name);
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::ReplicaSet, &set.metadata),
                EventType::Normal,
                "SuccessfulDelete",
                message,
            );
        }
    }
    Ok(())
}

fn create(plane: &mut ControlPlane, set: &Workload, pod: &Value) -> ApiResult<()> {
    match plane.controller_client.create(ControlPlaneKind::Pod, &set.metadata.namespace, pod) {
        Ok(created) => {
            let created: super::objects::AnyObject = serde_json::from_slice(&created).unwrap_or_default();
            let message = format!("Created pod: {}", created.metadata.name);
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::ReplicaSet, &set.metadata),
                EventType::Normal,
                "SuccessfulCreate",
                message,
            );
            Ok(())
        }
        Err(error) => {
            let message = format!("Error creating: {}", error.message());
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::ReplicaSet, &set.metadata),
                EventType::Warning,
                "FailedCreate",
                message,
            );
            Err(error)
        }
    }
}

/// Writes the status if it differs.
fn write_status(
    plane: &ControlPlane,
    key: &ObjectKey,
    set: &Workload,
    active: &[Arc<Pod>],
    failure: Option<String>,
) -> ApiResult<RunAgain> {
    let (ready, available, next) = count_ready(active, set.spec.min_ready_seconds, plane.now());
    let labels = set.spec.template.pointer("/metadata/labels").and_then(Value::as_object);
    let labelled = |pod: &&Arc<Pod>| {
        let pod_labels = &pod.metadata.labels;
        labels.into_iter().flatten().all(|(key, value)| pod_labels.get(key) == value.as_str())
    };
    let mut status = json!({
        "replicas": active.len(),
        "fullyLabeledReplicas": active.iter().filter(labelled).count(),
        "readyReplicas": ready,
        "availableReplicas": available,
        "observedGeneration": set.metadata.generation,
        "terminatingReplicas": 0,
    });
    // Fields that are zero are omitted, except `replicas` and `terminatingReplicas`.
    for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        if status[field] == 0 {
            status[field] = Value::Null;
        }
    }
    status["conditions"] = match failure {
        Some(message) => {
            // A condition that is there stays as it is. Its message has the name of the pod that
            // was rejected first; with each new name the status would change for ever.
            let known = set.status["conditions"].as_array().into_iter().flatten();
            let known = known.into_iter().find(|condition| condition["type"] == "ReplicaFailure").cloned();
            let since = crate::api::object::rfc3339_seconds(plane.now());
            let failure = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message, "lastTransitionTime": since});
            json!([known.unwrap_or(failure)])
        }
        None => Value::Null,
    };
    if status_differs(&set.status, &status) {
        ignore_not_found_or_conflict(plane.controller_client.merge_patch_status(
            ControlPlaneKind::ReplicaSet,
            key,
            &status,
        ))?;
    }
    Ok(next.map_or(RunAgain::WhenChanged, RunAgain::After))
}

/// Returns true if a field of `desired` differs from `status`. A field that is zero or null equals
/// a missing field.
pub(crate) fn status_differs(status: &Value, desired: &Value) -> bool {
    let is_absent = |value: &Value| value.is_null() || value == &json!(0);
    desired.as_object().into_iter().flatten().any(|(field, desired)| match status.get(field) {
        Some(current) => current != desired && !(is_absent(current) && is_absent(desired)),
        None => !is_absent(desired),
    })
}

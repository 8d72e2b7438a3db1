//! Binding: a scheduler assigns a pod to a node.

use serde_json::{Value, json};

use super::update_directly;
use crate::api::call::Call;
use crate::api::object;
use crate::api::respond::Reply;
use crate::api::status::{ApiResult, GroupResource, StatusError};
use crate::api::storage::ObjectKey;

/// The resource in error messages.
const BINDING: GroupResource<'_> = GroupResource { group: "", resource: "pods/binding" };

/// Binds the pod `name` to the node in the body.
pub(super) fn bind(call: &Call<'_>, name: &str) -> ApiResult<Reply> {
    let binding = call.read_body()?.value;
    let body_name = object::name(&binding);
    if !body_name.is_empty() && body_name != name {
        return Err(StatusError::bad_request("name in URL does not match name in Binding object"));
    }
    let (kind, node) = (object::text(&binding, &["target", "kind"]), object::text(&binding, &["target", "name"]));
    if !matches!(kind, "" | "Node") {
        let message = format!("target.kind: Unsupported value: \"{kind}\": supported values: \"Node\", \"<empty>\"");
        return Err(StatusError::server_error(&message));
    }
    if node.is_empty() {
        return Err(StatusError::server_error("target.name: Required value"));
    }
    let pods = call.registry.find("", "pods").cloned().ok_or_else(StatusError::no_such_resource)?;
    let now = object::rfc3339_seconds(call.now());
    let uid = object::uid(&binding);
    update_directly(call, &pods, &ObjectKey::new(call.namespace(), name), name, |pod| {
        let conflict = |reason: String| Err(StatusError::conflict(BINDING, name, &reason));
        if !uid.is_empty() && uid != object::uid(pod) {
            return conflict(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::uid(pod)
            ));
        }
        if object::is_deleting(pod) {
            return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let assigned = object::text(pod, &["spec", "nodeName"]);
        if !assigned.is_empty() {
            return conflict(format!("pod {name} is already assigned to node \"{assigned}\""));
        }
        if !object::list(pod, &["spec", "schedulingGates"]).is_empty() {
            return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        object::ensure_object(pod, &["spec"]).insert("nodeName".into(), node.into());
        for field in ["annotations", "labels"] {
            for (key, value) in
                object::at(&binding, &["metadata", field]).and_then(Value::as_object).into_iter().flatten()
            {
                object::ensure_object(pod, &["metadata", field]).insert(key.clone(), value.clone());
            }
        }
        // A bound pod needs no nomination.
        object::remove(pod, &["status", "nominatedNodeName"]);
        set_condition(pod, json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now}));
        Ok(())
    })?;
    Ok(super::success())
}

/// Sets a condition of a pod. `lastTransitionTime` stays if the status does not change.
pub(super) fn set_condition(pod: &mut Value, mut condition: Value) {
    let kind = condition.get("type").cloned();
    let conditions = object::ensure_object(pod, &["status"]).entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|other| other.get("type") == kind.as_ref()) {
        Some(existing) => {
            if existing.get("status") == condition.get("status")
                && let Some(since) = existing.get("lastTransitionTime")
            {
                condition["lastTransitionTime"] = since.clone();
            }
            *existing = condition;
        }
        None => conditions.push(condition),
    }
}

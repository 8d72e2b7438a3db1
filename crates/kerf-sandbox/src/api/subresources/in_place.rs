//! Changes of a running pod that an ordinary update may not make: resources (`resize`) and
//! containers for debugging (`ephemeralcontainers`). Everything else in the body is ignored.

use serde_json::{Value, json};

use super::update_directly;
use crate::api::call::Call;
use crate::api::object;
use crate::api::request::Verb;
use crate::api::respond::Reply;
use crate::api::schema;
use crate::api::status::{ApiResult, StatusError};
use crate::api::write::read_patch;

/// Handles `PUT` or `PATCH` of `pods/NAME/resize` and `pods/NAME/ephemeralcontainers`.
pub(super) fn change_pod_in_place(call: &Call<'_>) -> ApiResult<Reply> {
    let body = match call.verb {
        Verb::Patch => None,
        _ => Some(call.read_body()?.value),
    };
    let patch = if body.is_none() { Some(read_patch(call)?) } else { None };
    let pod = update_directly(call, &call.resource, &call.key(), call.name(), |pod| {
        let mut desired = match (&body, &patch) {
            (Some(body), _) => body.clone(),
            (None, Some(patch)) => patch.apply_to(call, pod)?,
            (None, None) => return Ok(()),
        };
        schema::decode(&call.resource.schema, &mut desired).map_err(|problem| {
            StatusError::bad_request(format!("Pod in version \"v1\" cannot be handled as a Pod: {problem}"))
        })?;
        let old_spec = pod.get("spec").cloned();
        match call.subresource() {
            "resize" => copy_resources(pod, &desired),
            _ => add_ephemeral_containers(pod, &desired),
        }
        if pod.get("spec") != old_spec.as_ref() {
            let generation = object::number(pod, &["metadata", "generation"]).unwrap_or_default();
            object::set_meta(pod, "generation", generation + 1);
        }
        Ok(())
    })?;
    Ok(Reply::json(200, &pod))
}

fn copy_resources(pod: &mut Value, desired: &Value) {
    for list in ["containers", "initContainers"] {
        for container in object::list_mut(pod, &["spec", list]) {
            let name = object::text(container, &["name"]).to_string();
            let is_same_container = |other: &&Value| object::text(other, &["name"]) == name;
            let resources = object::list(desired, &["spec", list])
                .iter()
                .find(is_same_container)
                .and_then(|other| other.get("resources"));
            if let (Some(resources), Some(container)) = (resources, container.as_object_mut()) {
                container.insert("resources".into(), resources.clone());
            }
        }
    }
}

fn add_ephemeral_containers(pod: &mut Value, desired: &Value) {
    let existing: Vec<String> = object::list(pod, &["spec", "ephemeralContainers"])
        .iter()
        .map(|container| object::text(container, &["name"]).to_string())
        .collect();
    for container in object::list(desired, &["spec", "ephemeralContainers"]) {
        // Ephemeral containers can be added but not changed.
        if !existing.iter().any(|name| name == object::text(container, &["name"])) {
            let list = object::ensure_object(pod, &["spec"]).entry("ephemeralContainers").or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.push(container.clone());
            }
        }
    }
}

//! Scale: the desired and actual number of replicas, in one form for every kind that has them.

use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::api::call::{Call, parse_stored};
use crate::api::field;
use crate::api::json::Parsed;
use crate::api::object;
use crate::api::registry::ScalePaths;
use crate::api::request::Verb;
use crate::api::respond::Reply;
use crate::api::schema::{self, definitions};
use crate::api::status::{ApiResult, StatusError};
use crate::api::write::{
    ManagedFieldsView, ProposedObject, check_field_strictness, check_identity, modify, read_patch,
};

const VERSION: &str = "autoscaling/v1";
/// Replaces a missing number of replicas between the reading and the writing of a scale.
const UNSET: i64 = i32::MIN as i64;
/// The name that the real server prints for its type registry.
const SCHEME: &str = "\"pkg/runtime/scheme.go:111\"";

/// Handles `GET`, `PUT` or `PATCH` of the scale of an object.
pub(super) fn handle_scale(call: &Call<'_>) -> ApiResult<Reply> {
    let paths = call.resource.scale.clone().ok_or_else(StatusError::no_such_resource)?;
    let reply = match call.verb {
        Verb::Get => {
            let stored = call.server.storage.get(call.resource.table, &call.key()).ok_or_else(|| call.not_found())?;
            let object = parse_stored(&stored)?;
            if get(&object, &paths.spec_replicas).is_none() {
                return Err(StatusError::internal(&format!("{} does not exist", replicas_field_text(&paths))));
            }
            return Ok(Reply::json(200, &scale_of(call, &object, &paths)));
        }
        Verb::Update => replace(call, &paths)?,
        _ => patch(call, &paths)?,
    };
    let object: Value = serde_json::from_slice(&reply.content).unwrap_or_default();
    Ok(Reply::json(200, &scale_of(call, &object, &paths)).with_warnings(reply.warnings))
}

fn replace(call: &Call<'_>, paths: &ScalePaths) -> ApiResult<Reply> {
    // The part of the real server that serves custom resources has no type for scales. It answers
    // every invalid body with this message.
    let to_custom_resource_error = |error: StatusError| {
        if call.resource.is_custom() && error.code() == 400 {
            StatusError::bad_request(format!("no kind is registered for the type v1.Scale in scheme {SCHEME}"))
        } else {
            error
        }
    };
    let Parsed { value: mut scale, duplicates } = call.read_body().map_err(to_custom_resource_error)?;
    let warnings = decode_scale(call, &mut scale, &duplicates).map_err(to_custom_resource_error)?;
    modify(call, ManagedFieldsView::Excluded, |old| {
        let object = scaled(call, old, &scale, paths).map_err(|error| error.with_warnings(&warnings))?;
        Ok(ProposedObject { object, warnings: warnings.clone(), has_final_ownership: false })
    })
}

fn patch(call: &Call<'_>, paths: &ScalePaths) -> ApiResult<Reply> {
    let received = read_patch(call)?;
    modify(call, ManagedFieldsView::Excluded, |old| {
        let patched = received.apply_to(call, &scale_of(call, old, paths))?;
        let mut scale = patched.clone();
        let warnings =
            decode_scale(call, &mut scale, received.duplicates()).map_err(|error| error.into_patch_error(&patched))?;
        let object = scaled(call, old, &scale, paths).map_err(|error| error.with_warnings(&warnings))?;
        Ok(ProposedObject { object, warnings, has_final_ownership: false })
    })
}

/// Decodes a scale strictly and returns the warnings. A number that cannot be decoded must not
/// count as missing.
fn decode_scale(call: &Call<'_>, scale: &mut Value, duplicates: &[String]) -> ApiResult<Vec<String>> {
    let (version, kind) = (object::text(scale, &["apiVersion"]), object::text(scale, &["kind"]));
    let short_version = version.rsplit('/').next().unwrap_or(version);
    if !matches!((version, kind), ("" | VERSION, "" | "Scale")) {
        return Err(StatusError::bad_request(if call.registry.has_kind(version, kind) {
            format!(
                "{kind} in version \"{short_version}\" cannot be handled as a Scale: converting ({short_version}.{kind}) to (autoscaling.Scale): unknown conversion"
            )
        } else {
            format!(
                "{kind} in version \"{short_version}\" cannot be handled as a Scale: no kind \"{kind}\" is registered for version \"{version}\" in scheme {SCHEME}"
            )
        }));
    }
    let validation = call.field_validation()?;
    schema::decode(&definitions().schema("io.k8s.api.autoscaling.v1.Scale"), scale)
        .and_then(|unknown| check_field_strictness(validation, &unknown, duplicates))
        .map_err(|problem| {
            StatusError::bad_request(format!("Scale in version \"v1\" cannot be handled as a Scale: {problem}"))
        })
}

/// Returns the object with the number of replicas of a scale.
fn scaled(call: &Call<'_>, old: &Value, scale: &Value, paths: &ScalePaths) -> ApiResult<Value> {
    check_identity(call, scale)?;
    let replicas = object::number(scale, &["spec", "replicas"]).unwrap_or_default();
    if replicas == UNSET {
        return Err(StatusError::bad_request(format!("{} cannot be empty", replicas_field_text(paths))));
    }
    // The schema of a custom resource decides whether a negative number is valid.
    if replicas < 0 && !call.resource.is_custom() {
        let error = field::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(StatusError::invalid("autoscaling", "Scale", call.name(), &[error]));
    }
    let mut object = old.clone();
    set(&mut object, &paths.spec_replicas, replicas.into());
    // The version and uid of a scale are those of the object.
    for key in ["resourceVersion", "uid"] {
        match object::at(scale, &["metadata", key]) {
            Some(value) => object::set_meta(&mut object, key, value.clone()),
            None => drop(object::remove(&mut object, &["metadata", key])),
        }
    }
    Ok(object)
}

fn scale_of(call: &Call<'_>, object: &Value, paths: &ScalePaths) -> Value {
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object::at(object, &["metadata", key]) {
            metadata[key] = value.clone();
        }
    }
    let number = |path: &[SmolStr]| get(object, path).and_then(Value::as_i64);
    let mut status = json!({"replicas": number(&paths.status_replicas).unwrap_or_default()});
    let selector = match &paths.selector {
        Some(path) => get(object, path).and_then(Value::as_str).unwrap_or_default().to_string(),
        None => selector_text(object::at(object, &["spec", "selector"])),
    };
    if !selector.is_empty() || !call.resource.is_custom() {
        status["selector"] = selector.into();
    }
    let spec = match number(&paths.spec_replicas).unwrap_or(UNSET) {
        // Go omits a zero here, but not in the status.
        0 => json!({}),
        replicas => json!({"replicas": replicas}),
    };
    json!({"kind": "Scale", "apiVersion": VERSION, "metadata": metadata, "spec": spec, "status": status})
}

/// Returns the replicas field of a custom resource as the real server prints it.
fn replicas_field_text(paths: &ScalePaths) -> String {
    format!("the spec replicas field \".{}\"", paths.spec_replicas.join("."))
}

fn get<'a>(object: &'a Value, path: &[SmolStr]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key.as_str()))
}

fn set(object: &mut Value, path: &[SmolStr], value: Value) {
    if let Some((last, parents)) = path.split_last() {
        let parents: Vec<&str> = parents.iter().map(SmolStr::as_str).collect();
        object::ensure_object(object, &parents).insert(last.to_string(), value);
    }
}

/// Formats a selector as in the query of a list request.
pub(crate) fn selector_text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    let labels = match selector.get("matchLabels") {
        Some(labels) => labels.as_object(),
        // The selector of a ReplicationController is a map of labels.
        None if selector.get("matchExpressions").is_none() => selector.as_object(),
        None => None,
    };
    let equal =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let sets = object::list(selector, &["matchExpressions"]).iter().map(|expression| {
        let key = object::text(expression, &["key"]);
        let values: Vec<&str> = object::list(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        match object::text(expression, &["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_string(),
        }
    });
    equal.chain(sets).collect::<Vec<_>>().join(",")
}

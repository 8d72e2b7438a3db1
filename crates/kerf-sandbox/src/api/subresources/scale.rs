//! Scale: how many there should be and how many there are, in one form for every kind that has such a number.

use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::api::call::{Call, parse};
use crate::api::field;
use crate::api::object;
use crate::api::registry::ScalePaths;
use crate::api::request::Verb;
use crate::api::respond::Reply;
use crate::api::status::{Answer, Refusal};
use crate::api::write::{Candidate, Sight, modify, read_patch};

/// `GET`, `PUT` or `PATCH` of the scale of an object.
pub(super) fn answer(call: &Call<'_>) -> Answer<Reply> {
    let paths = call.resource.scale.clone().ok_or_else(Refusal::no_such_resource)?;
    let stored = call.server.storage.get(call.resource.table, &call.key()).ok_or_else(|| call.not_found())?;
    if call.verb == Verb::Get {
        return Ok(Reply::json(200, &scale_of(call, &parse(&stored)?, &paths)));
    }
    let sent = if call.verb == Verb::Update { Some(call.read_body()?.value) } else { None };
    let patch = if sent.is_none() { Some(read_patch(call)?) } else { None };
    let reply = modify(call, Sight::WithoutOwners, |old| {
        let scale = match (&sent, &patch) {
            (Some(sent), _) => sent.clone(),
            (None, Some(patch)) => patch.onto(call, &scale_of(call, old, &paths))?,
            (None, None) => Value::Null,
        };
        let replicas = object::number(&scale, &["spec", "replicas"]).unwrap_or_default();
        if replicas < 0 {
            let error = field::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
            return Err(Refusal::invalid("autoscaling", "Scale", call.name(), &[error]));
        }
        let mut object = old.clone();
        set(&mut object, &paths.spec_replicas, replicas.into());
        // A version in the scale is a version of the object.
        match object::at(&scale, &["metadata", "resourceVersion"]) {
            Some(version) => object::set_meta(&mut object, "resourceVersion", version.clone()),
            None => drop(object::remove(&mut object, &["metadata", "resourceVersion"])),
        }
        Ok(Candidate { object, warnings: Vec::new(), tracked: false })
    })?;
    let object: Value = serde_json::from_slice(&reply.content).unwrap_or_default();
    Ok(Reply::json(200, &scale_of(call, &object, &paths)))
}

fn scale_of(call: &Call<'_>, object: &Value, paths: &ScalePaths) -> Value {
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object::at(object, &["metadata", key]) {
            metadata[key] = value.clone();
        }
    }
    let number = |path: &[SmolStr]| get(object, path).and_then(Value::as_i64).unwrap_or_default();
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector = match &paths.selector {
        Some(path) => get(object, path).and_then(Value::as_str).unwrap_or_default().to_string(),
        None => selector_text(object::at(object, &["spec", "selector"])),
    };
    if !selector.is_empty() || !call.resource.is_custom() {
        status["selector"] = selector.into();
    }
    let wanted = match number(&paths.spec_replicas) {
        // Go leaves out a zero here, and not in the status.
        0 => json!({}),
        replicas => json!({"replicas": replicas}),
    };
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": wanted, "status": status})
}

fn get<'a>(object: &'a Value, path: &[SmolStr]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key.as_str()))
}

fn set(object: &mut Value, path: &[SmolStr], value: Value) {
    if let Some((last, parents)) = path.split_last() {
        let parents: Vec<&str> = parents.iter().map(SmolStr::as_str).collect();
        object::made(object, &parents).insert(last.to_string(), value);
    }
}

/// A selector as the text that stands in a query.
pub(crate) fn selector_text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    let labels = match selector.get("matchLabels") {
        Some(labels) => labels.as_object(),
        // A ReplicationController's selector is the labels themselves.
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

//! Tables for `kubectl get`. The server computes the rows, so that every client shows the same
//! columns.

mod age;
mod cluster;
mod layout;
mod node;
mod pod;
mod storage;
mod workload;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::call::Call;
use super::registry::Resource;
use super::status::{ApiResult, StatusError};
use super::storage::StoredObject;

pub(crate) use age::{age, human_duration};
pub(crate) use layout::TableRow;

/// Returns the table of one page of a list.
pub(crate) fn of_list(call: &Call<'_>, objects: &[Arc<StoredObject>], metadata: &Value) -> ApiResult<Value> {
    let include = parse_include_object(call)?;
    let rows: Vec<Value> =
        objects.iter().map(|stored| row(&call.resource, &parse(stored.bytes()), call.now(), include)).collect();
    Ok(table(&call.resource, metadata.clone(), rows, true))
}

/// Returns the table of one object. An object of another kind (the status that a deletion returns)
/// is returned unchanged.
pub(crate) fn of_object(call: &Call<'_>, object: &[u8]) -> ApiResult<Value> {
    let parsed = parse(object);
    if parsed.get("kind").and_then(Value::as_str) != Some(&call.resource.kind) {
        return Ok(parsed);
    }
    let version = super::object::text(&parsed, &["metadata", "resourceVersion"]);
    let metadata = json!({"resourceVersion": version});
    // Rows show stored objects, and a reply has the form of its API version.
    let stored = call.to_stored_form(parsed);
    let rows = vec![row(&call.resource, &stored, call.now(), parse_include_object(call)?)];
    Ok(table(&call.resource, metadata, rows, true))
}

/// Returns the table of one watch event. `columns`: whether to include the column definitions.
pub(crate) fn of_event(resource: &Resource, object: &[u8], now: Timestamp, columns: bool) -> Value {
    let parsed = parse(object);
    let version = super::object::text(&parsed, &["metadata", "resourceVersion"]).to_string();
    table(
        resource,
        json!({"resourceVersion": version}),
        vec![row(resource, &parsed, now, IncludeObject::Metadata)],
        columns,
    )
}

/// The part of the object that each row contains.
#[derive(Clone, Copy)]
enum IncludeObject {
    None,
    Metadata,
    Object,
}

fn parse_include_object(call: &Call<'_>) -> ApiResult<IncludeObject> {
    match call.query.text("includeObject") {
        "" | "Metadata" => Ok(IncludeObject::Metadata),
        "None" => Ok(IncludeObject::None),
        "Object" => Ok(IncludeObject::Object),
        other => Err(StatusError::bad_request(format!("unrecognized includeObject value: \"{other}\""))),
    }
}

fn table(resource: &Resource, metadata: Value, rows: Vec<Value>, columns: bool) -> Value {
    let columns = if columns { layout::columns(resource) } else { Value::Null };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// Returns the row of an object in its stored form.
fn row(resource: &Resource, object: &Value, now: Timestamp, include: IncludeObject) -> Value {
    let mut row = json!({"cells": layout::cells(resource, &TableRow { object, now })});
    if let Some(conditions) = layout::conditions(resource, object) {
        row["conditions"] = conditions;
    }
    match include {
        IncludeObject::None => {}
        IncludeObject::Metadata => {
            let metadata = object.get("metadata").cloned().unwrap_or_default();
            row["object"] =
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        }
        IncludeObject::Object => row["object"] = super::call::to_served_form(resource, object).into_owned(),
    }
    row
}

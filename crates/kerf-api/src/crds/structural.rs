//! Converts the schema that a type derives to the structural schema that the API server accepts.
//!
//! The derived schema is full JSON Schema from Rust's view: an optional field may be `null`, and a
//! field with a serde default has that default. In Kubernetes a field may be absent but is never
//! `null`, and only the API's own defaults count. The conversion removes the Rust-specific parts.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::kind::CustomKind;

/// Returns the schema of a kind's objects, from `apiVersion` to `status`.
pub(super) fn schema_of<K: CustomKind>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.transforms.clear();
    });
    let mut schema = settings.into_generator().into_root_schema_for::<K>().to_value();
    rewrite(&mut schema);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(
            "apiVersion".into(),
            json!({ "description": format!("Version of the API that the object is written in: {}.", K::API_VERSION), "type": "string" }),
        );
        properties.insert(
            "kind".into(),
            json!({ "description": format!("Kind of the object: {}.", K::KIND), "type": "string" }),
        );
        properties.insert("metadata".into(), json!({ "type": "object" }));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "metadata");
    }
    drop_if_empty(&mut schema, "required");
    schema
}

fn rewrite(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("title");
    object.remove("$schema");
    drop_null(object);
    if let Some(Value::String(description)) = object.get_mut("description") {
        *description = reflow(description);
    }
    for keyword in ["properties"] {
        if let Some(properties) = object.get_mut(keyword).and_then(Value::as_object_mut) {
            properties.values_mut().for_each(rewrite);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(keyword) {
            rewrite(inner);
        }
    }
}

/// Removes `null` from the types, enum values and default of a field.
fn drop_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get("type") {
        let types: Vec<Value> = types.iter().filter(|name| *name != "null").cloned().collect();
        if let [only] = types.as_slice() {
            object.insert("type".into(), only.clone());
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
}

fn drop_if_empty(schema: &mut Value, keyword: &str) {
    if let Some(object) = schema.as_object_mut()
        && object.get(keyword).and_then(Value::as_array).is_some_and(Vec::is_empty)
    {
        object.remove(keyword);
    }
}

/// Joins the lines of each paragraph of a doc comment. Removes backticks, which rustdoc renders but
/// `kubectl explain` would show.
fn reflow(description: &str) -> String {
    let paragraphs =
        description.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n").replace('`', "")
}

//! The built-in schemas as OpenAPI documents publish them: with merge keys of lists, and with
//! references as the real server writes them (a reference that has siblings is inside an `allOf`).

use serde_json::{Map, Value, json};

use super::merge_keys::{ATOMIC_TYPES, FIELD_ATOMICITY, MERGE_KEYS, MergeKeyRow, short_name};

/// Returns the schema of a definition for publication.
pub(crate) fn annotate(name: &str, schema: &Value) -> Value {
    let short = short_name(name);
    let mut schema = schema.clone();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (field, property) in properties {
            wrap_reference(property);
            if let (Some(row), Some(property)) =
                (MERGE_KEYS.iter().find(|row| row.ty == short && row.field == field), property.as_object_mut())
            {
                annotate_list(row, property);
            }
            let atomic = FIELD_ATOMICITY.iter().find(|(ty, other, _)| *ty == short && other == field);
            if let (Some((_, _, atomic)), Some(property)) = (atomic, property.as_object_mut()) {
                property.insert("x-kubernetes-map-type".into(), if *atomic { "atomic" } else { "granular" }.into());
            }
        }
    }
    if ATOMIC_TYPES.contains(&short) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    if schema.get("x-kubernetes-int-or-string").is_some() {
        // Quantities and similar types, for clients that only understand plain OpenAPI.
        schema["oneOf"] = json!([{"type": "string"}, {"type": "number"}]);
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("x-kubernetes-int-or-string");
        }
    }
    schema
}

fn wrap_reference(property: &mut Value) {
    let Some(fields) = property.as_object_mut() else { return };
    if fields.len() > 1
        && let Some(reference) = fields.remove("$ref")
    {
        fields.insert("allOf".into(), json!([{"$ref": reference}]));
    }
}

fn annotate_list(row: &MergeKeyRow, property: &mut Map<String, Value>) {
    match row.keys {
        "" => {}
        "*" => drop(property.insert("x-kubernetes-list-type".into(), "set".into())),
        keys => {
            let names: Vec<&str> = keys.split(',').map(|key| key.split('=').next().unwrap_or(key)).collect();
            property.insert("x-kubernetes-list-type".into(), "map".into());
            property.insert("x-kubernetes-list-map-keys".into(), json!(names));
        }
    }
    let strategy = match (row.patch, row.retains_keys()) {
        ("", _) => return,
        ("!", _) => "replace",
        ("~", _) => "retainKeys",
        (_, true) => "merge,retainKeys",
        (_, false) => "merge",
    };
    property.insert("x-kubernetes-patch-strategy".into(), strategy.into());
    if let Some(super::MergeKey::Field(key)) = row.merge_key() {
        property.insert("x-kubernetes-patch-merge-key".into(), key.as_str().into());
    }
}

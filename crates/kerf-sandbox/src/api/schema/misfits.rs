//! Which fields of an object its schema does not know.

use serde_json::Value;

use super::{At, Schema, Type};

/// The paths of fields that the schema does not declare (`spec.containers[0].imagee`).
pub(crate) fn undeclared(schema: &Schema, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(schema.root(), object, &mut String::new(), &mut found);
    found
}

fn walk(at: At<'_>, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match (at.ty(), value) {
        (Type::Struct(inner), Value::Object(fields)) => {
            for (key, value) in fields {
                push_key(path, key);
                if inner.fields.contains_key(key.as_str()) {
                    walk(at.key(key), value, path, found);
                } else if !inner.open {
                    found.push(path.clone());
                }
                path.truncate(length);
            }
        }
        (Type::Map { .. }, Value::Object(entries)) => {
            for (key, value) in entries {
                push_key(path, key);
                walk(at.key(key), value, path, found);
                path.truncate(length);
            }
        }
        (Type::List { .. }, Value::Array(items)) => {
            for (place, item) in items.iter().enumerate() {
                path.push('[');
                path.push_str(&place.to_string());
                path.push(']');
                walk(at.item(), item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

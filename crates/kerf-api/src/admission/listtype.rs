//! Checks that lists declared as sets contain no element twice and lists declared as maps contain
//! no key twice.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::error::FieldError;
use super::path::Path;
use super::schema::{ListType, Schema};
use super::text;

/// Returns an error for every duplicate in every set and map list inside `value`. The path of the
/// error is that of the second occurrence.
pub(crate) fn validate(at: &Path<'_>, schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_node(at, schema, value, &mut errors);
    errors
}

fn check_node(at: &Path<'_>, schema: &Schema, value: &Value, errors: &mut Vec<FieldError>) {
    match value {
        Value::Array(items) => {
            match &schema.list_type {
                Some(ListType::Set) => {
                    for i in second_occurrences(items) {
                        errors.push(FieldError::duplicate(&at.index(i), items[i].clone()));
                    }
                }
                Some(ListType::Map(keys)) => check_map_list(at, keys, items, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(item_schema) = schema.items.as_deref() {
                for (i, item) in items.iter().enumerate() {
                    check_node(&at.index(i), item_schema, item, errors);
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(values) = schema.map_values() {
                    check_node(&at.key(name), values, value, errors);
                }
                if let Some(property) = schema.properties.get(name) {
                    check_node(&at.child(name), property, value, errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_map_list(at: &Path<'_>, keys: &[String], items: &[Value], errors: &mut Vec<FieldError>) {
    if let Some(i) = items.iter().position(|item| !item.is_null() && !item.is_object()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&at.index(i), items[i].clone(), detail));
        return;
    }
    let key_of = |item: &Value| {
        let present = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(present.collect::<Map<_, _>>())
    };
    let element_keys: Vec<Value> = items.iter().map(key_of).collect();
    for i in second_occurrences(&element_keys) {
        errors.push(FieldError::duplicate(&at.index(i), element_keys[i].clone()));
    }
}

/// Returns the index of the second occurrence of each value that occurs more than once.
fn second_occurrences(items: &[Value]) -> Vec<usize> {
    if items.len() < 2 {
        return Vec::new();
    }
    let mut counts: HashMap<String, u32> = HashMap::with_capacity(items.len());
    let mut duplicates = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let count = counts.entry(comparison_key(item)).or_default();
        *count += 1;
        if *count == 2 {
            duplicates.push(i);
        }
    }
    duplicates
}

/// Returns the text by which elements are compared. As upstream, an integer and a float of equal
/// value are different; all other values are compared by their JSON.
fn comparison_key(value: &Value) -> String {
    match value {
        Value::Number(n) if n.is_f64() => format!("float {n}"),
        other => text::json(other),
    }
}

//! Mismatches between an object and its schema: undeclared fields, and values of another type.

use serde_json::Value;

use super::{FieldType, ScalarType, Schema, SchemaCursor};

/// Returns the paths of fields that the schema does not declare (`spec.containers[0].imagee`).
pub(crate) fn undeclared_fields(schema: &Schema, object: &Value) -> Vec<String> {
    let mismatches = find(schema, object).into_iter();
    mismatches.filter(|mismatch| mismatch.expected.is_none()).map(|mismatch| mismatch.path).collect()
}

/// Returns the messages of server-side apply for all mismatches.
pub(crate) fn schema_mismatches(schema: &Schema, object: &Value) -> Vec<String> {
    let message = |SchemaMismatch { path, expected }| match expected {
        None => format!(".{path}: field not declared in schema"),
        Some(expected) => format!(".{path}: expected {expected}"),
    };
    find(schema, object).into_iter().map(message).collect()
}

struct SchemaMismatch {
    path: String,
    /// The expected type and the actual value. `None`: the field is not declared.
    expected: Option<String>,
}

fn find(schema: &Schema, object: &Value) -> Vec<SchemaMismatch> {
    let mut mismatches = Vec::new();
    walk(schema.root(), object, &mut String::new(), &mut mismatches);
    mismatches
}

fn walk(at: SchemaCursor<'_>, value: &Value, path: &mut String, mismatches: &mut Vec<SchemaMismatch>) {
    let length = path.len();
    match (at.ty(), value) {
        (FieldType::Struct(inner), Value::Object(fields)) => {
            for (key, value) in fields {
                push_key(path, key);
                if inner.fields.contains_key(key.as_str()) {
                    walk(at.at_key(key), value, path, mismatches);
                } else if !inner.preserves_unknown_fields {
                    mismatches.push(SchemaMismatch { path: path.clone(), expected: None });
                }
                path.truncate(length);
            }
        }
        (FieldType::Map { .. }, Value::Object(entries)) => {
            for (key, value) in entries {
                push_key(path, key);
                walk(at.at_key(key), value, path, mismatches);
                path.truncate(length);
            }
        }
        (FieldType::List { .. }, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                path.push('[');
                path.push_str(&index.to_string());
                path.push(']');
                walk(at.at_item(), item, path, mismatches);
                path.truncate(length);
            }
        }
        (ty, value) => {
            mismatches.extend(
                mismatch(ty, value).map(|expected| SchemaMismatch { path: path.clone(), expected: Some(expected) }),
            );
        }
    }
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

/// Returns the expected type if the value has another one. A null matches every type. Types with
/// several forms match every value.
fn mismatch(ty: &FieldType, value: &Value) -> Option<String> {
    match (ty, value) {
        (_, Value::Null) | (FieldType::Any | FieldType::BuiltIn(_), _) => None,
        (FieldType::Struct(_) | FieldType::Map { .. }, _) => Some(format!("map, got &{{{}}}", go_print(value))),
        (FieldType::List { .. }, _) => Some(format!("list, got &{{{}}}", go_print(value))),
        (FieldType::Scalar(scalar), _) => match (scalar, value) {
            (ScalarType::String | ScalarType::Bytes, Value::String(_))
            | (ScalarType::Boolean, Value::Bool(_))
            | (ScalarType::Int32 | ScalarType::Int64 | ScalarType::Number, Value::Number(_))
            | (ScalarType::Quantity | ScalarType::IntOrString | ScalarType::Time | ScalarType::MicroTime, _) => None,
            (ScalarType::String | ScalarType::Bytes, _) => {
                Some(format!("string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)))
            }
            (ScalarType::Boolean, _) => Some(format!("boolean, got &{{{}}}", go_print(value))),
            (ScalarType::Int32 | ScalarType::Int64 | ScalarType::Number, _) => {
                Some(format!("numeric (int or float), got {}", go_type(value)))
            }
        },
    }
}

/// Formats a value like Go's `%v`: `[a map[b:1]]`.
fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_print).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{key}:{}", go_print(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// Formats a value in Go syntax: `[]interface {}{"a", map[string]interface {}{"b":1}}`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            format!("{}{{{}}}", go_type(value), items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key:?}:{}", go_syntax(value))).collect();
            format!("{}{{{}}}", go_type(value), fields.join(", "))
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mismatches_have_the_messages_of_server_side_apply() {
        let schema = Schema::custom(Some(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "text": {"type": "string"}, "number": {"type": "integer"}, "flag": {"type": "boolean"},
            "list": {"type": "array", "items": {"type": "string"}}, "either": {"x-kubernetes-int-or-string": true}}}}}),
        ));
        let valid = json!({"metadata": {"creationTimestamp": "x"}, "spec": {"text": null, "number": 1.5, "either": true, "list": null}});
        assert_eq!(schema_mismatches(&schema, &valid), Vec::<String>::new());
        for (spec, message) in [
            (json!([1, "a"]), ".spec: expected map, got &{[1 a]}"),
            (json!({"foo": 1}), ".spec.foo: field not declared in schema"),
            (json!({"list": {"a": {"b": true}}}), ".spec.list: expected list, got &{map[a:map[b:true]]}"),
            (
                json!({"list": [{}]}),
                ".spec.list[0]: expected string, got &value.valueUnstructured{Value:map[string]interface {}{}}",
            ),
            (
                json!({"text": [1, {"a": "b"}]}),
                ".spec.text: expected string, got &value.valueUnstructured{Value:[]interface {}{1, map[string]interface {}{\"a\":\"b\"}}}",
            ),
            (json!({"number": true}), ".spec.number: expected numeric (int or float), got bool"),
            (json!({"flag": "x"}), ".spec.flag: expected boolean, got &{x}"),
        ] {
            assert_eq!(schema_mismatches(&schema, &json!({"spec": spec})), [message]);
        }
    }
}

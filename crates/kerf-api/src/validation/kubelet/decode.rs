//! Checks that settings can be decoded strictly into the kubelet's own type.

use serde_json::{Map, Value};

use super::fields::{KUBELET_CONFIGURATION, KubeletFieldType, StructFields};
use crate::admission::text::quote;
use crate::duration::Duration;
use crate::quantity::Quantity;

/// Settings that other checks handle, with any type.
const EXEMPT_FIELDS: [&str; 1] = ["registerWithTaints"];

/// Returns type errors. If there are none, returns fields that the kubelet does not have.
pub(super) fn failures(kubelet: &Map<String, Value>) -> Vec<String> {
    let mut failures = DecodeFailures::default();
    let checked = kubelet.iter().filter(|(name, value)| {
        // A string for `maxPods` is an expression.
        let is_expression = *name == "maxPods" && value.is_string();
        !is_expression && !EXEMPT_FIELDS.contains(&name.as_str())
    });
    check_object(&KUBELET_CONFIGURATION, checked, "", &mut failures);
    if failures.mistyped.is_empty() { failures.unknown } else { failures.mistyped }
}

#[derive(Default)]
struct DecodeFailures {
    mistyped: Vec<String>,
    unknown: Vec<String>,
}

fn check_object<'a>(
    kind: &StructFields,
    fields: impl IntoIterator<Item = (&'a String, &'a Value)>,
    path: &str,
    failures: &mut DecodeFailures,
) {
    for (name, value) in fields {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match kind.iter().find(|(field, _)| field == name) {
            Some((_, field_type)) => check_value(field_type, value, &path, failures),
            None => failures.unknown.push(format!("unknown field {}", quote(&path))),
        }
    }
}

fn check_value(field_type: &KubeletFieldType, value: &Value, path: &str, failures: &mut DecodeFailures) {
    let is_valid = match (field_type, value) {
        (_, Value::Null) => true,
        (KubeletFieldType::Struct(kind), Value::Object(fields)) => {
            check_object(kind, fields, path, failures);
            true
        }
        (KubeletFieldType::List(element), Value::Array(elements)) => {
            for (i, value) in elements.iter().enumerate() {
                check_value(element, value, &format!("{path}[{i}]"), failures);
            }
            true
        }
        (KubeletFieldType::Map(values), Value::Object(entries)) => {
            for (key, value) in entries {
                check_value(values, value, &format!("{path}[{key}]"), failures);
            }
            true
        }
        (KubeletFieldType::Bool, Value::Bool(_))
        | (KubeletFieldType::Text, Value::String(_))
        | (KubeletFieldType::Float, Value::Number(_)) => true,
        (KubeletFieldType::Int32, Value::Number(number)) => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        (KubeletFieldType::Uint32, Value::Number(number)) => number.as_u64().is_some_and(|n| u32::try_from(n).is_ok()),
        (KubeletFieldType::Int64 | KubeletFieldType::DurationOrNanoseconds, Value::Number(number)) => number.is_i64(),
        (KubeletFieldType::Duration | KubeletFieldType::DurationOrNanoseconds, Value::String(text)) => {
            text.parse::<Duration>().is_ok()
        }
        (KubeletFieldType::Quantity, Value::String(text)) => text.parse::<Quantity>().is_ok(),
        (KubeletFieldType::Quantity, Value::Number(number)) => number.is_i64(),
        _ => false,
    };
    if !is_valid {
        failures.mistyped.push(format!("{path} must be {}, not {}", field_type.description(), describe(value)));
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", quote(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

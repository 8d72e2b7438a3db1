//! Writes a manifest as YAML with identical bytes every time.
//!
//! Keys are sorted here, because the key order of a JSON object depends on which crate features are
//! enabled.

use serde_json::Value;
use serde_yaml_ng::{Mapping, Value as Yaml};

/// Returns the YAML document, without a separator line.
pub(super) fn document(json: &Value) -> String {
    // Only maps with keys that are not strings cannot be written, and JSON has none.
    serde_yaml_ng::to_string(&ordered(json)).unwrap_or_default()
}

fn ordered(json: &Value) -> Yaml {
    match json {
        Value::Object(object) => {
            let mut keys: Vec<&String> = object.keys().collect();
            keys.sort();
            keys.into_iter().map(|key| (Yaml::from(key.as_str()), ordered(&object[key]))).collect::<Mapping>().into()
        }
        Value::Array(elements) => elements.iter().map(ordered).collect::<Vec<_>>().into(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => integer.into(),
            (None, Some(float)) => float.into(),
            (None, None) => number.to_string().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Bool(flag) => (*flag).into(),
        Value::Null => Yaml::Null,
    }
}

//! A manifest as YAML, the same bytes every time.
//!
//! Keys are put in order here, because the order in which JSON objects keep theirs depends on what else is compiled in.

use serde_json::Value;
use serde_yaml_ng::{Mapping, Value as Yaml};

/// The document, without a separator.
pub(super) fn document(json: &Value) -> String {
    // Only maps with keys that are no text cannot be written, and JSON has none.
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

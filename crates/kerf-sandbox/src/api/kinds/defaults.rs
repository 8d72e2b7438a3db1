//! Defaulting of omitted fields from small tables.

use serde_json::{Map, Value};

/// A default value in a table.
#[derive(Clone, Copy, Debug)]
pub(super) enum DefaultValue {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    EmptyObject,
}

impl From<DefaultValue> for Value {
    fn from(constant: DefaultValue) -> Self {
        match constant {
            DefaultValue::Text(text) => text.into(),
            DefaultValue::Number(number) => number.into(),
            DefaultValue::Flag(flag) => flag.into(),
            DefaultValue::EmptyObject => Map::new().into(),
        }
    }
}

/// Sets each key that is missing or has an empty string.
pub(super) fn set_defaults(object: &mut Map<String, Value>, defaults: &[(&str, DefaultValue)]) {
    for (key, constant) in defaults {
        match object.get(*key) {
            Some(Value::String(text)) if text.is_empty() => {}
            Some(_) => continue,
            None => {}
        }
        object.insert((*key).into(), (*constant).into());
    }
}

/// Calls [`set_defaults`] if `object` is a JSON object.
pub(super) fn set_defaults_if_object(object: &mut Value, defaults: &[(&str, DefaultValue)]) {
    if let Some(object) = object.as_object_mut() {
        set_defaults(object, defaults);
    }
}

//! Filling in what an object leaves out, from small tables.

use serde_json::{Map, Value};

/// A constant that can stand in a table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Constant {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    /// An empty object.
    Empty,
}

impl From<Constant> for Value {
    fn from(constant: Constant) -> Self {
        match constant {
            Constant::Text(text) => text.into(),
            Constant::Number(number) => number.into(),
            Constant::Flag(flag) => flag.into(),
            Constant::Empty => Map::new().into(),
        }
    }
}

/// Sets each key that is missing, or is an empty string.
pub(super) fn fill(object: &mut Map<String, Value>, defaults: &[(&str, Constant)]) {
    for (key, constant) in defaults {
        match object.get(*key) {
            Some(Value::String(text)) if text.is_empty() => {}
            Some(_) => continue,
            None => {}
        }
        object.insert((*key).into(), (*constant).into());
    }
}

/// [`fill`] for an object that may not be one.
pub(super) fn fill_value(object: &mut Value, defaults: &[(&str, Constant)]) {
    if let Some(object) = object.as_object_mut() {
        fill(object, defaults);
    }
}

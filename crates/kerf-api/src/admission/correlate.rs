//! Which part of the stored object a part of the new one comes from: fields by name, elements of map lists by their keys, nothing else.
//! Ratcheting and transition rules both rest on it: what did not change is not held against an update, however old its fault is.

use serde_json::{Map, Value};

use super::schema::{ListType, Schema, SchemaType};

/// A value and the stored value that it replaces.
#[derive(Clone, Copy)]
pub(crate) struct CorrelatedValue<'a> {
    pub(crate) schema: Option<&'a Schema>,
    pub(crate) new: &'a Value,
    pub(crate) old: &'a Value,
}

impl CorrelatedValue<'_> {
    /// The field `name` on both sides, if both have it and the schema knows it.
    pub(crate) fn key(self, name: &str) -> Option<Self> {
        let schema = self.schema?;
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        Some(Self { schema: Some(schema.field(name)?), new, old })
    }

    /// The element at `index` of a map list, and the stored element with the same keys.
    pub(crate) fn index(self, index: usize) -> Option<Self> {
        let schema = self.schema?;
        let new = self.new.as_array()?.get(index)?;
        let old = old_element(schema, self.old.as_array()?, new)?;
        Some(Self { schema: Some(schema.items.as_deref()?), new, old })
    }

    /// Whether nothing changed. Map lists are compared by key; a field that the schema does not know counts as changed.
    pub(crate) fn is_unchanged(self) -> bool {
        match (self.new, self.old) {
            (Value::Null, Value::Null) => true,
            (Value::Null, _) | (_, Value::Null) => false,
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                let by_key = self.schema.is_some_and(|schema| matches!(schema.list_type, Some(ListType::Map(_))));
                if by_key { (0..new.len()).all(|i| self.index(i).is_some_and(Self::is_unchanged)) } else { new == old }
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len() && new.keys().all(|key| self.key(key).is_some_and(Self::is_unchanged))
            }
            (new, old) => new == old,
        }
    }
}

/// The stored element that `new` replaces; only map lists say so.
pub(crate) fn old_element<'a>(schema: &Schema, old: &'a [Value], new: &Value) -> Option<&'a Value> {
    let Some(ListType::Map(keys)) = &schema.list_type else { return None };
    if schema.type_ != Some(SchemaType::Array) || keys.is_empty() {
        return None;
    }
    let wanted = element_key(keys, new.as_object()?)?;
    old.iter().find(|element| {
        element.as_object().and_then(|element| element_key(keys, element)).is_some_and(|key| key == wanted)
    })
}

/// The values of an element's keys; `None` unless each is there and a scalar.
fn element_key<'a>(keys: &[String], element: &'a Map<String, Value>) -> Option<Vec<&'a Value>> {
    keys.iter()
        .map(|key| element.get(key).filter(|value| value.is_string() || value.is_number() || value.is_boolean()))
        .collect()
}

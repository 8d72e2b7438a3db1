//! Correlates parts of a new object with parts of the stored object: fields by name, elements of
//! map lists by their keys, nothing else. Ratcheting and transition rules are based on it: an
//! update is not rejected for an unchanged value that was already invalid.

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
    /// Returns the field `name` of both values; `None` unless both have it and the schema declares
    /// it.
    pub(crate) fn key(self, name: &str) -> Option<Self> {
        let schema = self.schema?;
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        Some(Self { schema: Some(schema.field(name)?), new, old })
    }

    /// Returns the element at `index` of a map list with the stored element that has the same keys;
    /// `None` if there is no such element.
    pub(crate) fn index(self, index: usize) -> Option<Self> {
        let schema = self.schema?;
        let new = self.new.as_array()?.get(index)?;
        let old = old_element(schema, self.old.as_array()?, new)?;
        Some(Self { schema: Some(schema.items.as_deref()?), new, old })
    }

    /// Returns true if the value did not change. Map lists are compared by key. A field that the
    /// schema does not declare counts as changed.
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

/// Returns the stored element that `new` replaces; `None` if the list is not a map list or has no
/// element with these keys.
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

/// Returns the values of an element's keys; `None` unless every key is present and a scalar.
fn element_key<'a>(keys: &[String], element: &'a Map<String, Value>) -> Option<Vec<&'a Value>> {
    keys.iter()
        .map(|key| element.get(key).filter(|value| value.is_string() || value.is_number() || value.is_boolean()))
        .collect()
}

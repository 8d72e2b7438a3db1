//! Maps: objects and maps of the object, read through their schema, or maps created by a rule.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::super::escape::{escape, unescape};
use super::super::types::ObjectType;
use super::{EvalFailure, EvalResult, Text, Value, no_such_overload};

/// A map of the object, or a map created by the rule.
#[derive(Clone, Debug)]
pub(in super::super) enum Map<'a> {
    Json(&'a serde_json::Map<String, Json>, ObjectType<'a>),
    Built(Rc<BTreeMap<CelMapKey, Value<'a>>>),
}

/// A key of a map. Numbers of equal value are the same key, whatever their type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum CelMapKey {
    Bool(bool),
    Number(i128),
    String(Rc<str>),
}

impl<'a> Map<'a> {
    pub(in super::super) fn len(&self) -> usize {
        match self {
            Self::Json(fields, _) => fields.len(),
            Self::Built(entries) => entries.len(),
        }
    }

    /// Returns true if this is an object with declared fields and not a map.
    pub(in super::super) fn is_object(&self) -> bool {
        match self {
            Self::Json(_, object) => !object.schema.properties.is_empty() || object.is_resource,
            Self::Built(_) => false,
        }
    }

    /// Returns the entry of a property or key by its name in the object; `None` if it is absent. A
    /// null field of an object counts as absent.
    pub(in super::super) fn get_by_name(&self, name: &str) -> Option<EvalResult<'a>> {
        match self {
            Self::Json(fields, object) => {
                let json = fields.get(name)?;
                if json.is_null() && self.is_object() {
                    return None;
                }
                let schema = object.property(name).or_else(|| object.schema.map_values())?;
                Some(Value::from_json(json, schema, false))
            }
            Self::Built(entries) => entries.get(&CelMapKey::String(Rc::from(name))).map(|value| Ok(value.clone())),
        }
    }

    /// Returns the entry of a key as an expression writes it. Field names of objects are escaped.
    pub(in super::super) fn get(&self, key: &Value<'a>) -> Result<Option<EvalResult<'a>>, EvalFailure> {
        match self {
            Self::Json(..) => match key {
                Value::String(name) if self.is_object() => Ok(unescape(name).and_then(|name| self.get_by_name(&name))),
                Value::String(name) => Ok(self.get_by_name(name)),
                _ => no_such_overload(),
            },
            Self::Built(entries) => Ok(entries.get(&key.as_key()?).map(|value| Ok(value.clone()))),
        }
    }

    /// Returns the keys in the order in which a comprehension visits them.
    pub(in super::super) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Json(fields, object) => {
                let is_object = self.is_object();
                fields
                    .keys()
                    .filter(|name| object.property(name).is_some() || object.schema.map_values().is_some())
                    .map(|name| match escape(name).filter(|_| is_object) {
                        Some(escaped) => Value::text(escaped),
                        None => Value::String(Text::Borrowed(name)),
                    })
                    .collect()
            }
            Self::Built(entries) => entries
                .keys()
                .map(|key| match key {
                    CelMapKey::Bool(b) => Value::Bool(*b),
                    CelMapKey::Number(n) => i64::try_from(*n).map_or_else(|_| Value::Uint(*n as u64), Value::Int),
                    CelMapKey::String(text) => Value::String(Text::Owned(Rc::clone(text))),
                })
                .collect(),
        }
    }

    pub(super) fn equals(&self, other: &Map<'a>) -> Result<bool, EvalFailure> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self {
            Self::Json(fields, object) => {
                for (name, json) in *fields {
                    if object.property(name).is_none() && object.schema.map_values().is_none() {
                        // A preserved field without a schema is compared as JSON, if the other map
                        // has it.
                        if let Self::Json(others, _) = other
                            && others.get(name).is_some_and(|other| other != json)
                        {
                            return Ok(false);
                        }
                        continue;
                    }
                    match (self.get_by_name(name), other.get_by_name(name)) {
                        (Some(a), Some(b)) => {
                            if !a?.equals(&b?)? {
                                return Ok(false);
                            }
                        }
                        (None, None) => {}
                        (Some(_), None) | (None, Some(_)) => return Ok(false),
                    }
                }
                Ok(true)
            }
            Self::Built(entries) => {
                for key in self.keys() {
                    let (Some(own_value), Some(other_value)) = (entries.get(&key.as_key()?), other.get(&key)?) else {
                        return Ok(false);
                    };
                    if !own_value.equals(&other_value?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

//! Lists of the object or created by a rule. Sets and map lists of the object have their own
//! equality and concatenation.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::super::super::schema::Schema;
use super::{CelMapKey, EvalFailure, EvalResult, Value, no_such_overload};

/// A list with its comparison semantics.
#[derive(Clone, Debug)]
pub(in super::super) struct List<'a> {
    pub(in super::super) items: Items<'a>,
    pub(in super::super) kind: ListKind<'a>,
}

#[derive(Clone, Debug)]
pub(in super::super) enum Items<'a> {
    Json(&'a [Json], &'a Schema),
    Built(Rc<Vec<Value<'a>>>),
}

/// How a list is compared and concatenated.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum ListKind<'a> {
    Atomic,
    Set,
    Map(&'a [String]),
}

impl<'a> List<'a> {
    pub(in super::super) fn len(&self) -> usize {
        match &self.items {
            Items::Json(items, _) => items.len(),
            Items::Built(items) => items.len(),
        }
    }

    pub(in super::super) fn get(&self, index: usize) -> Option<EvalResult<'a>> {
        match &self.items {
            Items::Json(items, schema) => items.get(index).map(|item| Value::from_json(item, schema, false)),
            Items::Built(items) => items.get(index).map(|item| Ok(item.clone())),
        }
    }

    pub(in super::super) fn iter(&self) -> impl DoubleEndedIterator<Item = EvalResult<'a>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Returns all elements, or the first error among them.
    pub(in super::super) fn values(&self) -> Result<Vec<Value<'a>>, EvalFailure> {
        self.iter().collect()
    }

    pub(in super::super) fn contains(&self, value: &Value<'a>) -> Result<bool, EvalFailure> {
        let mut failure = None;
        for item in self.iter() {
            match item.and_then(|item| item.equals(value)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(EvalFailure::OverBudget) => return Err(EvalFailure::OverBudget),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(false), Err)
    }

    pub(super) fn equals(&self, other: &List<'a>) -> Result<bool, EvalFailure> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.kind {
            ListKind::Atomic => {
                for (a, b) in self.iter().zip(other.iter()) {
                    if !a?.equals(&b?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListKind::Set => {
                for item in other.iter() {
                    if !self.contains(&item?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListKind::Map(keys) => {
                let own_by_key = self.by_key(keys)?;
                for item in other.iter() {
                    let item = item?;
                    let Some(own_item) = own_by_key.get(&element_key(&item, keys)?) else { return Ok(false) };
                    if !own_item.equals(&item)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn by_key(&self, keys: &[String]) -> Result<BTreeMap<Vec<Option<CelMapKey>>, Value<'a>>, EvalFailure> {
        let mut map = BTreeMap::new();
        for item in self.iter() {
            let item = item?;
            map.insert(element_key(&item, keys)?, item);
        }
        Ok(map)
    }

    /// Concatenates two lists. The result has the kind of `self`: sets stay sets and map lists stay
    /// map lists.
    pub(in super::super) fn add(&self, other: &List<'a>) -> EvalResult<'a> {
        let mut items = self.values()?;
        match self.kind {
            ListKind::Atomic => items.extend(other.values()?),
            ListKind::Set => {
                for item in other.iter() {
                    let item = item?;
                    let known =
                        items.iter().map(|known| known.equals(&item)).collect::<Result<Vec<bool>, EvalFailure>>()?;
                    if !known.contains(&true) {
                        items.push(item);
                    }
                }
            }
            ListKind::Map(keys) => {
                let mut indices = BTreeMap::new();
                for (i, item) in items.iter().enumerate() {
                    indices.insert(element_key(item, keys)?, i);
                }
                for item in other.iter() {
                    let item = item?;
                    match indices.get(&element_key(&item, keys)?) {
                        Some(index) => items[*index] = item,
                        None => items.push(item),
                    }
                }
            }
        }
        Ok(Value::List(List { items: Items::Built(Rc::new(items)), kind: self.kind }))
    }
}

fn element_key(element: &Value<'_>, keys: &[String]) -> Result<Vec<Option<CelMapKey>>, EvalFailure> {
    let Value::Map(map) = element else { return no_such_overload() };
    keys.iter()
        .map(|key| map.get_by_name(key).map(|value| value.and_then(|value| value.as_key())).transpose())
        .collect()
}

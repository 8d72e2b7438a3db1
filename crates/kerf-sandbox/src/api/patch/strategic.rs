//! Strategic merge patch: a merge patch that merges lists by the keys of their items, with
//! directives (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`) for
//! other changes. Only built-in kinds support it, because only their merge keys are known.

use serde_json::{Map, Value};

use crate::api::schema::{MergeKey, PatchStrategy, Schema, SchemaCursor};
use crate::api::status::{ApiResult, StatusError};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_ITEMS: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into `object`.
pub(crate) fn apply(schema: &Schema, object: Value, patch: &Value) -> ApiResult<Value> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(StatusError::bad_request("a strategic merge patch must be an object"));
    };
    Ok(merge_maps(schema.root(), object, patch)?.into())
}

fn malformed(what: &str) -> StatusError {
    StatusError::bad_request(format!("invalid patch format: {what}"))
}

fn merge_maps(
    at: SchemaCursor<'_>,
    mut object: Map<String, Value>,
    patch: &Map<String, Value>,
) -> ApiResult<Map<String, Value>> {
    match patch.get(PATCH) {
        None => {}
        Some(directive) if directive == "replace" => {
            return Ok(patch
                .iter()
                .filter(|(key, _)| *key != PATCH)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect());
        }
        Some(directive) if directive == "delete" => return Ok(Map::new()),
        Some(directive) if directive == "merge" => {}
        Some(directive) => {
            let directive = directive.as_str().map_or_else(|| directive.to_string(), str::to_owned);
            let message = format!("unknown patch type: {directive} in map: {}", go_map(patch));
            return Err(StatusError::server_error(&message));
        }
    }
    retain_keys(&mut object, patch)?;
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        let strategy = at.patch_strategy(key);
        if value.is_null() {
            object.remove(key);
            continue;
        }
        let merged = match (object.remove(key), value) {
            (Some(Value::Object(under)), Value::Object(over)) if !strategy.is_some_and(|strategy| strategy.replace) => {
                if over.get(PATCH).is_some_and(|directive| directive == "delete") {
                    continue;
                }
                merge_maps(at.at_key(key), under, over)?.into()
            }
            (Some(Value::Array(under)), Value::Array(over)) => {
                merge_lists(at.at_key(key), strategy, under, over)?.into()
            }
            (_, Value::Object(over)) => {
                if over.get(PATCH).is_some_and(|directive| directive == "delete") {
                    continue;
                }
                merge_maps(at.at_key(key), Map::new(), over)?.into()
            }
            (_, Value::Array(over)) => merge_lists(at.at_key(key), strategy, Vec::new(), over)?.into(),
            (_, scalar) => scalar.clone(),
        };
        object.insert(key.clone(), merged);
    }
    for (key, values) in patch {
        if let Some(field) = key.strip_prefix(DELETE_ITEMS) {
            let removed = values.as_array().ok_or_else(|| malformed(&format!("{key} must be a list")))?;
            if let Some(items) = object.get_mut(field).and_then(Value::as_array_mut) {
                items.retain(|item| !removed.contains(item));
            }
        }
    }
    for (key, order) in patch {
        if let Some(field) = key.strip_prefix(SET_ORDER) {
            let order = order.as_array().ok_or_else(|| malformed(&format!("{key} must be a list")))?;
            if let Some(items) = object.get_mut(field).and_then(Value::as_array_mut) {
                let merge = at.patch_strategy(field).and_then(|strategy| strategy.merge.clone());
                *items = set_order(std::mem::take(items), order, merge.as_ref());
            }
        }
    }
    Ok(object)
}

fn retain_keys(object: &mut Map<String, Value>, patch: &Map<String, Value>) -> ApiResult<()> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let retained = retained.as_array().ok_or_else(|| malformed(&format!("{RETAIN_KEYS} must be a list")))?;
    let unnamed = patch.keys().find(|key| !key.starts_with('$') && !retained.iter().any(|name| name == key.as_str()));
    if let Some(key) = unnamed {
        return Err(malformed(&format!("{RETAIN_KEYS} list does not contain {key}")));
    }
    object.retain(|key, _| retained.iter().any(|name| name == key.as_str()));
    Ok(())
}

fn merge_lists(
    at: SchemaCursor<'_>,
    strategy: Option<&PatchStrategy>,
    under: Vec<Value>,
    over: &[Value],
) -> ApiResult<Vec<Value>> {
    let replaces = over.iter().any(|item| item.get(PATCH).is_some_and(|directive| directive == "replace"));
    match strategy.and_then(|strategy| strategy.merge.as_ref()) {
        _ if replaces => Ok(over.iter().filter(|item| item.get(PATCH).is_none()).cloned().collect()),
        None => Ok(over.to_vec()),
        Some(MergeKey::WholeItem) => {
            let mut merged = under.clone();
            for item in over {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            Ok(interleave(merged, &under, over, |one, other| one == other))
        }
        Some(MergeKey::Field(key)) => {
            let merged = merge_by_key(at, key, under.clone(), over)?;
            Ok(interleave(merged, &under, over, |one, other| one.get(key.as_str()) == other.get(key.as_str())))
        }
    }
}

fn merge_by_key(at: SchemaCursor<'_>, key: &str, mut merged: Vec<Value>, over: &[Value]) -> ApiResult<Vec<Value>> {
    for item in over {
        let Value::Object(fields) = item else { return Err(malformed("an item of a merged list must be an object")) };
        let Some(identity) = fields.get(key) else {
            let message = format!("map: {} does not contain declared merge key: {key}", go_map(fields));
            return Err(StatusError::server_error(&message));
        };
        let index = merged.iter().position(|existing| existing.get(key) == Some(identity));
        if fields.get(PATCH).is_some_and(|directive| directive == "delete") {
            merged.retain(|existing| existing.get(key) != Some(identity));
            continue;
        }
        match index {
            Some(index) => {
                let existing = match std::mem::take(&mut merged[index]) {
                    Value::Object(existing) => existing,
                    _ => Map::new(),
                };
                merged[index] = merge_maps(at.at_item(), existing, fields)?.into();
            }
            None => merged.push(merge_maps(at.at_item(), Map::new(), fields)?.into()),
        }
    }
    Ok(merged)
}

/// Formats a map as the real server prints it.
fn go_map(fields: &Map<String, Value>) -> String {
    let entry = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}:{text}"),
        Value::Object(fields) => format!("{key}:{}", go_map(fields)),
        other => format!("{key}:{other}"),
    };
    format!("map[{}]", fields.iter().map(entry).collect::<Vec<_>>().join(" "))
}

/// Orders a merged list as the real server does. Items of the patch keep the order of the patch,
/// the others their own order. Between the two groups the original order decides; new items come
/// before.
fn interleave(
    merged: Vec<Value>,
    under: &[Value],
    over: &[Value],
    same: impl Fn(&Value, &Value) -> bool,
) -> Vec<Value> {
    let position_in = |list: &[Value], item: &Value| list.iter().position(|other| same(item, other));
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| position_in(over, item).is_some());
    named.sort_by_key(|item| position_in(over, item));
    let mut ordered = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(other), Some(item)) = (others.peek(), named.peek()) {
        let other_is_first = match (position_in(under, other), position_in(under, item)) {
            (Some(other), Some(item)) => other < item,
            _ => false,
        };
        ordered.extend(if other_is_first { others.next() } else { named.next() });
    }
    ordered.extend(named);
    ordered.extend(others);
    ordered
}

/// Sorts the items that `order` names into that order. Other items stay behind the item that was
/// before them.
fn set_order(items: Vec<Value>, order: &[Value], merge: Option<&MergeKey>) -> Vec<Value> {
    let same = |item: &Value, expected: &Value| match merge {
        Some(MergeKey::Field(key)) => {
            item.get(key.as_str()).is_some() && item.get(key.as_str()) == expected.get(key.as_str())
        }
        Some(MergeKey::WholeItem) | None => item == expected,
    };
    let rank = |item: &Value| order.iter().position(|expected| same(item, expected));
    let mut named: Vec<(usize, usize, Value)> = Vec::new();
    let mut others: Vec<(usize, Value)> = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        match rank(&item) {
            Some(rank) => named.push((rank, index, item)),
            None => others.push((index, item)),
        }
    }
    named.sort_by_key(|(rank, index, _)| (*rank, *index));
    let mut ordered = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, index, item) in named {
        while let Some((_, other_item)) = others.next_if(|(other_index, _)| *other_index < index) {
            ordered.push(other_item);
        }
        ordered.push(item);
    }
    ordered.extend(others.map(|(_, item)| item));
    ordered
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use serde_json::json;

    use super::*;
    use crate::api::schema::definitions;

    fn pod(object: &Value, patch: &Value) -> Value {
        apply(&definitions().schema("io.k8s.api.core.v1.Pod"), object.clone(), patch).unwrap()
    }

    fn spec(object: Value, patch: Value) -> Value {
        pod(&json!({"spec": object}), &json!({"spec": patch}))["spec"].clone()
    }

    #[test]
    fn lists_merge_by_their_keys() {
        let containers = json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]);
        assert_eq!(
            spec(
                json!({"containers": containers}),
                json!({"containers": [{"name": "b", "image": "b:2"}, {"name": "c"}]})
            ),
            json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}, {"name": "c"}]})
        );
        assert_eq!(
            spec(json!({"containers": containers}), json!({"containers": [{"$patch": "delete", "name": "a"}]})),
            json!({"containers": [{"name": "b", "image": "b:1"}]})
        );
        assert_eq!(
            spec(json!({"containers": containers}), json!({"containers": [{"$patch": "replace"}, {"name": "z"}]})),
            json!({"containers": [{"name": "z"}]})
        );
        assert_eq!(
            spec(json!({"tolerations": [{"key": "a"}]}), json!({"tolerations": [{"key": "b"}]})),
            json!({"tolerations": [{"key": "b"}]})
        );
    }

    #[test]
    fn directives_replace_delete_retain_and_order() {
        let finalizers = |patch: Value| {
            pod(&json!({"metadata": {"finalizers": ["a", "b"]}}), &json!({"metadata": patch}))["metadata"].clone()
        };
        assert_eq!(finalizers(json!({"finalizers": ["c"]})), json!({"finalizers": ["c", "a", "b"]}));
        assert_eq!(finalizers(json!({"$deleteFromPrimitiveList/finalizers": ["a"]})), json!({"finalizers": ["b"]}));
        assert_eq!(finalizers(json!({"finalizers": null})), json!({}));
        let volumes = spec(
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/"}}]}),
        );
        assert_eq!(volumes, json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}));
        let ordered = spec(
            json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}], "containers": [{"name": "a", "image": "x"}]}),
        );
        assert_eq!(ordered, json!({"containers": [{"name": "b"}, {"name": "c"}, {"name": "a", "image": "x"}]}));
        assert_eq!(
            spec(json!({"nodeSelector": {"a": "b"}}), json!({"nodeSelector": {"$patch": "replace", "c": "d"}})),
            json!({"nodeSelector": {"c": "d"}})
        );
    }

    #[test]
    fn malformed_patches_are_rejected() {
        let schema = definitions().schema("io.k8s.api.core.v1.Pod");
        for patch in [
            json!([]),
            json!({"spec": {"containers": [1]}}),
            json!({"spec": {"containers": [{}]}}),
            json!({"spec": {"$patch": "what"}}),
            json!({"spec": {"$retainKeys": 1}}),
            json!({"spec": {"$retainKeys": [], "a": 1}}),
            json!({"spec": {"$setElementOrder/containers": 5}}),
        ] {
            assert!(apply(&schema, json!({"spec": {"containers": [{"name": "a"}]}}), &patch).is_err(), "{patch}");
        }
    }
}

//! JSON merge patch (RFC 7386): values replace, null removes, lists are replaced as a whole. Beyond
//! the RFC, fields that are null in the items of a list are removed, as in the real server.

use serde_json::{Map, Value};

/// Merges `patch` into `object`.
pub(crate) fn apply(object: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *object = patch;
        drop_nulls(object);
        return;
    };
    if !object.is_object() {
        *object = Map::new().into();
    }
    let Some(fields) = object.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(&key);
        } else {
            apply(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// Removes fields that are null. Items of lists that are null stay.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        for (object, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut patched = object.clone();
            apply(&mut patched, patch.clone());
            assert_eq!(patched, result, "{object} + {patch}");
        }
    }

    #[test]
    fn null_fields_in_list_items_are_removed() {
        let mut patched = json!({"a": 1});
        apply(&mut patched, json!({"a": [1, null, {"b": null, "c": 2}, [null, {"d": null}]]}));
        assert_eq!(patched, json!({"a": [1, null, {"c": 2}, [null, {}]]}));
    }
}

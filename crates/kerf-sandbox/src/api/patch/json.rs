//! JSON patch (RFC 6902).

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::api::status::{ApiResult, StatusError};

/// The maximum number of operations of one patch.
const MAX_PATCH_OPERATIONS: usize = 10_000;

/// The maximum number of bytes that the `copy` operations of one patch may add, as JSON. Without a
/// limit, a patch of 2 kB could double the object a hundred times.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Applies the operations in order. If one of them fails, none is applied.
pub(crate) fn apply(object: &Value, operations: &Value) -> ApiResult<Value> {
    let count = operations.as_array().map_or(0, Vec::len);
    if count > MAX_PATCH_OPERATIONS {
        let message = format!("The allowed maximum operations in a JSON patch is {MAX_PATCH_OPERATIONS}, got {count}");
        return Err(StatusError::too_many_operations(&message));
    }
    if !operations.is_array() {
        let actual = match operations {
            Value::Object(_) => "object",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Null | Value::Number(_) | Value::Array(_) => "number",
        };
        let message = format!("json: cannot unmarshal {actual} into Go value of type []handlers.jsonPatchOp");
        return Err(StatusError::bad_request(format!("error decoding patch: {message}")));
    }
    let patch: json_patch::Patch =
        serde_json::from_value(operations.clone()).map_err(|_| StatusError::unprocessable())?;
    let mut patched = object.clone();
    let mut copied_bytes = 0;
    for operation in patch.0 {
        if let PatchOperation::Copy(copy) = &operation
            && let Ok(source) = copy.from.resolve(&patched)
        {
            copied_bytes += json_bytes(source, MAX_COPIED_BYTES);
            if copied_bytes > MAX_COPIED_BYTES {
                return Err(StatusError::unprocessable());
            }
        }
        let operation = replace_to_add_if_absent(&patched, operation);
        json_patch::patch(&mut patched, &[operation]).map_err(|_| StatusError::unprocessable())?;
    }
    Ok(patched)
}

/// Returns the approximate length of a value as JSON. Stops soon after the length exceeds `max`.
fn json_bytes(value: &Value, max: usize) -> usize {
    let mut bytes = 0;
    let mut values = vec![value];
    while let Some(value) = values.pop()
        && bytes <= max
    {
        bytes += match value {
            Value::Null | Value::Bool(_) => 4,
            Value::Number(number) => number.to_string().len(),
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                values.extend(items);
                items.len() + 2
            }
            Value::Object(fields) => {
                values.extend(fields.values());
                fields.keys().map(|key| key.len() + 4).sum::<usize>() + 2
            }
        };
    }
    bytes
}

/// Turns a replacement of a missing field into an addition, as the real server does.
fn replace_to_add_if_absent(object: &Value, operation: PatchOperation) -> PatchOperation {
    let PatchOperation::Replace(replace) = operation else { return operation };
    let parent = replace.path.split_back().and_then(|(parent, _)| parent.resolve(object).ok());
    if parent.is_some_and(Value::is_object) && replace.path.resolve(object).is_err() {
        return PatchOperation::Add(AddOperation { path: replace.path, value: replace.value });
    }
    PatchOperation::Replace(replace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // Each operation doubles the labels.
    #[test]
    fn copies_are_limited_in_total() {
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        let copies = |count: usize| {
            let copy = |i: usize| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/c{i}")});
            Value::Array((0..count).map(copy).collect())
        };
        let copied = apply(&object, &copies(10)).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(json_bytes(&copied, usize::MAX) > 10_000);
        assert!(json_bytes(&copied, 100) < 1_000, "counting stops at the maximum");
        assert!(apply(&object, &copies(40)).is_err(), "2^40 labels");
    }
}

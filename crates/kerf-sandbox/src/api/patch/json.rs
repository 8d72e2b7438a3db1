//! JSON patch (RFC 6902).

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::api::status::{ApiResult, StatusError};

/// The maximum number of operations of one patch.
const MAX_PATCH_OPERATIONS: usize = 10_000;

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
    for operation in patch.0 {
        let operation = replace_to_add_if_absent(&patched, operation);
        json_patch::patch(&mut patched, &[operation]).map_err(|_| StatusError::unprocessable())?;
    }
    Ok(patched)
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

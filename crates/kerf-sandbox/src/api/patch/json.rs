//! JSON patch (RFC 6902).

use serde_json::Value;

use crate::api::status::{Answer, Refusal};

/// How many operations one patch may have.
const OPERATIONS: usize = 10_000;

/// Applies the operations in order; all of them or none.
pub(crate) fn apply(object: &Value, operations: &Value) -> Answer<Value> {
    let count = operations.as_array().map_or(0, Vec::len);
    if count > OPERATIONS {
        let message = format!("The allowed maximum operations in a JSON patch is {OPERATIONS}, got {count}");
        return Err(Refusal::too_many_operations(&message));
    }
    let patch: json_patch::Patch = serde_json::from_value(operations.clone())
        .map_err(|problem| Refusal::bad_request(format!("error decoding patch: {problem}")))?;
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &patch).map_err(|_| Refusal::unprocessable())?;
    Ok(patched)
}

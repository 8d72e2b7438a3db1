//! Access reviews. The sandbox allows everything to clients that have its token, so every review is
//! positive.

use serde_json::{Value, json};

use crate::api::call::Call;
use crate::api::object;
use crate::api::respond::Reply;
use crate::api::status::ApiResult;

/// Returns the review of the body with its status set.
pub(super) fn review(call: &Call<'_>) -> ApiResult<Reply> {
    let mut review = call.read_body()?.value;
    let status = match call.resource.plural.as_str() {
        "selfsubjectrulesreviews" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "selfsubjectreviews" => {
            json!({"userInfo": {"username": "kerf-admin", "groups": ["system:masters", "system:authenticated"]}})
        }
        _ => json!({"allowed": true, "reason": "the sandbox allows every request with its token"}),
    };
    let fields = object::ensure_object(&mut review, &[]);
    fields.insert("apiVersion".into(), call.resource.api_version().into());
    fields.insert("kind".into(), call.resource.kind.as_str().into());
    fields.entry("metadata").or_insert_with(|| json!({}));
    fields.insert("status".into(), status);
    Ok(Reply::json(201, &Value::clone(&review)))
}

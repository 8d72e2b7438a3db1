//! Finalization of namespaces: replaces `spec.finalizers` and removes a terminating namespace that
//! has none left.

use bytes::Bytes;
use serde_json::{Value, json};

use super::update_directly;
use crate::api::after_write;
use crate::api::call::Call;
use crate::api::object;
use crate::api::respond::Reply;
use crate::api::status::ApiResult;

/// Handles `PUT` of `namespaces/NAME/finalize`.
pub(super) fn finalize(call: &Call<'_>) -> ApiResult<Reply> {
    let body = call.read_body()?.value;
    let finalizers: Vec<Value> = object::list(&body, &["spec", "finalizers"]).to_vec();
    let namespace = update_directly(call, &call.resource, &call.key(), call.name(), |namespace| {
        if finalizers.is_empty() {
            object::remove(namespace, &["spec", "finalizers"]);
        } else {
            object::ensure_object(namespace, &["spec"]).insert("finalizers".into(), json!(finalizers));
        }
        Ok(())
    })?;
    if after_write::can_be_removed(call, &namespace)
        && !call.dry_run()?
        && let Some(stored) = call.server.storage.get(call.resource.table, &call.key())
        && call.server.storage.delete(call.resource.table, &call.key(), stored.revision).is_ok()
    {
        after_write::on_deleted(call, &namespace);
    }
    Ok(Reply::new(200, Bytes::from(namespace.to_string())))
}

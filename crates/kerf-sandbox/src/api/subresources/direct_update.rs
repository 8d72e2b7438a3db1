//! Direct updates of stored objects by the server itself, without admission and validation.

use serde_json::Value;

use crate::api::after_write;
use crate::api::call::{Call, parse_stored};
use crate::api::encode::EncodedObject;
use crate::api::registry::Resource;
use crate::api::status::{ApiResult, StatusError};
use crate::api::storage::ObjectKey;

/// The maximum number of attempts when other writers change the object at the same time.
const MAX_DIRECT_UPDATE_ATTEMPTS: usize = 16;

/// Changes the object at `key` with `change` and returns the result. A dry run writes nothing.
pub(crate) fn update_directly(
    call: &Call<'_>,
    resource: &Resource,
    key: &ObjectKey,
    name: &str,
    change: impl Fn(&mut Value) -> ApiResult<()>,
) -> ApiResult<Value> {
    for _ in 0..MAX_DIRECT_UPDATE_ATTEMPTS {
        let stored = call
            .server
            .storage
            .get(resource.table, key)
            .ok_or_else(|| StatusError::not_found(resource.group_resource(), name))?;
        let old = parse_stored(&stored)?;
        let mut object = old.clone();
        change(&mut object)?;
        if object == old || call.dry_run()? {
            return Ok(object);
        }
        let attributes = resource.selector_attributes(&object);
        if let Ok(updated) = call.server.storage.put(
            resource.table,
            key,
            Some(stored.revision),
            &EncodedObject::new(&object),
            attributes,
        ) {
            after_write::on_updated(call, &object);
            return parse_stored(&updated);
        }
    }
    Err(StatusError::resource_version_conflict(resource.group_resource(), name))
}

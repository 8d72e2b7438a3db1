//! Updates of an object: reads the stored version, computes the new one, and stores it if the
//! stored version has not changed since.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::prepare::{
    FieldOwnership, WriteOperation, check_and_set_type, check_metadata, decode_and_default, prepare_for_storage,
};
use crate::api::apply::ManagedFields;
use crate::api::call::{Call, parse_stored, parse_stored_and_split_managed_fields};
use crate::api::encode::EncodedObject;
use crate::api::respond::Reply;
use crate::api::status::{ApiResult, StatusError};
use crate::api::storage::StoredObject;
use crate::api::{after_write, field, json, object};

/// The maximum number of attempts of an update without a resource version when other writers change
/// the object at the same time.
const MAX_UPDATE_ATTEMPTS: usize = 16;

/// The new version of an object, as a client requests it.
pub(crate) struct ProposedObject {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
    /// True if the object contains its final managed fields.
    pub(crate) has_final_ownership: bool,
}

/// The presence of managed fields in the object that the update function gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFieldsView {
    /// The stored object is passed with its managed fields.
    Included,
    /// The stored object is passed without its managed fields.
    Excluded,
}

/// Handles `PUT` of an object or of a subresource with the object's form.
pub(crate) fn replace(call: &Call<'_>) -> ApiResult<Reply> {
    let json::Parsed { value: mut object, duplicates } = call.read_body()?;
    check_and_set_type(call, &mut object)?;
    let warnings = decode_and_default(call, &mut object, None, &duplicates)?;
    check_metadata(call, &object, None)?;
    check_identity(call, &object)?;
    modify(call, ManagedFieldsView::Excluded, |_| {
        check_names_version(call, &object).map_err(|error| error.with_warnings(&warnings))?;
        Ok(ProposedObject { object: object.clone(), warnings: warnings.clone(), has_final_ownership: false })
    })
}

/// Checks that name and namespace of the object match the path.
pub(crate) fn check_identity(call: &Call<'_>, object: &Value) -> ApiResult<()> {
    let (name, namespace) = (object::name(object), object::namespace(object));
    if name.is_empty() {
        let message =
            format!("the name of the object ({} based on URL) was undeterminable: name must be provided", call.name());
        return Err(StatusError::bad_request(message));
    }
    if name != call.name() {
        let message = format!("the name of the object ({name}) does not match the name on the URL ({})", call.name());
        return Err(StatusError::bad_request(message));
    }
    if call.namespace().is_some_and(|expected| !namespace.is_empty() && namespace != expected) {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(StatusError::bad_request(message));
    }
    Ok(())
}

/// Checks that an update of a custom resource names a resource version. Built-in kinds do not need
/// one.
pub(super) fn check_names_version(call: &Call<'_>, object: &Value) -> ApiResult<()> {
    if !call.resource.is_custom() || !matches!(object::text(object, &["metadata", "resourceVersion"]), "" | "0") {
        return Ok(());
    }
    let error = field::invalid("metadata.resourceVersion", 0, "must be specified for an update");
    Err(StatusError::invalid(&call.resource.group, &call.resource.plural, call.name(), &[error]))
}

/// Changes the object that the path names to the result of `propose`.
pub(crate) fn modify(
    call: &Call<'_>,
    view: ManagedFieldsView,
    propose: impl Fn(&Value) -> ApiResult<ProposedObject>,
) -> ApiResult<Reply> {
    let key = call.key();
    for _ in 0..MAX_UPDATE_ATTEMPTS {
        let stored = call.server.storage.get(call.resource.table, &key).ok_or_else(|| call.not_found())?;
        let (mut old, mut owners) = match view {
            ManagedFieldsView::Included => (parse_stored(&stored)?, ManagedFields::default()),
            ManagedFieldsView::Excluded => parse_stored_and_split_managed_fields(&stored)?,
        };
        let ProposedObject { mut object, mut warnings, has_final_ownership } = propose(&old)?;
        if view == ManagedFieldsView::Included && !has_final_ownership {
            owners = ManagedFields::take(&mut old);
        }
        let with_warnings = |error: StatusError| error.with_warnings(&warnings);
        let requires_version = check_preconditions(call, &mut object, &old, &stored).map_err(with_warnings)?;
        restore_system_metadata(&mut object, &old);
        let change = if call.subresource() == "status" {
            WriteOperation::UpdateStatus(&old)
        } else {
            WriteOperation::Update(&old)
        };
        let ownership = if has_final_ownership {
            FieldOwnership::AlreadyInObject
        } else {
            FieldOwnership::TrackFrom(owners.clone())
        };
        let prepared = prepare_for_storage(call, change, &mut object, ownership).map_err(with_warnings)?;
        warnings.extend(prepared.warnings);
        let unchanged = object == old && (has_final_ownership || prepared.managed == owners);
        match store(call, &stored, unchanged, object, &prepared.managed)? {
            Some(bytes) => return Ok(Reply::new(200, call.to_served_bytes(bytes)).with_warnings(warnings)),
            None if requires_version => break,
            None => {}
        }
    }
    Err(StatusError::resource_version_conflict(call.resource.group_resource(), call.name()))
}

/// Returns true if the client requires a resource version. Fails if it is not the stored one.
fn check_preconditions(call: &Call<'_>, object: &mut Value, old: &Value, stored: &StoredObject) -> ApiResult<bool> {
    let version = object::text(object, &["metadata", "resourceVersion"]).to_string();
    let requires_version = !version.is_empty() && version != "0";
    if requires_version && version.parse::<u64>().is_err() {
        let message = format!("strconv.ParseUint: parsing \"{version}\": invalid syntax");
        return Err(StatusError::server_error(&message));
    }
    if requires_version && version != stored.revision.to_string() {
        return Err(StatusError::resource_version_conflict(call.resource.group_resource(), call.name()));
    }
    let (uid, expected) = (object::uid(object), object::uid(old));
    if !uid.is_empty() && uid != expected {
        let reason = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {expected}");
        return Err(StatusError::conflict(call.resource.group_resource(), call.name(), &reason));
    }
    Ok(requires_version)
}

/// Restores the metadata that only the server sets.
fn restore_system_metadata(object: &mut Value, old: &Value) {
    const SYSTEM: [&str; 9] = [
        "name",
        "namespace",
        "generateName",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ];
    for key in SYSTEM {
        let (new_value, old_value) = (object::at(object, &["metadata", key]), object::at(old, &["metadata", key]));
        match old_value {
            _ if new_value == old_value => {}
            Some(value) => object::set_meta(object, key, value.clone()),
            None => drop(object::remove(object, &["metadata", key])),
        }
    }
    object::remove(object, &["metadata", "selfLink"]);
    if object::finalizers(object).is_empty() {
        object::remove(object, &["metadata", "finalizers"]);
    }
}

/// Stores `object` in place of the stored version and returns the stored bytes. Returns `None` if
/// another writer was faster. An object that is being deleted and has no finalizers left is deleted
/// instead.
fn store(
    call: &Call<'_>,
    stored: &Arc<StoredObject>,
    unchanged: bool,
    mut object: Value,
    managed: &ManagedFields,
) -> ApiResult<Option<Bytes>> {
    if call.dry_run()? {
        managed.put(&mut object);
        return Ok(Some(object.to_string().into()));
    }
    if unchanged {
        return Ok(Some(stored.bytes().clone()));
    }
    let (table, key, storage) = (call.resource.table, call.key(), &call.server.storage);
    let encoded = EncodedObject::with_managed_fields(&object, managed);
    if after_write::can_be_removed(call, &object) {
        let last_bytes = encoded.with_version(stored.revision).bytes;
        if storage.delete(table, &key, stored.revision).is_err() {
            return Ok(None);
        }
        after_write::on_deleted(call, &object);
        return Ok(Some(last_bytes));
    }
    match storage.put(table, &key, Some(stored.revision), &encoded, call.resource.selector_attributes(&object)) {
        Ok(updated) => {
            after_write::on_updated(call, &object);
            Ok(Some(updated.bytes().clone()))
        }
        Err(_) => Ok(None),
    }
}

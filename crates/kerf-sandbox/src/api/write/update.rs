//! Changing an object: read what is there, work out what should be, and store it if nobody was faster.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::prepare::{
    FieldOwnership, WriteOperation, check_and_set_type, check_metadata, decode_and_default, prepare_for_storage,
};
use crate::api::apply::ManagedFields;
use crate::api::call::{Call, parse_stored, parse_stored_and_split_managed_fields};
use crate::api::encode::Encoded;
use crate::api::respond::Reply;
use crate::api::status::{ApiResult, StatusError};
use crate::api::storage::StoredObject;
use crate::api::{after_write, field, json, object};

/// How often a change that does not insist on a version is tried again when somebody else was faster.
const MAX_UPDATE_ATTEMPTS: usize = 16;

/// What an object should become.
pub(crate) struct ProposedObject {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
    /// The managed fields are right already.
    pub(crate) has_final_ownership: bool,
}

/// What whoever works out a candidate sees of the object that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFieldsView {
    /// All of it.
    Included,
    /// Everything but its managed fields.
    Excluded,
}

/// `PUT` of an object or of a subresource that has its form.
pub(crate) fn replace(call: &Call<'_>) -> ApiResult<Reply> {
    let json::Parsed { value: mut object, duplicates } = call.read_body()?;
    check_and_set_type(call, &mut object)?;
    let warnings = decode_and_default(call, &mut object, None, &duplicates)?;
    check_metadata(call, &object, None)?;
    check_identity(call, &object)?;
    modify(call, ManagedFieldsView::Excluded, |_| {
        check_names_version(call, &object).map_err(|refusal| refusal.with_warnings(&warnings))?;
        Ok(ProposedObject { object: object.clone(), warnings: warnings.clone(), has_final_ownership: false })
    })
}

/// Checks that an object is the one that the path names.
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

/// Checks that a custom resource is changed by somebody who has seen it: unlike those of built-in kinds, their updates must name a version.
pub(super) fn check_names_version(call: &Call<'_>, object: &Value) -> ApiResult<()> {
    if !call.resource.is_custom() || !matches!(object::text(object, &["metadata", "resourceVersion"]), "" | "0") {
        return Ok(());
    }
    let error = field::invalid("metadata.resourceVersion", 0, "must be specified for an update");
    Err(StatusError::invalid(&call.resource.group, &call.resource.plural, call.name(), &[error]))
}

/// Changes the object that the path names into what `make` says.
pub(crate) fn modify(
    call: &Call<'_>,
    sight: ManagedFieldsView,
    make: impl Fn(&Value) -> ApiResult<ProposedObject>,
) -> ApiResult<Reply> {
    let key = call.key();
    for _ in 0..MAX_UPDATE_ATTEMPTS {
        let stored = call.server.storage.get(call.resource.table, &key).ok_or_else(|| call.not_found())?;
        let (mut old, mut owners) = match sight {
            ManagedFieldsView::Included => (parse_stored(&stored)?, ManagedFields::default()),
            ManagedFieldsView::Excluded => parse_stored_and_split_managed_fields(&stored)?,
        };
        let ProposedObject { mut object, mut warnings, has_final_ownership: tracked } = make(&old)?;
        if sight == ManagedFieldsView::Included && !tracked {
            owners = ManagedFields::take(&mut old);
        }
        let refuse = |refusal: StatusError| refusal.with_warnings(&warnings);
        let insists = check_preconditions(call, &mut object, &old, &stored).map_err(refuse)?;
        restore_system_metadata(&mut object, &old);
        let change = if call.subresource() == "status" {
            WriteOperation::UpdateStatus(&old)
        } else {
            WriteOperation::Update(&old)
        };
        let ownership =
            if tracked { FieldOwnership::AlreadyInObject } else { FieldOwnership::TrackFrom(owners.clone()) };
        let finished = prepare_for_storage(call, change, &mut object, ownership).map_err(refuse)?;
        warnings.extend(finished.warnings);
        let unchanged = object == old && (tracked || finished.managed == owners);
        match store(call, &stored, unchanged, object, &finished.managed)? {
            Some(bytes) => return Ok(Reply::new(200, call.to_served_bytes(bytes)).with_warnings(warnings)),
            None if insists => break,
            None => {}
        }
    }
    Err(StatusError::resource_version_conflict(call.resource.group_resource(), call.name()))
}

/// Whether the client insists on a version; refused if it is not the one that is there.
fn check_preconditions(call: &Call<'_>, object: &mut Value, old: &Value, stored: &StoredObject) -> ApiResult<bool> {
    let version = object::text(object, &["metadata", "resourceVersion"]).to_string();
    let insists = !version.is_empty() && version != "0";
    if insists && version.parse::<u64>().is_err() {
        let message = format!("strconv.ParseUint: parsing \"{version}\": invalid syntax");
        return Err(StatusError::server_error(&message));
    }
    if insists && version != stored.revision.to_string() {
        return Err(StatusError::resource_version_conflict(call.resource.group_resource(), call.name()));
    }
    let (uid, expected) = (object::uid(object), object::uid(old));
    if !uid.is_empty() && uid != expected {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {expected}");
        return Err(StatusError::conflict(call.resource.group_resource(), call.name(), &why));
    }
    Ok(insists)
}

/// What only the server says about an object.
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
        let (is, was) = (object::at(object, &["metadata", key]), object::at(old, &["metadata", key]));
        match was {
            _ if is == was => {}
            Some(value) => object::set_meta(object, key, value.clone()),
            None => drop(object::remove(object, &["metadata", key])),
        }
    }
    object::remove(object, &["metadata", "selfLink"]);
    if object::finalizers(object).is_empty() {
        object::remove(object, &["metadata", "finalizers"]);
    }
}

/// Stores `object` in place of what is there, and returns what is there then; nothing if somebody else was faster. An object that is
/// being deleted and that nothing holds back any more is gone with this.
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
    let encoded = Encoded::with_managed_fields(&object, managed);
    if after_write::can_be_removed(call, &object) {
        let last = encoded.with_version(stored.revision).bytes;
        if storage.delete(table, &key, stored.revision).is_err() {
            return Ok(None);
        }
        after_write::on_deleted(call, &object);
        return Ok(Some(last));
    }
    match storage.put(table, &key, Some(stored.revision), &encoded, call.resource.selector_attributes(&object)) {
        Ok(now) => {
            after_write::on_updated(call, &object);
            Ok(Some(now.bytes().clone()))
        }
        Err(_) => Ok(None),
    }
}

//! Create requests.

use bytes::Bytes;
use serde_json::Value;

use super::prepare::{
    FieldOwnership, PreparedObject, WriteOperation, check_and_set_type, check_metadata, decode_and_default,
    prepare_for_storage,
};
use crate::api::apply::ManagedFields;
use crate::api::call::{Call, parse_stored};
use crate::api::encode::EncodedObject;
use crate::api::object;
use crate::api::respond::Reply;
use crate::api::status::{ApiResult, StatusError};
use crate::api::storage::ObjectKey;
use crate::api::{after_write, json};

/// The maximum number of suffixes that are tried for a generated name that already exists.
const MAX_GENERATED_NAME_ATTEMPTS: usize = 8;

/// Handles `POST` of a collection.
pub(crate) fn create(call: &Call<'_>) -> ApiResult<Reply> {
    let json::Parsed { value: mut object, duplicates } = call.read_body()?;
    check_and_set_type(call, &mut object)?;
    let warnings = decode_and_default(call, &mut object, None, &duplicates)?;
    check_metadata(call, &object, None)?;
    let created =
        initialize_metadata(call, &mut object).and_then(|()| create_object(call, object, warnings.clone(), false));
    created.map_err(|error| error.with_warnings(&warnings))
}

/// Checks the namespace and sets the metadata of a new object.
pub(super) fn initialize_metadata(call: &Call<'_>, object: &mut Value) -> ApiResult<()> {
    if let Some(namespace) = call.namespace() {
        let body_namespace = object::namespace(object);
        if !body_namespace.is_empty() && body_namespace != namespace {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(StatusError::bad_request(message));
        }
        let namespace = namespace.to_string();
        object::set_meta(object, "namespace", namespace);
    } else {
        object::remove(object, &["metadata", "namespace"]);
    }
    if !object::text(object, &["metadata", "resourceVersion"]).is_empty() {
        return Err(StatusError::server_error("resourceVersion should not be set on objects to be created"));
    }
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"] {
        object::remove(object, &["metadata", key]);
    }
    let uid = call.server.uid();
    object::set_meta(object, "uid", uid);
    object::set_meta(object, "creationTimestamp", object::rfc3339_seconds(call.now()));
    Ok(())
}

/// Stores a new object after decoding and [`initialize_metadata`]. `tracked`: the object contains
/// its final managed fields.
pub(super) fn create_object(
    call: &Call<'_>,
    object: Value,
    mut warnings: Vec<String>,
    tracked: bool,
) -> ApiResult<Reply> {
    let generated =
        object::name(&object).is_empty() && !object::text(&object, &["metadata", "generateName"]).is_empty();
    let mut object = object;
    let mut attempt = 0;
    loop {
        attempt += 1;
        // Only generated names are tried more than once.
        let mut candidate = if generated { object.clone() } else { std::mem::take(&mut object) };
        if generated {
            generate_name(call, &mut candidate);
        }
        let ownership =
            if tracked { FieldOwnership::AlreadyInObject } else { FieldOwnership::TrackFrom(ManagedFields::default()) };
        let PreparedObject { warnings: mut more_warnings, managed } =
            prepare_for_storage(call, WriteOperation::Create, &mut candidate, ownership)?;
        let name = object::name(&candidate).to_string();
        let key = ObjectKey::new(call.namespace(), &name);
        let table = call.resource.table;
        if call.dry_run()? {
            if call.server.storage.get(table, &key).is_some() {
                return Err(name_taken_error(call, &key, &name));
            }
            warnings.append(&mut more_warnings);
            managed.put(&mut candidate);
            return Ok(
                Reply::new(201, Bytes::from(call.to_served_form(&candidate).to_string())).with_warnings(warnings)
            );
        }
        let attributes = call.resource.selector_attributes(&candidate);
        match call.server.storage.put(
            table,
            &key,
            None,
            &EncodedObject::with_managed_fields(&candidate, &managed),
            attributes,
        ) {
            Ok(stored) => {
                after_write::on_created(call, &candidate);
                warnings.append(&mut more_warnings);
                return Ok(Reply::new(201, call.to_served_bytes(stored.bytes().clone())).with_warnings(warnings));
            }
            Err(_) if generated && attempt < MAX_GENERATED_NAME_ATTEMPTS => {}
            Err(_) => return Err(name_taken_error(call, &key, &name)),
        }
    }
}

/// Returns the error for a name that already exists.
fn name_taken_error(call: &Call<'_>, key: &ObjectKey, name: &str) -> StatusError {
    let other = call.server.storage.get(call.resource.table, key).and_then(|stored| parse_stored(&stored).ok());
    if other.is_some_and(|other| object::is_deleting(&other)) {
        StatusError::still_exists(call.resource.group_resource(), name)
    } else {
        StatusError::already_exists(call.resource.group_resource(), name)
    }
}

/// Sets a name that consists of `generateName`, cut if necessary, and a suffix of five characters.
fn generate_name(call: &Call<'_>, object: &mut Value) {
    const MAX_GENERATED_NAME_CHARS: usize = 63;
    const NAME_SUFFIX_CHARS: usize = 5;
    let prefix: String = object::text(object, &["metadata", "generateName"])
        .chars()
        .take(MAX_GENERATED_NAME_CHARS - NAME_SUFFIX_CHARS)
        .collect();
    let name = format!("{prefix}{}", call.server.name_suffix());
    object::set_meta(object, "name", name);
}

//! The common steps from the object in a request to the object that is stored.

use std::collections::BTreeSet;

use serde_json::Value;

use super::metadata;
use crate::api::admission;
use crate::api::apply::{ManagedFields, track_ownership};
use crate::api::call::{Call, FieldValidation};
use crate::api::field;
use crate::api::kinds::StatusRule;
use crate::api::object;
use crate::api::registry::{ResourceOrigin, ServedAs};
use crate::api::request::Verb;
use crate::api::schema::{self, definitions, undeclared_fields};
use crate::api::status::{ApiResult, StatusError};

/// The kind of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteOperation<'a> {
    /// The object is new.
    Create,
    /// The object replaces this stored object.
    Update(&'a Value),
    /// The object's status replaces the status of this stored object.
    UpdateStatus(&'a Value),
}

impl<'a> WriteOperation<'a> {
    pub(crate) fn old(self) -> Option<&'a Value> {
        match self {
            Self::Create => None,
            Self::Update(old) | Self::UpdateStatus(old) => Some(old),
        }
    }
}

/// Checks that an object has the resource's version and kind, and sets them if they are missing.
pub(super) fn check_and_set_type(call: &Call<'_>, object: &mut Value) -> ApiResult<()> {
    let (version, kind) = (call.resource.api_version(), call.resource.kind.as_str());
    let (body_version, body_kind) = (object::text(object, &["apiVersion"]), object::text(object, &["kind"]));
    if call.resource.is_custom() && body_kind.is_empty() {
        return Err(StatusError::bad_request(format!(
            "error when creating \"\": Object 'Kind' is missing in '{object}'"
        )));
    }
    if !body_version.is_empty() && body_version != version {
        let message = if call.resource.is_custom() || body_kind == kind && call.registry.has_kind(body_version, kind) {
            format!("the API version in the data ({body_version}) does not match the expected API version ({version})")
        } else {
            format!(
                "{body_kind} in version \"{}\" cannot be handled as a {kind}: no kind \"{body_kind}\" is registered for version \"{body_version}\" in scheme \"pkg/runtime/scheme.go:111\"",
                body_version.rsplit('/').next().unwrap_or(body_version)
            )
        };
        return Err(StatusError::bad_request(message));
    }
    if call.resource.is_custom() && body_kind != kind {
        let error = field::invalid("kind", body_kind, format!("must be {kind}"));
        return Err(StatusError::invalid(&call.resource.group, body_kind, object::name(object), &[error]));
    }
    if !body_kind.is_empty() && body_kind != kind {
        let short_version = call.resource.version.as_str();
        let message = format!(
            "{body_kind} in version \"{short_version}\" cannot be handled as a {kind}: converting ({short_version}.{body_kind}) to ({}.{kind}): unknown conversion",
            package(&call.resource.group)
        );
        return Err(StatusError::bad_request(message));
    }
    let fields = object::ensure_object(object, &[]);
    fields.insert("apiVersion".into(), version.into());
    fields.insert("kind".into(), kind.into());
    Ok(())
}

/// Returns the Go package of a group's types, which the real server's messages name.
pub(crate) fn package(group: &str) -> &str {
    match group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    }
}

/// Decodes an object of a built-in kind and sets defaults. Unknown fields are rejected, reported as
/// warnings or dropped. Returns the warnings.
///
/// Custom resources are decoded during admission. Here only duplicate keys are checked and, in
/// strict patches, undeclared fields. `decoded` is an object that is already decoded; parts that
/// are equal in both are skipped.
pub(super) fn decode_and_default(
    call: &Call<'_>,
    object: &mut Value,
    decoded: Option<&Value>,
    duplicates: &[String],
) -> ApiResult<Vec<String>> {
    let validation = call.field_validation()?;
    let (kind, version) = (&call.resource.kind, &call.resource.version);
    let decode_error = |problem: String| {
        StatusError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {problem}"))
    };
    let unknown = match &call.resource.origin {
        ResourceOrigin::BuiltIn(rules) => {
            let unknown = schema::decode_changed(&call.resource.schema, object, decoded).map_err(decode_error)?;
            *object = call.to_stored_form(std::mem::take(object));
            (rules.strategy.default)(object);
            unknown
        }
        ResourceOrigin::Custom(_) if validation == FieldValidation::Strict && call.verb == Verb::Patch => {
            undeclared_fields(&call.resource.schema, object)
        }
        ResourceOrigin::Custom(_) => Vec::new(),
    };
    check_field_strictness(validation, &unknown, duplicates).map_err(decode_error)
}

/// Checks that all metadata of a custom resource can be decoded. Admission only checks the fields
/// that it keeps. `decoded` as in [`decode_and_default`].
pub(super) fn check_metadata(call: &Call<'_>, object: &Value, decoded: Option<&Value>) -> ApiResult<()> {
    let (metadata, decoded_metadata) = (object.get("metadata"), decoded.and_then(|decoded| decoded.get("metadata")));
    let Some(metadata) = metadata.filter(|metadata| call.resource.is_custom() && Some(*metadata) != decoded_metadata)
    else {
        return Ok(());
    };
    let schema = definitions().schema("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let (kind, version) = (&call.resource.kind, &call.resource.version);
    schema::decode_changed(&schema, &mut metadata.clone(), decoded_metadata).map(drop).map_err(|problem| {
        StatusError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {problem}"))
    })
}

/// Returns the warnings about unknown and duplicate fields, or the error of strict validation.
pub(crate) fn check_field_strictness(
    validation: FieldValidation,
    unknown: &[String],
    duplicates: &[String],
) -> Result<Vec<String>, String> {
    // An unknown field is reported once, even if it occurs several times.
    let unknown_paths: BTreeSet<&str> = unknown.iter().map(String::as_str).collect();
    let duplicates_only = duplicates.iter().filter(|path| !unknown_paths.contains(path.as_str()));
    let mut problems: Vec<String> = duplicates_only.map(|path| format!("duplicate field \"{path}\"")).collect();
    problems.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
    match validation {
        FieldValidation::Strict if !problems.is_empty() => {
            Err(format!("strict decoding error: {}", problems.join(", ")))
        }
        FieldValidation::Warn => Ok(problems),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
    }
}

/// The source of the field owners of an object that is written.
#[derive(Debug)]
pub(crate) enum FieldOwnership {
    /// Track the changes from these managed fields of the stored object.
    TrackFrom(ManagedFields),
    /// The object contains its final managed fields (apply).
    AlreadyInObject,
}

/// The result of [`prepare_for_storage`].
#[derive(Debug, Default)]
pub(crate) struct PreparedObject {
    pub(crate) warnings: Vec<String>,
    /// The managed fields, if the object does not contain them.
    pub(crate) managed: ManagedFields,
}

/// Brings a decoded object into the form in which it is stored, or rejects it. The caller has set
/// the metadata that only the server sets.
pub(crate) fn prepare_for_storage(
    call: &Call<'_>,
    change: WriteOperation<'_>,
    object: &mut Value,
    ownership: FieldOwnership,
) -> ApiResult<PreparedObject> {
    match &call.resource.origin {
        ResourceOrigin::BuiltIn(rules) => {
            let mut prepared = PreparedObject::default();
            if let FieldOwnership::TrackFrom(old_managed) = ownership {
                // Clients own the fields of the version in which they write.
                let version = call.resource.api_version();
                let old = change.old().map(|old| call.to_served_form(old));
                let old = old.as_deref().map(|old| (old, old_managed));
                let (schema, manager) = (&call.resource.schema, call.field_manager(&version));
                prepared.managed = if call.resource.served_as == ServedAs::AsStored {
                    track_ownership(schema, old, object, &manager)
                } else {
                    let mut served = call.to_served_form(object).into_owned();
                    object::remove(object, &["metadata", "managedFields"]);
                    track_ownership(schema, old, &mut served, &manager)
                };
            }
            admission::admit(call, change, object)?;
            let mut context = call.write_context();
            match change {
                WriteOperation::Create => {
                    if call.resource.status == StatusRule::Subresource {
                        object::remove(object, &["status"]);
                    }
                    (rules.strategy.prepare_for_create)(object, &mut context);
                    if call.resource.has_generation {
                        object::set_meta(object, "generation", 1);
                    }
                }
                WriteOperation::Update(old) => {
                    if call.resource.has_status() && object.get("status") != old.get("status") {
                        restore_field(object, old, "status");
                    }
                    (rules.strategy.prepare_for_update)(object, old, &mut context);
                    update_generation(call, object, old);
                }
                WriteOperation::UpdateStatus(old) => {
                    for key in keys_besides(object, old, &["apiVersion", "kind", "metadata", "status"]) {
                        if object.get(&key) != old.get(&key) {
                            restore_field(object, old, &key);
                        }
                    }
                    (rules.strategy.prepare_for_status_update)(object, old, &mut context);
                }
            }
            let mut errors = Vec::new();
            metadata::validate_metadata(call.resource.name_rule, object, change.old(), &mut errors);
            if !matches!(change, WriteOperation::UpdateStatus(_)) {
                (rules.strategy.validate)(object, change.old(), &mut errors);
            }
            if errors.is_empty() {
                Ok(prepared)
            } else {
                Err(StatusError::invalid(&call.resource.group, &call.resource.kind, object::name(object), &errors))
            }
        }
        ResourceOrigin::Custom(kind) => {
            if let WriteOperation::Create = change {
                if kind.is_crd_terminating {
                    return Err(StatusError::crd_terminating());
                }
                admission::check_namespace_open(call, object)?;
            }
            // Admission treats the object as written by a client and drops metadata that only the
            // server sets.
            let identity =
                ["uid", "creationTimestamp"].map(|key| (key, object::at(object, &["metadata", key]).cloned()));
            let warnings = kind.admit(call, change, object)?;
            match change {
                WriteOperation::Create => {
                    for (key, value) in identity {
                        if let Some(value) = value {
                            object::set_meta(object, key, value);
                        }
                    }
                    object::set_meta(object, "generation", 1);
                }
                WriteOperation::Update(old) => update_generation(call, object, old),
                WriteOperation::UpdateStatus(_) => {}
            }
            let mut prepared = PreparedObject { warnings, managed: ManagedFields::default() };
            if let FieldOwnership::TrackFrom(old_managed) = ownership {
                let version = call.resource.api_version();
                let old = change.old().map(|old| call.to_served_form(old));
                let old = old.as_deref().map(|old| (old, old_managed));
                prepared.managed = track_ownership(&call.resource.schema, old, object, &call.field_manager(&version));
            }
            *object = call.to_stored_form(std::mem::take(object));
            Ok(prepared)
        }
    }
}

/// Restores the stored value of `key`.
pub(super) fn restore_field(object: &mut Value, old: &Value, key: &str) {
    match old.get(key) {
        Some(value) => drop(object::ensure_object(object, &[]).insert(key.into(), value.clone())),
        None => drop(object::remove(object, &[key])),
    }
}

fn keys_besides(object: &Value, old: &Value, except: &[&str]) -> Vec<String> {
    let keys = [object, old].into_iter().filter_map(Value::as_object).flat_map(|fields| fields.keys());
    let mut keys: Vec<String> = keys.filter(|key| !except.contains(&key.as_str())).cloned().collect();
    keys.dedup();
    keys
}

/// Increments the generation if the object changed outside of metadata and status. For Deployments,
/// changed annotations count too, because they are copied to the `ReplicaSets`.
pub(super) fn update_generation(call: &Call<'_>, object: &mut Value, old: &Value) {
    if !call.resource.has_generation {
        return;
    }
    let keys = keys_besides(object, old, &["apiVersion", "kind", "metadata", "status"]);
    let mut changed = keys.iter().any(|key| object.get(key) != old.get(key));
    if call.resource.is("apps", "deployments") {
        let path = ["metadata", "annotations"];
        changed |= object::at(object, &path) != object::at(old, &path);
    }
    let generation = object::number(old, &["metadata", "generation"]).unwrap_or_default() + i64::from(changed);
    object::set_meta(object, "generation", generation);
}

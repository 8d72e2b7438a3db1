//! Admits an object of a custom resource as the API server does: prunes, defaults and validates it
//! against its `CustomResourceDefinition`. The result is the object as it would be stored, with
//! warnings, or field errors with the API server's exact text.
//!
//! `kerf plan` reads manifests through this module, the sandbox's API server serves every installed
//! CRD with it, and the tests of Kerf's own CRDs use it to find out what a cluster would answer. It
//! takes JSON values, does no IO and reads no clock.
//!
//! ```text
//! CustomResource::compile(crd)          definition/  CRD rules, structural schema, defaults, CEL
//!   └ admit(version, operation, object) prune → defaulting → objectmeta → validate → scale
//!                                       → listtype → cel
//! ```
//!
//! Invariants:
//! - Admitting an admitted object changes nothing.
//! - All errors of an object are reported at once.
//! - No input causes a panic or an endless loop; CEL rules run on a cost budget.
//! - Quirks of Kubernetes 1.36 are reproduced, because tests compare the results with those of a
//!   real API server.
//!
//! The caller generates names, resource versions, generation, uid and timestamps, and checks
//! whether the version is served, because these need more than the object.

mod cel;
mod correlate;
mod defaulting;
mod definition;
mod error;
mod format;
mod listtype;
pub(crate) mod names;
mod number;
mod objectmeta;
mod path;
mod prune;
mod regexp;
mod resource;
mod scale;
mod schema;
pub(crate) mod text;
mod time;
mod url;
mod validate;

#[cfg(test)]
mod tests;

pub use cel::NumericExpressionError;
pub(crate) use cel::{NumericExpression, VariableType, VariableValue};
pub use error::{AdmissionRejection, FieldError, FieldErrorKind, MalformedObject, join_field_errors};
pub use resource::{CrdNames, CrdScope, CrdVersion, CustomResource, PrinterColumn};
pub use scale::Scale;
pub use schema::{ListType, Schema, SchemaType};

use serde_json::{Map, Value};

use correlate::CorrelatedValue;
use objectmeta::NameRule;
use path::Path;

/// Detail of the error that is added when other errors prevented the CEL rules from running. It
/// belongs to no field, and it disappears when the other errors are corrected.
pub const RULES_UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// The operation for which an object is admitted.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// The object is new. Its status is dropped if the version has a status subresource.
    Create,
    /// The object is read as a cluster holds it, with spec and status (a saved object, or a
    /// manifest from `kubectl get -o yaml`).
    Snapshot,
    /// The object replaces `old`. The status of `old` is kept if the version has a status
    /// subresource.
    Update {
        /// The stored object.
        old: &'a Value,
    },
    /// The status and the managed fields of the object replace those of `old`; everything else is
    /// taken from `old`.
    UpdateStatus {
        /// The stored object.
        old: &'a Value,
    },
}

/// Treatment of fields that the schema does not declare. Such fields are never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// An object with unknown fields is rejected ([`MalformedObject::UnknownFields`]).
    Strict,
    /// Each unknown field adds a warning.
    Warn,
    /// Unknown fields are dropped without a warning.
    Ignore,
}

/// An object that passed admission.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// The object in the form in which it is stored.
    pub object: Value,
    /// Warnings for the client: unknown fields, finalizers without a domain, and rule errors that
    /// ratcheting tolerates.
    pub warnings: Vec<String>,
}

impl CustomResource {
    /// Prunes, defaults and validates an object of `version`, or returns everything that is wrong
    /// with it.
    ///
    /// A version that the definition does not contain is a decoding error.
    pub fn admit(
        &self,
        version: &str,
        operation: Operation<'_>,
        object: Value,
        field_validation: FieldValidation,
    ) -> Result<Admitted, AdmissionRejection> {
        let Some(version) = self.version(version) else {
            let (kind, group) = (&self.names.kind, &self.group);
            let text = format!(
                "no kind {} is registered for version {}",
                text::quote(kind),
                text::quote(&format!("{group}/{version}"))
            );
            return Err(AdmissionRejection::Malformed(MalformedObject::Decoding(text)));
        };
        let (mut object, unknown) = decode_object(version, object)
            .map_err(|text| AdmissionRejection::Malformed(MalformedObject::Decoding(text)))?;
        let unknown: Vec<String> = unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect();
        let mut warnings = match field_validation {
            FieldValidation::Strict if !unknown.is_empty() => {
                return Err(AdmissionRejection::Malformed(MalformedObject::UnknownFields(unknown)));
            }
            FieldValidation::Warn => unknown,
            FieldValidation::Strict | FieldValidation::Ignore => Vec::new(),
        };
        self.prepare_for_operation(version, operation, &mut object);
        let mut errors = match operation {
            Operation::Create | Operation::Snapshot => self.validate(version, &object),
            Operation::Update { old } => self.validate_update(version, &object, old),
            Operation::UpdateStatus { old } => self.validate_status(version, &object, old),
        };
        errors.extend(run_rules(version, operation, &object, &errors, &mut warnings));
        if !errors.is_empty() {
            return Err(AdmissionRejection::Invalid(errors));
        }
        let metadata = metadata_of(&object);
        match operation {
            Operation::Create | Operation::Snapshot => warnings.extend(objectmeta::finalizer_warnings(metadata, None)),
            Operation::Update { old } => {
                warnings.extend(objectmeta::finalizer_warnings(metadata, Some(metadata_of(old))));
            }
            Operation::UpdateStatus { .. } => {}
        }
        number::write_whole_floats_as_integers(&mut object);
        Ok(Admitted { object, warnings })
    }

    fn validate(&self, version: &CrdVersion, object: &Value) -> Vec<FieldError> {
        let mut errors = self.validate_type_meta(version, object);
        if errors.is_empty() {
            let at = Path::ROOT.child("metadata");
            errors.extend(objectmeta::validate(&at, metadata_of(object), self.is_namespaced(), NameRule::Subdomain));
            errors.extend(validate::validate(&Path::ROOT, &version.schema, object, None));
            if let Some(scale) = &version.scale {
                errors.extend(scale.validate_spec(object));
                errors.extend(scale.validate_status(object));
            }
        }
        errors.extend(objectmeta::validate_embedded(&Path::ROOT, object, &version.schema));
        errors.extend(listtype::validate(&Path::ROOT, &version.schema, object));
        errors
    }

    fn validate_update(&self, version: &CrdVersion, object: &Value, old: &Value) -> Vec<FieldError> {
        let at = Path::ROOT.child("metadata");
        let (metadata, old_metadata) = (metadata_of(object), metadata_of(old));
        // The API server runs the generic metadata rules first, then the rules of the kind, which
        // repeat a part of them. Clients see the repeated causes, so they are repeated here.
        let mut errors = objectmeta::validate(&at, metadata, self.is_namespaced(), NameRule::PathSegment);
        let changes = objectmeta::validate_update(&at, metadata, old_metadata);
        errors.extend(changes.iter().cloned());
        let type_errors = self.validate_type_meta(version, object);
        if type_errors.is_empty() {
            errors.extend(changes);
            let stored = CorrelatedValue { schema: Some(&version.schema), new: object, old };
            errors.extend(validate::validate(&Path::ROOT, &version.schema, object, Some(stored)));
            if let Some(scale) = &version.scale {
                errors.extend(scale.validate_spec(object));
                errors.extend(scale.validate_status(object));
            }
        } else {
            errors.extend(type_errors);
        }
        errors.extend(objectmeta::validate_embedded(&Path::ROOT, object, &version.schema));
        if listtype::validate(&Path::ROOT, &version.schema, old).is_empty() {
            errors.extend(listtype::validate(&Path::ROOT, &version.schema, object));
        }
        errors
    }

    fn validate_status(&self, version: &CrdVersion, object: &Value, old: &Value) -> Vec<FieldError> {
        let at = Path::ROOT.child("metadata");
        let (metadata, old_metadata) = (metadata_of(object), metadata_of(old));
        let mut errors = objectmeta::validate(&at, metadata, self.is_namespaced(), NameRule::PathSegment);
        let changes = objectmeta::validate_update(&at, metadata, old_metadata);
        errors.extend(changes.iter().cloned());
        let type_errors = self.validate_type_meta(version, object);
        if type_errors.is_empty() {
            errors.extend(changes);
            if let (Some(status), Some(schema)) = (object.get("status"), version.schema.properties.get("status")) {
                let old_status = old.get("status").unwrap_or(&Value::Null);
                let stored = CorrelatedValue { schema: Some(schema), new: status, old: old_status };
                errors.extend(validate::validate(&Path::ROOT.child("status"), schema, status, Some(stored)));
            }
            if let Some(scale) = &version.scale {
                errors.extend(scale.validate_status(object));
            }
        } else {
            errors.extend(type_errors);
        }
        let duplicates = listtype::validate(&Path::ROOT, &version.schema, object);
        if !duplicates.is_empty() && listtype::validate(&Path::ROOT, &version.schema, old).is_empty() {
            errors.extend(duplicates);
        }
        errors
    }

    fn validate_type_meta(&self, version: &CrdVersion, object: &Value) -> Vec<FieldError> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let api_version = format!("{}/{}", self.group, version.name);
        [("kind", self.names.kind.as_str()), ("apiVersion", api_version.as_str())]
            .into_iter()
            .filter(|(name, wanted)| text(name) != *wanted)
            .map(|(name, wanted)| FieldError::invalid(&Path::ROOT.child(name), text(name), format!("must be {wanted}")))
            .collect()
    }

    /// Applies the changes that the API server makes before it validates: the status and the
    /// metadata fields that this operation may not write are taken from the stored object or
    /// dropped.
    fn prepare_for_operation(&self, version: &CrdVersion, operation: Operation<'_>, object: &mut Value) {
        let Value::Object(fields) = object else { return };
        if !self.is_namespaced()
            && let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("namespace");
        }
        match operation {
            Operation::Snapshot => {}
            Operation::Create => {
                if version.has_status {
                    fields.remove("status");
                }
                if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.retain(|name, _| !SYSTEM_FIELDS.contains(&name.as_str()));
                }
            }
            Operation::Update { old } => {
                if version.has_status {
                    match old.get("status") {
                        Some(status) => fields.insert("status".to_owned(), status.clone()),
                        None => fields.remove("status"),
                    };
                }
                keep_system_fields(fields, metadata_of(old));
            }
            Operation::UpdateStatus { old } => {
                let status = fields.remove("status");
                let managed =
                    fields.get_mut("metadata").and_then(Value::as_object_mut).and_then(|m| m.remove("managedFields"));
                let Value::Object(old) = old else { return };
                fields.clone_from(old);
                match status {
                    Some(status) => fields.insert("status".to_owned(), status),
                    None => fields.remove("status"),
                };
                if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                    match managed {
                        Some(managed) => metadata.insert("managedFields".to_owned(), managed),
                        None => metadata.remove("managedFields"),
                    };
                }
            }
        }
    }

    fn is_namespaced(&self) -> bool {
        self.scope == CrdScope::Namespaced
    }
}

/// Decodes an object: brings metadata into its stored form, removes unknown fields and nulls
/// without a meaning, and fills in defaults. Also returns the paths of the unknown fields.
fn decode_object(version: &CrdVersion, mut object: Value) -> Result<(Value, Vec<String>), String> {
    let Value::Object(fields) = &mut object else {
        return Err("json: cannot unmarshal into Go value of type map[string]interface {}".to_owned());
    };
    for name in ["kind", "apiVersion"] {
        match fields.get(name) {
            Some(Value::String(_)) | None => {}
            Some(other) => {
                return Err(format!(
                    ".{name} accessor error: {} is of the type {}, expected string",
                    text::json(other),
                    scale::go_type(other)
                ));
            }
        }
    }
    if fields.get("kind").and_then(Value::as_str).unwrap_or_default().is_empty() {
        return Err(format!("Object 'Kind' is missing in '{}'", text::json(&object)));
    }
    let mut unknown = Vec::new();
    if let Some(metadata) = fields.get_mut("metadata") {
        let decoded = objectmeta::decode(metadata)?;
        unknown.extend(decoded.unknown.into_iter().map(|path| format!("metadata.{path}")));
        *metadata = Value::Object(decoded.metadata);
    }
    unknown.extend(prune::prune(&mut object, &version.schema));
    defaulting::drop_nulls(&mut object, &version.schema);
    unknown.extend(objectmeta::coerce(&mut object, &version.schema).map_err(|error| error.to_string())?);
    defaulting::apply_defaults(&mut object, &version.schema);
    Ok((object, unknown))
}

/// Runs the CEL rules, unless `errors` contains a kind of error that makes the values unusable for
/// rules.
fn run_rules(
    version: &CrdVersion,
    operation: Operation<'_>,
    object: &Value,
    errors: &[FieldError],
    warnings: &mut Vec<String>,
) -> Vec<FieldError> {
    let Some(rules) = &version.rules else { return Vec::new() };
    let blocking = |error: &FieldError| match error.kind {
        FieldErrorKind::NotSupported
        | FieldErrorKind::Required
        | FieldErrorKind::TooLong
        | FieldErrorKind::TooMany
        | FieldErrorKind::TypeInvalid => true,
        FieldErrorKind::Invalid
        | FieldErrorKind::Duplicate
        | FieldErrorKind::NotFound
        | FieldErrorKind::Forbidden
        | FieldErrorKind::Internal => false,
    };
    if errors.iter().any(blocking) {
        return vec![FieldError::invalid(&Path::ROOT, Value::Null, RULES_UNCHECKED)];
    }
    let (old, ratchet) = match operation {
        Operation::Create | Operation::Snapshot => (None, cel::Ratchet::default()),
        Operation::Update { old } | Operation::UpdateStatus { old } => {
            (Some(old), cel::Ratchet::new(CorrelatedValue { schema: Some(&version.schema), new: object, old }))
        }
    };
    rules.validate(&version.schema, object, old, ratchet, warnings)
}

/// Metadata fields that only the server writes. Values that a client sends on create are dropped.
const SYSTEM_FIELDS: [&str; 6] =
    ["uid", "selfLink", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

fn keep_system_fields(fields: &mut Map<String, Value>, old: &Map<String, Value>) {
    let Some(metadata) = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut() else {
        return;
    };
    for name in ["generation", "creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = old.get(name) {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    for name in ["uid", "deletionGracePeriodSeconds"] {
        if let Some(value) = old.get(name) {
            metadata.entry(name).or_insert_with(|| value.clone());
        }
    }
}

fn metadata_of(object: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
}

//! Admission: an object and its `CustomResourceDefinition` in; out comes the object as the API server would store it (pruned, defaulted,
//! validated), or the field errors that it would answer, word for word, and warnings for unknown fields.
//!
//! Built once and used three times: `kerf plan` reads manifests through it, the sandbox's API server serves every live CRD with it, and
//! the tests of Kerf's own CRDs ask it what a cluster would say. Only JSON goes in; there is no IO, and no clock.
//!
//! ```text
//! CustomResource::compile(crd)          definition/   apiextensions rules, structural schema, defaults, CEL compiled
//!   └ admit(version, operation, object) prune → defaulting → objectmeta → validate → scale → listtype → cel
//! ```
//!
//! What always holds: admitting an admitted object changes nothing; all errors of an object come at once; no input makes it panic or
//! hang (rules run on a budget). Where Kubernetes 1.36 has a quirk, so has this module, since its answers are compared with a real server's.
//! Left to the caller, because they need more than the object: generating names, resource versions, generation, uid and times, and
//! whether the version is served.

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

pub use error::{AdmissionRejection, FieldError, FieldErrorKind, MalformedObject, join_field_errors};
pub use resource::{CrdNames, CrdScope, CrdVersion, CustomResource, PrinterColumn};
pub use scale::Scale;
pub use schema::{ListType, Schema, SchemaType};

use serde_json::{Map, Value};

use correlate::CorrelatedValue;
use objectmeta::NameRule;
use path::Path;

/// What the error says that comes with others when they kept rules from being checked: it is about no field, and mending the others mends it.
pub const RULES_UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// What is being done with the object.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// It is new. A status is dropped if the version has a status subresource.
    Create,
    /// It is read as a cluster holds it, spec and status together (a saved object, a manifest from `kubectl get -o yaml`).
    Snapshot,
    /// It replaces `old`, whose status it keeps if the version has a status subresource.
    Update {
        /// The object as stored.
        old: &'a Value,
    },
    /// Its status replaces that of `old`; all else stays as it was.
    UpdateStatus {
        /// The object as stored.
        old: &'a Value,
    },
}

/// What becomes of fields that the schema does not know; they are never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// They make the object unreadable.
    Strict,
    /// They are named in warnings.
    Warn,
    /// They are dropped in silence.
    Ignore,
}

/// An object that may be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// The object as it is to be stored.
    pub object: Value,
    /// What the client should be told.
    pub warnings: Vec<String>,
}

impl CustomResource {
    /// Reads an object of `version`, or says everything that is wrong with it.
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
        // The generic rules come first and the kind's own repeat a part of them; the causes that a client sees repeat too.
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

    /// What the API server changes before it validates: who may write the status, and which metadata an update cannot touch.
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

/// Decoding: metadata in its stored form, unknown fields and meaningless nulls gone, defaults in. Also the paths of the unknown fields.
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

/// The rules in CEL, unless what is wrong already would make them stumble.
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

/// Metadata that only the server writes; what a client sends on create is dropped.
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

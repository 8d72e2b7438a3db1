//! Custom resources: compiling a CRD into served resources, admitting their objects, and deleting
//! the objects of a deleted CRD. `kerf_api::admission` validates the objects; this folder calls it.

mod columns;
mod crd;
mod json_path;
mod lifecycle;

use std::sync::Arc;

use kerf_api::admission::{AdmissionRejection, Admitted, CustomResource, FieldValidation, MalformedObject, Operation};
use serde_json::Value;
use smol_str::SmolStr;

use super::call::{self, Call};
use super::status::{ApiResult, StatusError};
use super::write::WriteOperation;

pub(crate) use columns::{cells, columns};
pub(crate) use json_path::JsonPath;
pub(crate) use lifecycle::{CLEANUP_FINALIZER, on_crd_changed, on_crd_deleted, on_custom_object_deleted};

/// One served version of a custom resource.
pub(crate) struct CustomKind {
    compiled: Arc<CustomResource>,
    version: SmolStr,
    /// The name of the CRD, such as `nodepools.karpenter.sh`.
    pub(crate) crd_name: SmolStr,
    /// The OpenAPI schema of this version in the CRD. `None` if the CRD has none.
    open_api: Option<Value>,
    columns: Vec<columns::CustomColumn>,
    /// True if the CRD is being deleted. No new objects are accepted then.
    pub(crate) is_crd_terminating: bool,
    /// The warning for clients of a deprecated version.
    deprecation_warning: Option<String>,
}

impl CustomKind {
    /// Brings an object into the form in which it is stored and returns warnings, or the error if
    /// the object is invalid.
    pub(crate) fn admit(
        &self,
        call: &Call<'_>,
        change: WriteOperation<'_>,
        object: &mut Value,
    ) -> ApiResult<Vec<String>> {
        let served_old = change.old().map(|old| call.to_served_form(old));
        let operation = match (change, &served_old) {
            (WriteOperation::Update(_), Some(old)) => Operation::Update { old },
            (WriteOperation::UpdateStatus(_), Some(old)) => Operation::UpdateStatus { old },
            _ => Operation::Create,
        };
        let validation = match call.field_validation()? {
            call::FieldValidation::Strict => FieldValidation::Strict,
            call::FieldValidation::Warn => FieldValidation::Warn,
            call::FieldValidation::Ignore => FieldValidation::Ignore,
        };
        let name = super::object::name(object).to_owned();
        let original = (validation == FieldValidation::Warn).then(|| object.clone());
        match self.compiled.admit(&self.version, operation, std::mem::take(object), validation) {
            Ok(Admitted { object: admitted, mut warnings }) => {
                *object =
                    if matches!(operation, Operation::Create) { self.with_stored_defaults(admitted) } else { admitted };
                warnings.extend(self.deprecation_warning.clone());
                Ok(warnings)
            }
            Err(rejection) => {
                let warnings = original.map(|original| self.unknown_fields(operation, original)).unwrap_or_default();
                Err(rejection_error(call, &name, &rejection).with_warnings(&warnings))
            }
        }
    }

    /// Returns the unknown fields for which strict validation would reject the object.
    fn unknown_fields(&self, operation: Operation<'_>, object: Value) -> Vec<String> {
        match self.compiled.admit(&self.version, operation, object, FieldValidation::Strict) {
            Err(AdmissionRejection::Malformed(MalformedObject::UnknownFields(fields))) => fields,
            Ok(_) | Err(_) => Vec::new(),
        }
    }

    /// Returns a new object as it is read from the store. A create request removes fields such as
    /// `status`; the defaults that the schema has for them are set again.
    fn with_stored_defaults(&self, object: Value) -> Value {
        match self.compiled.admit(&self.version, Operation::Snapshot, object.clone(), FieldValidation::Ignore) {
            Ok(Admitted { object: stored, .. }) => stored,
            Err(_) => object,
        }
    }

    /// Returns the schema for OpenAPI documents: the schema of the CRD with the common metadata.
    pub(crate) fn openapi_schema(&self) -> Value {
        let mut schema = self
            .open_api
            .clone()
            .unwrap_or_else(|| serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
        if let Some(properties) = super::object::ensure_object(&mut schema, &["properties"]).get_mut("metadata") {
            *properties = Value::Null;
        }
        let metadata = serde_json::json!({
            "description": "Standard object's metadata.",
            "allOf": [{"$ref": format!("{}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", super::schema::SCHEMA_REF_PREFIX)}],
        });
        super::object::ensure_object(&mut schema, &["properties"]).insert("metadata".into(), metadata);
        schema
    }
}

fn rejection_error(call: &Call<'_>, name: &str, rejection: &AdmissionRejection) -> StatusError {
    let resource = &call.resource;
    match rejection {
        AdmissionRejection::Invalid(errors) => StatusError::invalid(&resource.group, &resource.kind, name, errors),
        AdmissionRejection::Malformed(_) => {
            StatusError::bad_request(rejection.message(&resource.group, &resource.version, &resource.kind, name))
        }
    }
}

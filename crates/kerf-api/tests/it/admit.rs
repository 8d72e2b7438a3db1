//! Test helper for admission: a valid manifest, a change to it, and the result.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kerf_api::admission::{
    AdmissionRejection, CustomResource, FieldError, FieldValidation, Operation, RULES_UNCHECKED,
};
use kerf_api::crds::{self, CrdVariant};
use serde_json::Value;

static AWS: LazyLock<BTreeMap<&'static str, CustomResource>> = LazyLock::new(|| compiled(CrdVariant::Aws));
static KWOK: LazyLock<BTreeMap<&'static str, CustomResource>> = LazyLock::new(|| compiled(CrdVariant::Kwok));

fn compiled(variant: CrdVariant) -> BTreeMap<&'static str, CustomResource> {
    crds::all(variant)
        .iter()
        .map(|crd| {
            (
                crd.kind(),
                CustomResource::compile(crd.json()).unwrap_or_else(|errors| panic!("{}: {errors:#?}", crd.kind())),
            )
        })
        .collect()
}

/// Manifest under test.
#[derive(Clone)]
pub(crate) struct Manifest(pub(crate) Value);

impl Manifest {
    pub(crate) fn new(yaml: &str) -> Self {
        Self(serde_yaml_ng::from_str(yaml).unwrap())
    }

    /// Returns the manifest with one field changed. `pointer` is a JSON pointer; missing parent
    /// objects are created.
    pub(crate) fn with(&self, pointer: &str, value: impl Into<Value>) -> Self {
        let mut changed = self.0.clone();
        let mut target = &mut changed;
        for name in pointer.trim_start_matches('/').split('/').map(|name| name.replace("~1", "/")) {
            target = match target {
                Value::Array(elements) => &mut elements[name.parse::<usize>().unwrap()],
                object => &mut object[name],
            };
        }
        *target = value.into();
        Self(changed)
    }

    /// Returns the manifest without a field.
    pub(crate) fn without(&self, pointer: &str) -> Self {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let mut changed = self.0.clone();
        changed.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
        Self(changed)
    }

    fn admit(&self, variant: CrdVariant, operation: Operation<'_>) -> Result<Value, AdmissionRejection> {
        let resources = match variant {
            CrdVariant::Aws => &AWS,
            CrdVariant::Kwok => &KWOK,
        };
        let resource = &resources[self.0["kind"].as_str().unwrap()];
        let version = self.0["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
        let admitted = resource.admit(version, operation, self.0.clone(), FieldValidation::Strict)?;
        let read = |object: &Value| {
            resource.admit(version, Operation::Snapshot, object.clone(), FieldValidation::Strict).unwrap().object
        };
        let stored = read(&admitted.object);
        assert_eq!(read(&stored), stored, "admitting an admitted object changes nothing");
        Ok(admitted.object)
    }

    /// Returns the object as stored.
    #[track_caller]
    pub(crate) fn accepted(&self) -> Value {
        self.admit(CrdVariant::Aws, Operation::Create).unwrap_or_else(|rejection| panic!("{rejection}\n{:#}", self.0))
    }

    #[track_caller]
    pub(crate) fn accepted_by(&self, variant: CrdVariant) -> Value {
        self.admit(variant, Operation::Create).unwrap_or_else(|rejection| panic!("{rejection}\n{:#}", self.0))
    }

    #[track_caller]
    pub(crate) fn accepted_with_status(&self) -> Value {
        self.admit(CrdVariant::Aws, Operation::Snapshot).unwrap_or_else(|rejection| panic!("{rejection}\n{:#}", self.0))
    }

    /// Returns the object as stored after this manifest has replaced `old`.
    #[track_caller]
    pub(crate) fn accepted_after(&self, old: &Manifest) -> Value {
        let old = old.accepted();
        self.admit(CrdVariant::Aws, Operation::Update { old: &old })
            .unwrap_or_else(|rejection| panic!("{rejection}\n{:#}", self.0))
    }

    #[track_caller]
    pub(crate) fn rejected(&self) -> RejectedFields {
        self.rejected_by(CrdVariant::Aws)
    }

    #[track_caller]
    pub(crate) fn rejected_by(&self, variant: CrdVariant) -> RejectedFields {
        RejectedFields::from_result(self.admit(variant, Operation::Create), &self.0)
    }

    #[track_caller]
    pub(crate) fn rejected_with_status(&self) -> RejectedFields {
        RejectedFields::from_result(self.admit(CrdVariant::Aws, Operation::Snapshot), &self.0)
    }

    #[track_caller]
    pub(crate) fn rejected_after(&self, old: &Manifest) -> RejectedFields {
        let old = old.accepted();
        RejectedFields::from_result(self.admit(CrdVariant::Aws, Operation::Update { old: &old }), &self.0)
    }
}

/// Field errors of a rejected object.
pub(crate) struct RejectedFields(Vec<FieldError>);

impl RejectedFields {
    #[track_caller]
    fn from_result(result: Result<Value, AdmissionRejection>, object: &Value) -> Self {
        match result {
            // The note that rules were skipped because of other errors is not an error.
            Err(AdmissionRejection::Invalid(mut errors)) => {
                errors.retain(|error| error.detail != RULES_UNCHECKED);
                Self(errors)
            }
            Err(malformed @ AdmissionRejection::Malformed(_)) => panic!("{malformed}"),
            Ok(_) => panic!("accepted: {object:#}"),
        }
    }

    /// Asserts that there is exactly one error, at this path and containing this text.
    #[track_caller]
    pub(crate) fn assert_only(&self, path: &str, text: &str) {
        self.assert_has(path, text);
        assert_eq!(self.0.len(), 1, "{}", self.texts());
    }

    /// Asserts that there is an error at this path that contains this text.
    #[track_caller]
    pub(crate) fn assert_has(&self, path: &str, text: &str) -> &Self {
        assert!(
            self.0.iter().any(|error| error.path == path && error.to_string().contains(text)),
            "no {path}: {text} in\n{}",
            self.texts()
        );
        self
    }

    fn texts(&self) -> String {
        self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }
}

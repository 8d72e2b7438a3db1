//! Admission errors with the API server's exact text: what is wrong with which field, as `kubectl`
//! shows it, and the `Status` object that a client receives. `Display` of every type here equals
//! the output of kube-apiserver 1.36, whose answers are recorded in `admission/testdata`.

use std::fmt;

use serde_json::{Value, json};

use super::path::Path;
use super::text;

/// The kind of a field error. It determines the wording and the `reason` of the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// A required value is missing.
    Required,
    /// A value breaks a rule.
    Invalid,
    /// A value is not one of the allowed values.
    NotSupported,
    /// A value that must be unique appears twice.
    Duplicate,
    /// A value has another JSON type than the schema declares.
    TypeInvalid,
    /// A string is longer than allowed.
    TooLong,
    /// A list or map has more entries than allowed.
    TooMany,
    /// The value names something that does not exist.
    NotFound,
    /// The value may not be set here.
    Forbidden,
    /// The check itself failed.
    Internal,
}

impl FieldErrorKind {
    /// Returns the `reason` of the cause that a client receives.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::Forbidden => "FieldValueForbidden",
            Self::Internal => "InternalError",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Forbidden => "Forbidden",
            Self::Internal => "Internal error",
        }
    }
}

/// One problem of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path of the field, e.g. `spec.template.spec.taints[0].key`; `<nil>` for the object as a
    /// whole.
    pub path: String,
    /// Kind of the error.
    pub kind: FieldErrorKind,
    /// The rejected value; `None` if the error text does not print it.
    pub value: Option<Value>,
    /// Explanation of the broken rule; may be empty.
    pub detail: String,
    /// Printed form of the value, for values that are part of a definition and not JSON of the
    /// object.
    pub(crate) display_value: Option<String>,
}

impl FieldError {
    /// Returns an error in the field at `path`. For kinds that are validated outside this crate
    /// (the sandbox's built-in kinds).
    pub fn at_path(
        path: impl Into<String>,
        kind: FieldErrorKind,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), kind, value, detail: detail.into(), display_value: None }
    }

    pub(crate) fn new(path: &Path<'_>, kind: FieldErrorKind, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { path: path.to_string(), kind, value, detail: detail.into(), display_value: None }
    }

    pub(crate) fn required(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Required, None, detail)
    }

    pub(crate) fn invalid(path: &Path<'_>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(value.into()), detail)
    }

    pub(crate) fn invalid_with_display(path: &Path<'_>, display_value: String, detail: impl Into<String>) -> Self {
        Self { display_value: Some(display_value), ..Self::new(path, FieldErrorKind::Invalid, None, detail) }
    }

    pub(crate) fn forbidden(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, None, detail)
    }

    pub(crate) fn duplicate(path: &Path<'_>, value: impl Into<Value>) -> Self {
        Self::new(path, FieldErrorKind::Duplicate, Some(value.into()), "")
    }

    pub(crate) fn not_supported<S: AsRef<str>>(path: &Path<'_>, value: impl Into<Value>, supported: &[S]) -> Self {
        Self::new(path, FieldErrorKind::NotSupported, Some(value.into()), supported_values_detail(supported))
    }

    pub(crate) fn too_long(path: &Path<'_>, max: i64) -> Self {
        Self::new(path, FieldErrorKind::TooLong, None, too_long_detail(max))
    }

    pub(crate) fn too_many(path: &Path<'_>, actual: usize, max: i64) -> Self {
        Self::new(path, FieldErrorKind::TooMany, Some(actual.into()), too_many_detail(max))
    }

    /// Returns the text without the field's path, as the cause of a `Status` contains it.
    pub fn body(&self) -> String {
        let mut body = self.kind.description().to_owned();
        if let Some(display_value) = &self.display_value {
            body.push_str(": ");
            body.push_str(display_value);
        }
        if let Some(value) = &self.value {
            body.push_str(": ");
            match value {
                Value::String(s) => body.push_str(&text::quote(s)),
                Value::Number(n) if n.is_f64() => body.push_str(&text::float(n.as_f64().unwrap_or_default())),
                other => body.push_str(&text::json(other)),
            }
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for FieldError {}

pub(crate) fn supported_values_detail<S: AsRef<str>>(supported: &[S]) -> String {
    if supported.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = supported.iter().map(|value| text::quote(value.as_ref())).collect();
    format!("supported values: {}", quoted.join(", "))
}

pub(crate) fn too_long_detail(max: i64) -> String {
    match max {
        1 => "may not be more than 1 byte".to_owned(),
        max if max >= 0 => format!("may not be more than {max} bytes"),
        _ => "value is too long".to_owned(),
    }
}

pub(crate) fn too_many_detail(max: i64) -> String {
    match max {
        1 => "must have at most 1 item".to_owned(),
        max if max >= 0 => format!("must have at most {max} items"),
        _ => "has too many items".to_owned(),
    }
}

/// Joins field errors into one line: a single error as it is, several in brackets. Repeated texts
/// are printed once.
pub fn join_field_errors(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    let mut seen = std::collections::HashSet::new();
    for error in errors {
        let text = error.to_string();
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) }
}

/// The reason why an object was not admitted.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionRejection {
    /// The object could not be decoded as its kind, or strict field validation found unknown
    /// fields. HTTP status 400.
    Malformed(MalformedObject),
    /// The object was decoded and breaks rules. HTTP status 422.
    Invalid(Vec<FieldError>),
}

/// The reason why an object could not be decoded as its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum MalformedObject {
    /// Fields that the schema does not declare, under strict field validation. Each entry has the
    /// form `unknown field "spec.foo"`.
    UnknownFields(Vec<String>),
    /// The object, its metadata or the metadata of an embedded object has a wrong type. Holds the
    /// decoder's error text.
    Decoding(String),
}

impl fmt::Display for MalformedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFields(fields) => write!(f, "strict decoding error: {}", fields.join(", ")),
            Self::Decoding(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for AdmissionRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::Invalid(errors) => f.write_str(&join_field_errors(errors)),
        }
    }
}

impl std::error::Error for AdmissionRejection {}

impl AdmissionRejection {
    /// Returns the field errors; empty if the object could not be decoded.
    pub fn field_errors(&self) -> &[FieldError] {
        match self {
            Self::Malformed(_) => &[],
            Self::Invalid(errors) => errors,
        }
    }

    /// Returns the HTTP status code of the rejection.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::Invalid(_) => 422,
        }
    }

    /// Returns the whole message, e.g. `NodePool.karpenter.sh "default" is invalid: spec.weight:
    /// Invalid value: ...`.
    pub fn message(&self, group: &str, version: &str, kind: &str, name: &str) -> String {
        match self {
            Self::Malformed(malformed) => {
                format!("{kind} in version {} cannot be handled as a {kind}: {malformed}", text::quote(version))
            }
            Self::Invalid(errors) => {
                let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
                format!("{qualified} {} is invalid: {}", text::quote(name), join_field_errors(errors))
            }
        }
    }

    /// Returns the `Status` object that a client receives, with one cause per field error.
    pub fn status(&self, group: &str, version: &str, kind: &str, name: &str) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message(group, version, kind, name),
            "reason": match self { Self::Malformed(_) => "BadRequest", Self::Invalid(_) => "Invalid" },
            "code": self.code(),
        });
        if let Self::Invalid(errors) = self {
            let causes: Vec<Value> = errors
                .iter()
                .map(|error| json!({"reason": error.kind.reason(), "message": error.body(), "field": error.path}))
                .collect();
            let mut details = json!({"name": name, "group": group, "kind": kind, "causes": causes});
            if let Some(details) = details.as_object_mut() {
                details.retain(|_, value| value.as_str() != Some(""));
            }
            status["details"] = details;
        }
        status
    }
}

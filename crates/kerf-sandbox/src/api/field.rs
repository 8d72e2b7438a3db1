//! Constructors of field errors of built-in kinds. [`FieldError`] has the API server's messages.

pub(crate) use kerf_api::admission::FieldError;
use kerf_api::admission::FieldErrorKind;
use serde_json::Value;

fn error(kind: FieldErrorKind, path: impl Into<String>, value: Option<Value>, detail: impl Into<String>) -> FieldError {
    FieldError::at_path(path, kind, value, detail)
}

pub(crate) fn required(path: impl Into<String>, detail: &str) -> FieldError {
    error(FieldErrorKind::Required, path, None, detail)
}

pub(crate) fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> FieldError {
    error(FieldErrorKind::Invalid, path, Some(value.into()), detail)
}

pub(crate) fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> FieldError {
    error(FieldErrorKind::Forbidden, path, None, detail)
}

pub(crate) fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> FieldError {
    error(FieldErrorKind::Duplicate, path, Some(value.into()), "")
}

pub(crate) fn not_found(path: impl Into<String>, value: impl Into<Value>) -> FieldError {
    error(FieldErrorKind::NotFound, path, Some(value.into()), "")
}

pub(crate) fn too_long(path: impl Into<String>, limit: usize) -> FieldError {
    error(FieldErrorKind::TooLong, path, None, format!("may not be more than {limit} bytes"))
}

pub(crate) fn not_supported(path: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> FieldError {
    let quoted: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
    error(FieldErrorKind::NotSupported, path, Some(value.into()), format!("supported values: {}", quoted.join(", ")))
}

//! Checks the fields that the scale subresource reads. The API server reads the counts directly
//! from the object, so it rejects an object in which they cannot be read (spec 01 §3.1).

use serde_json::Value;

use super::error::FieldError;
use super::number::JsonNumber;
use super::path::Path;

/// Paths of the fields that the scale subresource uses, as the definition writes them
/// (`.spec.replicas`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Path of the desired count.
    pub spec_replicas_path: String,
    /// Path of the observed count.
    pub status_replicas_path: String,
    /// Path of the label selector of the counted pods, a string; `None` if the definition names
    /// none.
    pub label_selector_path: Option<String>,
}

impl Scale {
    pub(crate) fn validate_spec(&self, object: &Value) -> Vec<FieldError> {
        validate_replicas(object, &self.spec_replicas_path)
    }

    pub(crate) fn validate_status(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = validate_replicas(object, &self.status_replicas_path);
        if let Some(path) = &self.label_selector_path {
            match find_at_path(object, path) {
                Ok(None | Some(Value::String(_))) => {}
                Ok(Some(other)) => errors.push(path_error(path, "", &wrong_type(path, other, "string"))),
                Err(detail) => errors.push(path_error(path, "", &detail)),
            }
        }
        errors
    }
}

fn validate_replicas(object: &Value, path: &str) -> Vec<FieldError> {
    let error = match find_at_path(object, path) {
        Ok(None) => return Vec::new(),
        Ok(Some(value)) => match value.as_i64() {
            Some(n) if n < 0 => path_error(path, n, "should be a non-negative integer"),
            Some(n) if n > i64::from(i32::MAX) => {
                path_error(path, n, &format!("should be less than or equal to {}", i32::MAX))
            }
            Some(_) => return Vec::new(),
            None => path_error(path, 0, &wrong_type(path, value, "int64")),
        },
        Err(detail) => path_error(path, 0, &detail),
    };
    vec![error]
}

fn path_error(path: &str, value: impl Into<Value>, detail: &str) -> FieldError {
    FieldError::invalid(&Path::ROOT.child(path), value, detail)
}

/// Returns the value at a dotted path; `None` if a field on the path is absent or null. Fails if a
/// value on the path is not an object.
fn find_at_path<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    let mut walked = String::new();
    for name in path.strip_prefix('.').unwrap_or(path).split('.') {
        walked.push('.');
        walked.push_str(name);
        let Value::Object(fields) = value else {
            let detail = format!(
                "{walked} accessor error: {} is of the type {}, expected map[string]interface{{}}",
                go_value(value),
                go_type(value)
            );
            return if value.is_null() { Ok(None) } else { Err(detail) };
        };
        match fields.get(name) {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn wrong_type(path: &str, value: &Value, expected: &str) -> String {
    let path = path.strip_prefix('.').unwrap_or(path);
    format!(".{path} accessor error: {} is of the type {}, expected {expected}", go_value(value), go_type(value))
}

/// Formats a decoded value as Go's `%v` does.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => JsonNumber::of(n).to_string(),
        Value::String(s) => s.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut entries: Vec<String> = fields.iter().map(|(k, v)| format!("{k}:{}", go_value(v))).collect();
            entries.sort();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// Returns the Go type of a decoded value, as `%T` prints it.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) => match JsonNumber::of(n) {
            JsonNumber::Int(_) => "int64",
            JsonNumber::Float(_) => "float64",
        },
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_must_be_integers_from_0_to_the_int32_maximum() {
        let scale = Scale {
            spec_replicas_path: ".spec.replicas".to_owned(),
            status_replicas_path: ".status.nodes".to_owned(),
            label_selector_path: None,
        };
        for (replicas, text) in [
            (json!(0), None),
            (json!(2_147_483_647), None),
            (json!(-1), Some(".spec.replicas: Invalid value: -1: should be a non-negative integer")),
            (
                json!(2_147_483_648_i64),
                Some(".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"),
            ),
            (
                json!(3.0),
                Some(
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 3 is of the type float64, expected int64",
                ),
            ),
        ] {
            let errors = scale.validate_spec(&json!({"spec": {"replicas": replicas}}));
            assert_eq!(errors.first().map(ToString::to_string).as_deref(), text, "spec 01 §3.1: replicas {replicas}");
        }
        assert!(scale.validate_spec(&json!({"spec": {}})).is_empty());
        assert!(scale.validate_status(&json!({})).is_empty());
    }
}

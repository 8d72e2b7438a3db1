//! Strict decoding of built-in kinds, with the results of Go's decoder in the real server. Unknown
//! fields are reported and dropped. Values of the wrong type are rejected with the decoder's
//! message. Nulls are removed. Quantities and times are changed to their canonical form.

use std::fmt::Write as _;

use kerf_api::quantity::Quantity;
use serde_json::{Map, Value};

use super::{FieldType, ScalarType, Schema, SchemaCursor};
use crate::api::object;

/// Brings `object` into the form that the schema describes. Returns the paths of unknown fields,
/// which it has removed, or the message that states why the object cannot be decoded.
pub(crate) fn decode(schema: &Schema, object: &mut Value) -> Result<Vec<String>, String> {
    decode_changed(schema, object, None)
}

/// Like [`decode`], for an object that was derived from the decoded object `decoded`. Parts that
/// are equal in both are skipped.
pub(crate) fn decode_changed(
    schema: &Schema,
    object: &mut Value,
    decoded: Option<&Value>,
) -> Result<Vec<String>, String> {
    let mut decoder = Decoder { path: String::new(), go_path: String::new(), struct_name: "", unknown: Vec::new() };
    decoder.value(schema.root(), object, decoded)?;
    Ok(decoder.unknown)
}

struct Decoder<'a> {
    /// The path of the current value, with list indices: `spec.containers[0].image`.
    path: String,
    /// The path as Go's decoder prints it, without list indices.
    go_path: String,
    /// The name of the innermost struct.
    struct_name: &'a str,
    unknown: Vec<String>,
}

impl<'a> Decoder<'a> {
    fn value(&mut self, at: SchemaCursor<'a>, value: &mut Value, decoded: Option<&Value>) -> Result<(), String> {
        match (at.ty(), &mut *value) {
            (FieldType::Any | FieldType::BuiltIn(_), _) => Ok(()),
            (FieldType::Scalar(scalar), _) => self.scalar(*scalar, value),
            (FieldType::Struct(inner), Value::Object(fields)) => {
                let outer_struct = std::mem::replace(&mut self.struct_name, &inner.name);
                let preserves_unknown_fields = inner.preserves_unknown_fields;
                let decoded = decoded.and_then(Value::as_object);
                self.entries(fields, true, decoded, |key| {
                    (inner.fields.contains_key(key) || preserves_unknown_fields).then(|| at.at_key(key))
                })?;
                self.struct_name = outer_struct;
                Ok(())
            }
            (FieldType::Map { .. }, Value::Object(entries)) => {
                self.entries(entries, false, decoded.and_then(Value::as_object), |key| Some(at.at_key(key)))
            }
            (FieldType::List { .. }, Value::Array(items)) => {
                let length = self.path.len();
                for (index, item) in items.iter_mut().enumerate() {
                    if item.is_null() {
                        *item = zero(at.at_item().ty());
                    }
                    // Writing to a String cannot fail.
                    let _ = write!(self.path, "[{index}]");
                    self.value(at.at_item(), item, None)?;
                    self.path.truncate(length);
                }
                Ok(())
            }
            (FieldType::Struct(_) | FieldType::Map { .. } | FieldType::List { .. }, other) => {
                Err(self.mismatch(other, &go_type(at)))
            }
        }
    }

    /// `named` is true for fields of structs, which Go's decoder prints in paths, and false for
    /// keys of maps, which it does not print.
    fn entries(
        &mut self,
        entries: &mut Map<String, Value>,
        named: bool,
        decoded: Option<&Map<String, Value>>,
        field: impl Fn(&str) -> Option<SchemaCursor<'a>>,
    ) -> Result<(), String> {
        let (path_length, go_path_length) = (self.path.len(), self.go_path.len());
        let mut removed_keys: Vec<String> = Vec::new();
        for (key, value) in &mut *entries {
            let decoded = decoded.and_then(|decoded| decoded.get(key));
            if decoded.is_some_and(|decoded| decoded == value) {
                continue;
            }
            if path_length > 0 {
                self.path.push('.');
            }
            self.path.push_str(key);
            if named {
                if go_path_length > 0 {
                    self.go_path.push('.');
                }
                self.go_path.push_str(key);
            }
            match field(key) {
                None => {
                    self.unknown.push(self.path.clone());
                    removed_keys.push(key.clone());
                }
                Some(_) if value.is_null() => removed_keys.push(key.clone()),
                Some(at) => self.value(at, value, decoded)?,
            }
            self.path.truncate(path_length);
            self.go_path.truncate(go_path_length);
        }
        for key in removed_keys {
            entries.remove(&key);
        }
        Ok(())
    }

    fn scalar(&self, scalar: ScalarType, value: &mut Value) -> Result<(), String> {
        match (scalar, &mut *value) {
            (ScalarType::String, Value::String(_))
            | (ScalarType::Boolean, Value::Bool(_))
            | (ScalarType::Number, Value::Number(_)) => Ok(()),
            (ScalarType::Bytes, Value::String(text)) => {
                use base64::Engine as _;
                let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_bytes());
                bytes
                    .map(drop)
                    .map_err(|_| format!("illegal base64 data at input byte {}", text.len().saturating_sub(1)))
            }
            (ScalarType::Int32, Value::Number(number))
                if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) =>
            {
                Ok(())
            }
            (ScalarType::Int64, Value::Number(number)) if number.as_i64().is_some() => Ok(()),
            (ScalarType::Int32 | ScalarType::Int64, Value::Number(number)) => Err(format!(
                "json: cannot unmarshal number {number} into Go struct field {}.{} of type {}",
                self.struct_name,
                self.go_path,
                go_scalar(scalar)
            )),
            (ScalarType::IntOrString, Value::String(_)) => Ok(()),
            (ScalarType::IntOrString, Value::Number(number))
                if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) =>
            {
                Ok(())
            }
            (ScalarType::Quantity, Value::String(text)) => canonical_quantity(text),
            (ScalarType::Quantity, Value::Number(number)) => {
                let mut text = number.to_string();
                canonical_quantity(&mut text)?;
                *value = Value::String(text);
                Ok(())
            }
            (ScalarType::Time, Value::String(text)) => canonical_time(text, object::rfc3339_seconds),
            (ScalarType::MicroTime, Value::String(text)) => canonical_time(text, object::rfc3339_micros),
            (_, other) => Err(self.mismatch(other, go_scalar(scalar))),
        }
    }

    fn mismatch(&self, value: &Value, expected: &str) -> String {
        let actual = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if self.go_path.is_empty() {
            return format!("json: cannot unmarshal {actual} into Go value of type {expected}");
        }
        format!(
            "json: cannot unmarshal {actual} into Go struct field {}.{} of type {expected}",
            self.struct_name, self.go_path
        )
    }
}

/// Returns the zero value that Go decodes from a null in a list.
fn zero(ty: &FieldType) -> Value {
    match ty {
        FieldType::Scalar(ScalarType::Boolean) => Value::Bool(false),
        FieldType::Scalar(ScalarType::Int32 | ScalarType::Int64 | ScalarType::Number | ScalarType::IntOrString) => {
            Value::from(0)
        }
        FieldType::Scalar(ScalarType::Quantity) => Value::String("0".into()),
        FieldType::Scalar(ScalarType::String | ScalarType::Time | ScalarType::MicroTime | ScalarType::Bytes) => {
            Value::String(String::new())
        }
        FieldType::Struct(_) | FieldType::Map { .. } => Value::Object(Map::new()),
        FieldType::List { .. } => Value::Array(Vec::new()),
        FieldType::Any | FieldType::BuiltIn(_) => Value::Null,
    }
}

fn go_scalar(scalar: ScalarType) -> &'static str {
    match scalar {
        // Go decodes times from strings.
        ScalarType::String | ScalarType::Time | ScalarType::MicroTime => "string",
        ScalarType::Boolean => "bool",
        ScalarType::Int32 | ScalarType::IntOrString => "int32",
        ScalarType::Int64 => "int64",
        ScalarType::Number => "float64",
        ScalarType::Quantity => "resource.Quantity",
        ScalarType::Bytes => "[]uint8",
    }
}

fn go_type(at: SchemaCursor<'_>) -> String {
    match at.ty() {
        FieldType::Scalar(scalar) => go_scalar(*scalar).into(),
        FieldType::Struct(inner) => format!("v1.{}", inner.name),
        FieldType::Map { .. } => format!("map[string]{}", go_type(at.at_key(""))),
        FieldType::List { .. } => format!("[]{}", go_type(at.at_item())),
        FieldType::Any | FieldType::BuiltIn(_) => "interface {}".into(),
    }
}

fn canonical_quantity(text: &mut String) -> Result<(), String> {
    if text.is_empty() {
        // The real server decodes an empty string as zero.
        "0".clone_into(text);
        return Ok(());
    }
    let quantity: Quantity = text.parse().map_err(|_| {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_string()
    })?;
    let canonical = quantity.to_string();
    if canonical != *text {
        *text = canonical;
    }
    Ok(())
}

fn canonical_time(text: &mut String, write: fn(jiff::Timestamp) -> String) -> Result<(), String> {
    let time: jiff::Timestamp = text.parse().map_err(|_| {
        format!("parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\"")
    })?;
    *text = write(time);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use serde_json::json;

    use super::super::definitions;
    use super::*;

    fn pod(mut object: Value) -> Result<(Value, Vec<String>), String> {
        let unknown = decode(&definitions().schema("io.k8s.api.core.v1.Pod"), &mut object)?;
        Ok((object, unknown))
    }

    #[test]
    fn unknown_fields_are_reported_and_dropped() {
        let (object, unknown) = pod(json!({
            "metadata": {"name": "b", "labels": {"any": "thing"}, "creationTimestamp": null},
            "spec": {"foo": 1, "containers": [{"name": "c", "imagee": "x"}]},
        }))
        .unwrap();
        assert_eq!(unknown, ["spec.containers[0].imagee", "spec.foo"]);
        assert_eq!(
            object,
            json!({"metadata": {"name": "b", "labels": {"any": "thing"}}, "spec": {"containers": [{"name": "c"}]}})
        );
    }

    #[test]
    fn parts_that_are_already_decoded_are_skipped() {
        let schema = definitions().schema("io.k8s.api.core.v1.Pod");
        let decoded =
            json!({"metadata": {"name": "b"}, "spec": {"containers": [{"name": "c", "unread": 1}], "priority": 1}});
        let mut object = decoded.clone();
        object["spec"]["priority"] = json!(2);
        object["spec"]["foo"] = json!(3);
        object["status"] = json!({"bar": 4});
        assert_eq!(decode_changed(&schema, &mut object, Some(&decoded)).unwrap(), ["spec.foo", "status.bar"]);
        assert_eq!(object["spec"]["containers"], decoded["spec"]["containers"]);
        object["spec"]["priority"] = json!("x");
        assert!(decode_changed(&schema, &mut object, Some(&decoded)).is_err());
    }

    #[test]
    fn wrong_types_are_rejected_with_the_real_servers_messages() {
        let prefix = "json: cannot unmarshal";
        for (object, message) in [
            (
                json!({"spec": {"terminationGracePeriodSeconds": "x"}}),
                format!(
                    "{prefix} string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64"
                ),
            ),
            (
                json!({"spec": {"containers": {"name": "c"}}}),
                format!("{prefix} object into Go struct field PodSpec.spec.containers of type []v1.Container"),
            ),
            (
                json!({"spec": {"containers": [{"name": 3}]}}),
                format!("{prefix} number into Go struct field Container.spec.containers.name of type string"),
            ),
            (
                json!({"spec": {"priority": 1.5}}),
                format!("{prefix} number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
            ),
            (
                json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "abc"}}}]}}),
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".into(),
            ),
        ] {
            assert_eq!(pod(object).unwrap_err(), message);
        }
    }

    #[test]
    fn amounts_and_times_take_their_canonical_form() {
        let (object, _) = pod(json!({
            "metadata": {"creationTimestamp": "2026-01-01T01:00:00.123+01:00"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 2, "memory": "1.5Gi", "x/y": "1500m"}}}]},
        }))
        .unwrap();
        assert_eq!(object["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
        let requests = &object["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(*requests, json!({"cpu": "2", "memory": "1536Mi", "x/y": "1500m"}));
    }
}

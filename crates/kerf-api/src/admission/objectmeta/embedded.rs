//! Objects embedded in other objects (`x-kubernetes-embedded-resource`). Kubernetes' own rules
//! apply to their type and metadata too.

use serde_json::Value;

use super::super::error::FieldError;
use super::super::names;
use super::super::path::Path;
use super::super::schema::Schema;
use super::{NameRule, decode, validate as validate_metadata};

/// Decodes the metadata of embedded objects into its stored form and returns the paths of unknown
/// fields. A wrong type is an error with the decoder's text.
pub(crate) fn coerce(object: &mut Value, schema: &Schema) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    coerce_node(&Path::ROOT, object, schema, &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

fn coerce_node(at: &Path<'_>, value: &mut Value, schema: &Schema, unknown: &mut Vec<String>) -> Result<(), FieldError> {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if schema.is_embedded_resource {
                    match name.as_str() {
                        "apiVersion" | "kind" if !value.is_string() => {
                            return Err(FieldError::invalid(&at.child(name), value.clone(), "must be a string"));
                        }
                        "metadata" => {
                            let at = at.child(name);
                            let decoded =
                                decode(value).map_err(|text| FieldError::invalid(&at, value.clone(), text))?;
                            unknown.extend(decoded.unknown.iter().map(|path| format!("{at}.{path}")));
                            *value = Value::Object(decoded.metadata);
                        }
                        _ => {}
                    }
                }
                if let Some(property) = schema.properties.get(name) {
                    coerce_node(&at.child(name), value, property, unknown)?;
                } else if let Some(values) = schema.map_values() {
                    coerce_node(&at.key(name), value, values, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.items.as_deref() {
                for (i, item) in items.iter_mut().enumerate() {
                    coerce_node(&at.index(i), item, item_schema, unknown)?;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

/// Validates every embedded object inside `value`, and `value` itself if it is one.
pub(crate) fn validate(at: &Path<'_>, value: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_node(at, value, schema, &mut errors);
    errors
}

fn validate_node(at: &Path<'_>, value: &Value, schema: &Schema, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if schema.is_embedded_resource {
                validate_resource(at, fields, errors);
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    validate_node(&at.child(name), value, property, errors);
                } else if let Some(values) = schema.map_values() {
                    validate_node(&at.key(name), value, values, errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.items.as_deref() {
                for (i, item) in items.iter().enumerate() {
                    validate_node(&at.index(i), item, item_schema, errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn validate_resource(at: &Path<'_>, fields: &serde_json::Map<String, Value>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let at = at.child(name);
        match fields.get(name) {
            None => errors.push(FieldError::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&at, text.as_str(), "must not be empty"));
            }
            Some(Value::String(text)) if name == "kind" => {
                let details = names::dns1035_label(&text.to_lowercase());
                if !details.is_empty() {
                    let detail = format!("may have mixed case, but should otherwise match: {}", details.join(","));
                    errors.push(FieldError::invalid(&at, text.as_str(), detail));
                }
            }
            Some(Value::String(text)) => {
                if text.split('/').count() > 2 {
                    errors.push(FieldError::invalid(
                        &at,
                        text.as_str(),
                        format!("unexpected GroupVersion string: {text}"),
                    ));
                }
            }
            Some(other) => errors.push(FieldError::invalid(&at, other.clone(), "must be a string")),
        }
    }
    if let Some(metadata) = fields.get("metadata") {
        let at = at.child("metadata");
        match decode(metadata) {
            Err(text) => errors.push(FieldError::invalid(&at, metadata.clone(), text)),
            Ok(mut decoded) => {
                decoded.metadata.entry("name").or_insert_with(|| "fakename".into());
                let namespaced = decoded.metadata.contains_key("namespace");
                errors.extend(validate_metadata(&at, &decoded.metadata, namespaced, NameRule::PathSegment));
            }
        }
    }
}

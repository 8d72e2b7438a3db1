//! Validates default values. Each default must contain only declared fields and be valid by its own
//! schema, including CEL rules, because a default is not validated again when it is filled in.

use serde_json::Value;

use super::super::error::FieldError;
use super::super::path::Path;
use super::super::schema::Schema;
use super::super::{cel, objectmeta, prune, validate as schema_validation};

/// Returns everything that is wrong with the defaults of a structural schema.
pub(crate) fn validate(at: &Path<'_>, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_node(at, schema, &mut errors);
    errors
}

fn validate_node(at: &Path<'_>, schema: &Schema, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        validate_default(&at.child("default"), schema, default, errors);
    }
    if let Some(items) = schema.items.as_deref() {
        validate_node(&at.child("items"), items, errors);
    }
    let properties_at = at.child("properties");
    for (name, property) in &schema.properties {
        validate_node(&properties_at.key(name), property, errors);
    }
}

fn validate_default(at: &Path<'_>, schema: &Schema, default: &Value, errors: &mut Vec<FieldError>) {
    let mut pruned = default.clone();
    prune::prune_default(&mut pruned, schema);
    if pruned != *default {
        errors.push(FieldError::invalid(at, default.clone(), "must not have unknown fields"));
    }
    let embedded_errors = objectmeta::validate_embedded(at, default, schema);
    if !embedded_errors.is_empty() {
        errors.extend(embedded_errors);
        return;
    }
    let schema_errors = schema_validation::validate(at, schema, default, None);
    if !schema_errors.is_empty() {
        errors.extend(schema_errors);
        return;
    }
    errors.extend(cel::check_default(at, schema, default));
}

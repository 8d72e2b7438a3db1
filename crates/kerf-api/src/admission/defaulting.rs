//! Defaults and explicit nulls (spec 01 §13.1). A null in a field with a default is replaced by the
//! default. A null in any other non-nullable field counts as absent. A null in a list is kept, and
//! validation rejects it.

use serde_json::Value;

use super::schema::Schema;

/// Removes the nulls that count as absent. Nulls of fields with a default stay, so that the default
/// replaces them.
pub(crate) fn drop_nulls(object: &mut Value, schema: &Schema) {
    drop_nulls_below(object, Some(schema));
}

fn drop_nulls_below(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let field = schema.and_then(|schema| schema.field(name));
            if value.is_null() && field.is_some_and(|field| !field.nullable && field.default.is_none()) {
                return false;
            }
            drop_nulls_below(value, field);
            true
        }),
        Value::Array(items) => {
            let item_schema = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                drop_nulls_below(item, item_schema);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Fills in defaults, including the defaults of fields inside a default value.
pub(crate) fn apply_defaults(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default
                    && fields.get(name).is_none_or(|value| value.is_null() && !property.nullable)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields.iter_mut() {
                if let Some(property) = schema.properties.get(name) {
                    apply_defaults(value, property);
                } else if let Some(values) = schema.map_values() {
                    apply_default_to_null(value, values);
                    apply_defaults(value, values);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.items.as_deref() {
                for item in items {
                    apply_default_to_null(item, item_schema);
                    apply_defaults(item, item_schema);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn apply_default_to_null(value: &mut Value, schema: &Schema) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}

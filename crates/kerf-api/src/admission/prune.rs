//! Pruning: removes fields that the schema does not declare and returns their paths, so that the
//! caller can reject them or warn. Metadata is not pruned here: its fields are defined by
//! Kubernetes, and `objectmeta` decodes them.

use std::fmt::Write as _;

use serde_json::Value;

use super::schema::{AdditionalProperties, Schema};

/// Removes unknown fields from a whole object and returns their paths, sorted.
pub(crate) fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), unknown: Vec::new() };
    pruner.prune_value(object, Some(schema), true);
    pruner.unknown.sort();
    pruner.unknown
}

/// Removes unknown fields from a default value. A default is not an object with metadata of its
/// own, unless the schema declares an embedded resource.
pub(crate) fn prune_default(default: &mut Value, schema: &Schema) {
    let mut pruner = Pruner { path: String::new(), unknown: Vec::new() };
    pruner.prune_value(default, Some(schema), schema.is_embedded_resource);
}

struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    /// Prunes one value. `schema` is `None` below `additionalProperties: true`, where every nested
    /// field is unknown.
    fn prune_value(&mut self, value: &mut Value, schema: Option<&Schema>, is_resource: bool) {
        if let Some(schema) = schema.filter(|schema| schema.preserves_unknown_fields) {
            self.prune_declared_fields(value, schema, is_resource);
            return;
        }
        match value {
            Value::Object(fields) => fields.retain(|name, value| {
                let keep_meta =
                    schema.is_some_and(|schema| schema.is_embedded_resource || is_resource) && is_meta_field(name);
                if keep_meta {
                    return true;
                }
                let parent_length = self.enter(name);
                let known = match schema.map(|schema| (schema.properties.get(name), &schema.additional_properties)) {
                    Some((Some(property), _)) => {
                        self.prune_value(value, Some(property), false);
                        true
                    }
                    Some((None, Some(AdditionalProperties::Schema(values)))) => {
                        self.prune_value(value, Some(values), false);
                        true
                    }
                    Some((None, Some(AdditionalProperties::Bool(_)))) => {
                        self.prune_value(value, None, false);
                        true
                    }
                    Some((None, None)) | None => false,
                };
                // At the root, `metadata`, `kind` and `apiVersion` are never unknown, even if the
                // definition omits them.
                if !known && (parent_length > 0 || !is_meta_field(name)) {
                    self.unknown.push(self.path.clone());
                }
                self.path.truncate(parent_length);
                known
            }),
            Value::Array(items) => {
                let item_schema = schema.and_then(|schema| schema.items.as_deref());
                self.prune_items(items, |pruner, item| pruner.prune_value(item, item_schema, false));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Prunes a value under `x-kubernetes-preserve-unknown-fields`: unknown fields are kept, but
    /// declared fields are pruned by their own schema.
    fn prune_declared_fields(&mut self, value: &mut Value, schema: &Schema, is_resource: bool) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    if (schema.is_embedded_resource || is_resource) && is_meta_field(name) {
                        continue;
                    }
                    let parent_length = self.enter(name);
                    match (schema.properties.get(name), &schema.additional_properties) {
                        (Some(property), _) => self.prune_value(value, Some(property), false),
                        (None, Some(AdditionalProperties::Schema(values))) => {
                            self.prune_value(value, Some(values), false);
                        }
                        (None, Some(AdditionalProperties::Bool(_))) => self.prune_value(value, None, false),
                        (None, None) => {}
                    }
                    self.path.truncate(parent_length);
                }
            }
            Value::Array(items) => {
                if let Some(item_schema) = schema.items.as_deref() {
                    self.prune_items(items, |pruner, item| pruner.prune_declared_fields(item, item_schema, false));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn prune_items(&mut self, items: &mut [Value], mut visit: impl FnMut(&mut Self, &mut Value)) {
        let parent_length = self.path.len();
        for (i, item) in items.iter_mut().enumerate() {
            // Writing into a String cannot fail.
            let _ = write!(self.path, "[{i}]");
            visit(self, item);
            self.path.truncate(parent_length);
        }
    }

    fn enter(&mut self, name: &str) -> usize {
        let parent_length = self.path.len();
        if parent_length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        parent_length
    }
}

pub(crate) fn is_meta_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

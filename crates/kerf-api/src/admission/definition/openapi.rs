//! Validates a schema as a document: which keywords are allowed where, what the `x-kubernetes-*`
//! extensions require, and that every CEL rule compiles. A rule is compiled only if its schema is
//! valid, because an invalid schema has no types to compile against.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

use super::super::cel;
use super::super::error::FieldError;
use super::super::path::Path;
use super::super::schema::{Schema, additional_schema, items, properties};
use super::version::resolve_field_path;
use super::{defaults, structural};

const SCHEMA_TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const RULE_REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Appends everything that is wrong with the schema of a version.
pub(crate) fn validate(at: &Path<'_>, schema: &JSONSchemaProps, has_status: bool, errors: &mut Vec<FieldError>) {
    let at = at.child("openAPIV3Schema");
    let error_count = errors.len();
    if has_status {
        validate_root_keywords(&at, schema, errors);
    }
    if schema.nullable == Some(true) {
        errors.push(FieldError::forbidden(&at.child("nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = unsupported_keyword(schema);
    let mut built_schema = None;
    if unsupported.is_none() {
        let structural_errors = structural::validate(&at, schema);
        if structural_errors.is_empty() {
            let root = Schema::build(schema);
            let default_errors = defaults::validate(&at, &root);
            if default_errors.is_empty() {
                built_schema = Some(root);
            } else {
                errors.extend(default_errors);
            }
        } else {
            errors.extend(structural_errors);
        }
    }
    let mut validator =
        OpenApiValidator { schema_errors: Vec::new(), cel_errors: Vec::new(), costs: cel::CostTotal::default() };
    let position = SchemaPosition {
        is_root: true,
        defaults: DefaultsPolicy::Allowed,
        is_inside_metadata: false,
        uncorrelatable: None,
    };
    validator.validate_node(&at, schema, built_schema.as_ref(), &position, cel::Cardinality::ONE);
    errors.extend(validator.schema_errors);
    errors.extend(validator.cel_errors);
    if let Some(detail) = unsupported.filter(|_| errors.len() == error_count) {
        errors.push(FieldError::invalid(&at, "", detail));
    }
    errors.extend(validator.costs.errors(&at));
}

/// Checks the keywords at the root. With a status subresource the schema of `status` is used on its
/// own, so the root must not restrict several fields together.
fn validate_root_keywords(at: &Path<'_>, schema: &JSONSchemaProps, errors: &mut Vec<FieldError>) {
    let type_ = schema.type_.as_deref().unwrap_or_default();
    if !type_.is_empty() && type_ != "object" {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(&at.child("type"), type_, detail));
    }
    let allowed = JSONSchemaProps {
        description: schema.description.clone(),
        type_: schema.type_.clone(),
        format: schema.format.clone(),
        title: schema.title.clone(),
        maximum: schema.maximum,
        exclusive_maximum: schema.exclusive_maximum,
        minimum: schema.minimum,
        exclusive_minimum: schema.exclusive_minimum,
        max_length: schema.max_length,
        min_length: schema.min_length,
        pattern: schema.pattern.clone(),
        max_items: schema.max_items,
        min_items: schema.min_items,
        unique_items: schema.unique_items,
        multiple_of: schema.multiple_of,
        required: schema.required.clone(),
        items: schema.items.clone(),
        properties: schema.properties.clone(),
        external_docs: schema.external_docs.clone(),
        example: schema.example.clone(),
        x_kubernetes_preserve_unknown_fields: schema.x_kubernetes_preserve_unknown_fields,
        x_kubernetes_validations: schema.x_kubernetes_validations.clone(),
        ..JSONSchemaProps::default()
    };
    if allowed != *schema {
        let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern \
                      MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields \
                      XValidations] fields are allowed at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::new(at, super::super::error::FieldErrorKind::Invalid, None, detail));
    }
}

/// Returns an error for the first keyword, at any depth, with which a structural schema cannot be
/// built.
fn unsupported_keyword(schema: &JSONSchemaProps) -> Option<String> {
    let text = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let unsupported_keywords = [
        ("id", text(&schema.id)),
        ("schema", text(&schema.schema)),
        ("$ref", text(&schema.ref_path)),
        ("patternProperties", schema.pattern_properties.as_ref().is_some_and(|map| !map.is_empty())),
        ("dependencies", schema.dependencies.as_ref().is_some_and(|map| !map.is_empty())),
        ("additionalItems", schema.additional_items.is_some()),
        ("definitions", schema.definitions.as_ref().is_some_and(|map| !map.is_empty())),
    ];
    if let Some((keyword, _)) = unsupported_keywords.into_iter().find(|(_, set)| *set) {
        return Some(format!("OpenAPIV3Schema '{keyword}' is not supported"));
    }
    if schema.x_kubernetes_preserve_unknown_fields == Some(false) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned());
    }
    if matches!(schema.items, Some(JSONSchemaPropsOrArray::Schemas(_))) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let branches = [&schema.all_of, &schema.any_of, &schema.one_of].into_iter().flatten().flatten();
    branches
        .chain(schema.not.as_deref())
        .chain(items(schema))
        .chain(additional_schema(schema))
        .chain(properties(schema).map(|(_, property)| property))
        .find_map(unsupported_keyword)
}

/// The position of a node in the schema, which forbids some keywords.
#[derive(Clone)]
struct SchemaPosition {
    is_root: bool,
    defaults: DefaultsPolicy,
    is_inside_metadata: bool,
    /// Path of the nearest ancestor list whose elements cannot be correlated between the stored and
    /// the new object; `None` if there is none.
    uncorrelatable: Option<String>,
}

#[derive(Clone)]
enum DefaultsPolicy {
    Allowed,
    Forbidden(String),
}

struct OpenApiValidator {
    schema_errors: Vec<FieldError>,
    cel_errors: Vec<FieldError>,
    costs: cel::CostTotal,
}

impl OpenApiValidator {
    fn validate_node(
        &mut self,
        at: &Path<'_>,
        schema: &JSONSchemaProps,
        built_schema: Option<&Schema>,
        position: &SchemaPosition,
        cardinality: cel::Cardinality,
    ) {
        let error_count = self.schema_errors.len();
        self.validate_keywords(at, schema, position);
        let below = cardinality.below(schema);
        if let Some(kind) = &schema.additional_properties {
            let at = at.child("additionalProperties");
            if properties(schema).next().is_some() && !matches!(kind, JSONSchemaPropsOrBool::Bool(true)) {
                let detail = "additionalProperties and properties are mutual exclusive";
                self.schema_errors.push(FieldError::forbidden(&at, detail));
            }
            if let Some(values) = additional_schema(schema) {
                let mut position = SchemaPosition { is_root: false, ..position.clone() };
                if position.is_inside_metadata {
                    let reason = "inside additionalProperties applying to object metadata".to_owned();
                    position.defaults = DefaultsPolicy::Forbidden(reason);
                }
                self.validate_node(&at, values, built_schema.and_then(Schema::map_values), &position, below);
            }
        }
        let properties_at = at.child("properties");
        for (name, property) in properties(schema) {
            let mut inner = SchemaPosition { is_root: false, ..position.clone() };
            if (position.is_root || schema.x_kubernetes_embedded_resource == Some(true))
                && super::super::prune::is_meta_field(name)
            {
                inner.is_inside_metadata = true;
                if position.is_root {
                    inner.defaults = DefaultsPolicy::Forbidden(format!("in top-level {name}"));
                }
            }
            let built_schema = built_schema.and_then(|built_schema| built_schema.properties.get(name));
            self.validate_node(&properties_at.key(name), property, built_schema, &inner, below);
        }
        let nested = SchemaPosition { is_root: false, ..position.clone() };
        if let Some(not) = schema.not.as_deref() {
            self.validate_node(&at.child("not"), not, None, &nested, cardinality);
        }
        for (keyword, branches) in [("allOf", &schema.all_of), ("oneOf", &schema.one_of), ("anyOf", &schema.any_of)] {
            for (i, branch) in branches.iter().flatten().enumerate() {
                self.validate_node(&at.child(keyword).index(i), branch, None, &nested, cardinality);
            }
        }
        if let Some(items) = items(schema) {
            let mut inner = SchemaPosition { is_root: false, ..position.clone() };
            if schema.x_kubernetes_list_type.as_deref() != Some("map") && inner.uncorrelatable.is_none() {
                inner.uncorrelatable = Some(at.to_string());
            }
            self.validate_node(
                &at.child("items"),
                items,
                built_schema.and_then(|built_schema| built_schema.items.as_deref()),
                &inner,
                below,
            );
        }
        self.validate_extensions(at, schema);
        self.validate_rule_texts(at, schema);
        if self.schema_errors.len() == error_count
            && let Some(built_schema) = built_schema.filter(|built_schema| !built_schema.rules.is_empty())
        {
            self.validate_rules(at, schema, built_schema, position, cardinality);
        }
    }

    fn validate_keywords(&mut self, at: &Path<'_>, schema: &JSONSchemaProps, position: &SchemaPosition) {
        let errors = &mut self.schema_errors;
        let type_ = schema.type_.as_deref().unwrap_or_default();
        if !type_.is_empty() && !SCHEMA_TYPES.contains(&type_) {
            errors.push(FieldError::not_supported(&at.child("type"), type_, &SCHEMA_TYPES));
        }
        if let (Some(_), DefaultsPolicy::Forbidden(reason)) = (&schema.default, &position.defaults) {
            errors.push(FieldError::forbidden(&at.child("default"), format!("must not be set {reason}")));
        }
        for (keyword, set) in [
            ("id", schema.id.as_deref().is_some_and(|id| !id.is_empty())),
            ("additionalItems", schema.additional_items.is_some()),
            ("patternProperties", schema.pattern_properties.as_ref().is_some_and(|map| !map.is_empty())),
            ("definitions", schema.definitions.as_ref().is_some_and(|map| !map.is_empty())),
            ("dependencies", schema.dependencies.is_some()),
            ("$ref", schema.ref_path.is_some()),
        ] {
            if set {
                errors.push(FieldError::forbidden(&at.child(keyword), format!("{keyword} is not supported")));
            }
        }
        if type_ == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            errors.push(FieldError::forbidden(&at.child("type"), detail));
        }
        if matches!(schema.items, Some(JSONSchemaPropsOrArray::Schemas(_))) {
            errors.push(FieldError::forbidden(&at.child("items"), "items must be a schema object and not an array"));
        }
        if position.is_inside_metadata && schema.x_kubernetes_embedded_resource == Some(true) {
            let detail = "must not be used inside of resource meta";
            errors.push(FieldError::forbidden(&at.child("x-kubernetes-embedded-resource"), detail));
        }
        if schema.unique_items == Some(true) {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            errors.push(FieldError::forbidden(&at.child("uniqueItems"), detail));
        }
    }

    fn validate_extensions(&mut self, at: &Path<'_>, schema: &JSONSchemaProps) {
        let errors = &mut self.schema_errors;
        if schema.x_kubernetes_preserve_unknown_fields == Some(false) {
            errors.push(FieldError::invalid(
                &at.child("x-kubernetes-preserve-unknown-fields"),
                false,
                "must be true or undefined",
            ));
        }
        if let Some(map_type) = schema.x_kubernetes_map_type.as_deref() {
            validate_extension_type(at, schema, "object", "x-kubernetes-map-type", errors);
            if !matches!(map_type, "atomic" | "granular") {
                errors.push(FieldError::not_supported(
                    &at.child("x-kubernetes-map-type"),
                    map_type,
                    &["atomic", "granular"],
                ));
            }
        }
        let list_at = at.child("x-kubernetes-list-type");
        let keys = schema.x_kubernetes_list_map_keys.as_deref().unwrap_or_default();
        if let Some(list_type) = schema.x_kubernetes_list_type.as_deref() {
            if validate_extension_type(at, schema, "array", "x-kubernetes-list-type", errors) && list_type == "set" {
                validate_set_items(&at.child("items"), schema, errors);
            }
            if !matches!(list_type, "atomic" | "set" | "map") {
                errors.push(FieldError::not_supported(&list_at, list_type, &["atomic", "set", "map"]));
            }
            if !keys.is_empty() && list_type != "map" {
                let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
                errors.push(FieldError::invalid(&list_at, list_type, detail));
            }
            if list_type == "map" {
                validate_map_keys(at, schema, keys, errors);
            }
            validate_elements(at, schema, list_type, keys, errors);
        } else if !keys.is_empty() {
            errors.push(FieldError::required(&list_at, "must be map if x-kubernetes-list-map-keys is non-empty"));
        }
    }

    /// Validates the texts of each rule, before the rule itself is compiled.
    fn validate_rule_texts(&mut self, at: &Path<'_>, schema: &JSONSchemaProps) {
        let rules_at = at.child("x-kubernetes-validations");
        for (i, rule) in schema.x_kubernetes_validations.iter().flatten().enumerate() {
            validate_rule_text(&rules_at.index(i), schema, rule, &mut self.schema_errors);
        }
    }

    fn validate_rules(
        &mut self,
        at: &Path<'_>,
        schema: &JSONSchemaProps,
        built_schema: &Schema,
        position: &SchemaPosition,
        cardinality: cel::Cardinality,
    ) {
        let rules_at = at.child("x-kubernetes-validations");
        let is_resource = position.is_root || built_schema.is_embedded_resource;
        for (i, rule) in schema.x_kubernetes_validations.iter().flatten().enumerate() {
            let at = rules_at.index(i);
            cel::check_rule(
                &cel::RuleContext {
                    at: &at,
                    schema: built_schema,
                    is_resource,
                    cardinality,
                    uncorrelatable: position.uncorrelatable.as_deref(),
                },
                rule,
                &mut self.costs,
                &mut self.cel_errors,
            );
        }
    }
}

fn validate_rule_text(at: &Path<'_>, schema: &JSONSchemaProps, rule: &ValidationRule, errors: &mut Vec<FieldError>) {
    let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
    let (message, message_expression, path) =
        (text(&rule.message), text(&rule.message_expression), text(&rule.field_path));
    let line_break = |text: &str| text.contains(['\n', '\r']);
    let blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    if rule.rule.trim().is_empty() {
        errors.push(FieldError::required(&at.child("rule"), "rule is not specified"));
    } else if blank(&message) {
        errors.push(FieldError::invalid(&at.child("message"), message, "must be non-empty if specified"));
    } else if line_break(message.trim()) {
        errors.push(FieldError::invalid(&at.child("message"), message, "must not contain line breaks"));
    } else if line_break(rule.rule.trim()) && message.trim().is_empty() {
        errors
            .push(FieldError::required(&at.child("message"), "message must be specified if rule contains line breaks"));
    }
    if blank(&message_expression) {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(&at.child("messageExpression"), detail));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !RULE_REASONS.contains(reason)) {
        errors.push(FieldError::not_supported(&at.child("reason"), reason, &RULE_REASONS));
    }
    let path_at = at.child("fieldPath");
    if blank(&path) {
        errors.push(FieldError::invalid(&path_at, path.as_str(), "must be non-empty if specified"));
    }
    if line_break(&path) {
        errors.push(FieldError::invalid(&path_at, path.as_str(), "must not contain line breaks"));
    }
    if !path.is_empty() && resolve_field_path(&path, schema, true).is_err() {
        errors.push(FieldError::invalid(&path_at, path.as_str(), "must be a valid path"));
    }
}

/// Returns true if the schema has the type that an extension requires; otherwise records an error.
fn validate_extension_type(
    at: &Path<'_>,
    schema: &JSONSchemaProps,
    required_type: &str,
    extension: &str,
    errors: &mut Vec<FieldError>,
) -> bool {
    let type_ = schema.type_.as_deref().unwrap_or_default();
    let detail = format!("must be {required_type} if {extension} is specified");
    match type_ {
        "" => errors.push(FieldError::required(&at.child("type"), detail)),
        other if other != required_type => errors.push(FieldError::invalid(&at.child("type"), other, detail)),
        _ => return true,
    }
    false
}

/// Checks that the elements of a set are atomic, because they are compared as a whole.
fn validate_set_items(at: &Path<'_>, schema: &JSONSchemaProps, errors: &mut Vec<FieldError>) {
    let Some(element) = items(schema) else { return };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = || element.x_kubernetes_list_type.clone().map_or(serde_json::Value::Null, Into::into);
    match element.type_.as_deref() {
        Some("array") if element.x_kubernetes_list_type.as_deref().is_some_and(|list_type| list_type != "atomic") => {
            errors.push(FieldError::invalid(&at.child("x-kubernetes-list-type"), list_type(), detail));
        }
        Some("object") if element.x_kubernetes_map_type.as_deref() != Some("atomic") => {
            errors.push(FieldError::invalid(&at.child("x-kubernetes-map-type"), list_type(), detail));
        }
        _ => {}
    }
}

fn validate_map_keys(at: &Path<'_>, schema: &JSONSchemaProps, keys: &[String], errors: &mut Vec<FieldError>) {
    let keys_at = at.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(&keys_at, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items_at = at.child("items");
    let Some(element) = items(schema) else {
        errors.push(FieldError::required(&items_at, "must have a schema if x-kubernetes-list-type is map"));
        return;
    };
    let element_type = element.type_.as_deref().unwrap_or_default();
    if element_type != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(&items_at.child("type"), element_type, detail));
        return;
    }
    let properties_at = items_at.child("properties");
    let mut seen = std::collections::BTreeSet::new();
    for key in keys {
        match properties(element).find(|(name, _)| *name == key) {
            Some((_, property)) if matches!(property.type_.as_deref(), Some("array" | "object")) => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&properties_at.key(key).child("type"), element_type, detail));
            }
            Some(_) => {}
            None => errors.push(FieldError::invalid(
                &keys_at,
                keys.to_vec(),
                "entries must all be names of item properties",
            )),
        }
        if !seen.insert(key) {
            errors.push(FieldError::invalid(&keys_at, keys.to_vec(), "must not contain duplicate entries"));
        }
    }
}

/// Checks that elements of sets and maps cannot be null, and that a map's key fields are always
/// present.
fn validate_elements(
    at: &Path<'_>,
    schema: &JSONSchemaProps,
    list_type: &str,
    keys: &[String],
    errors: &mut Vec<FieldError>,
) {
    let Some(element) = items(schema).filter(|_| matches!(list_type, "set" | "map")) else { return };
    let items_at = at.child("items");
    if element.nullable == Some(true) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&items_at.child("nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    let properties_at = items_at.child("properties");
    for key in keys {
        let Some((_, property)) = properties(element).find(|(name, _)| *name == key) else { continue };
        let at = properties_at.key(key);
        let required = element.required.iter().flatten().any(|name| name == key);
        if !required && property.default.is_none() {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(&at.child("default"), detail));
        }
        if property.nullable == Some(true) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&at.child("nullable"), detail));
        }
    }
}

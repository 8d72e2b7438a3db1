//! Checks that a schema is structural: every value has one type, which is declared outside `allOf`,
//! `anyOf`, `oneOf` and `not`. Only then can admission distinguish known fields from unknown
//! fields. Errors are sorted by their text, as in the API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::super::error::FieldError;
use super::super::path::Path;
use super::super::regexp::Regexp;
use super::super::schema::{additional_schema, items, properties};

#[derive(Clone, Copy, PartialEq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

/// Returns everything that prevents `schema` from being structural.
pub(crate) fn validate(at: &Path<'_>, schema: &JSONSchemaProps) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_invariants(at, schema, SchemaLevel::Root, &mut errors);
    for (keyword, branches) in logical_keywords(schema) {
        for (i, branch) in branches {
            validate_completeness(at, Some(schema), &branch_path(&at.child(keyword), i), branch, &mut errors);
        }
    }
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn is_true(flag: Option<bool>) -> bool {
    flag.unwrap_or_default()
}

fn validate_invariants(at: &Path<'_>, schema: &JSONSchemaProps, level: SchemaLevel, errors: &mut Vec<FieldError>) {
    let type_ = schema.type_.as_deref().unwrap_or_default();
    let embedded = is_true(schema.x_kubernetes_embedded_resource);
    let preserves_unknown_fields = is_true(schema.x_kubernetes_preserve_unknown_fields);
    if type_ == "array" && schema.items.is_none() {
        errors.push(FieldError::required(&at.child("items"), "must be specified"));
    }
    if let Some(items) = items(schema) {
        validate_invariants(&at.child("items"), items, SchemaLevel::Item, errors);
    }
    let properties_at = at.child("properties");
    for (name, property) in properties(schema) {
        validate_invariants(&properties_at.key(name), property, SchemaLevel::Field, errors);
    }
    if schema.additional_properties.is_some() {
        let at = at.child("additionalProperties");
        if level == SchemaLevel::Root {
            errors.push(FieldError::forbidden(&at, "must not be used at the root"));
        }
        if let Some(values) = additional_schema(schema) {
            validate_invariants(&at, values, SchemaLevel::Field, errors);
        }
        if embedded {
            errors.push(FieldError::forbidden(&at, "must not be used if x-kubernetes-embedded-resource is set"));
        }
    }
    if is_true(schema.x_kubernetes_int_or_string) {
        let detail = "must be false if x-kubernetes-int-or-string is true";
        if preserves_unknown_fields {
            errors.push(FieldError::invalid(&at.child("x-kubernetes-preserve-unknown-fields"), true, detail));
        }
        if embedded {
            errors.push(FieldError::invalid(&at.child("x-kubernetes-embedded-resource"), true, detail));
        }
    }
    let skip_any_of = is_int_or_string(schema.any_of.as_deref());
    let skip_first_all_of =
        schema.all_of.iter().flatten().next().is_some_and(|first| is_int_or_string(first.any_of.as_deref()));
    validate_value_validation(at, schema, skip_any_of, skip_first_all_of, errors);
    validate_type(at, schema, level, errors);
    validate_metadata(at, schema, level, errors);
    if embedded && !preserves_unknown_fields && properties(schema).next().is_none() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&at.child("properties"), detail));
    }
}

fn validate_type(at: &Path<'_>, schema: &JSONSchemaProps, level: SchemaLevel, errors: &mut Vec<FieldError>) {
    let type_ = schema.type_.as_deref().unwrap_or_default();
    let type_at = at.child("type");
    if is_true(schema.x_kubernetes_embedded_resource) && type_ != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if type_.is_empty() {
            FieldError::required(&type_at, detail)
        } else {
            FieldError::invalid(&type_at, type_, detail)
        });
    } else if type_.is_empty()
        && !is_true(schema.x_kubernetes_int_or_string)
        && !is_true(schema.x_kubernetes_preserve_unknown_fields)
    {
        let detail = match level {
            SchemaLevel::Root => "must not be empty at the root",
            SchemaLevel::Item => "must not be empty for specified array items",
            SchemaLevel::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&type_at, detail));
    }
    if level == SchemaLevel::Root && !type_.is_empty() && type_ != "object" {
        errors.push(FieldError::invalid(&type_at, type_, "must be object at the root"));
    }
}

/// Checks that `kind` and `apiVersion` are strings, and that the schema of metadata restricts only
/// the name.
fn validate_metadata(at: &Path<'_>, schema: &JSONSchemaProps, level: SchemaLevel, errors: &mut Vec<FieldError>) {
    let checked = level == SchemaLevel::Root || is_true(schema.x_kubernetes_embedded_resource);
    let properties_at = at.child("properties");
    for (name, property) in properties(schema) {
        let at = properties_at.key(name);
        let type_ = property.type_.as_deref().unwrap_or_default();
        match name.as_str() {
            "kind" | "apiVersion" if checked && type_ != "string" => {
                errors.push(FieldError::invalid(&at.child("type"), type_, "must be string"));
            }
            "metadata" => {
                if checked && type_ != "object" {
                    errors.push(FieldError::invalid(&at.child("type"), type_, "must be object"));
                }
                if level == SchemaLevel::Root && !restricts_name_only(property) {
                    let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
                    errors.push(FieldError::forbidden(&at, detail));
                }
            }
            _ => {}
        }
    }
}

fn restricts_name_only(metadata: &JSONSchemaProps) -> bool {
    let mut rest = metadata.clone();
    rest.type_ = None;
    rest.default = None;
    if properties(metadata).all(|(name, _)| matches!(name.as_str(), "name" | "generateName")) {
        rest.properties = None;
    }
    rest == JSONSchemaProps::default()
}

/// Returns true for `anyOf: [{type: integer}, {type: string}]`, the only case in which a logical
/// keyword may contain types.
fn is_int_or_string(any_of: Option<&[JSONSchemaProps]>) -> bool {
    let only = |name: &str| JSONSchemaProps { type_: Some(name.to_owned()), ..JSONSchemaProps::default() };
    any_of.is_some_and(|branches| branches == [only("integer"), only("string")])
}

fn validate_value_validation(
    at: &Path<'_>,
    schema: &JSONSchemaProps,
    skip_any_of: bool,
    skip_first_all_of: bool,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for (i, branch) in schema.any_of.iter().flatten().enumerate() {
            validate_nested(&at.child("anyOf").index(i), branch, false, errors);
        }
    }
    for (i, branch) in schema.all_of.iter().flatten().enumerate() {
        validate_nested(&at.child("allOf").index(i), branch, skip_first_all_of && i == 0, errors);
    }
    for (i, branch) in schema.one_of.iter().flatten().enumerate() {
        validate_nested(&at.child("oneOf").index(i), branch, false, errors);
    }
    if let Some(not) = schema.not.as_deref() {
        validate_nested(&at.child("not"), not, false, errors);
    }
    if let Some(pattern) = schema.pattern.as_deref().filter(|pattern| !pattern.is_empty())
        && let Err(error) = Regexp::new(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(&at.child("pattern"), pattern, detail));
    }
}

/// Checks a schema inside a logical keyword. It may validate values but not declare anything.
fn validate_nested(at: &Path<'_>, schema: &JSONSchemaProps, skip_any_of: bool, errors: &mut Vec<FieldError>) {
    validate_value_validation(at, schema, skip_any_of, false, errors);
    if let Some(items) = items(schema) {
        validate_nested(&at.child("items"), items, false, errors);
    }
    let properties_at = at.child("properties");
    for (name, property) in properties(schema) {
        let at = properties_at.key(name);
        validate_nested(&at, property, false, errors);
        if name == "metadata" {
            errors.push(FieldError::forbidden(&at, "must not be specified in a nested context"));
        }
    }
    let set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    let additional_set = !matches!(
        schema.additional_properties,
        None | Some(k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaPropsOrBool::Bool(
            false
        ))
    );
    let empty = "must be empty to be structural";
    let undefined = "must be undefined to be structural";
    let not_true = "must be false to be structural";
    for (keyword, is_set, detail) in [
        ("type", set(&schema.type_), empty),
        ("additionalProperties", additional_set, undefined),
        ("default", schema.default.is_some(), undefined),
        ("title", set(&schema.title), empty),
        ("description", set(&schema.description), empty),
        ("nullable", is_true(schema.nullable), not_true),
        ("x-kubernetes-preserve-unknown-fields", is_true(schema.x_kubernetes_preserve_unknown_fields), not_true),
        ("x-kubernetes-embedded-resource", is_true(schema.x_kubernetes_embedded_resource), not_true),
        ("x-kubernetes-int-or-string", is_true(schema.x_kubernetes_int_or_string), not_true),
        ("x-kubernetes-list-map-keys", schema.x_kubernetes_list_map_keys.iter().flatten().next().is_some(), empty),
        ("x-kubernetes-list-type", schema.x_kubernetes_list_type.is_some(), undefined),
        ("x-kubernetes-map-type", schema.x_kubernetes_map_type.is_some(), undefined),
        ("x-kubernetes-validations", schema.x_kubernetes_validations.iter().flatten().next().is_some(), empty),
    ] {
        if is_set {
            errors.push(FieldError::forbidden(&at.child(keyword), detail));
        }
    }
}

type Branches<'a> = Vec<(Option<usize>, &'a JSONSchemaProps)>;

fn logical_keywords(schema: &JSONSchemaProps) -> [(&'static str, Branches<'_>); 4] {
    fn numbered(branches: Option<&Vec<JSONSchemaProps>>) -> Branches<'_> {
        branches.into_iter().flatten().enumerate().map(|(i, branch)| (Some(i), branch)).collect()
    }
    [
        ("not", schema.not.iter().map(|not| (None, &**not)).collect()),
        ("allOf", numbered(schema.all_of.as_ref())),
        ("anyOf", numbered(schema.any_of.as_ref())),
        ("oneOf", numbered(schema.one_of.as_ref())),
    ]
}

fn branch_path<'a>(at: &'a Path<'a>, index: Option<usize>) -> Path<'a> {
    index.map_or(*at, |i| at.index(i))
}

/// Checks that every field in a branch of a logical keyword is also declared outside such keywords.
fn validate_completeness(
    declared_at: &Path<'_>,
    declared: Option<&JSONSchemaProps>,
    at: &Path<'_>,
    branch: &JSONSchemaProps,
    errors: &mut Vec<FieldError>,
) {
    let Some(declared) = declared else {
        errors.push(FieldError::required(declared_at, format!("because it is defined in {at}")));
        return;
    };
    for (keyword, branches) in logical_keywords(branch) {
        for (i, inner) in branches {
            validate_completeness(declared_at, Some(declared), &branch_path(&at.child(keyword), i), inner, errors);
        }
    }
    if let Some(inner) = items(branch) {
        validate_completeness(&declared_at.child("items"), items(declared), &at.child("items"), inner, errors);
    }
    let (declared_properties, branch_properties) = (declared_at.child("properties"), at.child("properties"));
    for (name, inner) in properties(branch) {
        let property = properties(declared).find(|(declared, _)| *declared == name).map(|(_, property)| property);
        validate_completeness(&declared_properties.key(name), property, &branch_properties.key(name), inner, errors);
    }
}

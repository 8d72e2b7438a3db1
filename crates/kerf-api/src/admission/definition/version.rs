//! Validates the parts of a version other than its schema: deprecation, subresources, printer
//! columns, selectable fields.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinitionVersion, CustomResourceSubresources, JSONSchemaProps,
    SelectableField,
};

use super::super::error::FieldError;
use super::super::path::Path;
use super::super::schema;
use super::{openapi, schema_of, shared_by_all_versions};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const MAX_SELECTABLE_FIELDS: i64 = 8;

/// Validates the parts of a version that are not equal in all versions.
pub(crate) fn validate(
    at: &Path<'_>,
    version: &CustomResourceDefinitionVersion,
    all: &[CustomResourceDefinitionVersion],
    errors: &mut Vec<FieldError>,
) {
    validate_deprecation(&at.child("deprecationWarning"), version, errors);
    if shared_by_all_versions(all, |version| &version.schema).is_none()
        && let Some(schema) = schema_of(version)
    {
        openapi::validate(&at.child("schema"), schema, has_status(version), errors);
    }
    if shared_by_all_versions(all, |version| &version.subresources).is_none() {
        validate_subresources(&at.child("subresources"), version.subresources.as_ref(), errors);
    }
    if shared_by_all_versions(all, |version| &version.additional_printer_columns).is_none() {
        validate_columns(&at.child("additionalPrinterColumns"), version, errors);
    }
    if shared_by_all_versions(all, |version| &version.selectable_fields).is_none() {
        validate_selectable_fields(&at.child("selectableFields"), version, errors);
    }
}

/// Validates the parts that all versions share. The API server reports their errors under `spec`
/// itself.
pub(crate) fn validate_shared(
    at: &Path<'_>,
    first: &CustomResourceDefinitionVersion,
    all: &[CustomResourceDefinitionVersion],
    errors: &mut Vec<FieldError>,
) {
    if shared_by_all_versions(all, |version| &version.schema).is_some()
        && let Some(schema) = schema_of(first)
    {
        openapi::validate(&at.child("validation"), schema, all.iter().any(has_status), errors);
    }
    if shared_by_all_versions(all, |version| &version.subresources).is_some() {
        validate_subresources(&at.child("subresources"), first.subresources.as_ref(), errors);
    }
    if shared_by_all_versions(all, |version| &version.additional_printer_columns).is_some() {
        validate_columns(&at.child("additionalPrinterColumns"), first, errors);
    }
    if shared_by_all_versions(all, |version| &version.selectable_fields).is_some() {
        validate_selectable_fields(&at.child("selectableFields"), first, errors);
    }
}

fn has_status(version: &CustomResourceDefinitionVersion) -> bool {
    version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
}

fn validate_deprecation(at: &Path<'_>, version: &CustomResourceDefinitionVersion, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.deprecation_warning.as_deref() else { return };
    let mut push = |detail: String| errors.push(FieldError::invalid(at, warning, detail));
    if version.deprecated != Some(true) {
        push("can only be set for deprecated versions".to_owned());
        return;
    }
    if warning.len() > 256 {
        push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        push("must not be an empty string".to_owned());
    }
    if let Some((i, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        push(format!("must only contain printable UTF-8 characters; non-printable character found at index {i}"));
    }
}

fn validate_subresources(
    at: &Path<'_>,
    subresources: Option<&CustomResourceSubresources>,
    errors: &mut Vec<FieldError>,
) {
    let Some(scale) = subresources.and_then(|subresources| subresources.scale.as_ref()) else { return };
    let selector = scale.label_selector_path.as_deref().unwrap_or_default();
    for (field, path, roots, under) in [
        ("scale.specReplicasPath", scale.spec_replicas_path.as_str(), &[".spec."][..], ".spec"),
        ("scale.statusReplicasPath", scale.status_replicas_path.as_str(), &[".status."], ".status"),
        ("scale.labelSelectorPath", selector, &[".spec.", ".status."], "either .spec or .status"),
    ] {
        let at = at.child(field);
        if path.is_empty() {
            if field != "scale.labelSelectorPath" {
                errors.push(FieldError::required(&at, ""));
            }
        } else if !path.starts_with('.') {
            errors.push(FieldError::invalid(&at, path, "must be a simple json path starting with ."));
        } else if !roots.iter().any(|root| path.starts_with(root)) {
            errors.push(FieldError::invalid(&at, path, format!("should be a json path under {under}")));
        }
    }
}

fn validate_columns(at: &Path<'_>, version: &CustomResourceDefinitionVersion, errors: &mut Vec<FieldError>) {
    for (i, column) in version.additional_printer_columns.iter().flatten().enumerate() {
        validate_column(&at.index(i), column, errors);
    }
}

fn validate_column(at: &Path<'_>, column: &CustomResourceColumnDefinition, errors: &mut Vec<FieldError>) {
    if column.name.is_empty() {
        errors.push(FieldError::required(&at.child("name"), ""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    if column.type_.is_empty() {
        errors.push(FieldError::required(&at.child("type"), types));
    } else if !COLUMN_TYPES.contains(&column.type_.as_str()) {
        errors.push(FieldError::invalid(&at.child("type"), column.type_.as_str(), types));
    }
    if let Some(format) =
        column.format.as_deref().filter(|format| !format.is_empty() && !COLUMN_FORMATS.contains(format))
    {
        let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(FieldError::invalid(&at.child("format"), format, detail));
    }
    if column.json_path.is_empty() {
        errors.push(FieldError::required(&at.child("JSONPath"), ""));
    } else if !column.json_path.starts_with('.') {
        let detail = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(&at.child("JSONPath"), column.json_path.as_str(), detail));
    }
}

fn validate_selectable_fields(at: &Path<'_>, version: &CustomResourceDefinitionVersion, errors: &mut Vec<FieldError>) {
    let fields: &[SelectableField] = version.selectable_fields.as_deref().unwrap_or_default();
    let Some(schema) = schema_of(version).filter(|_| !fields.is_empty()) else { return };
    let mut seen = std::collections::BTreeSet::new();
    for (i, field) in fields.iter().enumerate() {
        let at = at.index(i);
        let at = at.child("jsonPath");
        let path = field.json_path.as_str();
        if path.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let (normalized, target) = match resolve_field_path(path, schema, false) {
            Ok(resolved) => resolved,
            Err(detail) => {
                errors.push(FieldError::invalid(&at, path, format!("is an invalid path: {detail}")));
                continue;
            }
        };
        if normalized == "metadata" || normalized.starts_with("metadata.") {
            errors.push(FieldError::invalid(&at, path, "must not point to fields in metadata"));
        }
        if !matches!(target.type_.as_deref(), Some("string" | "boolean" | "integer")) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(&at, path, detail));
        }
        if !seen.insert(normalized) {
            errors.push(FieldError::duplicate(&at, path));
        }
    }
    if seen.len() as i64 > MAX_SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(at, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}

/// Resolves a JSON path (`.a.b`, `.a['b/c']`) in a schema. Returns the path as a field path, and
/// the schema at its end.
pub(crate) fn resolve_field_path<'a>(
    path: &str,
    root: &'a JSONSchemaProps,
    brackets: bool,
) -> Result<(String, &'a JSONSchemaProps), String> {
    let mut normalized = String::new();
    let mut schema = root;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if end == 0 {
                let text = after.chars().next().map(String::from);
                return Err(text.map_or("unexpected end of JSON path".to_owned(), |_| {
                    "does not refer to a valid field".to_owned()
                }));
            }
            name = after[..end].to_owned();
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            (name, rest) = quoted_key(after)?;
        } else {
            let end = rest.find(['.', '[', ']']).filter(|end| *end > 0).unwrap_or(rest.len());
            return Err(format!("expected [ or . but got: {}", &rest[..end]));
        }
        let has_properties = schema::properties(schema).next().is_some();
        let next = if has_properties {
            schema::properties(schema).find(|(property, _)| **property == name).map(|(_, property)| property)
        } else {
            schema::additional_schema(schema)
        };
        schema = next.ok_or("does not refer to a valid field")?;
        if !has_properties {
            normalized = format!("{normalized}[{name}]");
        } else if normalized.is_empty() {
            normalized.push_str(&name);
        } else {
            normalized = format!("{normalized}.{name}");
        }
    }
    Ok((normalized, schema))
}

/// Reads `'key']…` after an opening bracket. Returns the key without escapes, and the text that
/// follows.
fn quoted_key(text: &str) -> Result<(String, &str), String> {
    let Some(body) = text.strip_prefix('\'') else {
        let end = text.find(['.', '[', ']']).unwrap_or(text.len());
        return Err(if text.is_empty() {
            "unexpected end of JSON path".to_owned()
        } else {
            format!("expected single quoted string but got {}", &text[..end.max(1)])
        });
    };
    let mut key = String::new();
    let mut chars = body.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => {
                let after = &body[at + 1..];
                return match after.strip_prefix(']') {
                    Some(rest) => Ok((key, rest)),
                    None if after.is_empty() => Err("unexpected end of JSON path".to_owned()),
                    None => Err(format!("expected ] but got {after}")),
                };
            }
            '\\' => key.push(match chars.next() {
                Some((_, 'a')) => '\u{7}',
                Some((_, 'b')) => '\u{8}',
                Some((_, 'f')) => '\u{c}',
                Some((_, 'n')) => '\n',
                Some((_, 'r')) => '\r',
                Some((_, 't')) => '\t',
                Some((_, 'v')) => '\u{b}',
                Some((_, '\'')) => '\'',
                Some((_, '\\')) => '\\',
                Some((_, other)) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
                None => return Err("unexpected end of JSON path".to_owned()),
            }),
            c => key.push(c),
        }
    }
    Err("unexpected end of JSON path".to_owned())
}

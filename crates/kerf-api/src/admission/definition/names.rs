//! Validates the names that a definition gives to its kind.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionNames;

use super::super::error::FieldError;
use super::super::names::dns1035_label;
use super::super::path::Path;

/// Reports each of the four required names that is missing.
pub(crate) fn validate_required(at: &Path<'_>, names: &CustomResourceDefinitionNames, errors: &mut Vec<FieldError>) {
    for (field, name) in [
        ("plural", Some(&names.plural)),
        ("singular", names.singular.as_ref()),
        ("kind", Some(&names.kind)),
        ("listKind", names.list_kind.as_ref()),
    ] {
        if name.is_none_or(String::is_empty) {
            errors.push(FieldError::required(&at.child(field), ""));
        }
    }
}

/// Validates the syntax of every name that is present.
pub(crate) fn validate(at: &Path<'_>, names: &CustomResourceDefinitionNames, errors: &mut Vec<FieldError>) {
    let list_kind = names.list_kind.as_deref().unwrap_or_default();
    for (field, name) in
        [("plural", names.plural.as_str()), ("singular", names.singular.as_deref().unwrap_or_default())]
    {
        let details = dns1035_label(name);
        if !name.is_empty() && !details.is_empty() {
            errors.push(FieldError::invalid(&at.child(field), name, details.join(",")));
        }
    }
    for (field, name) in [("kind", names.kind.as_str()), ("listKind", list_kind)] {
        let details = dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !details.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", details.join(","));
            errors.push(FieldError::invalid(&at.child(field), name, detail));
        }
    }
    validate_each(&at.child("shortNames"), names.short_names.as_deref().unwrap_or_default(), errors);
    if !names.kind.is_empty() && names.kind == list_kind {
        errors.push(FieldError::invalid(&at.child("listKind"), list_kind, "kind and listKind may not be the same"));
    }
    validate_each(&at.child("categories"), names.categories.as_deref().unwrap_or_default(), errors);
}

fn validate_each(at: &Path<'_>, names: &[String], errors: &mut Vec<FieldError>) {
    for (i, name) in names.iter().enumerate() {
        let details = dns1035_label(name);
        if !details.is_empty() {
            errors.push(FieldError::invalid(&at.index(i), name.as_str(), details.join(",")));
        }
    }
}

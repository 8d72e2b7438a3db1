//! Kubernetes' rules for metadata: names, namespaces by scope, labels, annotations, owners,
//! finalizers, and the fields that an update may not change. The input is decoded metadata, so
//! every field has its declared type.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::error::FieldError;
use super::super::names;
use super::super::path::Path;
use super::super::text;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const ANNOTATIONS_MAX_BYTES: i64 = 256 << 10;

/// The rule for an object's name.
#[derive(Clone, Copy)]
pub(crate) enum NameRule {
    /// A DNS subdomain: custom resources and their definitions.
    Subdomain,
    /// Any text that can be a URL path segment: the minimum for every object.
    PathSegment,
}

impl NameRule {
    fn check_name(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => names::dns1123_subdomain(name),
            Self::PathSegment => names::path_segment(name),
        }
    }

    fn check_prefix(self, prefix: &str) -> Vec<String> {
        match self {
            Self::Subdomain => names::generate_name_prefix(prefix),
            Self::PathSegment => names::path_segment_prefix(prefix),
        }
    }
}

/// Validates metadata on its own. The name may be absent if there is a prefix (`generateName`) for
/// it.
pub(crate) fn validate(
    at: &Path<'_>,
    metadata: &Map<String, Value>,
    namespaced: bool,
    rule: NameRule,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, prefix) = (string_field(metadata, "name"), string_field(metadata, "generateName"));
    if !prefix.is_empty() {
        let at = at.child("generateName");
        errors.extend(rule.check_prefix(prefix).into_iter().map(|detail| FieldError::invalid(&at, prefix, detail)));
    }
    if !name.is_empty() {
        let at = at.child("name");
        errors.extend(rule.check_name(name).into_iter().map(|detail| FieldError::invalid(&at, name, detail)));
    } else if prefix.is_empty() {
        errors.push(FieldError::required(&at.child("name"), "name or generateName is required"));
    }
    let namespace = string_field(metadata, "namespace");
    let namespace_at = at.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(&namespace_at, "")),
        (true, false) => errors.extend(
            names::dns1123_label(namespace)
                .into_iter()
                .map(|detail| FieldError::invalid(&namespace_at, namespace, detail)),
        ),
        (false, false) => errors.push(FieldError::forbidden(&namespace_at, "not allowed on this type")),
        (false, true) => {}
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|generation| *generation < 0) {
        errors.push(FieldError::invalid(&at.child("generation"), generation, "must be greater than or equal to 0"));
    }
    errors.extend(validate_labels(&at.child("labels"), metadata));
    errors.extend(validate_annotations(&at.child("annotations"), metadata));
    errors.extend(validate_owner_references(&at.child("ownerReferences"), metadata));
    errors.extend(validate_finalizers(&at.child("finalizers"), metadata));
    errors
}

/// Validates a change of metadata. The resource version is not checked; that is left to the server.
pub(crate) fn validate_update(at: &Path<'_>, new: &Map<String, Value>, old: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.contains_key("deletionTimestamp") {
        let old_finalizers: BTreeSet<&str> = string_list(old, "finalizers").collect();
        let added: BTreeSet<&str> =
            string_list(new, "finalizers").filter(|finalizer| !old_finalizers.contains(finalizer)).collect();
        if !added.is_empty() {
            let added: Vec<String> = added.into_iter().map(text::quote).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.push(FieldError::forbidden(&at.child("finalizers"), detail));
        }
    }
    let generation = |metadata: &Map<String, Value>| metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation(new) < generation(old) {
        errors.push(FieldError::invalid(&at.child("generation"), generation(new), "must not be decremented"));
    }
    for name in ["name", "namespace", "uid"] {
        let (new, old) = (string_field(new, name), string_field(old, name));
        if new != old {
            errors.push(FieldError::invalid(&at.child(name), new, "field is immutable"));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new.get(name) != old.get(name) {
            let value = new.get(name).cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(&at.child(name), value, "field is immutable"));
        }
    }
    errors.extend(validate_labels(&at.child("labels"), new));
    errors.extend(validate_annotations(&at.child("annotations"), new));
    errors.extend(validate_owner_references(&at.child("ownerReferences"), new));
    errors
}

/// Returns the API server's warnings about added finalizers that are not domain-qualified.
pub(crate) fn finalizer_warnings(new: &Map<String, Value>, old: Option<&Map<String, Value>>) -> Vec<String> {
    let old_finalizers: BTreeSet<&str> = old.map(|old| string_list(old, "finalizers").collect()).unwrap_or_default();
    let added: BTreeSet<&str> =
        string_list(new, "finalizers").filter(|finalizer| !old_finalizers.contains(finalizer)).collect();
    let mut warnings = Vec::new();
    for finalizer in added {
        let quoted = text::quote(finalizer);
        for detail in names::qualified_name(finalizer) {
            warnings.push(format!("metadata.finalizers: {quoted}: {detail}"));
        }
        if !finalizer.contains('/') && !matches!(finalizer, ORPHAN | FOREGROUND | "kubernetes") {
            let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
            warnings.push(format!(
                "metadata.finalizers: {quoted}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    warnings
}

fn validate_labels(at: &Path<'_>, metadata: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in string_map(metadata, "labels") {
        errors.extend(names::qualified_name(key).into_iter().map(|detail| FieldError::invalid(at, key, detail)));
        errors.extend(names::label_value(value).into_iter().map(|detail| FieldError::invalid(at, value, detail)));
    }
    errors
}

fn validate_annotations(at: &Path<'_>, metadata: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in string_map(metadata, "annotations") {
        let details = names::qualified_name(&key.to_lowercase());
        errors.extend(details.into_iter().map(|detail| FieldError::invalid(at, key, detail)));
        size += key.len() + value.len();
    }
    if size as i64 > ANNOTATIONS_MAX_BYTES {
        errors.push(FieldError::too_long(at, ANNOTATIONS_MAX_BYTES));
    }
    errors
}

fn validate_owner_references(at: &Path<'_>, metadata: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    let references = metadata.get("ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for reference in references.iter().filter_map(Value::as_object) {
        let (api_version, kind) = (string_field(reference, "apiVersion"), string_field(reference, "kind"));
        if api_version.rsplit('/').next().is_none_or(str::is_empty) {
            errors.push(FieldError::invalid(&at.child("apiVersion"), api_version, "version must not be empty"));
        }
        for name in ["kind", "name", "uid"] {
            if string_field(reference, name).is_empty() {
                errors.push(FieldError::invalid(&at.child(name), "", "must not be empty"));
            }
        }
        if (api_version, kind) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_with_display(at, format_owner(reference), detail));
        }
        if reference.get("controller").and_then(Value::as_bool) == Some(true) {
            let owner = format!("{kind}/{}", string_field(reference, "name"));
            match &controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {owner}"
                    );
                    errors.push(FieldError::invalid_with_display(at, format_owners(references), detail));
                }
                None => controller = Some(owner),
            }
        }
    }
    errors
}

fn format_owners(references: &[Value]) -> String {
    let formatted: Vec<String> = references.iter().filter_map(Value::as_object).map(format_owner).collect();
    format!("[{}]", formatted.join(","))
}

/// Formats an owner reference with its fields in the order of the Go type.
fn format_owner(reference: &Map<String, Value>) -> String {
    let fields: Vec<String> = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"]
        .iter()
        .filter_map(|name| Some(format!("\"{name}\":{}", text::json(reference.get(*name)?))))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn validate_finalizers(at: &Path<'_>, metadata: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let finalizers: Vec<&str> = string_list(metadata, "finalizers").collect();
    for finalizer in &finalizers {
        errors.extend(
            names::qualified_name(finalizer).into_iter().map(|detail| FieldError::invalid(at, *finalizer, detail)),
        );
    }
    if finalizers.contains(&ORPHAN) && finalizers.contains(&FOREGROUND) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(at, finalizers, detail));
    }
    errors
}

fn string_field<'a>(metadata: &'a Map<String, Value>, name: &str) -> &'a str {
    metadata.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn string_list<'a>(metadata: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a str> {
    metadata.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn string_map<'a>(metadata: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    metadata
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

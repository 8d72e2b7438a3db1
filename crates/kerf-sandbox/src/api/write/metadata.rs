//! Validation of the metadata of all kinds.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::field::{self, FieldError};
use crate::api::names::{self, NameRule};
use crate::api::object;

/// The maximum size of all annotations, keys and values together.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Validates the metadata of `object`. `old` is the stored object, or `None` on create.
pub(crate) fn validate_metadata(rule: NameRule, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let name = object::name(object);
    let prefix = object::text(object, &["metadata", "generateName"]);
    if !prefix.is_empty() {
        for problem in rule.problems(prefix, true) {
            errors.push(field::invalid("metadata.generateName", prefix, problem));
        }
    }
    if name.is_empty() {
        errors.push(field::required("metadata.name", "name or generateName is required"));
    } else if old.is_none() {
        for problem in rule.problems(name, false) {
            errors.push(field::invalid("metadata.name", name, problem));
        }
    }
    validate_labels(object, errors);
    validate_annotations(object, errors);
    validate_owners(object, errors);
    validate_finalizers(object, old, errors);
}

fn validate_labels(object: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in object::at(object, &["metadata", "labels"]).and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        for problem in names::qualified_name_problems(key) {
            errors.push(field::invalid("metadata.labels", key.as_str(), problem));
        }
        for problem in names::label_value_problems(value) {
            errors.push(field::invalid("metadata.labels", value, problem));
        }
    }
}

fn validate_annotations(object: &Value, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in
        object::at(object, &["metadata", "annotations"]).and_then(Value::as_object).into_iter().flatten()
    {
        size += key.len() + value.as_str().map_or(0, str::len);
        for problem in names::qualified_name_problems(&key.to_lowercase()) {
            errors.push(field::invalid("metadata.annotations", key.as_str(), problem));
        }
    }
    if size > MAX_ANNOTATIONS_BYTES {
        errors.push(field::too_long("metadata.annotations", MAX_ANNOTATIONS_BYTES));
    }
}

fn validate_owners(object: &Value, errors: &mut Vec<FieldError>) {
    let owners = object::list(object, &["metadata", "ownerReferences"]);
    let mut controllers = Vec::new();
    for owner in owners {
        // The real server does not print the index of the reference.
        let path = "metadata.ownerReferences";
        for field in ["apiVersion", "kind", "name", "uid"] {
            if object::text(owner, &[field]).is_empty() {
                let (field, detail) = match field {
                    "apiVersion" => ("apiVersion", "version must not be empty"),
                    field => (field, "must not be empty"),
                };
                errors.push(field::invalid(format!("{path}.{field}"), "", detail));
            }
        }
        if object::flag(owner, &["controller"]) {
            controllers.push(format!("{}/{}", object::text(owner, &["kind"]), object::text(owner, &["name"])));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        errors.push(field::invalid("metadata.ownerReferences", Value::from(owners.to_vec()), detail));
    }
}

fn validate_finalizers(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    for (index, finalizer) in object::finalizers(object).iter().filter_map(Value::as_str).enumerate() {
        let problems = names::qualified_name_problems(finalizer);
        if problems.is_empty() && !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(field::invalid(format!("metadata.finalizers[{index}]"), finalizer, detail));
        }
        for problem in problems {
            errors.push(field::invalid("metadata.finalizers", finalizer, problem));
        }
    }
    let Some(old) = old.filter(|old| object::is_deleting(old)) else { return };
    let old_finalizers: BTreeSet<&str> = object::finalizers(old).iter().filter_map(Value::as_str).collect();
    let added: Vec<&str> = object::finalizers(object)
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| !old_finalizers.contains(name))
        .collect();
    if !added.is_empty() {
        let quoted: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            quoted.join(", ")
        );
        errors.push(field::forbidden("metadata.finalizers", detail));
    }
}

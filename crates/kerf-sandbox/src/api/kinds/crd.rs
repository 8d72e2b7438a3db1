//! `CustomResourceDefinitions`: defaults, the status that reports them as served, and validation.

use kerf_api::admission::CustomResource;
use serde_json::{Value, json};

use super::defaults::DefaultValue::Text;
use super::defaults::set_defaults;
use super::{KindStrategy, NO_OP_STRATEGY, WriteContext};
use crate::api::field::{self, FieldError};
use crate::api::object;

pub(super) const CUSTOM_RESOURCE_DEFINITION: KindStrategy = KindStrategy {
    default,
    prepare_for_create: set_established_status,
    prepare_for_update: |crd, _, context| set_established_status(crd, context),
    validate,
    ..NO_OP_STRATEGY
};

fn default(crd: &mut Value) {
    let kind = object::text(crd, &["spec", "names", "kind"]).to_string();
    let names = object::ensure_object(crd, &["spec", "names"]);
    names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
    names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    set_defaults(object::ensure_object(crd, &["spec", "conversion"]), &[("strategy", Text("None"))]);
}

/// Sets the conditions `NamesAccepted` and `Established`. Both are true as soon as the CRD is
/// stored, because the server serves a stored CRD at once.
fn set_established_status(crd: &mut Value, context: &mut WriteContext<'_>) {
    let now = object::rfc3339_seconds(context.now);
    let names = object::at(crd, &["spec", "names"]).cloned().unwrap_or_default();
    let versions = object::list(crd, &["spec", "versions"]).iter();
    let storage_versions = versions
        .filter(|version| object::flag(version, &["storage"]))
        .map(|version| object::text(version, &["name"]).to_string());
    let storage_versions: Vec<String> = storage_versions.collect();
    let status = object::ensure_object(crd, &["status"]);
    status.insert("acceptedNames".into(), names);
    let stored_versions = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(stored_versions) = stored_versions.as_array_mut() {
        for version in storage_versions {
            if !stored_versions.contains(&Value::from(version.as_str())) {
                stored_versions.push(version.into());
            }
        }
    }
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message});
    status.entry("conditions").or_insert_with(|| {
        json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ])
    });
}

fn validate(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if let Err(problems) = CustomResource::compile(crd) {
        errors.extend(problems);
    }
    let Some(old) = old else { return };
    for path in [&["spec", "group"][..], &["spec", "scope"], &["spec", "names", "plural"]] {
        let current = object::at(crd, path);
        if object::at(old, path) != current {
            errors.push(field::invalid(path.join("."), current.cloned().unwrap_or_default(), "field is immutable"));
        }
    }
}

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
    prepare_for_update: |definition, _, moment| set_established_status(definition, moment),
    validate,
    ..NO_OP_STRATEGY
};

fn default(definition: &mut Value) {
    let kind = object::text(definition, &["spec", "names", "kind"]).to_string();
    let names = object::ensure_object(definition, &["spec", "names"]);
    names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
    names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    set_defaults(object::ensure_object(definition, &["spec", "conversion"]), &[("strategy", Text("None"))]);
}

/// Sets the conditions `NamesAccepted` and `Established`. Both are true as soon as the CRD is
/// stored, because the server serves a stored CRD at once.
fn set_established_status(definition: &mut Value, moment: &mut WriteContext<'_>) {
    let now = object::rfc3339_seconds(moment.now);
    let names = object::at(definition, &["spec", "names"]).cloned().unwrap_or_default();
    let versions = object::list(definition, &["spec", "versions"]).iter();
    let stored = versions
        .filter(|version| object::flag(version, &["storage"]))
        .map(|version| object::text(version, &["name"]).to_string());
    let stored: Vec<String> = stored.collect();
    let status = object::ensure_object(definition, &["status"]);
    status.insert("acceptedNames".into(), names);
    let known = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(known) = known.as_array_mut() {
        for version in stored {
            if !known.contains(&Value::from(version.as_str())) {
                known.push(version.into());
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

fn validate(definition: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if let Err(found) = CustomResource::compile(definition) {
        errors.extend(found);
    }
    let Some(old) = old else { return };
    for path in [&["spec", "group"][..], &["spec", "scope"], &["spec", "names", "plural"]] {
        let now = object::at(definition, path);
        if object::at(old, path) != now {
            errors.push(field::invalid(path.join("."), now.cloned().unwrap_or_default(), "field is immutable"));
        }
    }
}

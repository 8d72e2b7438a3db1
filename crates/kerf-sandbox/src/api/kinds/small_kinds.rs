//! Kinds with only one or two rules: ConfigMaps, Secrets, role bindings, Leases, Ingresses.

use serde_json::{Value, json};

use super::defaults::DefaultValue::Text;
use super::defaults::{set_defaults, set_defaults_if_object};
use super::{KindStrategy, NO_OP_STRATEGY};
use crate::api::field::{self, FieldError};
use crate::api::object;

const IMMUTABLE_MESSAGE: &str = "field is immutable when `immutable` is set";

pub(super) const CONFIG_MAP: KindStrategy = KindStrategy {
    validate: |map, old, errors| {
        validate_keys(map, errors);
        if let Some(old) = old {
            validate_immutable_data(map, old, &["data", "binaryData"], errors);
        }
    },
    ..NO_OP_STRATEGY
};

pub(super) const SECRET: KindStrategy = KindStrategy {
    default: |secret| {
        set_defaults_if_object(secret, &[("type", Text("Opaque"))]);
        merge_string_data(secret);
    },
    validate: |secret, old, errors| {
        let Some(old) = old else { return };
        if old.get("type") != secret.get("type") {
            errors.push(immutable_field_error("type", secret.get("type")));
        }
        validate_immutable_data(secret, old, &["data"], errors);
    },
    ..NO_OP_STRATEGY
};

pub(super) const ROLE_BINDING: KindStrategy = KindStrategy {
    default: |binding| {
        if let Some(role) = object::map_mut(binding, &["roleRef"]) {
            set_defaults(role, &[("apiGroup", Text("rbac.authorization.k8s.io"))]);
        }
        for subject in object::list_mut(binding, &["subjects"]) {
            if matches!(object::text(subject, &["kind"]), "User" | "Group") {
                set_defaults_if_object(subject, &[("apiGroup", Text("rbac.authorization.k8s.io"))]);
            }
        }
    },
    validate: |binding, old, errors| {
        let kind = object::text(binding, &["roleRef", "kind"]);
        if !["Role", "ClusterRole"].contains(&kind) {
            errors.push(field::not_supported("roleRef.kind", kind, &["Role", "ClusterRole"]));
        }
        if object::text(binding, &["roleRef", "name"]).is_empty() {
            errors.push(field::required("roleRef.name", ""));
        }
        if old.is_some_and(|old| old.get("roleRef") != binding.get("roleRef")) {
            let role = binding.get("roleRef").cloned().unwrap_or_default();
            errors.push(field::invalid("roleRef", role, "cannot change roleRef"));
        }
    },
    ..NO_OP_STRATEGY
};

pub(super) const LEASE: KindStrategy = KindStrategy {
    validate: |lease, _, errors| {
        if let Some(seconds) = object::number(lease, &["spec", "leaseDurationSeconds"]).filter(|seconds| *seconds <= 0)
        {
            errors.push(field::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
        }
        if let Some(count) = object::number(lease, &["spec", "leaseTransitions"]).filter(|count| *count < 0) {
            errors.push(field::invalid("spec.leaseTransitions", count, "must be greater than or equal to 0"));
        }
    },
    ..NO_OP_STRATEGY
};

pub(super) const INGRESS: KindStrategy = KindStrategy {
    prepare_for_create: |ingress, _| {
        drop(object::ensure_object(ingress, &[]).insert("status".into(), json!({"loadBalancer": {}})));
    },
    ..NO_OP_STRATEGY
};

/// Validates the keys of a ConfigMap: valid file names, each in only one of `data` and
/// `binaryData`.
fn validate_keys(map: &Value, errors: &mut Vec<FieldError>) {
    const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or \
                       'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let keys =
        |map_field: &str| map.get(map_field).and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key);
    for map_field in ["data", "binaryData"] {
        for key in keys(map_field) {
            let is_valid_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if key.is_empty() || !key.bytes().all(is_valid_byte) {
                errors.push(field::invalid(format!("{map_field}[{key}]"), key.as_str(), KEY));
            }
            if map_field == "data" && keys("binaryData").any(|other| other == key) {
                errors.push(field::invalid(
                    format!("data[{key}]"),
                    key.as_str(),
                    "duplicate of key present in binaryData",
                ));
            }
        }
    }
}

/// Returns the error for a change of an immutable field.
pub(super) fn immutable_field_error(field: &str, value: Option<&Value>) -> FieldError {
    field::invalid(field, value.cloned().unwrap_or_default(), "field is immutable")
}

fn validate_immutable_data(new: &Value, old: &Value, fields: &[&str], errors: &mut Vec<FieldError>) {
    if !object::flag(old, &["immutable"]) {
        return;
    }
    if !object::flag(new, &["immutable"]) {
        errors.push(field::forbidden("immutable", IMMUTABLE_MESSAGE));
    }
    for field in fields {
        if new.get(field) != old.get(field) {
            errors.push(field::forbidden(*field, IMMUTABLE_MESSAGE));
        }
    }
}

/// Moves `stringData` to `data`, encoded as base64. Clients write `stringData` and never read it.
fn merge_string_data(secret: &mut Value) {
    use base64::Engine as _;
    let Some(Value::Object(string_data)) = object::remove(secret, &["stringData"]) else { return };
    let data = object::ensure_object(secret, &["data"]);
    for (key, value) in string_data {
        let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        data.insert(key, json!(encoded));
    }
}

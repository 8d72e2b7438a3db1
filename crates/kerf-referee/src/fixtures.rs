//! Objects for the tests of this crate, decoded from hand-written JSON.
#![allow(clippy::unwrap_used, reason = "a fixture that does not decode is a mistake in the test")]

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Decodes an object from JSON.
pub(crate) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns a pod of namespace `default`. A container is added if the spec has none.
pub(crate) fn pod(name: &str, labels: Value, mut spec: Value) -> Pod {
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c"}]);
    }
    object(json!({"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}))
}

/// Returns a node with these labels and its hostname label, with 4 CPUs, 8Gi and 10 pods
/// allocatable.
pub(crate) fn node(name: &str, labels: Value) -> Node {
    let mut labels = labels;
    labels["kubernetes.io/hostname"] = json!(name);
    object(json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }))
}

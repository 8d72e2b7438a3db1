//! Objects for the tests of this crate, from the JSON that a person would write.
#![allow(clippy::unwrap_used, reason = "a fixture that does not decode is a mistake in the test")]

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The object that this JSON describes.
pub(crate) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A pod of namespace `default` with these labels and this spec; a container is added when the spec has none.
pub(crate) fn pod(name: &str, labels: Value, mut spec: Value) -> Pod {
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c"}]);
    }
    object(json!({"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}))
}

/// A node with these labels (its hostname is added) and room for 4 CPUs, 8Gi and 10 pods.
pub(crate) fn node(name: &str, labels: Value) -> Node {
    let mut labels = labels;
    labels["kubernetes.io/hostname"] = json!(name);
    object(json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }))
}

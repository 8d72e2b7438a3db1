//! The script: several hundred requests in sections, each in its own namespace.

mod admission;
mod apply;
mod bodies;
mod custom;
mod deletion;
mod first_hour;
mod kinds;
mod patches;
mod reading;
mod rejections;
mod resources;
mod subresources;
mod watches;

use serde_json::{Value, json};

use super::step::{RequestStep, Section};

/// Returns all steps, in order.
pub(super) fn all() -> Vec<RequestStep> {
    let sections: [fn() -> Section; 13] = [
        kinds::section,
        bodies::section,
        reading::section,
        patches::section,
        apply::section,
        watches::section,
        subresources::section,
        deletion::section,
        rejections::section,
        resources::section,
        admission::section,
        custom::section,
        first_hour::section,
    ];
    sections.into_iter().flat_map(|section| section().steps).collect()
}

/// Returns a pod that only the script writes: no scheduler handles it and no token is mounted into
/// it.
fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": pod_spec()})
}

fn pod_spec() -> Value {
    json!({
        "automountServiceAccountToken": false,
        "schedulerName": "nobody",
        "containers": [{"name": "c", "image": "nginx:1"}],
    })
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

//! Effective requests (spec 02 §4.2) and the arithmetic of resource lists.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{object, pod};

fn requests(spec: Value) -> String {
    pod_requests(&pod("p", json!({}), spec)).to_string()
}

fn resources(text: Value) -> Resources {
    let map: BTreeMap<String, String> = object(text);
    Resources::parse(&map)
}

fn container(cpu: &str) -> Value {
    json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
}

fn sidecar(cpu: &str) -> Value {
    json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
}

#[test]
fn containers_add_up_and_the_pod_itself_counts() {
    assert_eq!(requests(json!({"containers": [container("1"), container("500m")]})), "{cpu: 1500m, pods: 1}");
}

#[test]
fn spec_02_33_an_init_container_then_a_sidecar() {
    let spec = json!({"initContainers": [container("10"), sidecar("4.9")], "containers": [container("6")]});
    assert_eq!(requests(spec), "{cpu: 10900m, pods: 1}");
}

#[test]
fn spec_02_34_an_init_container_runs_beside_earlier_sidecars() {
    let spec = json!({"initContainers": [sidecar("3"), container("10")], "containers": [container("6")]});
    assert_eq!(requests(spec), "{cpu: 13, pods: 1}");
    let spec = json!({"initContainers": [container("10"), sidecar("3")], "containers": [container("6")]});
    assert_eq!(requests(spec), "{cpu: 10, pods: 1}");
}

#[test]
fn spec_02_35_pod_level_requests_replace_the_sums() {
    let spec = json!({
        "resources": {"requests": {"cpu": "9.9", "example.com/gpu": "3"}},
        "initContainers": [container("20")],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "30", "memory": "1Gi"}}}],
    });
    // Only cpu, memory and huge pages can be requested at pod level.
    assert_eq!(requests(spec), "{cpu: 9900m, memory: 1Gi, pods: 1}");
}

#[test]
fn spec_02_36_overhead_is_added() {
    assert_eq!(requests(json!({"containers": [container("1")], "overhead": {"cpu": "2"}})), "{cpu: 3, pods: 1}");
}

#[test]
fn spec_02_37_the_larger_counts_during_a_resize() {
    let resized = |spec: &str, allocated: &str, conditions: Value| -> Pod {
        object(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [container(spec)]},
            "status": {
                "conditions": conditions,
                "containerStatuses": [{
                    "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": allocated},
                }],
            },
        }))
    };
    assert_eq!(pod_requests(&resized("2", "3", json!([]))).to_string(), "{cpu: 3, pods: 1}");
    assert_eq!(pod_requests(&resized("4", "3", json!([]))).to_string(), "{cpu: 4, pods: 1}");
    let infeasible = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    assert_eq!(pod_requests(&resized("4", "3", infeasible)).to_string(), "{cpu: 3, pods: 1}");
}

#[test]
fn spec_02_38_no_request_for_an_unknown_resource_fits() {
    let available = resources(json!({"cpu": "1"}));
    assert!(resources(json!({"cpu": "1", "example.com/none": "0"})).fits_into(&available));
    assert!(!resources(json!({"cpu": "1", "example.com/some": "1"})).fits_into(&available));
}

#[test]
fn spec_02_51_a_node_with_a_negative_amount_accepts_no_pod() {
    let available = resources(json!({"cpu": "4", "memory": "-1"}));
    let shortages = resources(json!({"cpu": "1"})).shortages_in(&available);
    assert_eq!(shortages.len(), 1);
    assert_eq!(shortages[0].to_string(), "memory: 0 requested, -1 available");
}

#[test]
fn list_operations_are_those_of_the_specification() {
    let a = resources(json!({"cpu": "2", "memory": "1Gi"}));
    let b = resources(json!({"cpu": "3", "pods": "1"}));
    assert_eq!(a.plus(&b), resources(json!({"cpu": "5", "memory": "1Gi", "pods": "1"})));
    assert_eq!(a.minus(&b), resources(json!({"cpu": "-1", "memory": "1Gi"})));
    assert_eq!(a.max(&b), resources(json!({"cpu": "3", "memory": "1Gi", "pods": "1"})));
    assert_eq!(a.min(&b), resources(json!({"cpu": "2"})));
    assert_eq!(a.minus(&b).clamped_to_zero(), resources(json!({"cpu": "0", "memory": "1Gi"})));
    assert_eq!(sum_of_requests([]).to_string(), "{pods: 0}");
}

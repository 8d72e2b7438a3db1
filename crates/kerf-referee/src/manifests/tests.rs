//! Tests of decoding manifests: workloads, nodes in every phase, pools.

use serde_json::{Value, json};

use super::*;
use crate::placement::pod_key;

fn pending_pod_keys(objects: &[Value]) -> Vec<String> {
    let cluster = ClusterManifests::decode(&json!({"kind": "List", "items": objects}));
    cluster.map(|cluster| cluster.pending_pods().iter().map(|p| pod_key(p.pod)).collect()).unwrap_or_default()
}

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    object["spec"]["template"] = json!({"spec": {"containers": [{"name": "c"}]}});
    object
}

fn owned_pod(name: &str, kind: &str, owner: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name, "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": ""},
    ]}, "spec": {"nodeName": "n", "containers": [{"name": "c"}]}})
}

#[test]
fn spec_09_16_a_deployment_adds_the_pods_that_it_lacks() {
    let mut set = workload("ReplicaSet", "web-1", json!({"replicas": 3}));
    set["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]);
    let deployment = workload("Deployment", "web", json!({"replicas": 3}));
    let pods = [owned_pod("a", "ReplicaSet", "web-1"), owned_pod("b", "ReplicaSet", "web-1")];
    assert_eq!(pending_pod_keys(&[deployment, set, pods[0].clone(), pods[1].clone()]), ["default/web-0"]);
}

#[test]
fn spec_09_17_a_job_adds_the_pods_that_it_still_runs() {
    let job = |spec| pending_pod_keys(&[workload("Job", "j", spec)]).len();
    assert_eq!(job(json!({"parallelism": 5, "completions": 3})), 3);
    assert_eq!(job(json!({"parallelism": 5, "suspend": true})), 0);
    let mut done = workload("Job", "j", json!({"parallelism": 5}));
    done["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    assert_eq!(pending_pod_keys(&[done]).len(), 0);
}

fn decode_managed_node(node_labels: Value, claim_extra: Value) -> Result<ClusterManifests, ManifestError> {
    let mut claim = json!({
        "kind": "NodeClaim", "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "p", "zone": "claimed"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}],
                 "startupTaints": [{"key": "start", "effect": "NoSchedule"}]},
        "status": {"providerID": "kwok://n", "capacity": {"cpu": "4", "gpu": "1"}, "allocatable": {"cpu": "3", "gpu": "1"}},
    });
    claim["metadata"]["deletionTimestamp"] = claim_extra;
    let node = json!({
        "kind": "Node", "metadata": {"name": "n", "labels": node_labels},
        "spec": {"providerID": "kwok://n", "taints": [
            {"key": "k", "effect": "NoSchedule"}, {"key": "start", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
            {"key": "foo/readiness.k8s.io/bar", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4", "gpu": "0"}, "allocatable": {"cpu": "3500m", "gpu": "0"}},
    });
    ClusterManifests::decode(&json!([claim, node]))
}

/// Returns name, zone label, taints and allocatable of the first node.
fn first_node_summary(cluster: &ClusterManifests) -> (String, Option<&str>, Vec<String>, String) {
    let nodes = cluster.existing_nodes();
    let node = &nodes[0];
    let taints = node.taints.iter().map(|taint| taint.key.clone()).collect();
    let zone = node.node.and_then(|n| n.metadata.labels.as_ref()?.get("zone")).map(String::as_str);
    (node.name.clone(), zone, taints, node.allocatable.to_string())
}

#[test]
fn spec_02_70_71_a_starting_node_counts_with_its_final_taints_and_resources() -> Result<(), ManifestError> {
    let registered = decode_managed_node(json!({"karpenter.sh/registered": "true"}), json!(null))?;
    let (name, _, taints, allocatable) = first_node_summary(&registered);
    assert_eq!((name.as_str(), allocatable.as_str()), ("n", "{cpu: 3500m, gpu: 1}"));
    assert_eq!(taints, ["k", "foo/readiness.k8s.io/bar"]);
    let ready = decode_managed_node(
        json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}),
        json!(null),
    )?;
    let (_, _, taints, allocatable) = first_node_summary(&ready);
    assert_eq!((taints.len(), allocatable.as_str()), (4, "{cpu: 3500m, gpu: 0}"));
    let unregistered = decode_managed_node(json!({}), json!(null))?;
    let (name, _, taints, _) = first_node_summary(&unregistered);
    assert_eq!((name.as_str(), taints.as_slice()), ("c", ["k".to_owned()].as_slice()));
    assert_eq!(unregistered.existing_nodes()[0].labels["zone"], "claimed");
    assert!(decode_managed_node(json!({}), json!("2026-01-01T00:00:00Z"))?.existing_nodes()[0].is_deleting);
    Ok(())
}

#[test]
fn errors_name_the_object_that_cannot_be_decoded() {
    let error = ClusterManifests::read("{").err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("the manifests are not JSON"));
    let error = ClusterManifests::decode(&json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": 7})).err();
    assert_eq!(error.map(|error| error.to_string()).as_deref(), Some("Pod p cannot be decoded"));
}

#[test]
fn pools_are_sorted_by_weight_and_then_by_later_name() -> Result<(), ManifestError> {
    let pool =
        |name: &str, weight: i64| json!({"kind": "NodePool", "metadata": {"name": name}, "spec": {"weight": weight}});
    let cluster =
        ClusterManifests::decode(&json!([pool("np-1", 0), pool("np-2", 0), pool("light", 20), pool("heavy", 100)]))?;
    let names: Vec<&str> = cluster.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["heavy", "light", "np-2", "np-1"], "spec 02 #56 and #57");
    Ok(())
}

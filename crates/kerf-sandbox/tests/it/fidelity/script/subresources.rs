//! Requests to subresources: status, scale, binding, eviction and others.

use serde_json::{Value, json};

use super::{Section, pod};
use crate::fidelity::step::{MERGE, STRATEGIC};

const PODS: &str = "/api/v1/namespaces/sub/pods";
const SETS: &str = "/apis/apps/v1/namespaces/sub/replicasets";
const BUDGETS: &str = "/apis/policy/v1/namespaces/sub/poddisruptionbudgets";

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "sub"}})
}

pub(super) fn section() -> Section {
    let mut s = Section::new("subresources");
    s.namespace("sub");
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    for name in ["a", "b", "c"] {
        let mut guarded = pod(name);
        guarded["metadata"]["labels"] = json!({"app": "guarded"});
        s.post(&format!("pod {name}"), PODS, guarded);
        s.patch(&format!("pod {name} runs"), &format!("{PODS}/{name}/status"), STRATEGIC, ready.clone());
    }
    s.get("a status", &format!("{PODS}/a/status"));
    s.patch(
        "a status does not touch the spec",
        &format!("{PODS}/a/status"),
        MERGE,
        json!({"metadata": {"labels": {"x": "y"}}, "spec": {"nodeName": "n"}, "status": {"message": "hello"}}),
    );
    s.patch(
        "a spec does not touch the status",
        &format!("{PODS}/a"),
        MERGE,
        json!({"metadata": {"annotations": {"x": "y"}}, "status": {"message": "bye"}}),
    );
    s.patch("a status with a bad phase", &format!("{PODS}/a/status"), MERGE, json!({"status": {"phase": "Dancing"}}));
    s.patch("a status of nothing", &format!("{PODS}/zz/status"), MERGE, json!({"status": {}}));
    s.delete("a status cannot be deleted", &format!("{PODS}/a/status"), json!(null));
    s.post("a status cannot be created", &format!("{PODS}/a/status"), json!({}));

    s.post("a budget", BUDGETS, json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "guarded"}}}}));
    s.get("the budget is counted", &format!("{BUDGETS}/b"))
        .until("/status/disruptionsAllowed", 1)
        .ignore(&["/status/conditions/0/lastTransitionTime"]);
    s.post("an eviction in a dry run", &format!("{PODS}/a/eviction"), json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": "sub"}, "deleteOptions": {"dryRun": ["All"]}}));
    s.post("an eviction of another name", &format!("{PODS}/a/eviction"), eviction("b"));
    s.post("an eviction of nothing", &format!("{PODS}/zz/eviction"), eviction("zz"));
    s.post("an eviction of the wrong kind", &format!("{PODS}/a/eviction"), pod("a"));
    s.post("an eviction", &format!("{PODS}/a/eviction"), eviction("a"));
    s.get("the pod is gone or going", &format!("{PODS}/a")).until_code(404);
    s.get("the budget is used up", &format!("{BUDGETS}/b"))
        .until("/status/expectedPods", 2)
        .ignore(&["/status/conditions/0/lastTransitionTime", "/status/disruptedPods"]);
    s.post("an eviction too many", &format!("{PODS}/b/eviction"), eviction("b"));
    s.post(
        "an eviction of its older kind",
        &format!("{PODS}/b/eviction"),
        json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "b"}}),
    );
    s.post("another budget", BUDGETS, json!({"metadata": {"name": "b2"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}}));
    s.get("it has an opinion", &format!("{BUDGETS}/b2")).until("/status/observedGeneration", 1).ignore(&["/status"]);
    s.post("an eviction under two budgets", &format!("{PODS}/b/eviction"), eviction("b")).ignore(&["/message"]);
    s.delete("the other budget goes", &format!("{BUDGETS}/b2"), json!(null));
    s.patch(
        "a pod that is not ready",
        &format!("{PODS}/b/status"),
        STRATEGIC,
        json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    );
    s.get("the budget sees it", &format!("{BUDGETS}/b"))
        .until("/status/currentHealthy", 1)
        .ignore(&["/status/conditions/0/lastTransitionTime", "/status/disruptedPods"]);
    s.post("an eviction of a pod that is not ready", &format!("{PODS}/b/eviction"), eviction("b"));
    s.get("an eviction cannot be read", &format!("{PODS}/b/eviction"));
    s.patch(
        "a budget may change",
        &format!("{BUDGETS}/b"),
        MERGE,
        json!({"spec": {"minAvailable": null, "maxUnavailable": "100%"}}),
    )
    .ignore(&["/status", "/metadata/generation"]);
    s.post(
        "a budget of both kinds",
        BUDGETS,
        json!({"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}}),
    );
    s.post("a budget of nonsense", BUDGETS, json!({"metadata": {"name": "x"}, "spec": {"minAvailable": "half"}}));
    s.post("a budget below zero", BUDGETS, json!({"metadata": {"name": "x"}, "spec": {"minAvailable": -1}}));

    s.post("a set", SETS, json!({"metadata": {"name": "s"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "s"}}, "template": {"metadata": {"labels": {"app": "s"}}, "spec": super::pod_spec()}}}));
    s.get("its scale", &format!("{SETS}/s/scale")).ignore(&["/status"]);
    s.put("its scale, replaced", &format!("{SETS}/s/scale"), json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "s", "namespace": "sub"}, "spec": {"replicas": 2}})).ignore(&["/status"]);
    s.get("the set's replicas", &format!("{SETS}/s")).until("/status/replicas", 2).ignore(&["/status/conditions"]);
    s.patch("its scale, patched", &format!("{SETS}/s/scale"), MERGE, json!({"spec": {"replicas": 0}}))
        .ignore(&["/status"]);
    s.patch("its scale, below zero", &format!("{SETS}/s/scale"), MERGE, json!({"spec": {"replicas": -1}}))
        .ignore(&["/status"]);
    let whole = &["/message", "/details"];
    for replicas in [json!("5"), json!(2.5), json!(3.0)] {
        s.put(&format!("its scale, replaced by {replicas}"), &format!("{SETS}/s/scale"), json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "s"}, "spec": {"replicas": replicas}}));
        s.patch(
            &format!("its scale, patched to {replicas}"),
            &format!("{SETS}/s/scale"),
            MERGE,
            json!({"spec": {"replicas": replicas}}),
        )
        .ignore(whole);
    }
    s.put("its scale, of another kind", &format!("{SETS}/s/scale"), json!({"kind": "Foo", "apiVersion": "v1"}));
    s.put(
        "its scale, of a kind that is known",
        &format!("{SETS}/s/scale"),
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "s"}}),
    );
    s.put("its scale, replaced by nothing", &format!("{SETS}/s/scale"), json!({}));
    s.put(
        "its scale, with an unknown field, strictly",
        &format!("{SETS}/s/scale?fieldValidation=Strict"),
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "s"}, "spec": {"foo": 1}}),
    );
    s.get("no replicas are left", &format!("{SETS}/s")).until("/status/replicas", 0);
    s.get("a scale of nothing", &format!("{SETS}/zz/scale"));
    s.get("a pod has no scale", &format!("{PODS}/c/scale"));

    let binding = |pod: &str, node: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": "sub"}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    s.post("a node", "/api/v1/nodes", json!({"metadata": {"name": "sub-node"}}));
    s.post("a pod to be bound", PODS, pod("free"));
    s.post("a binding to nothing", &format!("{PODS}/free/binding"), json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "free"}, "target": {"kind": "Node", "name": ""}}));
    s.post("a binding to what is no node", &format!("{PODS}/free/binding"), json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "free"}, "target": {"kind": "Moon", "name": "x"}}));
    s.post("a binding", &format!("{PODS}/free/binding"), binding("free", "sub-node"));
    s.get("the pod is bound", &format!("{PODS}/free")).ignore(&["/status"]);
    s.post("a second binding", &format!("{PODS}/free/binding"), binding("free", "other"));
    s.post("a binding of nothing", &format!("{PODS}/zz/binding"), binding("zz", "sub-node"));
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/g"}]);
    s.post("a gated pod", PODS, gated);
    s.post("a binding of a gated pod", &format!("{PODS}/gated/binding"), binding("gated", "sub-node"));
    s.patch("its gate opens", &format!("{PODS}/gated"), MERGE, json!({"spec": {"schedulingGates": null}}));
    s.patch(
        "its gate closes again",
        &format!("{PODS}/gated"),
        MERGE,
        json!({"spec": {"schedulingGates": [{"name": "example.com/g"}]}}),
    );
    s.patch("a node's status", "/api/v1/nodes/sub-node/status", STRATEGIC, json!({"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"}, "conditions": [
        {"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastHeartbeatTime": "2019-01-01T00:00:00Z", "lastTransitionTime": "2019-01-01T00:00:00Z"}]}}))
        .ignore(&["/spec/taints", "/status/nodeInfo"]);
    s.patch("a node is cordoned", "/api/v1/nodes/sub-node", MERGE, json!({"spec": {"unschedulable": true}}))
        .ignore(&["/spec/taints", "/status"]);
    s.patch(
        "a node with a bad taint",
        "/api/v1/nodes/sub-node",
        MERGE,
        json!({"spec": {"taints": [{"key": "a", "effect": "Never"}]}}),
    );
    s.patch("a node with one taint twice", "/api/v1/nodes/sub-node", MERGE, json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "x", "effect": "NoSchedule"}]}}));
    s.patch("a node gets its id", "/api/v1/nodes/sub-node", MERGE, json!({"spec": {"providerID": "kwok://x"}}))
        .ignore(&["/spec/taints", "/status"]);
    s.patch("a node gets another id", "/api/v1/nodes/sub-node", MERGE, json!({"spec": {"providerID": "kwok://y"}}));
    s
}

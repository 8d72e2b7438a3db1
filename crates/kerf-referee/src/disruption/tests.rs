//! Tests with plans that break one rule each.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use serde_json::{Value, json};

use super::disruption_violations;
use crate::plan::Plan;
use crate::program::PLAN_TIME;

const TYPES: &str = r#"[{"name": "t", "architecture": "amd64", "operatingSystems": ["linux"],
    "resources": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "offerings": [{"Price": 1.0, "Available": true, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}]"#;

fn node_and_claim(name: &str) -> [Value; 2] {
    let labels = json!({
        "karpenter.sh/nodepool": "p", "node.kubernetes.io/instance-type": "t", "topology.kubernetes.io/zone": "a",
        "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        "kubernetes.io/hostname": name,
    });
    let capacity = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    let old_time = "2026-03-01T00:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": old_time});
    [
        json!({"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"providerID": format!("x:{name}")},
            "status": {"capacity": capacity, "allocatable": capacity, "conditions": [condition("Ready")]}}),
        json!({"kind": "NodeClaim", "metadata": {"name": format!("claim-{name}"), "labels": labels}, "spec": {},
            "status": {"providerID": format!("x:{name}"), "capacity": capacity, "allocatable": capacity,
                "conditions": [condition("Launched"), condition("Initialized")]}}),
    ]
}

/// Returns a cluster of two nodes, one with a pod. The pool's budget allows disrupting both.
fn cluster() -> Value {
    let pool = json!({"kind": "NodePool", "metadata": {"name": "p"}, "spec": {
        "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "c"}}},
        "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
    }});
    let pod = json!({"kind": "Pod", "metadata": {"name": "x", "namespace": "default", "labels": {"app": "x"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"}});
    let items = [&[pool, pod][..], &node_and_claim("n1"), &node_and_claim("n2")].concat();
    json!({"kind": "List", "items": items})
}

/// Returns a plan that moves the pod from the first node to the second.
fn plan() -> Value {
    json!({
        "disruption": {"blocked": [], "commands": [{
            "reason": "Underutilized", "decision": "delete", "nodes": ["n1"], "pods": ["default/x"], "replacements": [],
            "existingNodes": [{"node": "n2", "pods": ["default/x"]}], "savingsPerHour": 1.0,
        }]},
        "cost": {"currentPerHour": 2.0, "plannedPerHour": 1.0},
    })
}

fn violations_of(cluster: &Value, plan: &Value) -> Vec<String> {
    disruption_violations(&cluster.to_string(), TYPES, &Plan::read(plan).unwrap(), PLAN_TIME.parse().unwrap()).unwrap()
}

/// Returns the violations after a change of cluster or plan.
fn violations_after_change(change: impl Fn(&mut Value, &mut Value)) -> String {
    let (mut cluster, mut plan) = (cluster(), plan());
    change(&mut cluster, &mut plan);
    violations_of(&cluster, &plan).join("\n")
}

#[test]
fn a_valid_plan_has_no_violations() {
    assert_eq!(violations_of(&cluster(), &plan()), Vec::<String>::new());
}

#[test]
fn protected_nodes_and_pods_are_not_disrupted() {
    let item = |kind: &str| cluster()["items"].as_array().unwrap().iter().position(|i| i["kind"] == kind).unwrap();
    let (pool, pod, node) = (item("NodePool"), item("Pod"), item("Node"));
    let do_not_disrupt = json!({"karpenter.sh/do-not-disrupt": "true"});
    // spec 03 #24 and #31
    let violations =
        violations_after_change(|cluster, _| cluster["items"][pod]["metadata"]["annotations"] = do_not_disrupt.clone());
    assert!(violations.contains("default/x has the annotation do-not-disrupt"), "{violations}");
    let violations = violations_after_change(|cluster, _| {
        cluster["items"][node]["metadata"]["annotations"] = do_not_disrupt.clone();
    });
    assert!(violations.contains("n1 has the annotation do-not-disrupt"), "{violations}");
    // spec 03 #27
    let violations = violations_after_change(|cluster, _| {
        cluster["items"].as_array_mut().unwrap().push(json!({
            "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}}, "status": {"disruptionsAllowed": 0,
                "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
        }));
    });
    assert!(violations.contains("the PodDisruptionBudget of default/x allows no eviction"), "{violations}");
    // spec 03 #43
    let none = json!([{"nodes": "0", "reasons": ["Underutilized"]}]);
    let violations =
        violations_after_change(|cluster, _| cluster["items"][pool]["spec"]["disruption"]["budgets"] = none.clone());
    assert!(violations.contains("n1 exceeds the disruption budget of pool p"), "{violations}");
    let violations = violations_after_change(|cluster, _| {
        cluster["items"][pool]["spec"]["disruption"]["consolidationPolicy"] = json!("WhenEmpty");
    });
    assert!(violations.contains("may only be removed when it is empty"), "{violations}");
    let violations = violations_after_change(|cluster, _| {
        cluster["items"][pool]["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    });
    assert!(violations.contains("n1 is still in consolidateAfter"), "{violations}");
}

#[test]
fn reasons_targets_and_savings_are_checked() {
    let command = |plan: &mut Value, key: &str, value: Value| plan["disruption"]["commands"][0][key] = value;
    let violations = violations_after_change(|_, plan| command(plan, "reason", json!("Empty")));
    assert!(violations.contains("n1 is not empty"), "{violations}");
    let violations = violations_after_change(|_, plan| command(plan, "reason", json!("Drifted")));
    assert!(violations.contains("n1 has not drifted"), "{violations}");
    let violations = violations_after_change(|_, plan| command(plan, "savingsPerHour", json!(0.5)));
    assert!(violations.contains("saves $1/h, the plan states $0.5/h"), "{violations}");
    let violations = violations_after_change(|_, plan| command(plan, "existingNodes", json!([])));
    assert!(violations.contains("has no node for the pods [\"default/x\"]"), "{violations}");
    let violations = violations_after_change(|_, plan| command(plan, "nodes", json!(["n1", "n2"])));
    assert!(violations.contains("pods move to n2, which the command removes"), "{violations}");
    let full = json!({"cpu": "500m", "memory": "8Gi", "pods": "10"});
    let violations = violations_after_change(|cluster, _| {
        for item in cluster["items"].as_array_mut().unwrap().iter_mut().filter(|i| i["metadata"]["name"] == "n2") {
            item["status"]["allocatable"] = full.clone();
        }
    });
    assert!(violations.contains("breaks Resources"), "{violations}");
}

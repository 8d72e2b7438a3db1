//! Tests of every rule: a valid plan for a small cluster, in which one thing is changed.

mod topology;

use serde_json::{Value, json};

use super::*;
use crate::catalogue;

/// Returns two types: `s` (2 CPU, $1 on-demand in zones a, b, c) and `l` (8 CPU, $4; spot in zone a
/// for $2; unavailable in zone d).
pub(super) fn types() -> Value {
    let offering = |zone: &str, capacity_type: &str, price: f64, available: bool| {
        json!({"Price": price, "Available": available, "Requirements": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        ]})
    };
    let everywhere = |price: f64| ["a", "b", "c"].map(|zone| offering(zone, "on-demand", price, true)).to_vec();
    let mut large = everywhere(4.0);
    large.push(offering("a", "spot", 2.0, true));
    large.push(offering("d", "spot", 1.0, false));
    json!([
        {"name": "s", "architecture": "amd64", "operatingSystems": ["linux"],
         "resources": {"cpu": "2", "memory": "4Gi", "pods": "10"}, "offerings": everywhere(1.0)},
        {"name": "l", "architecture": "amd64", "operatingSystems": ["linux"],
         "resources": {"cpu": "8", "memory": "16Gi", "pods": "40"}, "offerings": large},
    ])
}

pub(super) fn pool(spec: Value) -> Value {
    let mut pool = json!({
        "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        }}},
    });
    merge(&mut pool["spec"], spec);
    pool
}

pub(super) fn pod(name: &str, cpu: &str, spec: Value) -> Value {
    let mut pod = json!({
        "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name.split('-').next()}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    });
    merge(&mut pod["spec"], spec);
    pod
}

pub(super) fn node(name: &str, zone: &str, cpu: &str) -> Value {
    let capacity = json!({"cpu": cpu, "memory": "8Gi", "pods": "10"});
    json!({
        "kind": "Node", "metadata": {"name": name, "labels": {
            "topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name,
        }},
        "status": {"capacity": capacity, "allocatable": capacity},
    })
}

/// Returns a claim in these zones for these pods, each of which requests one CPU.
pub(super) fn claim(pods: &[&str], types: &[&str], zones: &[&str]) -> Value {
    let price = if types[0] == "s" { 1.0 } else { 4.0 };
    json!({
        "nodePool": "default", "instanceTypes": types,
        "pods": pods.iter().map(|pod| format!("default/{pod}")).collect::<Vec<_>>(),
        "requirements": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        ],
        "requests": {"cpu": pods.len().to_string(), "pods": pods.len().to_string()},
        "estimate": {"instanceType": types[0], "zone": zones[0], "capacityType": "on-demand", "pricePerHour": price},
    })
}

pub(super) fn plan(claims: &[Value], existing: Value, unschedulable: &[&str]) -> Value {
    let unschedulable: Vec<Value> =
        unschedulable.iter().map(|pod| json!({"pod": format!("default/{pod}"), "message": "?"})).collect();
    json!({"provisioning": {"nodeClaims": claims, "existingNodes": existing, "unschedulable": unschedulable}})
}

/// Returns the violations as text.
pub(super) fn violations_of(objects: &[Value], plan: &Value) -> Vec<String> {
    let read = || -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let cluster = ClusterManifests::decode(&json!(objects))?;
        let catalogue = catalogue::read(&types().to_string())?;
        Ok(check(&cluster, &catalogue, &Plan::read(plan)?).iter().map(ToString::to_string).collect())
    };
    read().unwrap_or_else(|error| vec![format!("{error:?}")])
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

const NO_VIOLATIONS: [&str; 0] = [];

/// Returns a cluster of two pods and a node with free capacity for one, and a valid plan for it.
fn manifests_and_plan() -> (Vec<Value>, Value) {
    let objects = vec![
        pool(json!({})),
        node("n", "a", "1"),
        pod("x-0", "1", json!({})),
        pod("x-1", "1", json!({})),
        pod("x-2", "1", json!({})),
    ];
    let claims = [claim(&["x-0"], &["s", "l"], &["a", "b", "c"])];
    (objects, plan(&claims, json!([{"node": "n", "pods": ["default/x-1"]}]), &["x-2"]))
}

#[test]
fn a_valid_plan_has_no_violations() {
    let (objects, plan) = manifests_and_plan();
    assert_eq!(violations_of(&objects, &plan), NO_VIOLATIONS);
}

#[test]
fn every_pending_pod_is_placed_once_or_explained() {
    let (objects, good) = manifests_and_plan();
    let mut twice = good.clone();
    twice["provisioning"]["existingNodes"][0]["pods"] = json!(["default/x-0"]);
    let violations = violations_of(&objects, &twice);
    assert!(violations.contains(&"Accounting, pod default/x-0: is placed more than once".to_owned()), "{violations:?}");
    assert!(
        violations.iter().any(|v| v.contains("x-1: is pending, but neither placed nor listed as unschedulable")),
        "{violations:?}"
    );
    let mut both = good.clone();
    both["provisioning"]["unschedulable"][0]["pod"] = json!("default/x-1");
    assert!(violations_of(&objects, &both).iter().any(|v| v.contains("both placed and unschedulable")));
    let mut unknown = good;
    unknown["provisioning"]["unschedulable"][0]["pod"] = json!("default/nobody");
    assert!(
        violations_of(&objects, &unknown)
            .iter()
            .any(|v| v.contains("nobody: is listed as unschedulable, but is not pending"))
    );
}

#[test]
fn spec_02_6_pods_that_are_not_pending_are_not_placed() {
    let (mut objects, plan) = manifests_and_plan();
    objects[2]["status"] = json!({"nominatedNodeName": "elsewhere"});
    objects[4]["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": ""}]);
    assert_eq!(
        violations_of(&objects, &plan),
        [
            "Accounting, pod default/x-0: is placed, but is not pending",
            "Accounting, pod default/x-2: is listed as unschedulable, but is not pending",
        ]
    );
}

#[test]
fn spec_02_8_9_10_11_pods_with_invalid_requirements_are_not_placed() {
    let cases = [
        json!({"nodeSelector": {"kubernetes.io/hostname": "n"}}),
        json!({"nodeSelector": {"karpenter.sh/test": "x"}}),
        json!({"nodeSelector": {"karpenter.k8s.aws/test": "x"}}),
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}]}}}}),
        json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]}),
    ];
    for spec in cases {
        let (mut objects, plan) = manifests_and_plan();
        merge(&mut objects[2]["spec"], spec.clone());
        assert!(
            violations_of(&objects, &plan).iter().any(|v| v.starts_with("NotPlannable, pod default/x-0")),
            "{spec}"
        );
    }
}

#[test]
fn spec_02_14_15_pods_on_a_deleting_node_are_placed_again() {
    let claim_object = json!({
        "kind": "NodeClaim", "metadata": {"name": "c", "deletionTimestamp": "2026-03-04T11:00:00Z"}, "spec": {},
        "status": {"providerID": "kwok://n"},
    });
    let mut deleting = node("n", "a", "4");
    deleting["spec"] = json!({"providerID": "kwok://n"});
    deleting["metadata"]["labels"]["karpenter.sh/registered"] = json!("true");
    let running = pod("x-0", "1", json!({"nodeName": "n"}));
    let mut terminating = pod("x-1", "1", json!({"nodeName": "n"}));
    terminating["metadata"]["deletionTimestamp"] = json!("2026-03-04T11:00:00Z");
    let mut stateful = terminating.clone();
    stateful["metadata"]["name"] = json!("x-2");
    stateful["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "x", "uid": ""}]);
    let objects = [pool(json!({})), claim_object, deleting, running, terminating, stateful];
    let good = plan(&[claim(&["x-0"], &["s"], &["a"]), claim(&["x-2"], &["s"], &["a"])], json!([]), &[]);
    assert_eq!(violations_of(&objects, &good), NO_VIOLATIONS);
    let back = plan(&[claim(&["x-0"], &["s"], &["a"])], json!([{"node": "n", "pods": ["default/x-2"]}]), &[]);
    assert!(violations_of(&objects, &back).contains(&"Claim, on n: the node is being deleted".to_owned()));
    let budget = |name: &str| {
        json!({"kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
               "spec": {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": "0%"}})
    };
    // Quirk 16 of spec 02: without its volume claim the pod could run on no node.
    let mut without: Vec<Value> = objects.to_vec();
    without[3]["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]);
    let expected =
        "Volumes, pod default/x-0, on claim 0 (default): volume claim missing cannot be used on on-demand s in a";
    assert!(violations_of(&without, &good).contains(&expected.to_owned()), "{:?}", violations_of(&without, &good));
    // spec 02 #16: a pod that a budget never allows to be evicted needs no new node.
    let with_budget: Vec<Value> = objects.iter().cloned().chain([budget("b")]).collect();
    assert!(
        violations_of(&with_budget, &good)
            .contains(&"Accounting, pod default/x-0: is placed, but is not pending".to_owned())
    );
}

#[test]
fn spec_02_40_every_listed_type_must_be_launchable() {
    let (objects, mut plan) = manifests_and_plan();
    let requirements = &mut plan["provisioning"]["nodeClaims"][0]["requirements"];
    requirements[1]["values"] = json!(["spot"]);
    let violations = violations_of(&objects, &plan);
    let expected = "Requirements, on claim 0 (default): type s has no available offering that the requirements allow";
    assert!(violations.contains(&expected.to_owned()), "{violations:?}");
    assert!(
        violations.iter().any(|v| v.starts_with("Estimate, on claim 0 (default): on-demand s in a is not allowed"))
    );
}

#[test]
fn spec_02_12_13_only_usable_pools_launch_nodes() {
    for change in [json!({"replicas": 1}), json!({})] {
        let (mut objects, plan) = manifests_and_plan();
        merge(&mut objects[0]["spec"], change.clone());
        if change == json!({}) {
            objects[0]["status"] = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        }
        assert!(
            violations_of(&objects, &plan)
                .contains(&"Claim, on claim 0 (default): pool default cannot be used".to_owned())
        );
    }
}

#[test]
fn pods_must_match_every_launch_of_their_claim() {
    let (mut objects, plan) = manifests_and_plan();
    merge(&mut objects[2]["spec"], json!({"nodeSelector": {"topology.kubernetes.io/zone": "a"}}));
    merge(&mut objects[3]["spec"], json!({"nodeSelector": {"topology.kubernetes.io/zone": "b"}}));
    assert_eq!(
        violations_of(&objects, &plan),
        [
            "NodeAffinity, pod default/x-0, on claim 0 (default): node affinity does not allow on-demand s in b",
            "NodeAffinity, pod default/x-1, on n: node affinity does not allow the node",
        ]
    );
}

#[test]
fn taints_must_be_tolerated_but_prefer_no_schedule_need_not() {
    let (mut objects, plan) = manifests_and_plan();
    let taint =
        |effect: &str| json!({"template": {"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}}});
    merge(&mut objects[0]["spec"], taint("PreferNoSchedule"));
    assert_eq!(violations_of(&objects, &plan), NO_VIOLATIONS);
    merge(&mut objects[0]["spec"], taint("NoSchedule"));
    objects[1]["spec"] = json!({"taints": [{"key": "k", "effect": "NoExecute"}]});
    assert_eq!(
        violations_of(&objects, &plan),
        ["Taints, pod default/x-0, on claim 0 (default): k=v:NoSchedule", "Taints, pod default/x-1, on n: k:NoExecute",]
    );
}

#[test]
fn spec_02_41_pods_and_daemons_must_fit_every_listed_type() {
    let (mut objects, mut plan) = manifests_and_plan();
    objects.push(json!({
        "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {}, "template": {"spec": {
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}],
            "tolerations": [{"operator": "Exists"}],
        }}},
    }));
    plan["provisioning"]["nodeClaims"][0]["requests"] = json!({"cpu": "2", "pods": "2"});
    assert_eq!(
        violations_of(&objects, &plan),
        [
            "Resources, on claim 0 (default): type s, cpu: 2 requested, 1900m available",
            "Resources, on n: cpu: 1 requested, 0 available",
        ]
    );
    // spec 02 #49: a DaemonSet pod that is already on the node needs no further capacity.
    let mut bound = pod("d-n", "1", json!({"nodeName": "n"}));
    bound["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": ""}]);
    objects[1] = node("n", "a", "2");
    objects.push(bound);
    assert_eq!(violations_of(&objects, &plan).len(), 1);
}

#[test]
fn spec_02_42_44_daemons_count_where_they_can_run() {
    let daemon = |spec: Value| {
        let mut set = json!({"kind": "DaemonSet", "metadata": {"name": "d", "namespace": "default"}, "spec": {"template": {
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}}});
        merge(&mut set["spec"]["template"]["spec"], spec);
        set
    };
    let term = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let required = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let counts = |spec: Value| {
        let (mut objects, mut plan) = manifests_and_plan();
        objects.push(daemon(spec));
        objects[1] = node("n", "a", "2");
        plan["provisioning"]["nodeClaims"][0]["requests"] = json!({"cpu": "2", "pods": "2"});
        violations_of(&objects, &plan).iter().any(|v| v.starts_with("Resources, on claim"))
    };
    assert!(counts(json!({})));
    assert!(!counts(json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}})));
    assert!(!counts(json!({"nodeSelector": {"unknown": "label"}})));
    assert!(counts(json!({"nodeSelector": {"karpenter.sh/initialized": "true"}})), "spec 02 #45");
    let either =
        json!([term("unknown", "Exists", json!(null)), term("topology.kubernetes.io/zone", "In", json!(["b"]))]);
    assert!(counts(required(either)));
    assert!(
        !counts(required(json!([term("karpenter.kwok.sh/instance-cpu", "Gt", json!(["2"]))]))),
        "spec 02 #46: not on s"
    );
    assert!(counts(required(json!([term("karpenter.kwok.sh/instance-cpu", "Lt", json!(["3"]))]))));
}

#[test]
fn spec_02_65_a_host_port_is_used_by_one_pod_or_daemon() {
    let (mut objects, mut plan) = manifests_and_plan();
    let ports = json!([{"containerPort": 80, "hostPort": 8080}]);
    for object in &mut objects[2..5] {
        object["spec"]["containers"][0]["ports"] = ports.clone();
    }
    plan["provisioning"]["nodeClaims"][0] = claim(&["x-0", "x-2"], &["l"], &["b"]);
    plan["provisioning"]["unschedulable"] = json!([]);
    assert_eq!(
        violations_of(&objects, &plan),
        ["HostPorts, pod default/x-2, on claim 0 (default): 0.0.0.0:8080/TCP against 0.0.0.0:8080/TCP of default/x-0",]
    );
    objects[1] = node("n", "a", "4");
    let mut running = pod("y-0", "1", json!({"nodeName": "n"}));
    running["spec"]["containers"][0]["ports"] = ports;
    objects.push(running);
    assert!(violations_of(&objects, &plan).iter().any(|v| v.starts_with("HostPorts, pod default/x-1, on n")));
}

#[test]
fn volumes_must_be_usable_and_within_limits() {
    let (mut objects, mut plan) = manifests_and_plan();
    objects[1] = node("n", "a", "4");
    objects.extend(["one", "two"].into_iter().flat_map(|name| {
        let term =
            json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]});
        [
            json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default",
                   "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": name}}),
            json!({"kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
                   "csi": {"driver": "disk", "volumeHandle": name},
                   "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}),
        ]
    }));
    objects.push(json!({"kind": "CSINode", "metadata": {"name": "n"},
                        "spec": {"drivers": [{"name": "disk", "nodeID": "n", "allocatable": {"count": 1}}]}}));
    let using = |claim: &str| json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]});
    merge(&mut objects[2]["spec"], using("one"));
    merge(&mut objects[3]["spec"], using("one"));
    merge(&mut objects[4]["spec"], using("two"));
    assert_eq!(
        violations_of(&objects, &plan),
        ["Volumes, pod default/x-0, on claim 0 (default): volume claim one cannot be used on on-demand s in b",]
    );
    plan["provisioning"]["nodeClaims"][0] = claim(&["x-0"], &["s"], &["a"]);
    plan["provisioning"]["existingNodes"][0]["pods"] = json!(["default/x-1", "default/x-2"]);
    plan["provisioning"]["unschedulable"] = json!([]);
    assert_eq!(violations_of(&objects, &plan), ["VolumeLimits, on n: disk: 2 volumes, 1 allowed"]);
}

#[test]
fn spec_02_52_53_limits_hold_for_the_largest_possible_launch() {
    let (mut objects, plan) = manifests_and_plan();
    merge(&mut objects[0]["spec"], json!({"limits": {"cpu": "7"}}));
    assert_eq!(violations_of(&objects, &plan), ["Limits: pool default, cpu: 8 used or claimed, 7 allowed"]);
    merge(&mut objects[0]["spec"], json!({"limits": {"cpu": 8}}));
    assert_eq!(violations_of(&objects, &plan), NO_VIOLATIONS);
    // spec 02 #54: existing nodes of the pool count.
    objects[1]["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("default");
    assert_eq!(violations_of(&objects, &plan), ["Limits: pool default, cpu: 9 used or claimed, 8 allowed"]);
    // spec 02 #55: the number of nodes counts.
    merge(&mut objects[0]["spec"], json!({"limits": {"cpu": 9, "nodes": "1"}}));
    assert_eq!(violations_of(&objects, &plan), ["Limits: pool default, nodes: 2 used or claimed, 1 allowed"]);
}

#[test]
fn spec_02_117_the_listed_types_must_offer_enough_values() {
    let (mut objects, mut plan) = manifests_and_plan();
    let requirement = json!([{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2}]);
    merge(&mut objects[0]["spec"], json!({"template": {"spec": {"requirements": requirement}}}));
    assert_eq!(violations_of(&objects, &plan), NO_VIOLATIONS);
    plan["provisioning"]["nodeClaims"][0] = claim(&["x-0"], &["s"], &["a"]);
    let short = "MinValues, on claim 0 (default): node.kubernetes.io/instance-type: 2 values required, 1 offered";
    assert_eq!(violations_of(&objects, &plan), [short]);
}

#[test]
fn the_estimate_is_the_cheapest_launch_and_types_are_sorted() {
    let (objects, good) = manifests_and_plan();
    let mut wrong = good.clone();
    wrong["provisioning"]["nodeClaims"][0]["estimate"]["pricePerHour"] = json!(0.5);
    assert_eq!(
        violations_of(&objects, &wrong),
        ["Estimate, on claim 0 (default): the plan states $0.5/h, the catalogue $1/h"]
    );
    let mut expensive = good.clone();
    expensive["provisioning"]["nodeClaims"][0]["estimate"] =
        json!({"instanceType": "l", "zone": "a", "capacityType": "on-demand", "pricePerHour": 4.0});
    expensive["provisioning"]["nodeClaims"][0]["instanceTypes"] = json!(["l", "s"]);
    assert_eq!(
        violations_of(&objects, &expensive),
        [
            "Estimate, on claim 0 (default): the plan states $4/h, but on-demand s in a costs $1/h",
            "PriceOrder, on claim 0 (default): l at $4/h before s at $1/h",
        ]
    );
    // spec 02 #64: offerings that the claim does not allow do not affect the order. Spot is not
    // allowed here.
    let mut spot = good;
    spot["provisioning"]["nodeClaims"][0]["requirements"][1]["values"] = json!(["spot", "on-demand"]);
    spot["provisioning"]["nodeClaims"][0]["requirements"][0]["values"] = json!(["a"]);
    assert_eq!(violations_of(&objects, &spot), NO_VIOLATIONS);
}

#[test]
fn spec_02_48_requests_are_those_of_pods_and_daemons() {
    let (objects, mut plan) = manifests_and_plan();
    plan["provisioning"]["nodeClaims"][0]["requests"] = json!({"cpu": "500m", "pods": "2"});
    assert_eq!(
        violations_of(&objects, &plan),
        [
            "Requests, on claim 0 (default): cpu: the plan states 500m, the pods request at least 1",
            "Requests, on claim 0 (default): pods: the plan states 2, the pods request at most 1",
        ]
    );
}

#[test]
fn spec_02_119_a_node_gets_the_custom_labels_of_its_claim() {
    let (mut objects, mut plan) = manifests_and_plan();
    merge(&mut objects[2]["spec"], json!({"nodeSelector": {"team": "x"}}));
    let requirement = json!([{"key": "team", "operator": "In", "values": ["x", "y"]}]);
    merge(&mut objects[0]["spec"], json!({"template": {"spec": {"requirements": requirement}}}));
    assert_eq!(violations_of(&objects, &plan).len(), 1, "the claim still allows y");
    let requirements = &mut plan["provisioning"]["nodeClaims"][0]["requirements"];
    if let Some(requirements) = requirements.as_array_mut() {
        requirements.push(json!({"key": "team", "operator": "In", "values": ["x"]}));
    }
    assert_eq!(violations_of(&objects, &plan), NO_VIOLATIONS);
}

#[test]
fn spec_02_116_a_reservation_has_at_most_as_many_claims_as_instances() {
    let reserved = |capacity: i64| {
        let mut types = types();
        types[0]["offerings"] = json!([{"Price": 1.0, "Available": true, "ReservationCapacity": capacity, "Requirements": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
            {"key": "example.com/reservation", "operator": "In", "values": ["r-1"]},
        ]}]);
        types
    };
    let claims = ["x-0", "x-1"].map(|pod| {
        // Types that are not reserved may be listed last.
        let mut claim = claim(&[pod], &["s", "l"], &["a"]);
        claim["requirements"][1]["values"] = json!(["reserved"]);
        claim["estimate"]["capacityType"] = json!("reserved");
        claim
    });
    let objects = json!([pool(json!({})), pod("x-0", "1", json!({})), pod("x-1", "1", json!({}))]);
    let broken = |capacity: i64| -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let plan = Plan::read(&plan(&claims, json!([]), &[]))?;
        let catalogue = catalogue::read(&reserved(capacity).to_string())?;
        Ok(check(&ClusterManifests::decode(&objects)?, &catalogue, &plan).iter().map(ToString::to_string).collect())
    };
    assert_eq!(broken(2).unwrap_or_default(), NO_VIOLATIONS);
    assert_eq!(broken(1).unwrap_or_default(), ["Reservation: r-1: 2 claims, 1 left"]);
}

// spec 10 §2.3
#[test]
fn spec_10_77_a_full_reservation_is_no_possible_launch() {
    let types = |capacity: i64| {
        let mut types = types();
        let reserved = json!({"Price": 0.5, "Available": true, "ReservationCapacity": capacity, "Requirements": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
            {"key": "example.com/reservation", "operator": "In", "values": ["r-1"]},
        ]});
        types[0]["offerings"].as_array_mut().unwrap().push(reserved);
        types
    };
    let mut claim = claim(&["x"], &["s"], &["a"]);
    let capacity_types = claim["requirements"][1]["values"].as_array_mut().unwrap();
    capacity_types.push(json!("reserved"));
    let objects = json!([pool(json!({})), pod("x", "1", json!({}))]);
    let broken = |capacity: i64| -> Vec<String> {
        let plan = Plan::read(&plan(std::slice::from_ref(&claim), json!([]), &[])).unwrap();
        let catalogue = catalogue::read(&types(capacity).to_string()).unwrap();
        let violations = check(&ClusterManifests::decode(&objects).unwrap(), &catalogue, &plan);
        violations.iter().map(ToString::to_string).collect()
    };
    assert_eq!(broken(0), NO_VIOLATIONS, "the estimate ignores the cheaper reservation");
    assert!(broken(1).iter().any(|violation| violation.starts_with("Estimate")), "{:?}", broken(1));
}

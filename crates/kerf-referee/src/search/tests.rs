//! Tests on small clusters whose optimum can be found by hand.

use serde_json::{Value, json};

use super::*;
use crate::catalogue;

const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns the types `s` (2 CPU, $1), `m` (4 CPU, $1.8) and `l` (8 CPU, $4), on-demand in zones a
/// and b; `m` costs $1.5 in zone b.
fn types() -> Value {
    let offering = |zone: &str, price: f64| {
        json!({"Price": price, "Available": true, "Requirements": [
            {"key": ZONE, "operator": "In", "values": [zone]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        ]})
    };
    let entry = |name: &str, cpu: i64, a: f64, b: f64| {
        json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
               "resources": {"cpu": cpu.to_string(), "memory": "64Gi"}, "offerings": [offering("a", a), offering("b", b)]})
    };
    json!([entry("s", 2, 1.0, 1.0), entry("m", 4, 1.8, 1.5), entry("l", 8, 4.0, 4.0)])
}

fn pool(extra: Value) -> Value {
    let mut pool =
        json!({"kind": "NodePool", "metadata": {"name": "p"}, "spec": {"template": {"spec": {"requirements": []}}}});
    for (key, value) in extra.as_object().into_iter().flatten() {
        pool["spec"][key] = value.clone();
    }
    pool
}

fn pods(number: usize, cpu: &str, spec: &Value) -> Vec<Value> {
    (0..number)
        .map(|n| {
            let mut pod = json!({
                "kind": "Pod", "metadata": {"name": format!("x-{n}"), "namespace": "default", "labels": {"app": "x"}},
                "spec": spec,
            });
            pod["spec"]["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
            pod
        })
        .collect()
}

fn optimum_of(objects: &[Value], domain_choice: DomainChoice) -> Option<(usize, String)> {
    let cluster = ClusterManifests::decode(&json!(objects)).ok()?;
    let catalogue = catalogue::read(&types().to_string()).ok()?;
    let best = optimum(&cluster, &catalogue, domain_choice, 1_000_000)?;
    Some((best.placed, best.price.to_string()))
}

fn expected_optimum(placed: usize, price: &str) -> (usize, String) {
    (placed, price.to_owned())
}

fn pod_affinity_spec(kind: &str, key: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}},
    ]}}})
}

#[test]
fn the_cheapest_mix_of_types_is_found() {
    let objects = |number| [vec![pool(json!({}))], pods(number, "900m", &json!({}))].concat();
    assert_eq!(optimum_of(&objects(2), DomainChoice::Unrestricted), Some(expected_optimum(2, "$1/h")));
    assert_eq!(optimum_of(&objects(4), DomainChoice::Unrestricted), Some(expected_optimum(4, "$1.5/h")));
    assert_eq!(optimum_of(&objects(6), DomainChoice::Unrestricted), Some(expected_optimum(6, "$2.5/h")));
    assert_eq!(optimum_of(&objects(8), DomainChoice::Unrestricted), Some(expected_optimum(8, "$3/h")));
}

#[test]
fn existing_nodes_cost_nothing() {
    let node = json!({"kind": "Node", "metadata": {"name": "n", "labels": {ZONE: "a"}},
                      "status": {"allocatable": {"cpu": "2", "pods": "10"}}});
    let objects = [vec![pool(json!({})), node], pods(3, "900m", &json!({}))].concat();
    assert_eq!(optimum_of(&objects, DomainChoice::Unrestricted), Some(expected_optimum(3, "$1/h")));
}

#[test]
fn a_pod_that_fits_on_no_node_is_left_out() {
    let mut objects = [vec![pool(json!({}))], pods(2, "900m", &json!({}))].concat();
    objects[1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("100");
    assert_eq!(optimum_of(&objects, DomainChoice::Unrestricted), Some(expected_optimum(1, "$1/h")));
}

#[test]
fn limits_decide_how_many_are_placed() {
    let objects = |limits: Value| [vec![pool(json!({"limits": limits}))], pods(4, "900m", &json!({}))].concat();
    assert_eq!(
        optimum_of(&objects(json!({"cpu": "2"})), DomainChoice::Unrestricted),
        Some(expected_optimum(2, "$1/h"))
    );
    // Two small nodes cost more than a middle one, but limits on nodes and on CPUs lead to
    // different results.
    assert_eq!(
        optimum_of(&objects(json!({"cpu": "4", "nodes": "1"})), DomainChoice::Unrestricted),
        Some(expected_optimum(4, "$1.5/h"))
    );
}

#[test]
fn pods_with_host_anti_affinity_need_a_node_each() {
    let objects =
        [vec![pool(json!({}))], pods(3, "900m", &pod_affinity_spec("podAntiAffinity", "kubernetes.io/hostname"))]
            .concat();
    assert_eq!(optimum_of(&objects, DomainChoice::Unrestricted), Some(expected_optimum(3, "$3/h")));
    assert_eq!(optimum_of(&objects, DomainChoice::OnlyWhenForced), Some(expected_optimum(3, "$3/h")));
}

#[test]
fn spec_02_102_zone_anti_affinity_is_satisfied_only_by_free_choice() {
    let objects = [vec![pool(json!({}))], pods(3, "900m", &pod_affinity_spec("podAntiAffinity", ZONE))].concat();
    assert_eq!(optimum_of(&objects, DomainChoice::Unrestricted), Some(expected_optimum(2, "$2/h")));
    assert_eq!(optimum_of(&objects, DomainChoice::OnlyWhenForced), Some(expected_optimum(1, "$1/h")));
}

#[test]
fn a_zone_selector_leaves_other_zones_to_pods_with_anti_affinity() {
    let mut objects = [vec![pool(json!({}))], pods(2, "900m", &pod_affinity_spec("podAntiAffinity", ZONE))].concat();
    objects[1]["spec"]["nodeSelector"] = json!({ZONE: "a"});
    assert_eq!(optimum_of(&objects, DomainChoice::OnlyWhenForced), Some(expected_optimum(2, "$2/h")));
}

#[test]
fn spec_02_101_no_pod_has_affinity_to_a_pod_with_an_undecided_zone() {
    let mut affine_pod = pods(1, "1900m", &pod_affinity_spec("podAffinity", ZONE)).remove(0);
    affine_pod["metadata"] = json!({"name": "y-0", "namespace": "default", "labels": {"app": "y"}});
    let mut objects = [vec![pool(json!({}))], pods(1, "1900m", &json!({})), vec![affine_pod]].concat();
    assert_eq!(optimum_of(&objects, DomainChoice::Unrestricted), Some(expected_optimum(2, "$1.5/h")));
    assert_eq!(optimum_of(&objects, DomainChoice::OnlyWhenForced), Some(expected_optimum(1, "$1/h")));
    objects[1]["spec"]["nodeSelector"] = json!({ZONE: "a"});
    assert_eq!(optimum_of(&objects, DomainChoice::OnlyWhenForced), Some(expected_optimum(2, "$1.8/h")));
}

#[test]
fn a_spread_decides_the_zones_of_its_pods() {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }]});
    let objects = [vec![pool(json!({}))], pods(4, "900m", &spread)].concat();
    assert_eq!(optimum_of(&objects, DomainChoice::Unrestricted), Some(expected_optimum(4, "$2/h")));
    assert_eq!(optimum_of(&objects, DomainChoice::OnlyWhenForced), Some(expected_optimum(4, "$2/h")));
}

#[test]
fn spec_02_118_min_values_are_kept() {
    let requirement = json!([{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2}]);
    let objects =
        [vec![pool(json!({"template": {"spec": {"requirements": requirement}}}))], pods(5, "900m", &json!({}))]
            .concat();
    // Five pods fit only on `l`, and one type is not enough. So there are two nodes, each of which
    // allows two types.
    assert_eq!(optimum_of(&objects, DomainChoice::Unrestricted), Some(expected_optimum(5, "$2.5/h")));
}

#[test]
fn min_values_are_satisfied_within_one_node_affinity_term() {
    let requirement = json!([{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2}]);
    let objects = |alternatives: &[&[&str]]| {
        let term = |types: &&[&str]| {
            json!({"matchExpressions": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
            ]})
        };
        let terms: Vec<Value> = alternatives.iter().map(term).collect();
        let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": terms,
        }}}});
        [vec![pool(json!({"template": {"spec": {"requirements": requirement}}}))], pods(1, "900m", &affinity)].concat()
    };
    assert_eq!(
        optimum_of(&objects(&[&["s"], &["m"]]), DomainChoice::OnlyWhenForced),
        Some(expected_optimum(0, "$0/h"))
    );
    assert_eq!(
        optimum_of(&objects(&[&["l"], &["s", "m"]]), DomainChoice::OnlyWhenForced),
        Some(expected_optimum(1, "$1/h"))
    );
}

// kube-scheduler would bind them to a node without a zone; by spec 02 §8.5 a planner does not.
#[test]
fn a_node_without_a_zone_is_not_used_for_zone_anti_affinity() {
    let capacity = json!({"cpu": "8", "memory": "64Gi", "pods": "10"});
    let node =
        json!({"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": capacity, "allocatable": capacity}});
    let separated = pods(1, "900m", &pod_affinity_spec("podAntiAffinity", "topology.kubernetes.io/zone"));
    let objects = [vec![pool(json!({"limits": {"nodes": "0"}})), node], separated].concat();
    assert_eq!(optimum_of(&objects, DomainChoice::Unrestricted), Some(expected_optimum(1, "$0/h")));
    assert_eq!(optimum_of(&objects, DomainChoice::OnlyWhenForced), Some(expected_optimum(0, "$0/h")));
}

#[test]
fn too_many_pods_are_not_searched() {
    let objects = [vec![pool(json!({}))], pods(MAX_PODS + 1, "900m", &json!({}))].concat();
    assert_eq!(optimum_of(&objects, DomainChoice::Unrestricted), None);
}

/// Compares the search with itself: an optimum with free choice of domains can only be better.
#[test]
fn free_choice_is_never_worse_than_forced_choice() {
    for seed in 0..12 {
        let generated = crate::generator::provisioning_cluster(seed, crate::generator::ClusterSize::Small);
        let (Ok(cluster), Ok(catalogue)) =
            (ClusterManifests::read(&generated.manifests), catalogue::read(&generated.types))
        else {
            panic!("world {seed} cannot be read");
        };
        let both = [DomainChoice::Unrestricted, DomainChoice::OnlyWhenForced]
            .map(|c| optimum(&cluster, &catalogue, c, 200_000));
        if let [Some(free), Some(forced)] = both {
            let better = free.placed > forced.placed || (free.placed == forced.placed && free.price <= forced.price);
            assert!(better, "world {seed}: {free:?} against {forced:?}");
        }
    }
}

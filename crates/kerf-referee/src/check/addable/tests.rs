//! Tests that a pod that was left out is reported if and only if it can be added.

use serde_json::{Value, json};

use super::*;
use crate::catalogue;
use crate::check::tests::{claim, node, plan, pod, pool, types};

fn addable_in(objects: &[Value], plan: &Value) -> Vec<(String, String)> {
    let added = || -> Result<_, Box<dyn std::error::Error>> {
        let catalogue = catalogue::read(&types().to_string())?;
        Ok(addable_pods(&ClusterManifests::decode(&json!(objects))?, &catalogue, &Plan::read(plan)?))
    };
    added().unwrap_or_default()
}

fn expected_placement(pod: &str, place: &str) -> Vec<(String, String)> {
    vec![(format!("default/{pod}"), place.to_owned())]
}

#[test]
fn a_pod_that_fits_somewhere_is_found_a_place() {
    let world =
        |room: &str| [pool(json!({})), node("n", "a", room), pod("x-0", "1", json!({})), pod("x-1", "1", json!({}))];
    let lazy = plan(&[claim(&["x-0"], &["s", "l"], &["a"])], json!([]), &["x-1"]);
    assert_eq!(addable_in(&world("1"), &lazy), expected_placement("x-1", "n"));
    assert_eq!(
        addable_in(&world("500m"), &lazy),
        expected_placement("x-1", "claim 0 (default)"),
        "narrowed to the larger type"
    );
    let tight = plan(&[claim(&["x-0"], &["s"], &["a"])], json!([]), &["x-1"]);
    assert_eq!(addable_in(&world("500m"), &tight), expected_placement("x-1", "a new node of pool default"));
}

#[test]
fn a_pod_that_fits_nowhere_is_not() {
    let objects = [
        pool(json!({"limits": {"nodes": "1"}})),
        pod("x-0", "1", json!({})),
        pod("x-1", "1", json!({})),
        pod("y-0", "100", json!({})),
    ];
    let full = plan(&[claim(&["x-0"], &["s"], &["a"])], json!([]), &["x-1", "y-0"]);
    assert_eq!(addable_in(&objects, &full), Vec::new());
}

#[test]
fn spec_02_101_nobody_has_to_be_near_an_open_zone() {
    let near = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "x"}}},
    ]}}});
    let objects = [pool(json!({})), pod("x-0", "1", json!({})), pod("y-0", "1", near)];
    let open = plan(&[claim(&["x-0"], &["s"], &["a", "b"])], json!([]), &["y-0"]);
    assert_eq!(addable_in(&objects, &open), Vec::new());
}

#[test]
fn nobody_has_to_go_to_a_domain_that_only_another_pod_asks_for() {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "y"}},
    }]});
    let rack = json!({"key": "example.com/rack", "operator": "In", "values": ["one"]});
    let mut racked = claim(&["x-0"], &["l"], &["a"]);
    racked["requirements"].as_array_mut().expect("a claim lists its requirements").push(rack.clone());
    let lazy = plan(&[racked], json!([]), &["y-0"]);
    let world = |pool: Value| [pool, pod("x-0", "1", json!({})), pod("y-0", "1", spread.clone())];
    assert_eq!(addable_in(&world(pool(json!({}))), &lazy), Vec::new());
    let mut unracked = lazy.clone();
    unracked["provisioning"]["nodeClaims"][0]["requirements"][2]["operator"] = json!("NotIn");
    assert_eq!(addable_in(&world(pool(json!({}))), &unracked), Vec::new());
    let offering = pool(json!({"template": {"spec": {"requirements": [rack]}}}));
    assert_eq!(addable_in(&world(offering), &lazy), expected_placement("y-0", "claim 0 (default)"));
}

#[test]
fn spec_02_98_nobody_has_to_settle_apart_from_its_own_kind() {
    let near = |alternatives: &[&str]| {
        let term = |zone: &&str| json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]});
        let terms: Vec<Value> = alternatives.iter().map(term).collect();
        json!({"affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "y"}}},
            ]},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
        }})
    };
    let full = pool(json!({"template": {"spec": {"requirements": [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]},
    ]}}}));
    let mut there = pod("y-0", "1", json!({}));
    there["spec"]["nodeName"] = json!("n");
    there["status"] = json!({"phase": "Running"});
    let world =
        |alternatives: &[&str]| [full.clone(), node("n", "a", "1"), there.clone(), pod("y-1", "1", near(alternatives))];
    let lazy = plan(&[], json!([]), &["y-1"]);
    assert_eq!(addable_in(&world(&["a", "b"]), &lazy), Vec::new());
    assert_eq!(
        addable_in(&world(&["b"]), &lazy),
        expected_placement("y-1", "a new node of pool default"),
        "it could never join them"
    );
}

#[test]
fn nobody_has_to_go_where_others_who_keep_away_have_no_domain() {
    let away = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "example.com/rack", "labelSelector": {"matchLabels": {"app": "x"}}},
    ]}}});
    let full = pool(json!({"limits": {"nodes": "0"}}));
    let lazy = plan(&[], json!([]), &["x-0", "y-0"]);
    let world = |spec: Value| [full.clone(), node("n", "a", "1"), pod("x-0", "1", json!({})), pod("y-0", "100", spec)];
    assert_eq!(addable_in(&world(json!({})), &lazy), expected_placement("x-0", "n"));
    assert_eq!(addable_in(&world(away), &lazy), Vec::new());
}

#[test]
fn a_claim_is_for_one_alternative_of_a_node_affinity() {
    let terms = |all: &[&str]| {
        let term = |name: &&str| {
            json!({"matchExpressions": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]},
            ]})
        };
        let terms: Vec<Value> = all.iter().map(term).collect();
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": terms,
        }}}})
    };
    let flexible = |least: u32| {
        pool(json!({"template": {"spec": {"requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": least},
        ]}}}))
    };
    let lazy = plan(&[], json!([]), &["x-0"]);
    assert_eq!(addable_in(&[flexible(2), pod("x-0", "1", terms(&["s", "l"]))], &lazy), Vec::new());
    assert_eq!(
        addable_in(&[flexible(1), pod("x-0", "1", terms(&["s", "l"]))], &lazy),
        expected_placement("x-0", "a new node of pool default")
    );
}

// Kerf cannot decide whether kube-scheduler binds the pod before those that would prevent it.
#[test]
fn nobody_has_to_be_added_in_between() {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }]});
    let objects = |spec: Value| {
        [
            pool(json!({"limits": {"nodes": "1"}})),
            pod("x-0", "1", json!({})),
            pod("x-1", "1", json!({})),
            pod("y-0", "1", spec),
        ]
    };
    let lazy = plan(&[claim(&["x-0", "x-1"], &["l"], &["a"])], json!([]), &["y-0"]);
    assert_eq!(addable_in(&objects(json!({})), &lazy), expected_placement("y-0", "claim 0 (default)"));
    assert_eq!(addable_in(&objects(spread), &lazy), Vec::new());
}

#[test]
fn a_pod_that_is_spread_over_zones_wants_a_claim_for_one() {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }]});
    let catalogue = catalogue::read(&types().to_string()).expect("the types of the tests");
    let objects = json!([pool(json!({})), pod("x-0", "1", spread), pod("y-0", "1", json!({}))]);
    let world = ClusterManifests::decode(&objects).expect("a pool and two pods");
    let all = possible_launches(&world.pools[0], &[], &["s".to_owned()], &catalogue);
    let settles = |pod: usize, zones: &[&str]| {
        let there: Vec<&PossibleLaunch<'_>> =
            all.iter().filter(|launch| zones.contains(&launch.offering.zone())).collect();
        assert_eq!(there.len(), zones.len());
        has_single_spread_domains(&world.pods[pod], &there)
    };
    assert!(settles(0, &["a"]) && !settles(0, &["a", "b"]) && settles(1, &["a", "b"]));
}

//! Tests that a pod that was left out is reported if and only if it can be added.

use serde_json::{Value, json};

use super::*;
use crate::catalogue;
use crate::check::tests::{claim, node, plan, pod, pool, types};

fn addable_in(objects: &[Value], plan: &Value) -> Vec<(String, String)> {
    let addable = || -> Result<_, Box<dyn std::error::Error>> {
        let catalogue = catalogue::read(&types().to_string())?;
        Ok(addable_pods(&ClusterManifests::decode(&json!(objects))?, &catalogue, &Plan::read(plan)?))
    };
    addable().unwrap_or_default()
}

fn expected_placement(pod: &str, target: &str) -> Vec<(String, String)> {
    vec![(format!("default/{pod}"), target.to_owned())]
}

#[test]
fn a_pod_that_fits_is_addable() {
    let objects =
        |cpu: &str| [pool(json!({})), node("n", "a", cpu), pod("x-0", "1", json!({})), pod("x-1", "1", json!({}))];
    let incomplete = plan(&[claim(&["x-0"], &["s", "l"], &["a"])], json!([]), &["x-1"]);
    assert_eq!(addable_in(&objects("1"), &incomplete), expected_placement("x-1", "n"));
    assert_eq!(
        addable_in(&objects("500m"), &incomplete),
        expected_placement("x-1", "claim 0 (default)"),
        "narrowed to the larger type"
    );
    let tight = plan(&[claim(&["x-0"], &["s"], &["a"])], json!([]), &["x-1"]);
    assert_eq!(addable_in(&objects("500m"), &tight), expected_placement("x-1", "a new node of pool default"));
}

#[test]
fn a_pod_that_fits_on_no_node_is_not_addable() {
    let objects = [
        pool(json!({"limits": {"nodes": "1"}})),
        pod("x-0", "1", json!({})),
        pod("x-1", "1", json!({})),
        pod("y-0", "100", json!({})),
    ];
    let limited = plan(&[claim(&["x-0"], &["s"], &["a"])], json!([]), &["x-1", "y-0"]);
    assert_eq!(addable_in(&objects, &limited), Vec::new());
}

#[test]
fn spec_02_101_affinity_to_an_undecided_zone_is_not_required() {
    let affinity_spec = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "x"}}},
    ]}}});
    let objects = [pool(json!({})), pod("x-0", "1", json!({})), pod("y-0", "1", affinity_spec)];
    let undecided = plan(&[claim(&["x-0"], &["s"], &["a", "b"])], json!([]), &["y-0"]);
    assert_eq!(addable_in(&objects, &undecided), Vec::new());
}

#[test]
fn a_domain_that_only_another_pod_requires_is_not_required() {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "y"}},
    }]});
    let host_group = json!({"key": "example.com/rack", "operator": "In", "values": ["one"]});
    let mut racked = claim(&["x-0"], &["l"], &["a"]);
    racked["requirements"].as_array_mut().expect("a claim lists its requirements").push(host_group.clone());
    let incomplete = plan(&[racked], json!([]), &["y-0"]);
    let objects = |pool: Value| [pool, pod("x-0", "1", json!({})), pod("y-0", "1", spread.clone())];
    assert_eq!(addable_in(&objects(pool(json!({}))), &incomplete), Vec::new());
    let mut unracked = incomplete.clone();
    unracked["provisioning"]["nodeClaims"][0]["requirements"][2]["operator"] = json!("NotIn");
    assert_eq!(addable_in(&objects(pool(json!({}))), &unracked), Vec::new());
    let offering = pool(json!({"template": {"spec": {"requirements": [host_group]}}}));
    assert_eq!(addable_in(&objects(offering), &incomplete), expected_placement("y-0", "claim 0 (default)"));
}

#[test]
fn spec_02_98_a_pod_need_not_be_placed_apart_from_its_affinity_matches() {
    let affinity_spec = |alternatives: &[&str]| {
        let term = |zone: &&str| json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]});
        let terms: Vec<Value> = alternatives.iter().map(term).collect();
        json!({"affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "y"}}},
            ]},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
        }})
    };
    let limited = pool(json!({"template": {"spec": {"requirements": [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]},
    ]}}}));
    let mut running = pod("y-0", "1", json!({}));
    running["spec"]["nodeName"] = json!("n");
    running["status"] = json!({"phase": "Running"});
    let objects = |alternatives: &[&str]| {
        [limited.clone(), node("n", "a", "1"), running.clone(), pod("y-1", "1", affinity_spec(alternatives))]
    };
    let incomplete = plan(&[], json!([]), &["y-1"]);
    assert_eq!(addable_in(&objects(&["a", "b"]), &incomplete), Vec::new());
    assert_eq!(
        addable_in(&objects(&["b"]), &incomplete),
        expected_placement("y-1", "a new node of pool default"),
        "it could never join them"
    );
}

#[test]
fn a_node_without_the_key_of_an_anti_affinity_term_is_not_required() {
    let anti_affinity_spec = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "example.com/rack", "labelSelector": {"matchLabels": {"app": "x"}}},
    ]}}});
    let limited = pool(json!({"limits": {"nodes": "0"}}));
    let incomplete = plan(&[], json!([]), &["x-0", "y-0"]);
    let objects =
        |spec: Value| [limited.clone(), node("n", "a", "1"), pod("x-0", "1", json!({})), pod("y-0", "100", spec)];
    assert_eq!(addable_in(&objects(json!({})), &incomplete), expected_placement("x-0", "n"));
    assert_eq!(addable_in(&objects(anti_affinity_spec), &incomplete), Vec::new());
}

#[test]
fn a_claim_satisfies_one_node_affinity_term() {
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
    let flexible = |min_values: u32| {
        pool(json!({"template": {"spec": {"requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": min_values},
        ]}}}))
    };
    let incomplete = plan(&[], json!([]), &["x-0"]);
    assert_eq!(addable_in(&[flexible(2), pod("x-0", "1", terms(&["s", "l"]))], &incomplete), Vec::new());
    assert_eq!(
        addable_in(&[flexible(1), pod("x-0", "1", terms(&["s", "l"]))], &incomplete),
        expected_placement("x-0", "a new node of pool default")
    );
}

// Kerf cannot decide whether kube-scheduler binds the pod before those that would prevent it.
#[test]
fn a_pod_that_must_be_bound_before_others_is_not_addable() {
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
    let incomplete = plan(&[claim(&["x-0", "x-1"], &["l"], &["a"])], json!([]), &["y-0"]);
    assert_eq!(addable_in(&objects(json!({})), &incomplete), expected_placement("y-0", "claim 0 (default)"));
    assert_eq!(addable_in(&objects(spread), &incomplete), Vec::new());
}

#[test]
fn a_pod_with_a_zone_spread_needs_a_claim_with_one_zone() {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }]});
    let catalogue = catalogue::read(&types().to_string()).expect("the types of the tests");
    let objects = json!([pool(json!({})), pod("x-0", "1", spread), pod("y-0", "1", json!({}))]);
    let cluster = ClusterManifests::decode(&objects).expect("a pool and two pods");
    let all = possible_launches(&cluster.pools[0], &[], &["s".to_owned()], &catalogue);
    let has_single_domain = |pod: usize, zones: &[&str]| {
        let running: Vec<&PossibleLaunch<'_>> =
            all.iter().filter(|launch| zones.contains(&launch.offering.zone())).collect();
        assert_eq!(running.len(), zones.len());
        has_single_spread_domains(&cluster.pods[pod], &running)
    };
    assert!(has_single_domain(0, &["a"]) && !has_single_domain(0, &["a", "b"]) && has_single_domain(1, &["a", "b"]));
}

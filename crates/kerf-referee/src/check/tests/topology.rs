//! Tests of the rules between pods, for claims with one zone and for claims with several.

use serde_json::{Value, json};

use super::{NO_VIOLATIONS, claim, node, plan, pod, pool, violations_of};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn spread_spec(key: &str, max_skew: i32) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }]})
}

fn pod_affinity_spec(kind: &str, key: &str, app: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}},
    ]}}})
}

/// Checks these claims in a cluster of one pool and these pods.
fn violations_of_claims(pods: &[Value], claims: &[Value]) -> Vec<String> {
    let objects: Vec<Value> = std::iter::once(pool(json!({}))).chain(pods.iter().cloned()).collect();
    violations_of(&objects, &plan(claims, json!([]), &[]))
}

fn identical_pods(names: &[&str], spec: &Value) -> Vec<Value> {
    names.iter().map(|name| pod(name, "1", spec.clone())).collect()
}

#[test]
fn spec_02_80_zones_that_a_pool_could_offer_count_as_empty() {
    let pods = identical_pods(&["x-0", "x-1"], &spread_spec(ZONE, 1));
    let separate_claims = [claim(&["x-0"], &["s"], &["a"]), claim(&["x-1"], &["s"], &["b"])];
    assert_eq!(violations_of_claims(&pods, &separate_claims), NO_VIOLATIONS);
    let together = [claim(&["x-0"], &["s"], &["a"]), claim(&["x-1"], &["s"], &["a"])];
    assert_eq!(
        violations_of_claims(&pods, &together),
        [format!(
            "TopologySpread, pod default/x-1, on claim 1 (default): {ZONE}=a would have 2 pods, the emptiest has 0, maxSkew is 1"
        )]
    );
    assert_eq!(violations_of_claims(&identical_pods(&["x-0", "x-1"], &spread_spec(ZONE, 2)), &together), NO_VIOLATIONS);
}

// A spread may have to wait until pods without constraints fill its zone with the fewest pods,
// while other pods must not be bound before it.
#[test]
fn pods_that_fill_the_zone_with_the_fewest_pods_are_bound_in_between() {
    let zones =
        json!({"template": {"spec": {"requirements": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}}});
    let of_app = |mut pod: Value| {
        pod["metadata"]["labels"] = json!({"app": "x"});
        pod
    };
    let filling = ["a-0", "a-1", "a-2", "a-3", "b-0", "b-1"];
    let pods =
        [identical_pods(&["x-0", "x-1", "x-2"], &spread_spec(ZONE, 1)), identical_pods(&filling, &json!({}))].concat();
    let objects: Vec<Value> = std::iter::once(pool(zones)).chain(pods.into_iter().map(of_app)).collect();
    let in_a = claim(&["a-0", "a-1", "a-2", "a-3", "x-0", "x-1", "x-2"], &["l"], &["a"]);
    let claims = [in_a.clone(), claim(&["b-0", "b-1"], &["l"], &["b"])];
    assert_eq!(violations_of(&objects, &plan(&claims, json!([]), &[])), NO_VIOLATIONS);
    // With one pod less in zone b, the third can never be bound.
    let objects: Vec<Value> = objects.into_iter().filter(|object| object["metadata"]["name"] != "b-1").collect();
    let claims = [in_a, claim(&["b-0"], &["l"], &["b"])];
    let broken = violations_of(&objects, &plan(&claims, json!([]), &[]));
    assert!(broken.iter().any(|broken| broken.starts_with("TopologySpread")), "{broken:?}");
}

// A pod that counts others but that no spread counts can be bound before all of them, however small
// their own `maxSkew` is.
#[test]
fn pods_that_no_spread_counts_are_bound_first() {
    let counting_spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }]});
    let pods = [
        identical_pods(&["x-0", "x-1", "x-2", "x-3"], &spread_spec(HOST, 1)),
        identical_pods(&["w-0"], &counting_spread),
    ]
    .concat();
    let claims = [
        claim(&["x-0", "w-0"], &["l"], &["a"]),
        claim(&["x-1"], &["s"], &["a"]),
        claim(&["x-2"], &["s"], &["a"]),
        claim(&["x-3"], &["s"], &["a"]),
    ];
    assert_eq!(violations_of_claims(&pods, &claims), NO_VIOLATIONS);
}

// Pods that can be bound at any time must not fill a zone in which other pods still have to be
// bound.
#[test]
fn pods_that_can_be_bound_last_are_bound_late() {
    let of_tier = |mut pod: Value| {
        pod["metadata"]["labels"]["tier"] = json!("front");
        pod
    };
    let front = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"tier": "front"}},
    }]});
    let mut pinned = spread_spec(ZONE, 1);
    pinned["nodeSelector"] = json!({ZONE: "c"});
    let zones =
        json!({"template": {"spec": {"requirements": [{"key": ZONE, "operator": "In", "values": ["a", "b", "c"]}]}}});
    let pods = [
        identical_pods(&["f-0", "f-1", "f-2", "f-3"], &front),
        identical_pods(&["x-0", "x-1", "x-2", "x-3"], &pinned),
        identical_pods(&["g-0"], &json!({})),
    ];
    let objects: Vec<Value> = std::iter::once(pool(zones)).chain(pods.concat().into_iter().map(of_tier)).collect();
    let claims = [
        claim(&["f-0", "g-0"], &["l"], &["a"]),
        claim(&["f-1"], &["s"], &["b"]),
        claim(&["f-2", "f-3", "x-0", "x-1", "x-2", "x-3"], &["l"], &["c"]),
    ];
    assert_eq!(violations_of(&objects, &plan(&claims, json!([]), &[])), NO_VIOLATIONS);
}

// Two groups of pods whose spreads count each other: pods that affect no spread of the others are
// bound first.
#[test]
fn pods_that_affect_no_other_spread_are_bound_first() {
    let counting = |key: &str, app: &str| {
        json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }]})
    };
    let pods = [
        identical_pods(&["q-0", "q-1", "q-2"], &counting(HOST, "x")),
        identical_pods(&["x-0", "x-1", "x-2"], &counting(ZONE, "q")),
        identical_pods(&["x-3", "x-4"], &json!({})),
    ];
    let claims =
        [claim(&["q-0", "q-1", "q-2", "x-3", "x-4"], &["l"], &["a"]), claim(&["x-0", "x-1", "x-2"], &["l"], &["a"])];
    assert_eq!(violations_of_claims(&pods.concat(), &claims), NO_VIOLATIONS);
}

// Two groups of pods, neither of which could be bound last; one fills the zone of the other. The
// second group waits for pods that can be bound at any time, and the first group must not be bound
// before it.
#[test]
fn pods_that_hinder_a_waiting_spread_are_bound_late() {
    let of_tier = |mut pod: Value| {
        pod["metadata"]["labels"]["tier"] = json!("front");
        pod
    };
    let counting = |key: &str, label: &str, value: &str| {
        json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {label: value}},
        }]})
    };
    let host_spread = identical_pods(&["d-0", "d-1", "d-2", "d-3", "d-4"], &counting(HOST, "app", "x"));
    let spread = identical_pods(&["f-0", "f-1", "f-2", "f-3", "f-4"], &counting(ZONE, "tier", "front"));
    let front = [host_spread, spread].concat().into_iter().map(of_tier);
    let zones =
        json!({"template": {"spec": {"requirements": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}}});
    let objects: Vec<Value> =
        std::iter::once(pool(zones)).chain(front).chain(identical_pods(&["x-0", "x-1"], &json!({}))).collect();
    let claims = [
        claim(&["d-0", "d-1", "d-2", "d-3", "d-4", "x-0", "x-1"], &["l"], &["a"]),
        claim(&["f-0", "f-1", "f-2"], &["l"], &["a"]),
        claim(&["f-3", "f-4"], &["l"], &["b"]),
    ];
    assert_eq!(violations_of(&objects, &plan(&claims, json!([]), &[])), NO_VIOLATIONS);
}

// A pod that has accepted `PreferNoSchedule` taints counts pods on nodes with such taints, and
// zones in which such nodes could be launched.
#[test]
fn pods_that_accept_soft_taints_count_pods_on_nodes_with_them() {
    let mut honour = spread_spec(ZONE, 1);
    honour["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = json!("Honor");
    let soft = json!([{"key": "slow", "effect": "PreferNoSchedule"}]);
    let objects: Vec<Value> = std::iter::once(pool(json!({"template": {"spec": {"taints": soft}}})))
        .chain(identical_pods(&["x-0", "x-1"], &honour))
        .collect();
    let together = violations_of(&objects, &plan(&[claim(&["x-0", "x-1"], &["l"], &["a"])], json!([]), &[]));
    assert!(together.iter().any(|broken| broken.starts_with("TopologySpread")), "{together:?}");
    let separate_claims = [claim(&["x-0"], &["l"], &["a"]), claim(&["x-1"], &["l"], &["b"])];
    assert_eq!(violations_of(&objects, &plan(&separate_claims, json!([]), &[])), NO_VIOLATIONS);
}

// A starting node will have lost its taints when a pod is bound to it, so the pod counts there.
#[test]
fn pods_on_a_node_that_is_starting_are_counted_once_they_are_bound() {
    let mut honour = spread_spec("karpenter.sh/capacity-type", 1);
    honour["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = json!("Honor");
    honour["topologySpreadConstraints"][0]["minDomains"] = json!(3);
    let mut starting = node("n", "a", "4");
    starting["metadata"]["labels"]["karpenter.sh/capacity-type"] = json!("spot");
    starting["metadata"]["labels"]["karpenter.sh/registered"] = json!("true");
    let taint = json!([{"key": "start", "effect": "NoSchedule"}]);
    starting["spec"] = json!({"taints": taint, "providerID": "kwok://n"});
    let its_claim = json!({
        "kind": "NodeClaim", "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"startupTaints": taint}, "status": {
            "providerID": "kwok://n", "capacity": starting["status"]["capacity"],
            "allocatable": starting["status"]["allocatable"],
            "conditions": [{"type": "Registered", "status": "True"}],
        },
    });
    let pods = identical_pods(&["x-0", "x-1"], &honour);
    let objects: Vec<Value> = [pool(json!({})), its_claim, starting].into_iter().chain(pods).collect();
    let on_node = json!([{"node": "n", "pods": ["default/x-0", "default/x-1"]}]);
    let broken = violations_of(&objects, &plan(&[], on_node, &[]));
    assert!(broken.iter().any(|broken| broken.starts_with("TopologySpread")), "{broken:?}");
}

#[test]
fn spec_02_81_zones_outside_the_pool_are_no_domains() {
    let pods = identical_pods(&["x-0", "x-1"], &spread_spec(ZONE, 1));
    let only_a = json!({"template": {"spec": {"requirements": [{"key": ZONE, "operator": "In", "values": ["a"]}]}}});
    let objects = [vec![pool(only_a)], pods].concat();
    let claims = [claim(&["x-0"], &["s"], &["a"]), claim(&["x-1"], &["s"], &["a"])];
    assert_eq!(violations_of(&objects, &plan(&claims, json!([]), &[])), NO_VIOLATIONS);
}

// A pod that excludes tier `gold` gets a node with an arbitrary tier. Spreads do not count this
// tier as a domain.
#[test]
fn an_arbitrary_label_of_a_planned_node_is_not_a_spread_domain() {
    let tier = "example.com/tier";
    let silver = json!({"key": tier, "operator": "In", "values": ["silver"]});
    let mut tiered = pool(json!({"template": {"spec": {"requirements": [silver]}}}));
    tiered["metadata"]["name"] = json!("tiered");
    let objects: Vec<Value> = [pool(json!({})), tiered, pod("y-0", "1", json!({}))]
        .into_iter()
        .chain(identical_pods(&["x-0", "x-1"], &spread_spec(tier, 1)))
        .collect();
    let mut any_but_gold = claim(&["y-0"], &["s"], &["a"]);
    let requirements = any_but_gold["requirements"].as_array_mut();
    if let Some(all) = requirements {
        all.push(json!({"key": tier, "operator": "NotIn", "values": ["gold"]}));
    }
    let mut in_silver = claim(&["x-0", "x-1"], &["l"], &["a"]);
    in_silver["nodePool"] = json!("tiered");
    assert_eq!(violations_of(&objects, &plan(&[any_but_gold, in_silver], json!([]), &[])), NO_VIOLATIONS);
}

#[test]
fn spec_02_83_pods_that_run_count() {
    let running = |name: &str| pod(name, "100m", json!({"nodeName": "n"}));
    let objects = [
        vec![pool(json!({})), node("n", "a", "4"), running("x-8"), running("x-9")],
        identical_pods(&["x-0"], &spread_spec(ZONE, 1)),
    ]
    .concat();
    let on = |zone: &str| violations_of(&objects, &plan(&[claim(&["x-0"], &["s"], &[zone])], json!([]), &[]));
    assert_eq!(on("b"), NO_VIOLATIONS);
    assert_eq!(on("a").len(), 1);
}

#[test]
fn spec_02_85_too_few_domains_count_as_an_empty_one() {
    let mut spec = spread_spec(ZONE, 1);
    spec["topologySpreadConstraints"][0]["minDomains"] = json!(4);
    let pods = identical_pods(&["x-0", "x-1", "x-2", "x-3"], &spec);
    let three = [("x-0", "a"), ("x-1", "b"), ("x-2", "c")].map(|(pod, zone)| claim(&[pod], &["s"], &[zone]));
    let objects = [vec![pool(json!({}))], pods].concat();
    // Zone d has no available offering, but it is a zone. With `minDomains` 5 there would be too
    // few.
    assert_eq!(violations_of(&objects, &plan(&three, json!([]), &["x-3"])), NO_VIOLATIONS);
    let four: Vec<Value> = three.into_iter().chain([claim(&["x-3"], &["s"], &["a"])]).collect();
    assert_eq!(violations_of(&objects, &plan(&four, json!([]), &[])).len(), 1);
}

#[test]
fn spec_02_88_hosts_are_spread_as_if_there_were_always_an_empty_one() {
    let pods = identical_pods(&["x-0", "x-1"], &spread_spec(HOST, 1));
    assert_eq!(
        violations_of_claims(&pods, &[claim(&["x-0"], &["s"], &["a"]), claim(&["x-1"], &["s"], &["a"])]),
        NO_VIOLATIONS
    );
    assert_eq!(violations_of_claims(&pods, &[claim(&["x-0", "x-1"], &["l"], &["b"])]).len(), 1);
}

#[test]
fn spec_02_87_a_spread_that_counts_other_pods_does_not_limit_them() {
    let mut pods = identical_pods(&["y-0", "y-1"], &spread_spec(ZONE, 1));
    assert_eq!(violations_of_claims(&pods, &[claim(&["y-0", "y-1"], &["l"], &["b"])]), NO_VIOLATIONS);
    // The counted pods themselves may be bound later, so they may be in the same zone.
    pods.extend(identical_pods(&["x-0", "x-1"], &json!({})));
    assert_eq!(violations_of_claims(&pods, &[claim(&["y-0", "x-0", "x-1", "y-1"], &["l"], &["b"])]), NO_VIOLATIONS);
}

#[test]
fn spec_02_95_only_zones_that_the_pod_allows_are_compared() {
    let mut spec = spread_spec(ZONE, 1);
    spec["nodeSelector"] = json!({ZONE: "a"});
    let pods = identical_pods(&["x-0", "x-1"], &spec);
    assert_eq!(
        violations_of_claims(&pods, &[claim(&["x-0", "x-1"], &["l"], &["a"])])
            .iter()
            .filter(|v| v.starts_with("Topo"))
            .count(),
        0
    );
}

#[test]
fn a_pod_with_a_spread_needs_one_decided_zone() {
    let pods = identical_pods(&["x-0", "x-1"], &spread_spec(ZONE, 1));
    let undecided = [claim(&["x-0"], &["s"], &["a", "b"]), claim(&["x-1"], &["s"], &["b"])];
    assert_eq!(
        violations_of_claims(&pods, &undecided),
        [format!(
            "TopologySpread, pod default/x-1, on claim 1 (default): {ZONE}=b would have 2 pods, the emptiest has 0, \
         maxSkew is 1, when claim 0 (default) in b"
        )]
    );
    // A single pod may be in any zone.
    assert_eq!(violations_of_claims(&pods[..1], &undecided[..1]), NO_VIOLATIONS);
}

#[test]
fn spec_02_102_pods_with_zone_anti_affinity_need_disjoint_zones() {
    let pods = identical_pods(&["x-0", "x-1"], &pod_affinity_spec("podAntiAffinity", ZONE, "x"));
    assert_eq!(
        violations_of_claims(&pods, &[claim(&["x-0"], &["s"], &["a"]), claim(&["x-1"], &["s"], &["b", "c"])]),
        NO_VIOLATIONS
    );
    let meeting =
        violations_of_claims(&pods, &[claim(&["x-0"], &["s"], &["a", "b"]), claim(&["x-1"], &["s"], &["b", "c"])]);
    assert_eq!(meeting.len(), 1);
    assert!(meeting[0].ends_with("when claim 0 (default) in b, claim 1 (default) in b"), "{meeting:?}");
}

#[test]
fn spec_02_103_anti_affinity_of_running_pods_excludes_others() {
    let repelling = pod(
        "y-9",
        "100m",
        [json!({"nodeName": "n"}), pod_affinity_spec("podAntiAffinity", ZONE, "x")].into_iter().fold(
            json!({}),
            |mut all, one| {
                super::merge(&mut all, one);
                all
            },
        ),
    );
    let objects =
        [vec![pool(json!({})), node("n", "a", "4"), repelling], identical_pods(&["x-0"], &json!({}))].concat();
    let on = |zones: &[&str]| violations_of(&objects, &plan(&[claim(&["x-0"], &["s"], zones)], json!([]), &[]));
    assert_eq!(on(&["b", "c"]), NO_VIOLATIONS);
    assert_eq!(
        on(&["a", "b"]),
        [format!(
            "PodAntiAffinity, pod default/x-0, on claim 0 (default): default/y-9 in {ZONE}=a must be away from it, when claim 0 (default) in a"
        )]
    );
}

#[test]
fn spec_02_101_affinity_needs_a_match_in_a_decided_zone() {
    let mut pods = identical_pods(&["x-0"], &pod_affinity_spec("podAffinity", ZONE, "y"));
    pods.push(pod("y-0", "1", json!({})));
    let at =
        |x: &[&str], y: &[&str]| violations_of_claims(&pods, &[claim(&["x-0"], &["s"], x), claim(&["y-0"], &["s"], y)]);
    assert_eq!(at(&["b"], &["b"]), NO_VIOLATIONS);
    assert_eq!(at(&["b"], &["a", "b"]).len(), 1);
    assert_eq!(at(&["a", "b"], &["b"]).len(), 1);
    let together = claim(&["x-0", "y-0"], &["l"], &["b", "c"]);
    assert_eq!(violations_of_claims(&pods, &[together]), NO_VIOLATIONS, "on one node they are together wherever it is");
}

#[test]
fn spec_02_99_affinity_that_selects_no_pod_is_never_satisfied() {
    let pods = identical_pods(&["x-0"], &pod_affinity_spec("podAffinity", HOST, "nobody"));
    assert_eq!(violations_of_claims(&pods, &[claim(&["x-0"], &["s"], &["a"])]).len(), 1);
}

#[test]
fn spec_02_98_the_first_pod_that_selects_itself_chooses_the_domain() {
    let own_affinity = pod_affinity_spec("podAffinity", ZONE, "x");
    let pods = identical_pods(&["x-0", "x-1"], &own_affinity);
    assert_eq!(
        violations_of_claims(&pods, &[claim(&["x-0"], &["s"], &["a"]), claim(&["x-1"], &["s"], &["a"])]),
        NO_VIOLATIONS
    );
    assert_eq!(
        violations_of_claims(&pods, &[claim(&["x-0"], &["s"], &["a"]), claim(&["x-1"], &["s"], &["b"])]).len(),
        1
    );
    let pinned: Vec<Value> = [("x-0", "a"), ("x-1", "b")]
        .map(|(name, zone)| {
            let mut spec = own_affinity.clone();
            spec["nodeSelector"] = json!({ZONE: zone});
            pod(name, "1", spec)
        })
        .to_vec();
    assert_eq!(
        violations_of_claims(&pinned, &[claim(&["x-0"], &["s"], &["a"]), claim(&["x-1"], &["s"], &["b"])]),
        NO_VIOLATIONS
    );
}

#[test]
fn spec_02_100_a_chain_of_affinities_is_bound_from_its_start() {
    let chain = [
        pod("d-0", "1", pod_affinity_spec("podAffinity", HOST, "c")),
        pod("c-0", "1", pod_affinity_spec("podAffinity", HOST, "b")),
        pod("b-0", "1", pod_affinity_spec("podAffinity", HOST, "a")),
        pod("a-0", "1", json!({})),
    ];
    assert_eq!(violations_of_claims(&chain, &[claim(&["a-0", "b-0", "c-0", "d-0"], &["l"], &["b"])]), NO_VIOLATIONS);
    let torn = [claim(&["a-0", "b-0", "c-0"], &["l"], &["b"]), claim(&["d-0"], &["s"], &["b"])];
    assert_eq!(violations_of_claims(&chain, &torn).len(), 1);
}

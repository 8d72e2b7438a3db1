//! Tests of which pods a term or a constraint selects, and which nodes a constraint includes.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{object, pod};

fn pod_in_namespace(name: &str, namespace: &str, labels: Value) -> Pod {
    let mut pod = pod(name, labels, json!({}));
    pod.metadata.namespace = Some(namespace.to_owned());
    pod
}

fn term(value: Value) -> PodAffinityTerm {
    object(value)
}

#[test]
fn spec_02_104_namespaces_of_a_term() {
    let owner = pod("owner", json!({}), json!({}));
    let namespaces: Namespaces = object(json!({"default": {}, "blue": {"team": "x"}, "red": {"team": "y"}}));
    let selected_namespaces = |extra: Value| -> Vec<&str> {
        let mut value = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}});
        value.as_object_mut().into_iter().for_each(|v| v.extend(extra.as_object().cloned().unwrap_or_default()));
        let term = term(value);
        let all_namespaces = ["default", "blue", "red"];
        let named = |name: &str| pod_in_namespace("p", name, json!({"app": "db"}));
        all_namespaces.into_iter().filter(|name| term_selects(&term, &owner, &named(name), &namespaces)).collect()
    };
    assert_eq!(selected_namespaces(json!({})), ["default"]);
    assert_eq!(selected_namespaces(json!({"namespaces": ["blue"]})), ["blue"]);
    assert_eq!(selected_namespaces(json!({"namespaceSelector": {}})), ["default", "blue", "red"]);
    assert_eq!(selected_namespaces(json!({"namespaceSelector": {"matchLabels": {"team": "y"}}})), ["red"]);
    let both = json!({"namespaces": ["blue"], "namespaceSelector": {"matchLabels": {"team": "y"}}});
    assert_eq!(selected_namespaces(both), ["blue", "red"]);
}

#[test]
fn match_and_mismatch_label_keys_narrow_a_term() {
    let owner = pod("owner", json!({"rev": "1"}), json!({}));
    let same = pod("same", json!({"rev": "1"}), json!({}));
    let other = pod("other", json!({"rev": "2"}), json!({}));
    let none = Namespaces::new();
    let matching = term(json!({"topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["rev", "absent"]}));
    assert!(term_selects(&matching, &owner, &same, &none) && !term_selects(&matching, &owner, &other, &none));
    let differing = term(json!({"topologyKey": "z", "labelSelector": {}, "mismatchLabelKeys": ["rev"]}));
    assert!(!term_selects(&differing, &owner, &same, &none) && term_selects(&differing, &owner, &other, &none));
}

#[test]
fn spec_02_93_match_label_keys_spread_each_value_apart() {
    let constraint: TopologySpreadConstraint = object(json!({
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["rev", "absent"],
    }));
    let owner = pod("owner", json!({"app": "web", "rev": "1"}), json!({}));
    assert!(spread_selects(&constraint, &owner, &pod("p", json!({"app": "web", "rev": "1"}), json!({}))));
    assert!(!spread_selects(&constraint, &owner, &pod("p", json!({"app": "web", "rev": "2"}), json!({}))));
    assert!(!spread_selects(&constraint, &owner, &pod_in_namespace("p", "blue", json!({"app": "web", "rev": "1"}))));
}

#[test]
fn spec_02_86_a_spread_without_selector_counts_no_pod() {
    let constraint: TopologySpreadConstraint =
        object(json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}));
    let owner = pod("owner", json!({"app": "web"}), json!({}));
    assert!(!spread_selects(&constraint, &owner, &owner));
}

#[test]
fn spec_02_94_policies_decide_which_nodes_count() {
    let constraint = |extra: Value| -> TopologySpreadConstraint {
        let mut value = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        value.as_object_mut().into_iter().for_each(|v| v.extend(extra.as_object().cloned().unwrap_or_default()));
        object(value)
    };
    let owner = pod("owner", json!({}), json!({"nodeSelector": {"disk": "fast"}}));
    let fast: Labels = object(json!({"disk": "fast"}));
    let slow: Labels = object(json!({"disk": "slow"}));
    let taint: Taint = object(json!({"key": "k", "effect": "NoSchedule"}));
    let plain = constraint(json!({}));
    assert!(spread_includes_node(&plain, &owner, "n", &fast, std::slice::from_ref(&taint), |_| true));
    assert!(!spread_includes_node(&plain, &owner, "n", &slow, &[], |_| true));
    let ignoring = constraint(json!({"nodeAffinityPolicy": "Ignore"}));
    assert!(spread_includes_node(&ignoring, &owner, "n", &slow, &[], |_| true));
    let honouring = constraint(json!({"nodeTaintsPolicy": "Honor"}));
    assert!(!spread_includes_node(&honouring, &owner, "n", &fast, std::slice::from_ref(&taint), |_| true));
    assert!(spread_includes_node(&honouring, &owner, "n", &fast, &[taint], |_| false));
}

//! Tests of label selectors and node selectors.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{object, pod};

fn labels(value: Value) -> Labels {
    object(value)
}

fn selector_matches(selector: Value, with: Value) -> bool {
    let selector: LabelSelector = object(selector);
    selects(Some(&selector), &labels(with))
}

#[test]
fn no_selector_selects_nothing_and_an_empty_one_everything() {
    assert!(!selects(None, &labels(json!({"a": "b"}))));
    assert!(selector_matches(json!({}), json!({})));
    assert!(selector_matches(json!({}), json!({"a": "b"})));
}

#[test]
fn all_parts_of_a_selector_must_hold() {
    let selector = json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front", "back"]},
            {"key": "env", "operator": "NotIn", "values": ["test"]},
            {"key": "owner", "operator": "Exists"},
            {"key": "legacy", "operator": "DoesNotExist"},
        ],
    });
    let good = json!({"app": "web", "tier": "front", "owner": "me"});
    assert!(selector_matches(selector.clone(), good.clone()));
    for (key, value) in [("app", "db"), ("tier", "side"), ("env", "test"), ("legacy", "yes")] {
        let mut bad = good.clone();
        bad[key] = json!(value);
        assert!(!selector_matches(selector.clone(), bad), "{key}={value}");
    }
    assert!(!selector_matches(selector, json!({"app": "web", "tier": "front"})), "owner is missing");
}

#[test]
fn an_unknown_operator_selects_nothing() {
    assert!(!selector_matches(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}), json!({"a": "b"})));
    assert!(!satisfies(Some("1"), "Near", &[]));
}

#[test]
fn spec_02_19_bounds_compare_whole_numbers() {
    let one = ["1".to_owned()];
    assert!(satisfies(Some("2"), "Gt", &one) && !satisfies(Some("1"), "Gt", &one) && !satisfies(Some("A"), "Gt", &one));
    assert!(satisfies(Some("0"), "Lt", &one) && !satisfies(Some("1"), "Lt", &one) && !satisfies(None, "Lt", &one));
    assert!(satisfies(Some("1"), "Gte", &one) && satisfies(Some("1"), "Lte", &one));
    assert!(!satisfies(Some("0"), "Gte", &one) && !satisfies(Some("2"), "Lte", &one));
    assert!(!satisfies(Some("1"), "Gt", &[]));
}

#[test]
fn a_node_must_match_the_selector_and_one_of_the_terms() {
    let zone = |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
    let pod = pod(
        "p",
        json!({}),
        json!({
            "nodeSelector": {"disk": "fast"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [zone("a"), zone("b")],
            }}},
        }),
    );
    let matches = |value| node_affinity_matches(&pod, "n", &labels(value));
    assert!(matches(json!({"disk": "fast", "zone": "b"})));
    assert!(!matches(json!({"disk": "slow", "zone": "b"})));
    assert!(!matches(json!({"disk": "fast", "zone": "c"})));
}

#[test]
fn an_empty_term_matches_no_node_and_match_fields_compare_the_name() {
    let nothing: NodeSelectorTerm = object(json!({}));
    assert!(!term_matches(&nothing, "n", &labels(json!({}))));
    let name: NodeSelectorTerm =
        object(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}));
    assert!(term_matches(&name, "n", &labels(json!({}))));
    assert!(!term_matches(&name, "m", &labels(json!({}))));
}

//! Tests of tolerations against taints.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{object, pod};

fn taint(value: Value) -> Taint {
    object(value)
}

fn is_tolerated(toleration: Value, taint: &Taint) -> bool {
    tolerates(&pod("p", json!({}), json!({"tolerations": [toleration]})), taint)
}

#[test]
fn spec_02_60_tolerations_match_by_key_value_and_effect() {
    let taint = taint(json!({"key": "k", "value": "v", "effect": "NoSchedule"}));
    assert!(is_tolerated(json!({"key": "k", "operator": "Equal", "value": "v"}), &taint));
    assert!(is_tolerated(json!({"key": "k", "value": "v", "effect": "NoSchedule"}), &taint));
    assert!(is_tolerated(json!({"key": "k", "operator": "Exists"}), &taint));
    assert!(is_tolerated(json!({"operator": "Exists"}), &taint));
    assert!(!is_tolerated(json!({"key": "other", "operator": "Exists"}), &taint));
    assert!(!is_tolerated(json!({"key": "k", "value": "w"}), &taint));
    assert!(!is_tolerated(json!({"key": "k", "value": "v", "effect": "NoExecute"}), &taint));
    assert!(!tolerates(&pod("p", json!({}), json!({})), &taint));
}

#[test]
fn numbers_are_compared_by_lt_and_gt() {
    let taint = taint(json!({"key": "sla", "value": "950", "effect": "NoSchedule"}));
    assert!(is_tolerated(json!({"key": "sla", "operator": "Gt", "value": "900"}), &taint));
    assert!(!is_tolerated(json!({"key": "sla", "operator": "Gt", "value": "950"}), &taint));
    assert!(is_tolerated(json!({"key": "sla", "operator": "Lt", "value": "951"}), &taint));
    assert!(!is_tolerated(json!({"key": "sla", "operator": "Lt", "value": "high"}), &taint));
}

#[test]
fn prefer_no_schedule_taints_do_not_prevent_scheduling() {
    let pod = pod("p", json!({}), json!({}));
    assert!(first_untolerated_taint(&pod, &[taint(json!({"key": "k", "effect": "PreferNoSchedule"}))]).is_none());
    assert!(first_untolerated_taint(&pod, &[taint(json!({"key": "k", "effect": "NoExecute"}))]).is_some());
}

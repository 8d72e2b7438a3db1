//! Tests of ownership. Each test makes some writes and checks the owners of the fields afterwards.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use serde_json::{Value, json};

use super::*;
use crate::api::schema::{Schema, definitions};

const IMPLICIT_FIELDS: &[&str] = &["metadata", "spec", "status", "template", "strategy"];

fn schema() -> Schema {
    definitions().schema("io.k8s.api.apps.v1.Deployment")
}

fn writer(manager: &str) -> FieldManager<'_> {
    FieldManager {
        manager,
        api_version: "apps/v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
        status_is_subresource: true,
        implicit_fields: IMPLICIT_FIELDS,
    }
}

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"}, "spec": spec})
}

fn applied(live: Option<&Value>, spec: Value, manager: &str) -> Result<Value, String> {
    apply(&schema(), live, &deployment(spec), &writer(manager), false).map_err(|error| error.message().to_string())
}

/// Formats each owner as `manager(operation): fields`.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let show = |entry: &Value| {
        format!(
            "{}({}): {}",
            entry["manager"].as_str().unwrap(),
            entry["operation"].as_str().unwrap(),
            entry["fieldsV1"]
        )
    };
    entries.iter().map(show).collect()
}

/// Returns `new` after an update of `live`, with its owners.
fn updated(live: Option<&Value>, mut new: Value, writer: &FieldManager<'_>) -> Value {
    let mut live = live.cloned();
    let managed = live.as_mut().map(ManagedFields::take);
    track_ownership(&schema(), live.as_ref().zip(managed), &mut new, writer).put(&mut new);
    new
}

#[test]
fn an_applier_owns_its_fields_and_other_appliers_conflict() {
    let live = applied(None, json!({"replicas": 1, "paused": true}), "one").unwrap();
    assert_eq!(owners(&live), [r#"one(Apply): {"f:spec":{"f:paused":{},"f:replicas":{}}}"#]);
    let conflict = applied(Some(&live), json!({"replicas": 2}), "two").unwrap_err();
    assert_eq!(conflict, r#"Apply failed with 1 conflict: conflict with "one": .spec.replicas"#);
    let shared = applied(Some(&live), json!({"replicas": 1}), "two").unwrap();
    assert_eq!(owners(&shared).len(), 2, "the same value can have two owners: {:?}", owners(&shared));
    let forced = apply(&schema(), Some(&live), &deployment(json!({"replicas": 2})), &writer("two"), true).unwrap();
    assert_eq!(forced["spec"], json!({"replicas": 2, "paused": true}));
    assert_eq!(
        owners(&forced),
        [r#"one(Apply): {"f:spec":{"f:paused":{}}}"#, r#"two(Apply): {"f:spec":{"f:replicas":{}}}"#]
    );
}

#[test]
fn a_field_no_longer_applied_is_removed_unless_another_manager_owns_it() {
    let live = applied(None, json!({"replicas": 1, "paused": true}), "one").unwrap();
    let shared = applied(Some(&live), json!({"replicas": 1}), "two").unwrap();
    let still_shared = applied(Some(&shared), json!({"paused": true}), "one").unwrap();
    assert_eq!(still_shared["spec"], json!({"replicas": 1, "paused": true}));
    let pruned = applied(Some(&still_shared), json!({}), "two").unwrap();
    assert_eq!(pruned["spec"], json!({"paused": true}));
}

#[test]
fn list_items_have_their_own_owners() {
    let template = |containers: Value| json!({"template": {"spec": {"containers": containers}}});
    let live = applied(None, template(json!([{"name": "a", "image": "a:1"}])), "one").unwrap();
    let both =
        applied(Some(&live), template(json!([{"name": "b", "image": "b:1", "ports": [{"containerPort": 80}]}])), "two")
            .unwrap();
    let containers = &both["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["name"], "a");
    assert_eq!(containers[1]["name"], "b");
    assert_eq!(
        owners(&both)[1],
        r#"two(Apply): {"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"b\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}"#
    );
    let alone = applied(Some(&both), template(json!([])), "one").unwrap();
    assert_eq!(alone["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1, "{alone}");
}

#[test]
fn an_update_becomes_the_owner_of_the_fields_it_changes() {
    let live = applied(None, json!({"replicas": 1, "paused": true}), "one").unwrap();
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(5);
    let scaled = updated(Some(&live), scaled, &writer("scaler"));
    assert_eq!(
        owners(&scaled),
        [r#"one(Apply): {"f:spec":{"f:paused":{}}}"#, r#"scaler(Update): {"f:spec":{"f:replicas":{}}}"#]
    );
    let conflict = applied(Some(&scaled), json!({"replicas": 1, "paused": true}), "one").unwrap_err();
    assert_eq!(conflict, r#"Apply failed with 1 conflict: conflict with "scaler" using apps/v1: .spec.replicas"#);
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let live = applied(None, json!({"replicas": 1}), "one").unwrap();
    let later = FieldManager { now: "2026-01-02T00:00:00Z".parse().unwrap(), ..writer("one") };
    let again = apply(&schema(), Some(&live), &deployment(json!({"replicas": 1})), &later, false).unwrap();
    assert_eq!(again, live);
}

#[test]
fn the_creator_owns_the_fields_of_a_new_object() {
    let mut new = deployment(
        json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "strategy": {"rollingUpdate": {"maxSurge": 1}}}),
    );
    new["metadata"]["labels"] = json!({"a": "b"});
    let new = updated(None, new, &writer("kubectl"));
    assert_eq!(
        owners(&new),
        [
            r#"kubectl(Update): {"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{}}}}}"#
        ]
    );
}

#[test]
fn a_write_without_subresource_does_not_own_the_status() {
    let mut new = deployment(json!({"replicas": 1}));
    new["status"] = json!({"replicas": 3});
    let new = updated(None, new, &writer("kubectl"));
    assert_eq!(owners(&new), [r#"kubectl(Update): {"f:spec":{"f:replicas":{}}}"#]);
}

#[test]
fn an_object_keeps_the_entries_of_ten_updaters() {
    let mut live = deployment(json!({}));
    for n in 0..15 {
        let mut next = live.clone();
        next["metadata"]["labels"][format!("l{n}")] = json!("x");
        let manager = format!("m{n}");
        let at = format!("2026-01-01T00:00:{n:02}Z").parse().unwrap();
        live = updated(Some(&live), next, &FieldManager { now: at, ..writer(&manager) });
    }
    let entries = live["metadata"]["managedFields"].as_array().unwrap().len();
    assert_eq!(entries, 10);
    assert!(
        owners(&live).iter().any(|owner| owner.starts_with("ancient-changes(Update)")
            && owner.contains("f:l0")
            && owner.contains("f:l4"))
    );
}

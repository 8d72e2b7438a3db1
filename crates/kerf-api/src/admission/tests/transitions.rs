//! Updates of objects: what a transition rule compares, and when a set with duplicates is rejected.
//! These tests cover the mechanism; the rules of Kerf's own kinds are tested in `tests/it`.

use serde_json::{Value, json};

use super::super::*;
use super::{compile_widgets, widget};

fn immutable_widgets() -> CustomResource {
    compile_widgets(json!({
        "type": "object",
        "properties": {
            "expireAfter": {"type": "string", "default": "720h"},
            "memory": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "maxLength": 40},
            "timeAdded": {"type": "string", "format": "date-time"},
            "taints": {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9}},
            "resources": {"type": "object", "properties": {"cpu": {"type": "string", "maxLength": 9}}},
        },
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec is immutable"}],
    }))
}

fn update(resource: &CustomResource, old: &Value, new: Value) -> Result<Admitted, AdmissionRejection> {
    resource.admit("v1", Operation::Update { old }, new, FieldValidation::Ignore)
}

#[test]
fn spec_01_56_any_change_of_an_immutable_spec_is_rejected() {
    let resource = immutable_widgets();
    let spec = json!({
        "expireAfter": "720h", "memory": "50000", "timeAdded": "2026-01-01T00:00:00Z", "taints": ["a"], "resources": {"cpu": "1"},
    });
    let old = widget(spec.clone());
    let changed = |name: &str, value: Value| {
        let mut changed = spec.clone();
        changed[name] = value;
        changed
    };
    let without = |name: &str| {
        let mut changed = spec.clone();
        changed.as_object_mut().unwrap().remove(name);
        changed
    };
    // Quantities and durations are compared as text, timestamps as instants, and an empty value
    // differs from an absent one (spec 01 §4.1).
    for (what, new) in [
        ("another spelling of a quantity", changed("memory", json!("50k"))),
        ("a quantity as a number", changed("memory", json!(50000))),
        ("another instant", changed("timeAdded", json!("2026-01-01T00:00:01Z"))),
        ("another duration", changed("expireAfter", json!("30m"))),
        ("an emptied list", changed("taints", json!([]))),
        ("a removed list", without("taints")),
        ("an emptied object", changed("resources", json!({}))),
        ("a removed object", without("resources")),
    ] {
        let text = update(&resource, &old, widget(new))
            .map_or_else(|rejection| rejection.to_string(), |_| "admitted".to_owned());
        assert_eq!(text, "spec: Invalid value: spec is immutable", "{what}");
    }
    for (what, new) in [
        ("nothing", spec.clone()),
        ("another spelling of the instant", changed("timeAdded", json!("2026-01-01T01:00:00+01:00"))),
        ("a default that is left out", without("expireAfter")),
        ("a field that is pruned", changed("colour", json!("red"))),
    ] {
        assert!(update(&resource, &old, widget(new)).is_ok(), "{what}");
    }
}

#[test]
fn spec_01_57_a_finalizer_can_be_removed_from_an_object_with_a_non_canonical_quantity() {
    let resource = immutable_widgets();
    let mut old = widget(json!({"expireAfter": "720h", "memory": "50000"}));
    old["metadata"]["finalizers"] = json!(["kerf.test/termination"]);
    let mut new = old.clone();
    new["metadata"].as_object_mut().unwrap().remove("finalizers");
    let admitted = update(&resource, &old, new).unwrap();
    assert_eq!(admitted.object["metadata"].get("finalizers"), None);
    assert_eq!(admitted.object["spec"]["memory"], "50000");
}

#[test]
fn spec_01_2_7_a_set_rejects_new_duplicates() {
    let resource = compile_widgets(json!({"type": "object", "properties": {
        "reasons": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }}));
    let reasons = |reasons: Value| widget(json!({"reasons": reasons}));
    let create = |object| resource.admit("v1", Operation::Create, object, FieldValidation::Ignore);
    assert!(create(reasons(json!(["Empty", "Drifted"]))).is_ok());
    assert_eq!(
        create(reasons(json!(["Empty", "Empty"]))).unwrap_err().to_string(),
        "spec.reasons[1]: Duplicate value: \"Empty\""
    );
    // An update is not rejected for a duplicate that is already stored.
    let old = reasons(json!(["Empty", "Empty"]));
    assert!(update(&resource, &old, reasons(json!(["Empty", "Empty", "Drifted"]))).is_ok());
}

#[test]
fn a_status_update_changes_only_the_status() {
    let resource = compile_widgets(json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
    let old = widget(json!({"a": 1}));
    let mut new = widget(json!({"a": 2}));
    new["metadata"]["labels"] = json!({"x": "y"});
    new["status"] = json!({"nodes": 3});
    let admitted = resource.admit("v1", Operation::UpdateStatus { old: &old }, new, FieldValidation::Ignore).unwrap();
    let mut expected = old.clone();
    expected["status"] = json!({"nodes": 3});
    assert_eq!(admitted.object, expected);
}

#[test]
fn a_snapshot_keeps_the_status_and_uid_that_a_create_drops() {
    let resource = compile_widgets(json!({"type": "object"}));
    let mut object = widget(json!({}));
    object["status"] = json!({"nodes": 3});
    object["metadata"]["uid"] = json!("u");
    let admit = |operation| resource.admit("v1", operation, object.clone(), FieldValidation::Ignore).unwrap().object;
    assert_eq!(admit(Operation::Snapshot), object);
    let created = admit(Operation::Create);
    assert_eq!((created.get("status"), created["metadata"].get("uid")), (None, None));
}

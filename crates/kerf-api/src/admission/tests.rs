//! Tests of the public API with a small CRD. Answers of Kubernetes to similar requests are recorded
//! in `testdata`.

use serde_json::{Value, json};

mod kubernetes;
mod properties;
mod transitions;

use super::*;

fn widget_crd(spec: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.kerf.test"},
        "spec": {
            "group": "kerf.test",
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": spec,
                    "status": {"type": "object", "properties": {
                        "nodes": {"type": "integer", "format": "int64", "default": 0},
                    }},
                }}},
            }],
        },
    })
}

fn compile_widgets(spec: Value) -> CustomResource {
    CustomResource::compile(&widget_crd(spec)).unwrap_or_else(|errors| panic!("{}", join_field_errors(&errors)))
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "kerf.test/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

fn create(resource: &CustomResource, spec: Value) -> Result<Value, AdmissionRejection> {
    resource
        .admit("v1", Operation::Create, widget(spec), FieldValidation::Ignore)
        .map(|admitted| admitted.object["spec"].clone())
}

fn rejection_text(resource: &CustomResource, spec: Value) -> String {
    create(resource, spec).map_or_else(|rejection| rejection.to_string(), |spec| format!("admitted: {spec}"))
}

#[test]
fn schema_errors_have_the_text_of_the_api_server() {
    let resource = compile_widgets(json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 3, "pattern": "^[a-z]*$"},
        "weight": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100},
        "policy": {"type": "string", "enum": ["Balanced", "WhenEmpty"]},
        "items": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "when": {"type": "string", "format": "date-time"},
        "cpu": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+m?$"},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "limits": {"type": "object", "additionalProperties": {"type": "string"}},
    }}));
    for (spec, text) in [
        (json!({}), "spec.name: Required value"),
        (json!({"name": "abcd"}), "spec.name: Too long: may not be more than 3 bytes"),
        (json!({"name": "A"}), "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]*$'"),
        (
            json!({"name": 1}),
            "spec.name: Invalid value: \"integer\": spec.name in body must be of type string: \"integer\"",
        ),
        (
            json!({"name": "a", "weight": 0}),
            "spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1",
        ),
        (
            json!({"name": "a", "policy": "balanced"}),
            "spec.policy: Unsupported value: \"balanced\": supported values: \"Balanced\", \"WhenEmpty\"",
        ),
        (json!({"name": "a", "items": ["", "", ""]}), "spec.items: Too many: 3: must have at most 2 items"),
        (
            json!({"name": "a", "when": "soon"}),
            "spec.when: Invalid value: \"soon\": spec.when in body must be of type date-time: \"soon\"",
        ),
        (json!({"name": "a", "set": ["x", "y", "x"]}), "spec.set[2]: Duplicate value: \"x\""),
        (
            json!({"name": "a", "limits": {"a/b": 1}}),
            "spec.limits.a/b: Invalid value: \"integer\": spec.limits.a/b in body must be of type string: \"integer\"",
        ),
    ] {
        assert_eq!(rejection_text(&resource, spec.clone()), text, "{spec}");
    }
}

#[test]
fn spec_01_2_1_integer_fields_accept_whole_floats_within_their_range() {
    let resource = compile_widgets(json!({"type": "object", "properties": {
        "count": {"type": "integer", "format": "int32"},
        "big": {"type": "integer", "format": "int64"},
        "quantity": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "replicas": {"type": "integer", "format": "int64", "minimum": 0},
    }}));
    // Whole floats are accepted as integers and stored as integers, except in fields that the scale
    // subresource reads.
    assert_eq!(create(&resource, json!({"count": 2.0, "big": 1e3})).unwrap(), json!({"count": 2, "big": 1000}));
    assert!(rejection_text(&resource, json!({"replicas": 3.0})).starts_with(".spec.replicas: Invalid value: 0: "));
    // A quantity written as a number must be an integer.
    assert!(create(&resource, json!({"quantity": 1})).is_ok());
    assert!(create(&resource, json!({"quantity": 1.5})).is_err());
    // Integer fields have the range of their format.
    assert!(create(&resource, json!({"count": 2_147_483_647})).is_ok());
    assert!(
        rejection_text(&resource, json!({"count": 2_147_483_648_i64}))
            .contains("must be of type integer with format int32 in spec.count")
    );
    assert!(create(&resource, json!({"big": 9_223_372_036_854_775_808_u64})).is_err());
}

#[test]
fn spec_01_13_1_nulls_are_defaulted_dropped_or_rejected() {
    let resource = compile_widgets(json!({"type": "object", "properties": {
        "policy": {"type": "string", "default": "x"},
        "plain": {"type": "string"},
        "open": {"type": "string", "nullable": true},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "string"}},
        "nested": {"type": "object", "default": {"a": "1"}, "properties": {
            "a": {"type": "string"}, "b": {"type": "string", "default": "2"},
        }},
    }}));
    let filled = json!({"policy": "x", "nested": {"a": "1", "b": "2"}});
    // An explicit null in a field with a default is replaced by the default. In any other optional
    // field, and in a map, it counts as absent.
    assert_eq!(create(&resource, json!({"policy": null, "plain": null, "nested": null})).unwrap(), filled);
    assert_eq!(create(&resource, json!({"map": {"k": null}})).unwrap()["map"], json!({}));
    assert_eq!(create(&resource, json!({"open": null})).unwrap()["open"], Value::Null);
    // A null list element is rejected.
    assert_eq!(
        rejection_text(&resource, json!({"list": [null]})),
        "spec.list[0]: Invalid value: \"null\": spec.list[0] in body must be of type string: \"null\""
    );
}

#[test]
fn unknown_fields_are_rejected_reported_or_ignored_by_validation_mode() {
    let resource = compile_widgets(json!({"type": "object", "properties": {
        "a": {"type": "object", "properties": {"b": {"type": "string"}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}));
    let mut object = widget(json!({"a": {"b": "x", "c": 1}, "z": [1], "open": {"anything": {"goes": 1}}}));
    object["metadata"]["nickname"] = json!("bob");
    let texts = ["unknown field \"metadata.nickname\"", "unknown field \"spec.a.c\"", "unknown field \"spec.z\""];
    let strict = resource.admit("v1", Operation::Create, object.clone(), FieldValidation::Strict).unwrap_err();
    assert_eq!(strict.to_string(), format!("strict decoding error: {}", texts.join(", ")));
    assert_eq!(strict.code(), 400);
    let warn = resource.admit("v1", Operation::Create, object.clone(), FieldValidation::Warn).unwrap();
    assert_eq!(warn.warnings, texts);
    let ignore = resource.admit("v1", Operation::Create, object, FieldValidation::Ignore).unwrap();
    assert!(ignore.warnings.is_empty());
    assert_eq!(warn.object, ignore.object);
    assert_eq!(ignore.object["spec"], json!({"a": {"b": "x"}, "open": {"anything": {"goes": 1}}}));
    assert_eq!(ignore.object["metadata"], json!({"name": "w"}));
}

#[test]
fn a_rejection_gives_the_status_object_of_the_api_server() {
    let resource =
        compile_widgets(json!({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}));
    let rejection = create(&resource, json!({"n": "x", "s": 1})).unwrap_err();
    let status = rejection.status("kerf.test", "v1", "Widget", "w");
    assert_eq!(
        status["message"],
        "Widget.kerf.test \"w\" is invalid: [spec.n: Invalid value: \"string\": spec.n in body must be of type integer: \"string\", \
         spec.s: Invalid value: \"integer\": spec.s in body must be of type string: \"integer\"]"
    );
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    assert_eq!(
        status["details"]["causes"][0],
        json!({"reason": "FieldValueTypeInvalid", "field": "spec.n",
               "message": "Invalid value: \"string\": spec.n in body must be of type integer: \"string\""})
    );
}

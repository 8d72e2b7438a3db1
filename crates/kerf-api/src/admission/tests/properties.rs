//! Properties that hold for any input: admitting an admitted object changes nothing, and no object,
//! definition or rule makes admission panic, loop endlessly or overflow the stack.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::*;
use super::{compile_widgets, widget, widget_crd};

/// Returns a schema that uses every feature. `multipleOf` of `c` is a whole number: with a
/// fraction, the real API server (and this module) admits `-0.0` as a float, stores it as `0`, and
/// then rejects the integer `0`, because for integers the factor is truncated first.
fn schema_with_everything() -> Value {
    json!({
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": "x", "maxLength": 20, "pattern": "^[a-z]*$"},
            "b": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100},
            "c": {"type": "number", "multipleOf": 2},
            "d": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 10}, "x-kubernetes-list-type": "set"},
            "e": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "nullable": true, "maxLength": 10}},
            "f": {"type": "object", "default": {"a": 1}, "properties": {"a": {"type": "integer"}, "b": {"type": "boolean", "default": true}}},
            "g": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "maxLength": 10},
            "h": {"x-kubernetes-preserve-unknown-fields": true},
            "i": {"type": "string", "format": "date-time"},
            "j": {
                "type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
                "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"type": "integer", "default": 7}}},
            },
            "k": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        },
        "oneOf": [{"required": ["a"]}, {"required": ["b"], "not": {"required": ["a"]}}],
        "x-kubernetes-validations": [
            {"rule": "!has(self.b) || self.b != 13"},
            {"rule": "!has(self.d) || self.d.all(x, x != 'bad')", "messageExpression": "'bad after ' + self.d[0]"},
            {"rule": "!has(self.e) || self.e.all(k, v, k != 'bad')"},
            {"rule": "!has(self.g) || type(self.g) == int || self.g.size() < 9"},
        ],
    })
}

static EVERYTHING: LazyLock<CustomResource> = LazyLock::new(|| compile_widgets(schema_with_everything()));

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-20i64..120).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just(2.0), Just(1e3), Just(-0.0), Just(1e19)].prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
        prop_oneof![Just("bad"), Just("2026-01-01T00:00:00Z"), Just("5Gi"), Just("v1"), Just("é\u{0}\"")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            fields(inner).prop_map(Value::Object),
        ]
    })
}

/// Generates objects whose fields are mostly those of the schema.
fn fields(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let name = prop_oneof![
        9 => "[a-k]",
        1 => prop_oneof![Just("kind"), Just("apiVersion"), Just("metadata"), Just("name"), Just("labels"), Just("bad")].prop_map(str::to_owned),
    ];
    prop::collection::btree_map(name, values, 0..6).prop_map(|map| map.into_iter().collect())
}

/// Replaces the value at `position` of a document, counted in pre-order from 0. Sets `position` to
/// `usize::MAX` once it is done.
fn replace_nth_value(document: &mut Value, position: &mut usize, replacement: &Value) {
    if *position == 0 {
        *document = replacement.clone();
        *position = usize::MAX;
        return;
    }
    *position = position.saturating_sub(usize::from(*position != usize::MAX));
    match document {
        Value::Array(items) => items.iter_mut().for_each(|item| replace_nth_value(item, position, replacement)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace_nth_value(field, position, replacement)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn admitting_an_admitted_object_changes_nothing(spec in fields(any_json()), status in any_json()) {
        let mut object = widget(Value::Object(spec));
        object["status"] = status;
        for operation in [Operation::Create, Operation::Snapshot] {
            if let Ok(once) = EVERYTHING.admit("v1", operation, object.clone(), FieldValidation::Warn) {
                let twice = EVERYTHING.admit("v1", operation, once.object.clone(), FieldValidation::Strict);
                prop_assert_eq!(&twice.map(|admitted| admitted.object), &Ok(once.object.clone()));
                // An update with the stored object itself changes nothing either.
                let update = EVERYTHING.admit("v1", Operation::Update { old: &once.object }, once.object.clone(), FieldValidation::Strict);
                prop_assert_eq!(&update.map(|admitted| admitted.object), &Ok(once.object));
            }
        }
    }

    #[test]
    fn no_object_makes_admission_panic(
        object in any_json(),
        old in any_json(),
        spec in any_json(),
        metadata in any_json(),
    ) {
        let mut with_type_meta = json!({"apiVersion": "kerf.test/v1", "kind": "Widget"});
        with_type_meta["metadata"] = metadata;
        with_type_meta["spec"] = spec;
        for object in [object, with_type_meta] {
            for operation in [Operation::Create, Operation::Snapshot, Operation::Update { old: &old }, Operation::UpdateStatus { old: &old }] {
                if let Err(rejection) = EVERYTHING.admit("v1", operation, object.clone(), FieldValidation::Strict) {
                    prop_assert!(!rejection.to_string().is_empty());
                    rejection.status("kerf.test", "v1", "Widget", "w");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_definition_makes_admission_panic(position in 0usize..260, replacement in any_json()) {
        let mut definition = widget_crd(schema_with_everything());
        replace_nth_value(&mut definition, &mut position.clone(), &replacement);
        if let Ok(resource) = CustomResource::compile(&definition) {
            let version = resource.storage_version().name.clone();
            let _ = resource.admit(&version, Operation::Create, widget(json!({"a": "x", "b": 1, "d": ["y"]})), FieldValidation::Warn);
        }
    }

    #[test]
    fn no_rule_makes_admission_panic(
        tokens in prop::collection::vec(0usize..TOKENS.len(), 1..14),
        spaced in any::<bool>(),
    ) {
        let rule: Vec<&str> = tokens.into_iter().map(|token| TOKENS[token]).collect();
        let rule = rule.join(if spaced { " " } else { "" });
        let mut schema = schema_with_everything();
        schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "m"}]);
        if let Ok(resource) = CustomResource::compile(&widget_crd(schema)) {
            let spec = json!({"a": "x", "b": 1, "d": ["y", "z"], "e": {"k": "v"}, "g": "5", "i": "2026-01-01T00:00:00Z", "j": [{"a": "q"}]});
            let _ = resource.admit("v1", Operation::Create, widget(spec), FieldValidation::Warn);
        }
    }
}

const TOKENS: &[&str] = &[
    "self",
    "oldSelf",
    ".a",
    ".b",
    ".d",
    ".e",
    ".j",
    ".?a",
    "[0]",
    "[?1]",
    "['k']",
    "==",
    "!=",
    "<",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "?",
    ":",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    "in",
    "1",
    "0",
    "9223372036854775807",
    "1.5",
    "2u",
    "'x'",
    "\"",
    "'",
    "b'a'",
    "r'\\d'",
    "true",
    "null",
    "has(self.a)",
    ".size()",
    ".all(x, x == 'y')",
    ".map(x, x)",
    ".exists(k, v, true)",
    ".matches('a+')",
    "string(",
    "int(",
    "duration('1h')",
    "timestamp(",
    "quantity('1')",
    "optional.of(1)",
    ".orValue(2)",
    "'%s'.format([1])",
    "type(self.b)",
    "lists.range(3)",
    ".sortBy(x, x)",
    "`",
    "@",
    "\\",
    "\n",
    "é",
    "__x__",
    "x",
];

#[test]
fn a_rule_that_exceeds_its_cost_limit_is_an_error() {
    let schema = |rule: &str| {
        json!({
            "type": "object",
            "properties": {"l": {"type": "array", "maxItems": 100, "items": {"type": "integer"}}},
            "x-kubernetes-validations": [{"rule": rule, "message": "m"}],
        })
    };
    let spec = json!({"l": vec![1; 100]});
    // The estimated cost is within the limit for a definition; the actual cost exceeds the limit
    // for one run.
    let resource = compile_widgets(schema("self.l.all(x, self.l.all(y, self.l.all(z, x + y + z > 0)))"));
    let rejection =
        resource.admit("v1", Operation::Create, widget(spec), FieldValidation::Warn).unwrap_err().to_string();
    assert_eq!(
        rejection,
        "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run \
         due to call cost exceeds limit for rule: m"
    );
}

#[test]
fn too_deep_and_too_long_rules_are_rejected() {
    for rule in [
        format!("{}true{}", "(".repeat(5000), ")".repeat(5000)),
        format!("{}true", "!".repeat(5000)),
        format!("{}1 > 0", "-".repeat(5000)),
        format!("1{} > 0", " + 1".repeat(5000)),
        format!("{}true", "true ? true : ".repeat(5000)),
        format!("{}1{}.size() > 0", "[".repeat(5000), "]".repeat(5000)),
        format!("self{} == 1", ".a".repeat(5000)),
        format!("'{}' == ''", "x".repeat(200_000)),
    ] {
        let mut schema = schema_with_everything();
        schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "m"}]);
        assert!(CustomResource::compile(&widget_crd(schema)).is_err(), "{}", &rule[..20]);
    }
    // A long rule of many flat parts is accepted.
    let flat = vec!["has(self.a)"; 300].join(" || ");
    let mut schema = schema_with_everything();
    schema["x-kubernetes-validations"] = json!([{"rule": flat, "message": "m"}]);
    assert!(CustomResource::compile(&widget_crd(schema)).is_ok());
}

#[test]
fn a_rule_of_the_allowed_depth_does_not_overflow_the_stack() {
    for rule in [
        format!("1{} > 0", " + 1".repeat(390)),
        format!("{}true{}", "(".repeat(390), ")".repeat(390)),
        format!("{}true", "!".repeat(390)),
        format!("{}true", "true ? true : ".repeat(390)),
    ] {
        let mut schema = schema_with_everything();
        schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "m"}]);
        // The rule may be accepted or rejected; the call must return.
        let _ = CustomResource::compile(&widget_crd(schema));
    }
}

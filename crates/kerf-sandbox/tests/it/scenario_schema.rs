//! The JSON schema of scenario files: it describes the parser, and all shipped scenarios satisfy
//! it.

use std::fs;
use std::path::PathBuf;

use kerf_sandbox::sim::Scenario;
use serde_json::{Value, json};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn published_schema() -> Value {
    let path = repository().join("docs/schemas/scenario.schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns all shipped scenarios with their file names.
fn shipped_scenarios() -> Vec<(String, Value)> {
    let mut scenarios = Vec::new();
    let folders = ["scenarios", "scenarios/aws"].map(|folder| fs::read_dir(repository().join(folder)).unwrap());
    let paths = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.is_file()) {
        let tree: serde_yaml_ng::Value = serde_yaml_ng::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        scenarios.push((path.display().to_string(), serde_json::to_value(tree).unwrap()));
    }
    scenarios.sort_by(|a, b| a.0.cmp(&b.0));
    scenarios
}

/// Returns the first rule of a schema that a value violates. Supports the keywords of the scenario
/// schema only, and fails for every other one.
fn violation(root: &Value, schema: &Value, value: &Value, path: &str) -> Option<String> {
    let Value::Object(schema) = schema else {
        return (*schema == json!(false)).then(|| format!("{path}: not allowed"));
    };
    schema.iter().find_map(|(keyword, rule)| {
        let each = |rules: &Value| -> Vec<Option<String>> {
            rules.as_array().unwrap().iter().map(|rule| violation(root, rule, value, path)).collect()
        };
        match keyword.as_str() {
            "$ref" => violation(root, root.pointer(&rule.as_str().unwrap()[1..]).unwrap(), value, path),
            "anyOf" | "oneOf" => {
                let results = each(rule);
                results.iter().all(Option::is_some).then(|| format!("{path}: {results:?}"))
            }
            "allOf" => each(rule).into_iter().flatten().next(),
            "type" => {
                let is = |name: &Value| match name.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    "null" => value.is_null(),
                    other => panic!("unknown type {other}"),
                };
                let fits = rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is));
                (!fits).then(|| format!("{path}: is not of type {rule}"))
            }
            "minLength" => {
                let is_short = value.as_str().is_some_and(|text| (text.len() as u64) < rule.as_u64().unwrap());
                is_short.then(|| format!("{path}: is too short"))
            }
            "enum" => (!rule.as_array().unwrap().contains(value)).then(|| format!("{path}: is not one of {rule}")),
            "const" => (rule != value).then(|| format!("{path}: is not {rule}")),
            "minimum" => {
                (value.is_number() && value.as_f64() < rule.as_f64()).then(|| format!("{path}: is less than {rule}"))
            }
            "maximum" => {
                (value.is_number() && value.as_f64() > rule.as_f64()).then(|| format!("{path}: is more than {rule}"))
            }
            "required" => {
                let missing = rule.as_array().unwrap().iter().find(|name| value.get(name.as_str().unwrap()).is_none());
                missing.map(|name| format!("{path}: lacks {name}"))
            }
            "properties" => {
                let fields = value.as_object()?.iter();
                fields
                    .filter_map(|(name, value)| Some((rule.get(name)?, name, value)))
                    .find_map(|(schema, name, value)| violation(root, schema, value, &format!("{path}.{name}")))
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
                let mut extra = value.as_object()?.iter().filter(|(name, _)| !is_known(name));
                extra.find_map(|(name, value)| violation(root, rule, value, &format!("{path}.{name}")))
            }
            "items" => {
                let mut items = value.as_array()?.iter().enumerate();
                items.find_map(|(index, item)| violation(root, rule, item, &format!("{path}[{index}]")))
            }
            // Patterns are checked by the parser, with better messages.
            "pattern" | "format" | "description" | "title" | "default" | "$schema" | "$defs" => None,
            other => panic!("unknown keyword {other}"),
        }
    })
}

#[test]
fn the_published_schema_is_that_of_the_parser() {
    let schema = Scenario::json_schema();
    assert!(
        published_schema() == schema,
        "write the new schema: cargo run -p kerf-sandbox --example scenario_schema > docs/schemas/scenario.schema.json"
    );
}

#[test]
fn all_shipped_scenarios_are_valid_and_satisfy_the_schema() {
    let (schema, scenarios) = (published_schema(), shipped_scenarios());
    assert!(scenarios.len() >= 60, "{} scenarios", scenarios.len());
    for (file, tree) in scenarios {
        assert_eq!(violation(&schema, &schema, &tree, ""), None, "{file}");
        if let Err(errors) = Scenario::read(tree) {
            panic!("{file}: {errors:?}");
        }
    }
}

/// Returns the paths of all numbers of a schema that have no lower or no upper bound.
fn unbounded_numbers(schema: &Value, path: &str) -> Vec<String> {
    match schema {
        Value::Object(fields) => {
            let is_number = |value: &Value| ["integer", "number"].iter().any(|name| value == name);
            let has_number = match fields.get("type") {
                Some(Value::Array(names)) => names.iter().any(is_number),
                other => other.is_some_and(is_number),
            };
            let is_unbounded = has_number && !(fields.contains_key("minimum") && fields.contains_key("maximum"));
            let own = is_unbounded.then(|| path.to_owned());
            let inner = fields.iter().flat_map(|(name, value)| unbounded_numbers(value, &format!("{path}/{name}")));
            own.into_iter().chain(inner).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(i, item)| unbounded_numbers(item, &format!("{path}/{i}"))).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn every_number_of_the_format_has_bounds() {
    assert_eq!(unbounded_numbers(&Scenario::json_schema(), ""), [] as [&str; 0]);
}

/// Returns the keys that the types of the parser expect at the place of an unknown one.
fn expected_keys(tree: Value) -> Vec<String> {
    let text = serde_json::from_value::<Scenario>(tree).map(drop).unwrap_err().to_string();
    assert!(text.contains("unknown field"), "{text}");
    let mut keys: Vec<String> = text.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    keys.sort();
    keys
}

#[test]
fn the_parser_and_the_schema_know_the_same_keys() {
    let schema = published_schema();
    let step =
        |action: &str, fields: Value| json!({"name": "x", "until": "1m", "steps": [{"at": "0s", action: fields}]});
    let unknown = || json!({"?": 1});
    let target = || json!({"kind": "Node", "?": 1});
    for (definition, tree) in [
        (String::new(), json!({"name": "x", "until": "1m", "steps": [], "?": 1})),
        ("ScenarioStep".to_owned(), json!({"name": "x", "until": "1m", "steps": [{"at": "0s", "?": 1}]})),
        ("Steady".to_owned(), json!({"name": "x", "until": "1m", "steps": [], "steady": unknown()})),
        ("PlanComparison".to_owned(), json!({"name": "x", "until": "1m", "steps": [], "planComparison": unknown()})),
        ("ScaleStep".to_owned(), step("scale", unknown())),
        ("ScenarioTarget".to_owned(), step("delete", target())),
        ("PatchStep".to_owned(), step("patch", target())),
        ("EditStatusStep".to_owned(), step("editStatus", target())),
        ("InterruptStep".to_owned(), step("interrupt", unknown())),
        ("ExpectStep".to_owned(), step("expect", unknown())),
        ("ConditionExpectation".to_owned(), step("expect", json!({"conditions": [unknown()]}))),
        ("LabelExpectation".to_owned(), step("expect", json!({"labels": [unknown()]}))),
        ("AwsStep".to_owned(), step("aws", unknown())),
        ("InstanceSelector".to_owned(), step("aws", json!({"reclaim": unknown()}))),
        ("StockOutStep".to_owned(), step("aws", json!({"stockOut": unknown()}))),
        ("CallFaultStep".to_owned(), step("aws", json!({"callFault": unknown()}))),
        ("ControllerOptions".to_owned(), json!({"name": "x", "until": "1m", "steps": [], "controller": unknown()})),
        ("Fault".to_owned(), step("faults", json!([{"fault": "error", "?": 1}]))),
    ] {
        let found = if definition.is_empty() { &schema } else { &schema["$defs"][&definition] };
        let found = if definition == "Fault" { &found["anyOf"][1] } else { found };
        let keys: Vec<String> = found["properties"].as_object().unwrap().keys().cloned().collect();
        let mut keys = keys;
        keys.sort();
        assert_eq!(expected_keys(tree), keys, "{definition}");
    }
}

#[test]
fn the_schema_rejects_what_the_parser_rejects() {
    let schema = published_schema();
    for tree in [
        json!({"name": "x", "until": "1m"}),
        json!({"name": "x", "until": "1m", "steps": [], "unknown": 1}),
        json!({"name": "x", "until": "1m", "steps": [{"at": "0s", "kill": "kubelet"}]}),
        json!({"name": "x", "until": "1m", "steps": [{"at": "0s", "stop": "20s"}]}),
        json!({"name": "x", "until": "1m", "steps": [{"at": "0s", "replicas": "two"}]}),
        json!({"name": "x", "until": "1m", "steps": [], "faults": [{"fault": "rain"}]}),
        json!({"name": "x", "until": "1m", "steps": [], "faults": [{"fault": "error", "rate": 2}]}),
        json!({"name": "", "until": "1m", "steps": []}),
        json!({"name": "x", "until": "1m", "steps": [], "nodes": 100_000}),
        json!({"name": "x", "until": "1m", "steps": [{"at": "0s", "interrupt": {"count": 0}}]}),
        json!({"name": "x", "until": "1m", "steps": [{"at": "0s", "apply": [["Pod"]]}]}),
        json!({"name": "x", "until": "1m", "steps": [{"at": "0s", "expect": {"metrics": {"x": -1}}}]}),
        json!({"name": "x", "until": "1m", "steps": [{"at": "0s", "aws": {"tags": {"resources": "*", "add": {"a": 1}}}}]}),
    ] {
        assert!(violation(&schema, &schema, &tree, "").is_some(), "{tree}");
        assert!(Scenario::read(tree.clone()).is_err(), "{tree}");
    }
}

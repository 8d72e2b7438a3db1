//! Compares admission with Kubernetes. `testdata/kubernetes.jsonl` holds about 850 objects and
//! definitions, each with the answer of the libraries of kube-apiserver 1.36.3. The answers here
//! must be equal, word for word, except for `KNOWN_DIFFERENCES`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::*;

/// Prefixes of the names of cases whose answer differs, with the reason. A listed case that agrees
/// fails the test too.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[
    ("cel: google.protobuf.Duration{", "protobuf messages are not implemented, because no rule of a CRD needs them"),
    (
        "cel: authorizer.path(",
        "the authorizer is not implemented, so the error names each method and not only the variable",
    ),
    ("crd root nullable", "the error about the root does not contain the whole schema"),
    ("crd root allOf with status", "the error about the root does not contain the whole schema"),
];

fn widget_crd_with_conditions(spec: Value) -> Value {
    let status = json!({"type": "object", "properties": {
        "nodes": {"type": "integer", "format": "int64", "default": 0},
        "conditions": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": ["type", "status"], "properties": {
                "type": {"type": "string", "maxLength": 16},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            }},
        },
    }});
    let mut crd = super::widget_crd(spec);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = status;
    crd
}

/// Returns the answer that is compared: causes sorted by text, unknown fields, warnings and the
/// stored object.
fn admission_answer(case: &Value, crd: &Value) -> Value {
    let mut answer = json!({});
    let causes = |errors: &[FieldError]| -> Value {
        let mut causes: Vec<(String, Value)> = errors
            .iter()
            .map(|error| {
                let cause = json!({"reason": error.kind.reason(), "field": error.path, "message": error.body()});
                (format!("{}{}", error.path, error.body()), cause)
            })
            .collect();
        causes.sort_by(|a, b| a.0.cmp(&b.0));
        causes.into_iter().map(|(_, cause)| cause).collect()
    };
    let resource = match CustomResource::compile(crd) {
        Ok(resource) => resource,
        Err(errors) => {
            answer["causes"] = causes(&errors);
            return answer;
        }
    };
    let operation = match case["op"].as_str() {
        Some("create") => Operation::Create,
        Some("update") => Operation::Update { old: &case["old"] },
        Some("status") => Operation::UpdateStatus { old: &case["old"] },
        _ => return answer,
    };
    let version = resource.storage_version().name.clone();
    let strict = resource.admit(&version, operation, case["object"].clone(), FieldValidation::Strict);
    if let Err(AdmissionRejection::Malformed(MalformedObject::UnknownFields(fields))) = &strict {
        answer["unknown"] =
            fields.iter().map(|field| json!(field.trim_start_matches("unknown field ").trim_matches('"'))).collect();
    }
    match resource.admit(&version, operation, case["object"].clone(), FieldValidation::Ignore) {
        Ok(admitted) => {
            if !admitted.warnings.is_empty() {
                answer["warnings"] = json!(admitted.warnings);
            }
            let mut object = admitted.object;
            if let Some(metadata) = object["metadata"].as_object_mut() {
                for system in ["creationTimestamp", "uid", "resourceVersion", "generation", "managedFields"] {
                    metadata.remove(system);
                }
            }
            answer["object"] = object;
        }
        Err(AdmissionRejection::Malformed(malformed)) => {
            answer = json!({"malformed": malformed.to_string()});
        }
        Err(AdmissionRejection::Invalid(errors)) => answer["causes"] = causes(&errors),
    }
    answer
}

#[test]
fn every_answer_equals_the_recorded_answer_of_kubernetes() {
    let mut schemas = BTreeMap::new();
    let mut differing = Vec::new();
    let mut compared = 0;
    for line in include_str!("../testdata/kubernetes.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        if let Some(schema) = case.get("is") {
            schemas.insert(case["schema"].as_str().unwrap().to_owned(), schema.clone());
            continue;
        }
        let crd = case.get("crd").cloned().unwrap_or_else(|| {
            let mut spec = schemas[case["schema"].as_str().unwrap()].clone();
            if let Some(rules) = case.get("rules") {
                spec["x-kubernetes-validations"] = rules.clone();
            }
            widget_crd_with_conditions(spec)
        });
        let name = case["name"].as_str().unwrap();
        let (mut ours, mut theirs) = (admission_answer(&case, &crd), case["answer"].clone());
        // Numbers beyond int64 are floats, which the two implementations write differently.
        number::write_whole_floats_as_integers(&mut ours);
        number::write_whole_floats_as_integers(&mut theirs);
        compared += 1;
        let known = KNOWN_DIFFERENCES.iter().any(|(known, _)| name.starts_with(known));
        if known == (ours == theirs) {
            differing.push(format!("{name}\n  ours:   {ours}\n  theirs: {theirs}"));
        }
    }
    assert!(compared > 800, "the file of cases was parsed");
    assert!(differing.is_empty(), "{} of {compared} answers differ:\n{}", differing.len(), differing.join("\n"));
}

//! The effect of a RuntimeClass on a pod that names it, as in the API server's admission: the pod
//! gets the overhead of the class, and the class's node selector and tolerations are added to the
//! pod's own. A pod whose node selector contradicts that of the class is rejected.

use kerf_api::slim::Str;
use serde_json::{Map, Value, json};

use super::decode::FieldProblem;
use super::documents::ObjectBody;
use super::field_reader::FieldReader;
use super::objects::{ReadObject, ReadResult};

/// The fields of a RuntimeClass that affect pods.
#[derive(Debug)]
pub(super) struct RuntimeClass {
    pub(super) name: Str,
    /// Overhead added to the pod's requests, as in the manifest; null if there is none.
    overhead: Value,
    /// Labels that a node must have to run pods of this class.
    node_selector: Map<String, Value>,
    /// Tolerations that pods of this class get.
    tolerations: Vec<Value>,
}

pub(super) fn read_runtime_class(body: &ObjectBody<'_>) -> ReadResult<RuntimeClass> {
    let mut reader = FieldReader::of(body)?;
    let class = RuntimeClass {
        name: Str::from(reader.get::<String>("metadata.name")),
        overhead: reader.get("overhead.podFixed"),
        node_selector: reader.get("scheduling.nodeSelector"),
        tolerations: reader.get("scheduling.tolerations"),
    };
    Ok(ReadObject::of(reader.finish(class)?))
}

impl RuntimeClass {
    /// Adds the class's fields to the spec of a pod. Returns the contradictions between class and
    /// pod. Invalid values stay, so that the decoder reports them.
    pub(super) fn apply_to_spec(&self, spec: &mut Map<String, Value>) -> Vec<FieldProblem> {
        if !self.overhead.is_null() {
            spec.entry("overhead").or_insert_with(|| self.overhead.clone());
        }
        let mut problems = Vec::new();
        if !self.node_selector.is_empty()
            && let Some(selector) = get_or_insert(spec, "nodeSelector", json!({})).as_object_mut()
        {
            for (label, value) in &self.node_selector {
                let own = selector.entry(label).or_insert_with(|| value.clone());
                if own != value {
                    let message = format!(
                        "Forbidden: conflict: runtimeClass.scheduling.nodeSelector[{label}] = {}; pod.spec.nodeSelector[{label}] = {}",
                        unquoted(value),
                        unquoted(own)
                    );
                    problems.push(FieldProblem { path: "spec.nodeSelector".to_owned(), message });
                }
            }
        }
        if !self.tolerations.is_empty()
            && let Some(tolerations) = get_or_insert(spec, "tolerations", json!([])).as_array_mut()
        {
            let missing = self.tolerations.iter().filter(|toleration| !tolerations.contains(toleration));
            let missing: Vec<Value> = missing.cloned().collect();
            tolerations.extend(missing);
        }
        problems
    }
}

/// Returns the field; sets it to `empty` if it is missing or null.
fn get_or_insert<'s>(spec: &'s mut Map<String, Value>, field: &str, empty: Value) -> &'s mut Value {
    let value = spec.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = empty;
    }
    value
}

/// Returns a string without its quotes, and other values as JSON.
fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

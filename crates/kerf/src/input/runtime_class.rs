//! What a runtime class makes of a pod that names it, as the API server's admission does it: its overhead is the pod's, its selector and
//! its tolerations are added to the pod's own. A selector that contradicts the pod's is why such a pod is refused.

use kerf_api::slim::Str;
use serde_json::{Map, Value, json};

use super::decode::FieldProblem;
use super::documents::ObjectBody;
use super::field_reader::FieldReader;
use super::objects::{ReadObject, ReadResult};

/// A runtime class, as far as it says something about pods.
#[derive(Debug)]
pub(super) struct RuntimeClass {
    pub(super) name: Str,
    /// What it adds to the requests, as it is written.
    overhead: Value,
    /// Labels that nodes must have to run such pods.
    node_selector: Map<String, Value>,
    /// Taints that such pods put up with.
    tolerations: Vec<Value>,
}

/// Reads a runtime class.
pub(super) fn read_runtime_class(body: &ObjectBody<'_>) -> ReadResult<RuntimeClass> {
    let mut parts = FieldReader::of(body)?;
    let class = RuntimeClass {
        name: Str::from(parts.get::<String>("metadata.name")),
        overhead: parts.get("overhead.podFixed"),
        node_selector: parts.get("scheduling.nodeSelector"),
        tolerations: parts.get("scheduling.tolerations"),
    };
    Ok(ReadObject::of(parts.finish(class)?))
}

impl RuntimeClass {
    /// Completes the spec of a pod, or says where the two contradict each other. What is not as it should be stays, for the decoder to
    /// complain of.
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
            let new = self.tolerations.iter().filter(|toleration| !tolerations.contains(toleration));
            let new: Vec<Value> = new.cloned().collect();
            tolerations.extend(new);
        }
        problems
    }
}

/// The field, made if it is not there.
fn get_or_insert<'s>(spec: &'s mut Map<String, Value>, field: &str, empty: Value) -> &'s mut Value {
    let value = spec.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = empty;
    }
    value
}

/// A text without its quotes.
fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

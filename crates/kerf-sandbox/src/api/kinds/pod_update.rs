//! Validation of pod updates. Images, the active deadline, additional tolerations and removed
//! scheduling gates are allowed. All other fields are immutable, and controllers rely on that.

use serde_json::{Map, Value};

use crate::api::field::{self, FieldError};
use crate::api::object;

const FORBIDDEN_UPDATE_MESSAGE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
     `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
     (allow it to be set to 1 if it was previously negative)";

/// Validates the change of the spec from `old` to `new`.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for list in ["containers", "initContainers"] {
        for (index, container) in object::list(new, &[list]).iter().enumerate() {
            if object::text(container, &["image"]).is_empty() {
                errors.push(field::required(format!("spec.{list}[{index}].image"), ""));
            }
        }
    }
    validate_tolerations(new, old, errors);
    validate_scheduling_gates(new, old, errors);
    if immutable_part(new, old) != immutable_part(old, old) {
        errors.push(field::forbidden("spec", FORBIDDEN_UPDATE_MESSAGE));
    }
}

/// Returns the spec without the fields that may change. The stored spec `old` decides whether the
/// pod has scheduling gates.
fn immutable_part(spec: &Value, old: &Value) -> Map<String, Value> {
    let mut fixed = spec.as_object().cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        for container in fixed.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            object::remove(container, &["image"]);
        }
    }
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        fixed.remove(key);
    }
    if object::number(old, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        fixed.remove("terminationGracePeriodSeconds");
    }
    if !object::list(old, &["schedulingGates"]).is_empty() {
        // The node selector and affinity of a gated pod may still change.
        fixed.remove("nodeSelector");
        if let Some(affinity) = fixed.get_mut("affinity") {
            object::remove(affinity, &["nodeAffinity"]);
        }
        fixed.retain(|key, value| key != "affinity" || value.as_object().is_some_and(|affinity| !affinity.is_empty()));
    }
    fixed
}

fn validate_tolerations(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let without_time = |toleration: &Value| {
        let mut toleration = toleration.clone();
        object::remove(&mut toleration, &["tolerationSeconds"]);
        toleration
    };
    let new_tolerations: Vec<Value> = object::list(new, &["tolerations"]).iter().map(without_time).collect();
    if object::list(old, &["tolerations"]).iter().any(|toleration| !new_tolerations.contains(&without_time(toleration)))
    {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(field::forbidden("spec.tolerations", detail));
    }
}

fn validate_scheduling_gates(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let old_gates: Vec<&str> =
        object::list(old, &["schedulingGates"]).iter().map(|gate| object::text(gate, &["name"])).collect();
    for (index, gate) in object::list(new, &["schedulingGates"]).iter().enumerate() {
        let name = object::text(gate, &["name"]);
        if !old_gates.contains(&name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(field::forbidden(format!("spec.schedulingGates[{index}].name"), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(new: &Value, old: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate_update(new, old, &mut errors);
        errors.iter().map(|error| error.to_string().chars().take(47).collect()).collect()
    }

    #[test]
    fn only_a_few_fields_may_change() {
        let old = json!({"containers": [{"name": "c", "image": "a:1"}], "tolerations": [{"key": "a", "tolerationSeconds": 3}]});
        let with = |key: &str, value: Value| {
            let mut new = old.clone();
            new[key] = value;
            new
        };
        for new in [
            with("containers", json!([{"name": "c", "image": "a:2"}])),
            with("tolerations", json!([{"key": "a", "tolerationSeconds": 9}, {"key": "b"}])),
            with("activeDeadlineSeconds", json!(5)),
        ] {
            assert!(problems(&new, &old).is_empty(), "{new}");
        }
        assert_eq!(problems(&with("nodeName", json!("n")), &old), ["spec: Forbidden: pod updates may not change fie"]);
        assert_eq!(
            problems(&with("tolerations", json!([])), &old),
            ["spec.tolerations: Forbidden: existing toleratio"]
        );
        assert_eq!(
            problems(&with("schedulingGates", json!([{"name": "x"}])), &old),
            ["spec.schedulingGates[0].name: Forbidden: only d"]
        );
    }

    #[test]
    fn a_gated_pod_may_change_its_node_selector_and_lose_its_gates() {
        let old = json!({"containers": [{"name": "c", "image": "a"}], "schedulingGates": [{"name": "x"}], "affinity": {"nodeAffinity": {"a": 1}}});
        let new = json!({"containers": [{"name": "c", "image": "a"}], "nodeSelector": {"zone": "a"}});
        assert!(problems(&new, &old).is_empty(), "{:?}", problems(&new, &old));
    }
}

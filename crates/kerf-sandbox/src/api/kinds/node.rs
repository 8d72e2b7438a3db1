//! Nodes: defaults and validation of taints, provider ID and pod CIDRs.

use serde_json::Value;

use super::{KindStrategy, NO_OP_STRATEGY};
use crate::api::field::{self, FieldError};
use crate::api::names;
use crate::api::object;

pub(super) const NODE: KindStrategy = KindStrategy { default, validate, ..NO_OP_STRATEGY };

fn default(node: &mut Value) {
    object::ensure_object(node, &["spec"]);
    if object::at(node, &["status", "allocatable"]).is_none()
        && let Some(capacity) = object::at(node, &["status", "capacity"]).cloned()
    {
        object::ensure_object(node, &["status"]).insert("allocatable".into(), capacity);
    }
    let info = object::ensure_object(node, &["status", "nodeInfo"]);
    for field in NODE_INFO {
        info.entry(field).or_insert_with(|| "".into());
    }
    object::ensure_object(node, &["status", "daemonEndpoints", "kubeletEndpoint"])
        .entry("Port")
        .or_insert_with(|| 0.into());
}

/// Fields of `status.nodeInfo`. They are always present, also if the create request omits them.
const NODE_INFO: [&str; 10] = [
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

fn validate(node: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let taints = object::list(node, &["spec", "taints"]);
    for (index, taint) in taints.iter().enumerate() {
        let path = format!("metadata.taints[{index}]");
        let (key, value, effect) =
            (object::text(taint, &["key"]), object::text(taint, &["value"]), object::text(taint, &["effect"]));
        for problem in names::qualified_name_problems(key) {
            errors.push(field::invalid(format!("{path}.key"), key, problem));
        }
        if let Some(problem) = names::label_value_problems(value).into_iter().next() {
            errors.push(field::invalid(format!("{path}.value"), value, problem));
        }
        if effect.is_empty() {
            errors.push(field::required(format!("{path}.effect"), ""));
        } else if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            let known = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.push(field::not_supported(format!("{path}.effect"), effect, known));
        }
        let is_duplicate =
            |other: &Value| object::text(other, &["key"]) == key && object::text(other, &["effect"]) == effect;
        if taints[..index].iter().any(is_duplicate) {
            let detail = "taints must be unique by key and effect pair";
            errors.push(field::duplicate(path.as_str(), taint.clone()));
            errors.push(field::forbidden(path, detail));
        }
    }
    let Some(old) = old else { return };
    let old_provider_id = object::text(old, &["spec", "providerID"]);
    if !old_provider_id.is_empty() && old_provider_id != object::text(node, &["spec", "providerID"]) {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(field::forbidden("spec.providerID", detail));
    }
    let cidrs = object::list(old, &["spec", "podCIDRs"]);
    if !cidrs.is_empty() && cidrs != object::list(node, &["spec", "podCIDRs"]) {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(field::forbidden("spec.podCIDRs", detail));
    }
}

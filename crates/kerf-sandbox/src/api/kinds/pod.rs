//! Pods: their initial status and QoS class, and the validation of new and changed pods.

use kerf_api::quantity::Quantity;
use serde_json::{Value, json};

use super::{KindStrategy, NO_OP_STRATEGY, WriteContext, pod_spec, pod_update};
use crate::api::field::{self, FieldError};
use crate::api::object;

pub(super) const SELECTABLE_FIELDS: &[(&str, &str)] = &[
    ("spec.nodeName", ""),
    ("spec.restartPolicy", ""),
    ("spec.schedulerName", ""),
    ("spec.serviceAccountName", ""),
    ("spec.hostNetwork", "false"),
    ("status.phase", ""),
    ("status.podIP", ""),
    ("status.nominatedNodeName", ""),
];

pub(super) const POD: KindStrategy = KindStrategy {
    default: |pod| {
        if let Some(spec) = pod.get_mut("spec") {
            pod_spec::default(spec);
            pod_spec::default_pod_only_fields(spec);
        }
    },
    prepare_for_create,
    prepare_for_status_update,
    validate,
    ..NO_OP_STRATEGY
};

fn prepare_for_create(pod: &mut Value, context: &mut WriteContext<'_>) {
    merge_label_keys(pod);
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(pod)});
    if !object::list(pod, &["spec", "schedulingGates"]).is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": object::rfc3339_seconds(context.now),
        }]);
    }
    object::ensure_object(pod, &[]).insert("status".into(), status);
}

fn prepare_for_status_update(pod: &mut Value, old: &Value, _: &mut WriteContext<'_>) {
    // Kubelets write whole pods through the status subresource; they must not change the owners.
    match object::at(old, &["metadata", "ownerReferences"]) {
        Some(owners) => object::set_meta(pod, "ownerReferences", owners.clone()),
        None => drop(object::remove(pod, &["metadata", "ownerReferences"])),
    }
    let class = object::text(old, &["status", "qosClass"]);
    if object::text(pod, &["status", "qosClass"]).is_empty() && !class.is_empty() {
        object::ensure_object(pod, &["status"]).insert("qosClass".into(), class.into());
    }
}

fn validate(pod: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let empty = json!({});
    let spec = pod.get("spec").unwrap_or(&empty);
    let Some(old) = old else {
        pod_spec::validate_pod_spec(spec, &[], "spec", errors);
        let gated = !object::list(spec, &["schedulingGates"]).is_empty();
        if gated && !object::text(spec, &["nodeName"]).is_empty() {
            errors.push(field::forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"));
        }
        return;
    };
    pod_update::validate_update(spec, old.get("spec").unwrap_or(&empty), errors);
}

/// Returns the QoS class. `Guaranteed`: the requests of every container equal its limits, for CPU
/// and memory. `BestEffort`: no container requests or limits either. Otherwise `Burstable`.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let containers = ["initContainers", "containers"].into_iter().flat_map(|list| object::list(pod, &["spec", list]));
    let amount = |container: &Value, which: &str, resource: &str| {
        let amount: Option<Quantity> = object::text(container, &["resources", which, resource]).parse().ok();
        amount.filter(|amount| !amount.is_zero())
    };
    let pod_level = object::at(pod, &["spec", "resources"]).map(|_| pod.get("spec").unwrap_or(&Value::Null));
    let resource_holders: Vec<&Value> = pod_level.map_or_else(|| containers.collect(), |spec| vec![spec]);
    let (mut has_any, mut guaranteed) = (false, true);
    for container in resource_holders {
        for resource in ["cpu", "memory"] {
            let (request, limit) = (amount(container, "requests", resource), amount(container, "limits", resource));
            has_any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request.or(limit) == limit;
        }
    }
    match (has_any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Merges `matchLabelKeys` and `mismatchLabelKeys` into the label selectors beside them, with this
/// pod's label values. Schedulers and autoscalers then only need to evaluate the selectors.
fn merge_label_keys(pod: &mut Value) {
    let labels = object::at(pod, &["metadata", "labels"]).cloned().unwrap_or_default();
    for constraint in object::list_mut(pod, &["spec", "topologySpreadConstraints"]) {
        merge_into_selector(constraint, &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let required = ["spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"];
        for term in object::list_mut(pod, &required) {
            merge_into_selector(term, &labels);
        }
        let preferred = ["spec", "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"];
        for weighted in object::list_mut(pod, &preferred) {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                merge_into_selector(term, &labels);
            }
        }
    }
}

fn merge_into_selector(term: &mut Value, labels: &Value) {
    if term.get("labelSelector").is_none() {
        return;
    }
    let mut added = Vec::new();
    for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in object::list(term, &[keys]).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key).and_then(Value::as_str) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if added.is_empty() {
        return;
    }
    let selector = object::ensure_object(term, &["labelSelector"]);
    if let Some(expressions) = selector.entry("matchExpressions").or_insert_with(|| json!([])).as_array_mut() {
        expressions.extend(added);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_get_their_qos_class() {
        let pod = |containers: Value| json!({"spec": {"containers": containers}});
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}});
        for (containers, class) in [
            (json!([{"resources": {}}]), "BestEffort"),
            (json!([{"resources": {"requests": {"example.com/gpu": "1"}}}]), "BestEffort"),
            (json!([{"resources": full}]), "Guaranteed"),
            (json!([{"resources": full}, {"resources": {}}]), "Burstable"),
            (json!([{"resources": {"requests": {"cpu": "1"}}}]), "Burstable"),
            (
                json!([{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}}]),
                "Burstable",
            ),
        ] {
            assert_eq!(qos_class(&pod(containers.clone())), class, "{containers}");
        }
    }
}

//! The conversion of HorizontalPodAutoscalers between `autoscaling/v1` and `v2`. `v1` has a field
//! for the utilization of CPU only. Like the real server, it shows other metrics, the behavior and
//! parts of the status as JSON in annotations, so that a client of `v1` does not lose them.

use serde_json::{Map, Value, json};

use super::cpu_metric;
use crate::api::object;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// Fields of the spec and of the status that are equal in both versions.
const COMMON_SPEC_FIELDS: [&str; 3] = ["scaleTargetRef", "minReplicas", "maxReplicas"];
const COMMON_STATUS_FIELDS: [&str; 4] = ["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"];

/// Converts a stored autoscaler to `autoscaling/v1`.
pub(crate) fn autoscaler_to_v1(stored: &Value) -> Value {
    let mut served = identity(stored, "autoscaling/v1");
    let mut spec = copy_fields(stored.get("spec"), &COMMON_SPEC_FIELDS);
    let is_cpu = |metric: &&Value| cpu_utilization(metric).is_some();
    let (cpu, others): (Vec<&Value>, Vec<&Value>) = object::list(stored, &["spec", "metrics"]).iter().partition(is_cpu);
    if let Some(utilization) = cpu.first().and_then(|metric| cpu_utilization(metric)) {
        spec.insert("targetCPUUtilizationPercentage".into(), utilization.clone());
    }
    let mut status = copy_fields(stored.get("status"), &COMMON_STATUS_FIELDS);
    for count in ["currentReplicas", "desiredReplicas"] {
        status.entry(count).or_insert_with(|| 0.into());
    }
    let utilization = ["resource", "current", "averageUtilization"];
    let of_cpu = |status: &&Value| object::text(status, &["resource", "name"]) == "cpu";
    let current_metrics = object::list(stored, &["status", "currentMetrics"]);
    if let Some(current) = current_metrics.iter().find(of_cpu).and_then(|status| object::at(status, &utilization)) {
        status.insert("currentCPUUtilizationPercentage".into(), current.clone());
    }
    let mut annotate = |key: &str, value: Value| {
        object::ensure_object(&mut served, &["metadata", "annotations"]).insert(key.into(), value.to_string().into());
    };
    if !others.is_empty() {
        annotate(METRICS, others.into_iter().map(metric_to_v1).collect());
    }
    if let Some(behavior) = object::at(stored, &["spec", "behavior"]) {
        annotate(BEHAVIOR, with_key_case(behavior, str::to_ascii_uppercase));
    }
    for (key, list) in [(CURRENT_METRICS, "currentMetrics"), (CONDITIONS, "conditions")] {
        let items = object::list(stored, &["status", list]);
        if !items.is_empty() {
            annotate(key, items.into());
        }
    }
    let fields = object::ensure_object(&mut served, &[]);
    fields.insert("spec".into(), spec.into());
    fields.insert("status".into(), status.into());
    served
}

/// Converts an autoscaler of `autoscaling/v1` to the stored form.
pub(crate) fn autoscaler_to_v2(v1: &Value) -> Value {
    let mut stored = identity(v1, "autoscaling/v2");
    // Annotations that are not JSON lists or objects are ignored, as in the real server.
    let annotation =
        |key: &str| -> Option<Value> { serde_json::from_str(object::text(v1, &["metadata", "annotations", key])).ok() };
    let list = |key: &str| match annotation(key) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let mut spec = copy_fields(v1.get("spec"), &COMMON_SPEC_FIELDS);
    let mut metrics: Vec<Value> = list(METRICS).iter().map(metric_to_v2).collect();
    metrics.extend(object::number(v1, &["spec", "targetCPUUtilizationPercentage"]).map(cpu_metric));
    if !metrics.is_empty() {
        spec.insert("metrics".into(), metrics.into());
    }
    if let Some(behavior @ Value::Object(_)) = annotation(BEHAVIOR) {
        spec.insert("behavior".into(), with_key_case(&behavior, str::to_ascii_lowercase));
    }
    let mut status = copy_fields(v1.get("status"), &COMMON_STATUS_FIELDS);
    for (key, field) in [(CURRENT_METRICS, "currentMetrics"), (CONDITIONS, "conditions")] {
        let items = list(key);
        if !items.is_empty() {
            status.insert(field.into(), items.into());
        }
    }
    let fields = object::ensure_object(&mut stored, &[]);
    fields.insert("spec".into(), spec.into());
    fields.insert("status".into(), status.into());
    stored
}

/// Returns version, kind and metadata. The annotations of the conversion are left out.
fn identity(autoscaler: &Value, api_version: &str) -> Value {
    let mut identity = json!({"apiVersion": api_version, "kind": "HorizontalPodAutoscaler"});
    let mut metadata = autoscaler.get("metadata").cloned().unwrap_or_else(|| json!({}));
    if let Some(annotations) = object::map_mut(&mut metadata, &["annotations"]) {
        annotations.retain(|key, _| ![METRICS, BEHAVIOR, CURRENT_METRICS, CONDITIONS].contains(&key.as_str()));
        if annotations.is_empty() {
            object::remove(&mut metadata, &["annotations"]);
        }
    }
    object::ensure_object(&mut identity, &[]).insert("metadata".into(), metadata);
    identity
}

fn copy_fields(from: Option<&Value>, names: &[&str]) -> Map<String, Value> {
    let copy = |name: &&str| Some(((*name).to_owned(), from?.get(*name)?.clone()));
    names.iter().filter_map(copy).collect()
}

/// Returns the target of a metric for the utilization of CPU, or `None` for any other metric.
fn cpu_utilization(metric: &Value) -> Option<&Value> {
    let is_cpu = object::text(metric, &["type"]) == "Resource" && object::text(metric, &["resource", "name"]) == "cpu";
    object::at(metric, &["resource", "target", "averageUtilization"]).filter(|_| is_cpu)
}

/// The fields of one type of metric: path in `v2` and name in `v1`.
type MetricFields = &'static [(&'static [&'static str], &'static str)];

const METRIC_FIELDS: [(&str, MetricFields); 5] = [
    (
        "resource",
        &[
            (&["name"], "name"),
            (&["target", "averageUtilization"], "targetAverageUtilization"),
            (&["target", "averageValue"], "targetAverageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            (&["name"], "name"),
            (&["container"], "container"),
            (&["target", "averageUtilization"], "targetAverageUtilization"),
            (&["target", "averageValue"], "targetAverageValue"),
        ],
    ),
    (
        "pods",
        &[
            (&["metric", "name"], "metricName"),
            (&["metric", "selector"], "selector"),
            (&["target", "averageValue"], "targetAverageValue"),
        ],
    ),
    (
        "object",
        &[
            (&["describedObject"], "target"),
            (&["metric", "name"], "metricName"),
            (&["metric", "selector"], "selector"),
            (&["target", "value"], "targetValue"),
            (&["target", "averageValue"], "averageValue"),
        ],
    ),
    (
        "external",
        &[
            (&["metric", "name"], "metricName"),
            (&["metric", "selector"], "metricSelector"),
            (&["target", "value"], "targetValue"),
            (&["target", "averageValue"], "targetAverageValue"),
        ],
    ),
];

fn metric_to_v1(metric: &Value) -> Value {
    let mut converted = copy_fields(Some(metric), &["type"]);
    for (source, fields) in METRIC_FIELDS {
        let Some(from) = metric.get(source) else { continue };
        let copy = |(path, name): &(&'static [&'static str], &'static str)| {
            Some(((*name).to_owned(), object::at(from, path)?.clone()))
        };
        let to: Map<String, Value> = fields.iter().filter_map(copy).collect();
        converted.insert(source.into(), to.into());
    }
    converted.into()
}

fn metric_to_v2(metric: &Value) -> Value {
    let mut converted = Value::from(copy_fields(Some(metric), &["type"]));
    for (source, fields) in METRIC_FIELDS {
        let Some(from) = metric.get(source) else { continue };
        let mut to = json!({});
        for (path, name) in fields {
            if let (Some(value), Some((last, parents))) = (from.get(*name), path.split_last()) {
                object::ensure_object(&mut to, parents).insert((*last).into(), value.clone());
            }
        }
        let has = |field: &str| object::at(&to, &["target", field]).is_some();
        let target_type = match (has("averageUtilization"), has("value")) {
            (true, _) => "Utilization",
            (false, true) if !has("averageValue") => "Value",
            (false, _) => "AverageValue",
        };
        object::ensure_object(&mut to, &["target"]).insert("type".into(), target_type.into());
        object::ensure_object(&mut converted, &[]).insert(source.into(), to);
    }
    converted
}

/// Returns the value with the first letter of each key changed. The real server writes the behavior
/// as a type without JSON names, whose keys begin with upper-case letters.
fn with_key_case(value: &Value, change: fn(&str) -> String) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, field)| !field.is_null())
            .map(|(key, field)| {
                let (first, rest) = key.split_at_checked(1).unwrap_or(("", key));
                (change(first) + rest, with_key_case(field, change))
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(|item| with_key_case(item, change)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_reads_the_same_after_both_conversions() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let queue = json!({"type": "External", "external": {
            "metric": {"name": "queue", "selector": {"matchLabels": {"q": "a"}}}, "target": {"type": "Value", "value": "30"},
        }});
        let behavior = json!({"scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}});
        let stored = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "annotations": {"note": "x"}},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 3,
                "metrics": [memory, queue, cpu_metric(70)], "behavior": behavior,
            },
            "status": {
                "currentReplicas": 1, "desiredReplicas": 0, "currentMetrics": [{"type": ""}],
                "conditions": [{"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric"}],
            },
        });
        let served = autoscaler_to_v1(&stored);
        assert_eq!(served["spec"]["targetCPUUtilizationPercentage"], 70);
        assert_eq!(served["metadata"]["annotations"].as_object().map(Map::len), Some(5));
        assert_eq!(autoscaler_to_v2(&served), stored);
    }

    #[test]
    fn annotations_that_are_no_lists_are_ignored() {
        for text in ["", "{", "1", "null", "{\"a\": 1}"] {
            let v1 = json!({"metadata": {"annotations": {METRICS: text, BEHAVIOR: "[]", CONDITIONS: text}}, "spec": {"maxReplicas": 2}});
            assert_eq!(autoscaler_to_v2(&v1)["spec"], json!({"maxReplicas": 2}), "{text}");
        }
    }
}

//! Validation of HorizontalPodAutoscalers in the form of `autoscaling/v2`.

use kerf_api::quantity::Quantity;
use serde_json::Value;

use crate::api::field::{self, FieldError};
use crate::api::names::NameRule;
use crate::api::object;

/// The types of metrics, each with the field that describes it.
const METRIC_SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
/// The order in which the real server reads the fields that describe a metric.
const SOURCE_FIELDS: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];
const MAX_PERIOD_SECONDS: i64 = 1800;
const MAX_STABILIZATION_SECONDS: i64 = 3600;

/// The group that the `apiVersion` of a reference may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReferenceGroup {
    /// Any but the core group.
    Required,
    Optional,
    /// The version is not validated.
    Unchecked,
}

pub(super) fn validate(autoscaler: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let number = |name: &str| object::number(autoscaler, &["spec", name]);
    let (min, max) = (number("minReplicas").unwrap_or(1), number("maxReplicas").unwrap_or_default());
    if min < 1 {
        errors.push(field::invalid("spec.minReplicas", min, "must be greater than or equal to 1"));
    }
    if max == 0 {
        errors.push(field::required("spec.maxReplicas", "must be set and greater than 0"));
    } else if max < 0 {
        errors.push(field::invalid("spec.maxReplicas", max, "must be greater than or equal to 1"));
    }
    if max < min {
        errors.push(field::invalid("spec.maxReplicas", max, "must be greater than or equal to `minReplicas`"));
    }
    let target = |name: &str| object::text(autoscaler, &["spec", "scaleTargetRef", name]);
    let is_unchanged = |old: &Value| {
        ["apiVersion", "kind"].iter().all(|name| object::text(old, &["spec", "scaleTargetRef", name]) == target(name))
    };
    let group = match target("kind") {
        _ if old.is_some_and(is_unchanged) => ReferenceGroup::Unchecked,
        "ReplicationController" => ReferenceGroup::Optional,
        _ => ReferenceGroup::Required,
    };
    let reference = object::at(autoscaler, &["spec", "scaleTargetRef"]);
    validate_reference(reference, group, "spec.scaleTargetRef", errors);
    for (index, metric) in object::list(autoscaler, &["spec", "metrics"]).iter().enumerate() {
        validate_metric(metric, &format!("spec.metrics[{index}]"), errors);
    }
    if min == 0 {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        let metrics = object::list(autoscaler, &["spec", "metrics"]);
        if !metrics.iter().any(|metric| ["Object", "External"].contains(&object::text(metric, &["type"]))) {
            errors.push(field::forbidden("spec.metrics", detail));
        }
    }
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = object::at(autoscaler, &["spec", "behavior", direction]) {
            validate_scaling_rules(rules, &format!("spec.behavior.{direction}"), errors);
        }
    }
}

fn validate_reference(reference: Option<&Value>, group: ReferenceGroup, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["kind", "name"] {
        let text = reference.map(|reference| object::text(reference, &[name])).unwrap_or_default();
        if text.is_empty() {
            errors.push(field::required(format!("{path}.{name}"), ""));
            continue;
        }
        for problem in NameRule::PathSegment.problems(text, false) {
            errors.push(field::invalid(format!("{path}.{name}"), text, problem));
        }
    }
    let version = reference.map(|reference| object::text(reference, &["apiVersion"])).unwrap_or_default();
    let problem = match (group, version.matches('/').count()) {
        (ReferenceGroup::Unchecked, _) => None,
        (_, 2..) => Some(format!("unexpected GroupVersion string: {version}")),
        (ReferenceGroup::Required, _) if version.split_once('/').is_none_or(|(group, _)| group.is_empty()) => {
            Some("apiVersion must specify API group".to_owned())
        }
        (ReferenceGroup::Required | ReferenceGroup::Optional, _) => None,
    };
    if let Some(problem) = problem {
        errors.push(field::invalid(format!("{path}.apiVersion"), version, problem));
    }
}

fn validate_metric(metric: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let metric_type = object::text(metric, &["type"]);
    let types = METRIC_SOURCES.map(|(known, _)| known);
    if metric_type.is_empty() {
        errors.push(field::required(format!("{path}.type"), "must specify a metric source type"));
    }
    if !types.contains(&metric_type) {
        errors.push(field::not_supported(format!("{path}.type"), metric_type, &types));
    }
    let present: Vec<&str> = SOURCE_FIELDS.into_iter().filter(|source| metric.get(*source).is_some()).collect();
    if let Some(source) = present.first() {
        validate_source(&metric[*source], source, &format!("{path}.{source}"), errors);
    }
    let expected = METRIC_SOURCES.iter().find(|(known, _)| *known == metric_type).map(|(_, source)| *source);
    match expected {
        Some(source) if !present.contains(&source) => {
            let detail = "must populate information for the given metric source";
            errors.push(field::required(format!("{path}.{source}"), detail));
        }
        Some(_) => {}
        None => errors.push(field::not_supported(format!("{path}.type"), metric_type, &types)),
    }
    if present.len() != 1 {
        for source in present.into_iter().filter(|source| Some(*source) != expected) {
            errors.push(field::forbidden(format!("{path}.{source}"), "must populate the given metric source only"));
        }
    }
}

fn validate_source(source: &Value, kind: &str, path: &str, errors: &mut Vec<FieldError>) {
    let mut require = |name: &[&str], detail: &str| {
        if object::text(source, name).is_empty() {
            errors.push(field::required(format!("{path}.{}", name.join(".")), detail));
        }
    };
    match kind {
        "resource" => require(&["name"], "must specify a resource name"),
        "containerResource" => {
            require(&["name"], "must specify a resource name");
            require(&["container"], "must specify a container");
        }
        _ => require(&["metric", "name"], "must specify a metric name"),
    }
    if kind == "object" {
        let path = format!("{path}.describedObject");
        validate_reference(source.get("describedObject"), ReferenceGroup::Optional, &path, errors);
    }
    validate_target(source, path, errors);
    let has = |field: &str| object::at(source, &["target", field]).is_some();
    let (value, average, utilization) = (has("value"), has("averageValue"), has("averageUtilization"));
    let (missing, both) = match kind {
        "resource" | "containerResource" => (
            (!utilization && !average)
                .then_some(("averageUtilization", "must set either a target raw value or a target utilization")),
            (utilization && average)
                .then_some(("averageValue", "may not set both a target raw value and a target utilization")),
        ),
        "pods" => ((!average).then_some(("averageValue", "must specify a positive target averageValue")), None),
        "external" => (
            (!value && !average)
                .then_some(("averageValue", "must set either a target value for metric or a per-pod target")),
            (value && average).then_some(("value", "may not set both a target value for metric and a per-pod target")),
        ),
        _ => ((!value && !average).then_some(("averageValue", "must set either a target value or averageValue")), None),
    };
    if let Some((name, detail)) = missing {
        errors.push(field::required(format!("{path}.target.{name}"), detail));
    }
    if let Some((name, detail)) = both {
        errors.push(field::forbidden(format!("{path}.target.{name}"), detail));
    }
}

fn validate_target(source: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let target_type = object::text(source, &["target", "type"]);
    if target_type.is_empty() {
        errors.push(field::required(format!("{path}.target.type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&target_type) {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(field::invalid(format!("{path}.target.type"), target_type, detail));
    }
    for name in ["value", "averageValue"] {
        let Some(value) = object::at(source, &["target", name]) else { continue };
        let is_positive = value
            .as_str()
            .and_then(|text| text.parse::<Quantity>().ok())
            .is_none_or(|quantity| quantity > Quantity::ZERO);
        if !is_positive {
            errors.push(field::invalid(format!("{path}.target.{name}"), value.clone(), "must be positive"));
        }
    }
    if let Some(utilization) = object::number(source, &["target", "averageUtilization"]).filter(|percent| *percent < 1)
    {
        errors.push(field::invalid(format!("{path}.target.averageUtilization"), utilization, "must be greater than 0"));
    }
}

fn validate_scaling_rules(rules: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(seconds) = object::number(rules, &["stabilizationWindowSeconds"]) {
        let path = format!("{path}.stabilizationWindowSeconds");
        if seconds < 0 {
            errors.push(field::invalid(path, seconds, "must be greater than or equal to zero"));
        } else if seconds > MAX_STABILIZATION_SECONDS {
            let detail = format!("must be less than or equal to {MAX_STABILIZATION_SECONDS}");
            errors.push(field::invalid(path, seconds, detail));
        }
    }
    let (policy, known) = (object::text(rules, &["selectPolicy"]), ["Disabled", "Max", "Min"]);
    if !policy.is_empty() && !known.contains(&policy) {
        errors.push(field::not_supported(format!("{path}.selectPolicy"), policy, &known));
    }
    let policies = object::list(rules, &["policies"]);
    if policies.is_empty() {
        errors.push(field::required(format!("{path}.policies"), "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = format!("{path}.policies[{index}]");
        let (policy_type, known) = (object::text(policy, &["type"]), ["Percent", "Pods"]);
        if !known.contains(&policy_type) {
            errors.push(field::not_supported(format!("{path}.type"), policy_type, &known));
        }
        for name in ["value", "periodSeconds"] {
            let value = object::number(policy, &[name]).unwrap_or_default();
            if value <= 0 {
                errors.push(field::invalid(format!("{path}.{name}"), value, "must be greater than zero"));
            }
        }
        let period = object::number(policy, &["periodSeconds"]).unwrap_or_default();
        if period > MAX_PERIOD_SECONDS {
            let detail = format!("must be less than or equal to {MAX_PERIOD_SECONDS}");
            errors.push(field::invalid(format!("{path}.periodSeconds"), period, detail));
        }
    }
}

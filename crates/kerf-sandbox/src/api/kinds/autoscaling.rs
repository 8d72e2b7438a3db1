//! HorizontalPodAutoscalers, which are served as `autoscaling/v2` and as `autoscaling/v1` from one
//! table. They are stored in the form of `v2`. Fields that `v1` lacks are in its annotations.

mod v1_form;
mod validation;

use serde_json::{Map, Value, json};

use super::defaults::DefaultValue::{Number, Text};
use super::defaults::{set_defaults, set_defaults_if_object};
use super::{KindStrategy, NO_OP_STRATEGY};
use crate::api::object;

pub(crate) use v1_form::{autoscaler_to_v1, autoscaler_to_v2};

/// The CPU utilization that an autoscaler without metrics aims at, in per cent.
const DEFAULT_CPU_UTILIZATION: i64 = 80;

/// The strategy of both versions. It sees objects in the form of `v2` only.
pub(super) const HORIZONTAL_POD_AUTOSCALER: KindStrategy = KindStrategy {
    default,
    prepare_for_create: |autoscaler, _| {
        let status = json!({"desiredReplicas": 0, "currentMetrics": null});
        object::ensure_object(autoscaler, &[]).insert("status".into(), status);
    },
    validate: validation::validate,
    ..NO_OP_STRATEGY
};

fn default(autoscaler: &mut Value) {
    let spec = object::ensure_object(autoscaler, &["spec"]);
    set_defaults(spec, &[("minReplicas", Number(1))]);
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("metrics".into(), json!([cpu_metric(DEFAULT_CPU_UTILIZATION)]));
    }
    let Some(behavior) = object::map_mut(autoscaler, &["spec", "behavior"]) else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    default_scaling_rules(behavior, "scaleUp", &[pods, percent.clone()]);
    set_defaults_if_object(&mut behavior["scaleUp"], &[("stabilizationWindowSeconds", Number(0))]);
    default_scaling_rules(behavior, "scaleDown", &[percent]);
}

fn default_scaling_rules(behavior: &mut Map<String, Value>, direction: &str, policies: &[Value]) {
    let rules = behavior.entry(direction).or_insert_with(|| json!({}));
    set_defaults_if_object(rules, &[("selectPolicy", Text("Max"))]);
    if let Some(rules) = rules.as_object_mut() {
        rules.entry("policies").or_insert_with(|| policies.into());
    }
}

/// Returns a metric with a target for the utilization of CPU, in per cent of the requests.
fn cpu_metric(utilization: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": utilization});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

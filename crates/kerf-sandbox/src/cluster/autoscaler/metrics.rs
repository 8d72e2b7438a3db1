//! The errors of kube-controller-manager for metrics that no API provides.

use serde_json::Value;

use crate::api::object;

/// The reason why a metric cannot be read.
pub(super) struct MetricReadError {
    /// Reason of the condition and of the Event.
    pub(super) reason: &'static str,
    /// The metric as the message about all metrics names it.
    pub(super) metric: String,
    pub(super) message: String,
}

/// Returns the error for a metric of an autoscaler in this namespace.
pub(super) fn read_error(metric: &Value, namespace: &str) -> MetricReadError {
    const NOT_FOUND: &str = "the server could not find the requested resource";
    const NO_CUSTOM_METRICS: &str =
        "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered";
    let text = |path: &[&str]| object::text(metric, path);
    let resource = |source: &str| {
        let name = text(&[source, "name"]);
        let is_average = object::at(metric, &[source, "target", "averageValue"]).is_some();
        let goal = if is_average { "usage" } else { "utilization" };
        format!(
            "failed to get {name} {goal}: unable to get metrics for resource {name}: unable to fetch metrics from resource metrics API: {NOT_FOUND} (get pods.metrics.k8s.io)"
        )
    };
    match text(&["type"]) {
        "ContainerResource" => MetricReadError {
            reason: "FailedGetContainerResourceMetric",
            metric: format!("{} container", text(&["containerResource", "container"])),
            message: resource("containerResource"),
        },
        "Pods" => MetricReadError {
            reason: "FailedGetPodsMetric",
            metric: "pods".into(),
            message: format!("unable to get metric {}: {NO_CUSTOM_METRICS}", text(&["pods", "metric", "name"])),
        },
        "Object" => {
            let described = |name: &str| text(&["object", "describedObject", name]);
            MetricReadError {
                reason: "FailedGetObjectMetric",
                metric: "object".into(),
                message: format!(
                    "unable to get metric {}: {} on {namespace} {}/{NO_CUSTOM_METRICS}",
                    text(&["object", "metric", "name"]),
                    described("kind"),
                    described("name"),
                ),
            }
        }
        "External" => {
            let name = text(&["external", "metric", "name"]);
            MetricReadError {
                reason: "FailedGetExternalMetric",
                metric: format!("{name} external"),
                message: format!(
                    "unable to get external metric {namespace}/{name}: unable to fetch metrics from external metrics API: {NOT_FOUND} (get {name}.external.metrics.k8s.io)"
                ),
            }
        }
        _ => MetricReadError {
            reason: "FailedGetResourceMetric",
            metric: format!("{} resource", text(&["resource", "name"])),
            message: resource("resource"),
        },
    }
}

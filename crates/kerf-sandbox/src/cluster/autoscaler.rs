//! The HorizontalPodAutoscaler controller, as in a cluster without a metrics server: it keeps the
//! replicas of its target between the minimum and the maximum, and reports that no metric can be
//! read. Messages are those of kube-controller-manager.

mod metrics;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::control_plane::{ControlPlane, RunAgain};
use super::events::{EventComponent, EventType};
use super::kind::{ControlPlaneKind, collection_path, escape_path_segment};
use super::objects::HorizontalPodAutoscaler;
use super::pods::ignore_not_found_or_conflict;
use super::replicaset::status_differs;
use crate::api::object::{self, rfc3339_seconds};
use crate::api::registry::Resource;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("horizontal-pod-autoscaler");
/// Time between two checks of a target whose changes do not enqueue its autoscaler, as in
/// kube-controller-manager.
const SYNC_PERIOD: Duration = Duration::from_secs(15);
const JSON: &str = "application/json";

/// The target of an autoscaler: the path of its scale, and the scale.
struct ScaleTarget {
    path: String,
    scale: Value,
}

/// Scales the target into the bounds, or reports that its metrics cannot be read.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(autoscaler) = plane.cache.horizontal_pod_autoscalers.get(key) else { return Ok(RunAgain::WhenChanged) };
    if autoscaler.metadata.is_deleting() {
        return Ok(RunAgain::WhenChanged);
    }
    let mut status = NewStatus::of(plane, &autoscaler);
    match find_target(plane, &autoscaler) {
        Err(message) => {
            let condition = format!("the HPA controller was unable to get the target's current scale: {message}");
            if status.set_condition("AbleToScale", "False", "FailedGetScale", condition) {
                publish(plane, &autoscaler, EventType::Warning, "FailedGetScale", message);
            }
        }
        Ok(target) => {
            let message = "the HPA controller was able to get the target's current scale".to_owned();
            status.set_condition("AbleToScale", "True", "SucceededGetScale", message);
            let replicas = object::number(&target.scale, &["spec", "replicas"]).unwrap_or_default();
            status.fields["currentReplicas"] = replicas.into();
            scale_or_report(plane, &autoscaler, &target, replicas, &mut status);
        }
    }
    status.write(plane, &autoscaler, key)?;
    // Changes of the replicas of these kinds enqueue the autoscaler.
    let is_followed = autoscaler.spec.scale_target_ref.api_version == "apps/v1";
    Ok(if is_followed { RunAgain::WhenChanged } else { RunAgain::After(SYNC_PERIOD) })
}

/// Returns the target with its scale, or the reason why it has none.
fn find_target(plane: &ControlPlane, autoscaler: &HorizontalPodAutoscaler) -> Result<ScaleTarget, String> {
    let reference = &autoscaler.spec.scale_target_ref;
    let (group, _) = reference.api_version.split_once('/').unwrap_or_default();
    let registry = plane.server.inner.registry();
    let is_target = |resource: &&Arc<Resource>| {
        resource.group == group && resource.kind == reference.kind && resource.scale.is_some() && resource.namespaced
    };
    let Some(resource) = registry.all().find(is_target) else {
        return Err(format!("no matches for kind \"{}\" in group \"{group}\"", reference.kind));
    };
    let collection =
        collection_path(&resource.group, &resource.version, &resource.plural, &autoscaler.metadata.namespace);
    let path = format!("{collection}/{}/scale", escape_path_segment(&reference.name));
    let response = plane.controller_client.send(Method::GET, &path, JSON, &Value::Null);
    let bytes = response.map_err(|error| error.message().to_owned())?;
    let scale = serde_json::from_slice(&bytes).map_err(|problem| format!("the scale cannot be read: {problem}"))?;
    Ok(ScaleTarget { path, scale })
}

fn scale_or_report(
    plane: &mut ControlPlane,
    autoscaler: &HorizontalPodAutoscaler,
    target: &ScaleTarget,
    replicas: i64,
    status: &mut NewStatus,
) {
    let (min, max) = (autoscaler.spec.min_replicas.unwrap_or(1), autoscaler.spec.max_replicas);
    match replicas {
        0 => {
            let message = "scaling is disabled since the replica count of the target is zero".to_owned();
            status.set_condition("ScalingActive", "False", "ScalingDisabled", message);
            status.fields["desiredReplicas"] = 0.into();
        }
        _ if replicas > max => {
            let reason = "Current number of replicas above Spec.MaxReplicas";
            rescale(plane, autoscaler, target, max, reason, status);
        }
        _ if replicas < min => {
            let reason = "Current number of replicas below Spec.MinReplicas";
            rescale(plane, autoscaler, target, min, reason, status);
        }
        _ => report_unreadable_metrics(plane, autoscaler, status),
    }
}

fn rescale(
    plane: &mut ControlPlane,
    autoscaler: &HorizontalPodAutoscaler,
    target: &ScaleTarget,
    desired: i64,
    reason: &str,
    status: &mut NewStatus,
) {
    let mut scale = target.scale.clone();
    object::ensure_object(&mut scale, &["spec"]).insert("replicas".into(), desired.into());
    match plane.controller_client.replace(&target.path, &scale) {
        Ok(_) => {
            let message = format!("the HPA controller was able to update the target scale to {desired}");
            status.set_condition("AbleToScale", "True", "SucceededRescale", message);
            status.fields["desiredReplicas"] = desired.into();
            status.fields["lastScaleTime"] = rfc3339_seconds(plane.now()).into();
            let message = format!("New size: {desired}; reason: {reason}");
            publish(plane, autoscaler, EventType::Normal, "SuccessfulRescale", message);
        }
        Err(error) => {
            let message = format!("the HPA controller was unable to update the target scale: {}", error.message());
            if status.set_condition("AbleToScale", "False", "FailedUpdateScale", message) {
                let message = format!("New size: {desired}; reason: {reason}; error: {}", error.message());
                publish(plane, autoscaler, EventType::Warning, "FailedRescale", message);
            }
        }
    }
}

fn report_unreadable_metrics(plane: &mut ControlPlane, autoscaler: &HorizontalPodAutoscaler, status: &mut NewStatus) {
    let metrics = &autoscaler.spec.metrics;
    let statuses: Vec<Value> = metrics.iter().map(|_| json!({"type": ""})).collect();
    status.fields["currentMetrics"] = statuses.into();
    let Some(first) = metrics.first().map(|metric| metrics::read_error(metric, &autoscaler.metadata.namespace)) else {
        return;
    };
    let condition = format!("the HPA was unable to compute the replica count: {}", first.message);
    if status.set_condition("ScalingActive", "False", first.reason, condition) {
        publish(plane, autoscaler, EventType::Warning, first.reason, first.message.clone());
        let count = metrics.len();
        let message = format!(
            "invalid metrics ({count} invalid out of {count}), first error is: failed to get {} metric value: {}",
            first.metric, first.message
        );
        publish(plane, autoscaler, EventType::Warning, "FailedComputeMetricsReplicas", message);
    }
}

fn publish(
    plane: &mut ControlPlane,
    autoscaler: &HorizontalPodAutoscaler,
    event_type: EventType,
    reason: &'static str,
    message: String,
) {
    let object = (ControlPlaneKind::HorizontalPodAutoscaler, &autoscaler.metadata);
    plane.publish_event(EVENT_COMPONENT, object, event_type, reason, message);
}

/// The status after a pass, which begins as the stored one.
struct NewStatus {
    fields: Value,
    now: String,
}

impl NewStatus {
    fn of(plane: &ControlPlane, autoscaler: &HorizontalPodAutoscaler) -> Self {
        let mut fields = autoscaler.status.clone();
        object::ensure_object(&mut fields, &[]);
        Self { fields, now: rfc3339_seconds(plane.now()) }
    }

    /// Sets a condition. Returns true if it has another reason or message than before.
    fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: String) -> bool {
        let mut conditions = object::list(&self.fields, &["conditions"]).to_vec();
        let position = conditions.iter().position(|condition| object::text(condition, &["type"]) == kind);
        let before = position.map(|position| conditions[position].clone()).unwrap_or_default();
        let is_transition = object::text(&before, &["status"]) != status;
        let since = if is_transition { &self.now } else { object::text(&before, &["lastTransitionTime"]) };
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
        });
        let is_changed = condition != before;
        match position {
            Some(position) => conditions[position] = condition,
            None => conditions.push(condition),
        }
        self.fields["conditions"] = conditions.into();
        is_changed
    }

    fn write(mut self, plane: &ControlPlane, autoscaler: &HorizontalPodAutoscaler, key: &ObjectKey) -> ApiResult<()> {
        object::ensure_object(&mut self.fields, &[]).entry("desiredReplicas").or_insert_with(|| 0.into());
        if !status_differs(&autoscaler.status, &self.fields) {
            return Ok(());
        }
        let kind = ControlPlaneKind::HorizontalPodAutoscaler;
        ignore_not_found_or_conflict(plane.controller_client.merge_patch_status(kind, key, &self.fields))
    }
}

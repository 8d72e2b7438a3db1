//! Functions that all pod-creating controllers share: adopting and releasing pods, building a pod
//! from a template, deletion order and availability.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::control_plane::ControlPlane;
use super::kind::ControlPlaneKind;
use super::objects::{Meta, Pod};
use crate::api::object;
use crate::api::selector::LabelSelector;
use crate::api::status::ApiResult;

/// Largest number of pods that one pass creates or deletes.
pub(crate) const MAX_PODS_PER_PASS: usize = 500;
/// Annotation with a pod's deletion cost. A ReplicaSet that scales down deletes pods with a lower
/// cost first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Returns the owner reference that makes `meta` the controller of an object.
pub(crate) fn controller_reference(kind: ControlPlaneKind, meta: &Meta) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind(), "name": meta.name, "uid": meta.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns a pod built from a template and owned by `owner`. The API server generates its name.
pub(crate) fn from_template(template: &Value, owner: (ControlPlaneKind, &Meta)) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": template.get("spec").cloned().unwrap_or_default()});
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = object::at(template, &["metadata", field]) {
            object::set_meta(&mut pod, field, value.clone());
        }
    }
    object::set_meta(&mut pod, "generateName", format!("{}-", owner.1.name));
    object::set_meta(&mut pod, "ownerReferences", json!([controller_reference(owner.0, owner.1)]));
    pod
}

impl ControlPlane {
    /// Returns the pods of a controller. It adopts pods without a controller that match the
    /// selector, and releases pods that no longer match.
    pub(crate) fn claim_pods(
        &self,
        kind: ControlPlaneKind,
        owner: &Meta,
        selector: Option<&LabelSelector>,
    ) -> ApiResult<Vec<Arc<Pod>>> {
        let matches = |pod: &Pod| selector.is_some_and(|selector| selector.matches(pod.metadata.labels.as_slice()));
        let mut claimed = Vec::new();
        for pod in self.cache.pods.managed_by(&owner.uid) {
            if matches(&pod) || pod.metadata.is_deleting() {
                claimed.push(pod);
            } else if !owner.is_deleting() {
                let patch = json!({
                    "metadata": {"uid": pod.metadata.uid, "ownerReferences": [{"$patch": "delete", "uid": owner.uid}]},
                });
                ignore_not_found_or_conflict(self.controller_client.patch(
                    ControlPlaneKind::Pod,
                    &pod.metadata.key(),
                    &patch,
                ))?;
            }
        }
        if owner.is_deleting() {
            return Ok(claimed);
        }
        for pod in self.cache.pods.unmanaged_in(&owner.namespace) {
            if matches(&pod) && pod.is_active() {
                let patch = json!({
                    "metadata": {"uid": pod.metadata.uid, "ownerReferences": [controller_reference(kind, owner)]},
                });
                ignore_not_found_or_conflict(self.controller_client.patch(
                    ControlPlaneKind::Pod,
                    &pod.metadata.key(),
                    &patch,
                ))?;
                claimed.push(pod);
            }
        }
        Ok(claimed)
    }
}

/// Treats 404 and 409 as success: the object was deleted or replaced, so the write is no longer
/// needed.
pub(crate) fn ignore_not_found_or_conflict<T>(outcome: ApiResult<T>) -> ApiResult<()> {
    match outcome {
        Err(error) if !matches!(error.code(), 404 | 409) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the time at which a pod has been ready for `min_ready_seconds`. The pod is available if
/// that time is not in the future. Returns `None` if the pod is not ready.
pub(crate) fn available_at(pod: &Pod, min_ready_seconds: i64) -> Option<Timestamp> {
    let since = pod.ready_since()?;
    since.checked_add(jiff::SignedDuration::from_secs(min_ready_seconds)).ok()
}

/// Returns the number of ready pods, the number of available pods, and the time until the next pod
/// becomes available.
pub(crate) fn count_ready(pods: &[Arc<Pod>], min_ready_seconds: i64, now: Timestamp) -> (i64, i64, Option<Duration>) {
    let (mut ready, mut available, mut next) = (0, 0, None);
    for pod in pods.iter().filter(|pod| pod.is_ready()) {
        ready += 1;
        match available_at(pod, min_ready_seconds) {
            Some(at) if at <= now => available += 1,
            Some(at) => {
                let wait = at.duration_since(now).unsigned_abs();
                next = Some(next.map_or(wait, |other: Duration| other.min(wait)));
            }
            None => {}
        }
    }
    (ready, available, next)
}

/// Sorts pods in the order in which a scale-down deletes them: without a node, not running, not
/// ready, low deletion cost, many pods on the same node, ready for a shorter time, more restarts,
/// newer.
pub(crate) fn sort_by_deletion_order(pods: &mut [Arc<Pod>]) {
    let mut pods_per_node: BTreeMap<SmolStr, usize> = BTreeMap::new();
    for pod in pods.iter() {
        *pods_per_node.entry(pod.spec.node_name.clone()).or_default() += 1;
    }
    pods.sort_by_cached_key(|pod| {
        let phase = match pod.status.phase.as_str() {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let cost: i32 =
            pod.metadata.annotations.get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or_default();
        let restarts: i64 = pod.status.container_statuses.iter().map(|status| status.restart_count).max().unwrap_or(0);
        (
            !pod.spec.node_name.is_empty(),
            phase,
            pod.is_ready(),
            cost,
            Reverse(pods_per_node.get(&pod.spec.node_name).copied().unwrap_or_default()),
            Reverse(pod.ready_since()),
            Reverse(restarts),
            Reverse(pod.metadata.creation_timestamp),
            pod.metadata.name.clone(),
        )
    });
}

//! The node lifecycle controller: marks nodes without heartbeats as unreachable, and keeps the
//! taints of nodes in step with their conditions. It reads a Lease when its renewal is due, not at
//! each renewal.

pub(crate) mod cloud_node;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::control_plane::{ControlPlane, RunAgain};
use super::events::{EventComponent, EventType};
use super::kind::ControlPlaneKind;
use super::objects::{Node, Taint, find_condition};
use super::pods::ignore_not_found_or_conflict;
use crate::api::object::rfc3339_seconds;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("node-controller");
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Time without any heartbeat after which a new node is marked unknown.
const STARTUP_GRACE_PERIOD: Duration = Duration::from_mins(1);
/// Conditions, and the `NoSchedule` taints that a node has while they are true.
const CONDITION_TAINTS: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// Marks a node unknown if its heartbeats have stopped, and updates its taints.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(node) = plane.cache.nodes.get(key) else { return Ok(RunAgain::WhenChanged) };
    let now = plane.now();
    let is_unknown = node.ready().is_some_and(|ready| ready.status == "Unknown");
    let (last, grace) = match (last_heartbeat(plane, &node), node.metadata.creation_timestamp) {
        (Some(heartbeat), _) => (heartbeat, plane.config.timing.node_grace),
        (None, Some(created)) => (created, STARTUP_GRACE_PERIOD),
        (None, None) => (now, STARTUP_GRACE_PERIOD),
    };
    // A jump of the wall clock is no silence: heartbeats before it count as of the jump.
    let last = last.max(plane.last_jump_at.unwrap_or(Timestamp::MIN));
    let silence = now.duration_since(last).unsigned_abs();
    if silence >= grace && !is_unknown {
        mark_unknown(plane, key, &node)?;
        return Ok(RunAgain::WhenChanged);
    }
    sync_taints(plane, key, &node)?;
    // The kubelet of an unknown node writes a status when it returns, which enqueues this node.
    Ok(if silence < grace { RunAgain::After(grace.saturating_sub(silence)) } else { RunAgain::WhenChanged })
}

/// Returns the time of the kubelet's last heartbeat: the Lease or the `Ready` condition, whichever
/// is later.
fn last_heartbeat(plane: &ControlPlane, node: &Node) -> Option<Timestamp> {
    let lease = plane.lease_renew_time(&node.metadata.name);
    let heartbeat = node.ready().and_then(|ready| ready.last_heartbeat_time);
    lease.max(heartbeat)
}

/// Sets the node's conditions to `Unknown` and its pods to not ready.
fn mark_unknown(plane: &mut ControlPlane, key: &ObjectKey, node: &Node) -> ApiResult<()> {
    let now = rfc3339_seconds(plane.now());
    let unknown_condition = |kind: &str| {
        let (reason, message) = match find_condition(&node.status.conditions, kind) {
            Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
            None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
        };
        json!({"type": kind, "status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": now})
    };
    let conditions: Vec<Value> =
        ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].into_iter().map(unknown_condition).collect();
    plane.controller_client.patch_status(ControlPlaneKind::Node, key, &json!({"conditions": conditions}))?;
    let message = format!("Node {} status is now: NodeNotReady", node.metadata.name);
    plane.publish_event(
        EVENT_COMPONENT,
        (ControlPlaneKind::Node, &node.metadata),
        EventType::Normal,
        "NodeNotReady",
        message,
    );
    for pod in plane.cache.pods_on(&node.metadata.name) {
        if pod.is_ready() {
            let ready = json!({
                "type": "Ready", "status": "False", "lastTransitionTime": now, "observedGeneration": pod.metadata.generation,
            });
            ignore_not_found_or_conflict(plane.controller_client.patch_status(
                ControlPlaneKind::Pod,
                &pod.metadata.key(),
                &json!({"conditions": [ready]}),
            ))?;
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::Pod, &pod.metadata),
                EventType::Warning,
                "NodeNotReady",
                "Node is not ready".into(),
            );
        }
    }
    Ok(())
}

/// Sets the taints of this controller to those that the conditions require. Other taints stay.
fn sync_taints(plane: &ControlPlane, key: &ObjectKey, node: &Node) -> ApiResult<()> {
    let desired = desired_taints(node);
    let is_managed = |taint: &Taint| {
        [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&taint.key.as_str())
            || CONDITION_TAINTS.iter().any(|(_, key)| *key == taint.key)
    };
    let is_desired = |taint: &Taint| desired.iter().any(|(key, effect)| *key == taint.key && *effect == taint.effect);
    let mut taints: Vec<Value> =
        node.spec.taints.iter().filter(|taint| !is_managed(taint) || is_desired(taint)).map(to_json).collect();
    let kept_count = taints.len();
    for (key, effect) in &desired {
        if !node.spec.taints.iter().any(|taint| taint.key == *key && taint.effect == *effect) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": rfc3339_seconds(plane.now())}));
        }
    }
    if kept_count == node.spec.taints.len() && taints.len() == kept_count {
        return Ok(());
    }
    let taints = if taints.is_empty() { Value::Null } else { taints.into() };
    // The patch names the resource version that was read, because another client may change the
    // taints too. Such a change enqueues the node again.
    let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints}});
    ignore_not_found_or_conflict(plane.controller_client.merge_patch(&ControlPlaneKind::Node.path(key), &patch))
}

/// Returns the taints that a node's conditions require, with their effects.
fn desired_taints(node: &Node) -> Vec<(&'static str, &'static str)> {
    let mut taints = Vec::new();
    match node.ready().map(|ready| ready.status.as_str()) {
        Some("True") => {}
        Some("False") => taints.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        Some(_) => taints.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        // The kubelet has not written a status yet.
        None => taints.push((NOT_READY, "NoSchedule")),
    }
    for (kind, key) in CONDITION_TAINTS {
        if find_condition(&node.status.conditions, kind).is_some_and(|condition| condition.status == "True") {
            taints.push((key, "NoSchedule"));
        }
    }
    if node.spec.unschedulable {
        taints.push((UNSCHEDULABLE, "NoSchedule"));
    }
    taints
}

fn to_json(taint: &Taint) -> Value {
    let mut value = json!({"key": taint.key, "effect": taint.effect});
    if !taint.value.is_empty() {
        value["value"] = taint.value.as_str().into();
    }
    if let Some(added) = taint.time_added {
        value["timeAdded"] = rfc3339_seconds(added).into();
    }
    value
}

impl ControlPlane {
    /// Returns the renewal time of a node's Lease, read from the store.
    fn lease_renew_time(&self, node: &str) -> Option<Timestamp> {
        #[derive(serde::Deserialize)]
        struct Lease {
            spec: Spec,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            renew_time: Option<Timestamp>,
        }
        let table = self.table(ControlPlaneKind::Lease)?;
        let stored = self.server.inner.storage.get(table, &ObjectKey::new(Some("kube-node-lease"), node))?;
        // Fast path: a Lease that a kubelet wrote ends with the renewal time. Leases are read
        // often.
        let prefix = std::str::from_utf8(stored.bytes()).ok()?.strip_suffix("\"}}");
        let renew_time = prefix.and_then(|text| text.rsplit_once("\"renewTime\":\"")).map(|(_, time)| time);
        if let Some(time) = renew_time.and_then(|time| time.parse().ok()) {
            return Some(time);
        }
        serde_json::from_slice::<Lease>(stored.bytes()).ok()?.spec.renew_time
    }
}

//! The scheduler's writes: bindings, conditions, nominations, evictions and Events.
//!
//! Events with the same reason about one version of a pod form one Event with a count, as with
//! client-go's recorder. It is written at the first and second occurrence and then every half hour.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;

use super::message::truncate_note;
use super::pod::{PodInfo, SCHEDULER_NAME};
use crate::cluster::in_process_client::{InProcessClient, WriteRejected};

/// An event series ends if nothing is added to it for this long.
const SERIES_IDLE_TIMEOUT: Duration = Duration::from_mins(6);
/// Interval between writes of a continuing series.
const SERIES_WRITE_INTERVAL: Duration = Duration::from_mins(30);
/// Finished series are not cleaned up while there are fewer series than this.
const SERIES_CLEANUP_MIN: usize = 1024;

/// Key of a series: uid and version of the pod, and reason.
type EventSeriesKey = (SmolStr, SmolStr, &'static str);

struct EventSeries {
    path: String,
    count: u32,
    last_seen: Instant,
    last_written: Instant,
}

/// Writes through the API server on behalf of kube-scheduler.
pub(super) struct SchedulerWriter {
    client: InProcessClient,
    series: BTreeMap<EventSeriesKey, EventSeries>,
    /// Number of series from which finished series are removed.
    cleanup_threshold: usize,
    serial: i128,
}

/// The change of a pod's `nominatedNodeName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NominationChange {
    Keep,
    Set(SmolStr),
    Clear,
}

/// An Event to publish.
struct PodEvent<'a> {
    about: &'a PodInfo,
    related: Option<&'a PodInfo>,
    kind: &'static str,
    reason: &'static str,
    action: &'static str,
    note: &'a str,
}

impl SchedulerWriter {
    pub(super) fn new(client: InProcessClient) -> Self {
        Self { client, series: BTreeMap::new(), cleanup_threshold: SERIES_CLEANUP_MIN, serial: 0 }
    }

    /// Binds a pod to a node and publishes the Event `Scheduled`.
    pub(super) fn bind(&mut self, pod: &PodInfo, node: &str) -> Result<(), WriteRejected> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        });
        self.client.create(&format!("{}/binding", path(pod)), &binding)?;
        let note = format!("Successfully assigned {} to {node}", pod.key);
        self.publish_event(PodEvent {
            about: pod,
            related: None,
            kind: "Normal",
            reason: "Scheduled",
            action: "Binding",
            note: &note,
        });
        Ok(())
    }

    /// Records that no node accepts a pod: publishes an Event, and updates the condition and the
    /// nomination if they changed.
    pub(super) fn mark_unschedulable(
        &mut self,
        pod: &Pod,
        info: &PodInfo,
        reason: &'static str,
        message: &str,
        nomination: &NominationChange,
    ) {
        let note = truncate_note(message);
        let kind = "Warning";
        self.publish_event(PodEvent {
            about: info,
            related: None,
            kind,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: &note,
        });
        let mut status = serde_json::Map::new();
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let current = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
        let is_unchanged = |condition: &k8s_openapi::api::core::v1::PodCondition| {
            condition.status == "False"
                && condition.reason.as_deref() == Some(reason)
                && condition.message.as_deref() == Some(message)
        };
        if !current.is_some_and(is_unchanged) {
            let since = current.filter(|condition| condition.status == "False");
            let since = since.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0);
            let since = since.unwrap_or_else(|| self.client.clock().now());
            let condition = json!({
                "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
                "lastTransitionTime": seconds(since), "observedGeneration": pod.metadata.generation,
            });
            status.insert("conditions".into(), json!([condition]));
        }
        match nomination {
            NominationChange::Set(node) if info.nominated_node.as_ref() != Some(node) => {
                status.insert("nominatedNodeName".into(), node.as_str().into());
            }
            NominationChange::Clear if info.nominated_node.is_some() => {
                status.insert("nominatedNodeName".into(), Value::Null);
            }
            NominationChange::Set(_) | NominationChange::Clear | NominationChange::Keep => {}
        }
        if !status.is_empty() {
            self.patch_status(info, &json!({"metadata": {"uid": info.uid}, "status": status}));
        }
    }

    /// Nominates the node to which the pod will be bound once its volumes are bound.
    pub(super) fn nominate(&mut self, pod: &PodInfo, node: &str) {
        self.patch_status(pod, &json!({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}));
    }

    /// Removes the nomination of a pod.
    pub(super) fn clear_nomination(&mut self, pod: &PodInfo) {
        self.patch_status(pod, &json!({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": null}}));
    }

    /// Preempts a pod: sets its condition `DisruptionTarget`, deletes it and publishes an Event.
    pub(super) fn evict(&mut self, victim: &PodInfo, node: &str, preemptor: &PodInfo) {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": format!("{SCHEDULER_NAME}: preempting to accommodate a higher priority pod"),
            "lastTransitionTime": seconds(self.client.clock().now()),
        });
        self.patch_status(victim, &json!({"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}));
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid}});
        if self.client.delete(&path(victim), &options).is_err() {
            // The pod is already deleted, which is the aim.
            return;
        }
        let note = format!("Preempted by pod {} on node {node}", preemptor.uid);
        let related = Some(preemptor);
        self.publish_event(PodEvent {
            about: victim,
            related,
            kind: "Normal",
            reason: "Preempted",
            action: "Preempting",
            note: &note,
        });
    }

    /// Annotates a claim with the node for which its volume must be provisioned.
    pub(super) fn select_node(&mut self, claim: &str, node: &str) -> Result<(), WriteRejected> {
        let (namespace, name) = claim.split_once('/').unwrap_or_default();
        let annotations = json!({crate::cluster::volumes::CLAIM_SELECTED_NODE: node});
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        self.client.merge_patch(&path, &json!({"metadata": {"annotations": annotations}}))
    }

    /// Reserves a volume for a claim. The volume controller completes the binding.
    pub(super) fn reserve_volume(&mut self, volume: &str, claim: &str, uid: &str) -> Result<(), WriteRejected> {
        let (namespace, name) = claim.split_once('/').unwrap_or_default();
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid,
        });
        let patch = json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": reference},
        });
        self.client.merge_patch(&format!("/api/v1/persistentvolumes/{volume}"), &patch)
    }

    fn patch_status(&mut self, pod: &PodInfo, patch: &Value) {
        // A pod that was deleted or replaced needs no status.
        if let Err(error) = self.client.strategic_merge_patch(&format!("{}/status", path(pod)), patch) {
            tracing::debug!(pod = %pod.key, %error, "the status of a pod was not written");
        }
    }

    fn publish_event(&mut self, event: PodEvent<'_>) {
        let now = Instant::now();
        let series_key = (event.about.uid.clone(), event.about.version.clone(), event.reason);
        if let Some(series) = self.series.get_mut(&series_key)
            && now.duration_since(series.last_seen) < SERIES_IDLE_TIMEOUT
        {
            series.count += 1;
            series.last_seen = now;
            if series.count == 2 || now.duration_since(series.last_written) >= SERIES_WRITE_INTERVAL {
                series.last_written = now;
                let last = micros(self.client.clock().now());
                let patch = json!({"series": {"count": series.count, "lastObservedTime": last}});
                // The Event may have expired; then the update is not needed.
                let _ = self.client.merge_patch(&series.path, &patch);
            }
            return;
        }
        if self.series.len() >= self.cleanup_threshold {
            self.series.retain(|_, series| now.duration_since(series.last_seen) < SERIES_IDLE_TIMEOUT);
            // Doubles the threshold, so that a burst of new series does not cause a clean-up for
            // each.
            self.cleanup_threshold = SERIES_CLEANUP_MIN.max(2 * self.series.len());
        }
        if let Some(path) = self.create_event(&event) {
            self.series.insert(series_key, EventSeries { path, count: 1, last_seen: now, last_written: now });
        }
    }

    fn create_event(&mut self, event: &PodEvent<'_>) -> Option<String> {
        let now = self.client.clock().now();
        // On a virtual clock many events share one instant, so a serial number makes the name
        // unique.
        self.serial += 1;
        let name = format_smolstr!("{}.{:x}", event.about.name(), now.as_nanosecond() + self.serial);
        let collection = format!("/apis/events.k8s.io/v1/namespaces/{}/events", event.about.namespace());
        let mut body = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"namespace": event.about.namespace(), "name": name},
            "eventTime": micros(now), "reportingController": SCHEDULER_NAME, "reportingInstance": format!("{SCHEDULER_NAME}-kerf"),
            "action": event.action, "reason": event.reason, "type": event.kind, "note": event.note,
            "regarding": reference(event.about),
        });
        if let Some(related) = event.related {
            body["related"] = reference(related);
        }
        self.client.create(&collection, &body).ok()?;
        Some(format!("{collection}/{name}"))
    }
}

fn reference(pod: &PodInfo) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid,
        "resourceVersion": pod.version,
    })
}

fn path(pod: &PodInfo) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace(), pod.name())
}

fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

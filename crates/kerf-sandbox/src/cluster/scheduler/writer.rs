//! What the scheduler writes: bindings, conditions, nominations, evictions, and events that say why.
//!
//! Events of one kind about one version of a pod are one event with a count, as client-go's recorder does it: written when it first
//! happens, when it happens again, and then every half hour.

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

/// A series that nobody adds to for so long is over.
const SERIES_IDLE_TIMEOUT: Duration = Duration::from_mins(6);
/// A series that goes on is written so often.
const SERIES_WRITE_INTERVAL: Duration = Duration::from_mins(30);
/// With fewer series than this nobody looks for those that are over.
const SERIES_CLEANUP_MIN: usize = 1024;

/// Events that look alike: about which pod in which version, and why.
type EventSeriesKey = (SmolStr, SmolStr, &'static str);

struct EventSeries {
    path: String,
    count: u32,
    last_seen: Instant,
    last_written: Instant,
}

/// The pen.
pub(super) struct SchedulerWriter {
    client: InProcessClient,
    series: BTreeMap<EventSeriesKey, EventSeries>,
    /// With so many series those that are over are forgotten.
    cleanup_threshold: usize,
    serial: i128,
}

/// What is to become of a pod's nomination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NominationChange {
    Keep,
    Set(SmolStr),
    Clear,
}

/// An event to be told.
struct PodEvent<'a> {
    about: &'a PodInfo,
    related: Option<&'a PodInfo>,
    kind: &'static str,
    reason: &'static str,
    action: &'static str,
    note: &'a str,
}

impl SchedulerWriter {
    pub(super) fn new(local: InProcessClient) -> Self {
        Self { client: local, series: BTreeMap::new(), cleanup_threshold: SERIES_CLEANUP_MIN, serial: 0 }
    }

    /// Binds a pod to a node.
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

    /// Says that a pod found no node: an event, and the condition if it says something new.
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
        let said = |condition: &k8s_openapi::api::core::v1::PodCondition| {
            condition.status == "False"
                && condition.reason.as_deref() == Some(reason)
                && condition.message.as_deref() == Some(message)
        };
        if !current.is_some_and(said) {
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

    /// Says to which node a pod will be bound when its volumes are there.
    pub(super) fn nominate(&mut self, pod: &PodInfo, node: &str) {
        self.patch_status(pod, &json!({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}));
    }

    /// Ends the nomination of a pod that must look elsewhere.
    pub(super) fn clear_nomination(&mut self, pod: &PodInfo) {
        self.patch_status(pod, &json!({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": null}}));
    }

    /// Makes a pod leave its node for another.
    pub(super) fn evict(&mut self, victim: &PodInfo, node: &str, preemptor: &PodInfo) {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": format!("{SCHEDULER_NAME}: preempting to accommodate a higher priority pod"),
            "lastTransitionTime": seconds(self.client.clock().now()),
        });
        self.patch_status(victim, &json!({"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}));
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid}});
        if self.client.delete(&path(victim), &options).is_err() {
            // It is gone already, which is what was wanted.
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

    /// Says for which node a claim's volume is to be made.
    pub(super) fn select_node(&mut self, claim: &str, node: &str) -> Result<(), WriteRejected> {
        let (namespace, name) = claim.split_once('/').unwrap_or_default();
        let annotations = json!({crate::cluster::volumes::CLAIM_SELECTED_NODE: node});
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        self.client.merge_patch(&path, &json!({"metadata": {"annotations": annotations}}))
    }

    /// Gives a volume to a claim; the volume controller does the rest.
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
        // A pod that is gone or was replaced needs no status.
        if let Err(refused) = self.client.strategic_merge_patch(&format!("{}/status", path(pod)), patch) {
            tracing::debug!(pod = %pod.key, %refused, "the status of a pod was not written");
        }
    }

    fn publish_event(&mut self, event: PodEvent<'_>) {
        let now = Instant::now();
        let likeness = (event.about.uid.clone(), event.about.version.clone(), event.reason);
        if let Some(series) = self.series.get_mut(&likeness)
            && now.duration_since(series.last_seen) < SERIES_IDLE_TIMEOUT
        {
            series.count += 1;
            series.last_seen = now;
            if series.count == 2 || now.duration_since(series.last_written) >= SERIES_WRITE_INTERVAL {
                series.last_written = now;
                let last = micros(self.client.clock().now());
                let patch = json!({"series": {"count": series.count, "lastObservedTime": last}});
                // An event that has been forgotten is no loss.
                let _ = self.client.merge_patch(&series.path, &patch);
            }
            return;
        }
        if self.series.len() >= self.cleanup_threshold {
            self.series.retain(|_, series| now.duration_since(series.last_seen) < SERIES_IDLE_TIMEOUT);
            // Not for each of a crowd that is all young.
            self.cleanup_threshold = SERIES_CLEANUP_MIN.max(2 * self.series.len());
        }
        if let Some(path) = self.create_event(&event) {
            self.series.insert(likeness, EventSeries { path, count: 1, last_seen: now, last_written: now });
        }
    }

    fn create_event(&mut self, event: &PodEvent<'_>) -> Option<String> {
        let now = self.client.clock().now();
        // The instant alone would do on a real clock; a virtual one stands still while many things happen.
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

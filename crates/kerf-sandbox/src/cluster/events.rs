//! What the cluster's parts tell people: Events on the objects that they are about. The same sentence about the same object is
//! counted and not repeated, as the real recorders do.

use std::collections::BTreeMap;

use serde_json::json;
use smol_str::SmolStr;

use super::control_plane::ControlPlane;
use super::kind::ControlPlaneKind;
use super::objects::Meta;
use crate::api::object::rfc3339_seconds;
use crate::api::storage::ObjectKey;

/// How many sentences are remembered for counting; then all are forgotten, which costs a repetition.
const MAX_COUNTED_EVENTS: usize = 4096;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventComponent {
    /// One of the controllers, by its name.
    Controller(&'static str),
    /// A kubelet.
    Kubelet,
}

/// Whether it is bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Normal,
    Warning,
}

/// What was said, and how often.
#[derive(Debug, Default)]
pub(crate) struct EventCounts {
    recorded: BTreeMap<(SmolStr, &'static str, String), (ObjectKey, i64)>,
    serial: u64,
}

impl ControlPlane {
    /// Tells something about an object. That nobody could be told is no reason to fail.
    pub(crate) fn publish_event(
        &mut self,
        speaker: EventComponent,
        about: (ControlPlaneKind, &Meta),
        tone: EventType,
        reason: &'static str,
        message: String,
    ) {
        let (kind, meta) = about;
        let now = rfc3339_seconds(self.now());
        let saying = (meta.uid.clone(), reason, message);
        if let Some((key, count)) = self.event_counts.recorded.get_mut(&saying) {
            *count += 1;
            let patch = json!({"count": *count, "lastTimestamp": now});
            if self.controller_client.merge_patch(&ControlPlaneKind::Event.path(key), &patch).is_ok() {
                return;
            }
        }
        self.event_counts.serial += 1;
        let namespace = if meta.namespace.is_empty() { "default" } else { &meta.namespace };
        let name = format!("{}.{:016x}", meta.name, self.event_counts.serial);
        let (component, host, requests) = match speaker {
            EventComponent::Controller(name) => (name, "", &self.controller_client),
            EventComponent::Kubelet => ("kubelet", meta.name.as_str(), &self.kubelet_client),
        };
        let (_, reason, message) = &saying;
        let event = json!({
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": kind.api_version(), "kind": kind.kind(), "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
            },
            "reason": reason, "message": message,
            "type": match tone { EventType::Normal => "Normal", EventType::Warning => "Warning" },
            "source": if kind == ControlPlaneKind::Node { json!({"component": component, "host": host}) } else { json!({"component": component}) },
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
            "reportingComponent": component, "reportingInstance": "",
        });
        if requests.create(ControlPlaneKind::Event, namespace, &event).is_ok() {
            if self.event_counts.recorded.len() >= MAX_COUNTED_EVENTS {
                self.event_counts.recorded.clear();
            }
            self.event_counts.recorded.insert(saying, (ObjectKey::new(Some(namespace), &name), 1));
        }
    }
}

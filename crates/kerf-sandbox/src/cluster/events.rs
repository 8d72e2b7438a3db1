//! Kubernetes Events that the controllers and kubelets publish. Repeating an event increments its
//! count instead of creating another object, as client-go's recorder does.

use std::collections::BTreeMap;

use serde_json::json;
use smol_str::SmolStr;

use super::control_plane::ControlPlane;
use super::kind::ControlPlaneKind;
use super::objects::Meta;
use crate::api::object::rfc3339_seconds;
use crate::api::storage::ObjectKey;

/// Number of events that are remembered for counting. At this number all are forgotten; the next
/// repetition then creates a new object.
const MAX_COUNTED_EVENTS: usize = 4096;

/// The component that publishes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventComponent {
    /// A controller, by name.
    Controller(&'static str),
    Kubelet,
}

/// The `type` of an Event object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Normal,
    Warning,
}

/// Published events with their counts.
#[derive(Debug, Default)]
pub(crate) struct EventCounts {
    recorded: BTreeMap<(SmolStr, &'static str, String), (ObjectKey, i64)>,
    serial: u64,
}

impl ControlPlane {
    /// Publishes an event about an object, or increments the count of an equal one. A failed write
    /// is ignored.
    pub(crate) fn publish_event(
        &mut self,
        source: EventComponent,
        object: (ControlPlaneKind, &Meta),
        event_type: EventType,
        reason: &'static str,
        message: String,
    ) {
        let (kind, meta) = object;
        let now = rfc3339_seconds(self.now());
        let event_key = (meta.uid.clone(), reason, message);
        if let Some((key, count)) = self.event_counts.recorded.get_mut(&event_key) {
            *count += 1;
            let patch = json!({"count": *count, "lastTimestamp": now});
            if self.controller_client.merge_patch(&ControlPlaneKind::Event.path(key), &patch).is_ok() {
                return;
            }
        }
        self.event_counts.serial += 1;
        let namespace = if meta.namespace.is_empty() { "default" } else { &meta.namespace };
        let name = format!("{}.{:016x}", meta.name, self.event_counts.serial);
        let (component, host, client) = match source {
            EventComponent::Controller(name) => (name, "", &self.controller_client),
            EventComponent::Kubelet => ("kubelet", meta.name.as_str(), &self.kubelet_client),
        };
        let (_, reason, message) = &event_key;
        let event = json!({
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": kind.api_version(), "kind": kind.kind(), "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
            },
            "reason": reason, "message": message,
            "type": match event_type { EventType::Normal => "Normal", EventType::Warning => "Warning" },
            "source": if kind == ControlPlaneKind::Node { json!({"component": component, "host": host}) } else { json!({"component": component}) },
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
            "reportingComponent": component, "reportingInstance": "",
        });
        if client.create(ControlPlaneKind::Event, namespace, &event).is_ok() {
            if self.event_counts.recorded.len() >= MAX_COUNTED_EVENTS {
                self.event_counts.recorded.clear();
            }
            self.event_counts.recorded.insert(event_key, (ObjectKey::new(Some(namespace), &name), 1));
        }
    }
}

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
    said: BTreeMap<(SmolStr, &'static str, String), (ObjectKey, i64)>,
    serial: u64,
}

impl ControlPlane {
    /// Tells something about an object. That nobody could be told is no reason to fail.
    pub(crate) fn tell(
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
        if let Some((key, count)) = self.sayings.said.get_mut(&saying) {
            *count += 1;
            let patch = json!({"count": *count, "lastTimestamp": now});
            if self.controllers.merge(&ControlPlaneKind::Event.path(key), &patch).is_ok() {
                return;
            }
        }
        self.sayings.serial += 1;
        let namespace = if meta.namespace.is_empty() { "default" } else { &meta.namespace };
        let name = format!("{}.{:016x}", meta.name, self.sayings.serial);
        let (component, host, requests) = match speaker {
            EventComponent::Controller(name) => (name, "", &self.controllers),
            EventComponent::Kubelet => ("kubelet", meta.name.as_str(), &self.kubelet),
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
            if self.sayings.said.len() >= MAX_COUNTED_EVENTS {
                self.sayings.said.clear();
            }
            self.sayings.said.insert(saying, (ObjectKey::new(Some(namespace), &name), 1));
        }
    }
}

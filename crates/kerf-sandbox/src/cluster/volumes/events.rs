//! Events about claims. Each event is published once per claim.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use crate::cluster::in_process_client::InProcessClient;

/// Maximum number of events in [`EventRecorder::published`]. At this number all are removed; the
/// next repetition is then published again.
const MAX_RECORDED_EVENTS: usize = 4096;

/// Component name of the volume controller in events.
pub(super) const CONTROLLER_NAME: &str = "persistentvolume-controller";

/// Publishes events about claims.
pub(super) struct EventRecorder {
    client: InProcessClient,
    published: BTreeSet<(String, &'static str, String)>,
    serial: i128,
}

/// Content of one event.
pub(super) struct EventText<'a> {
    pub(super) component: &'a str,
    pub(super) event_type: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl EventRecorder {
    pub(super) fn new(client: InProcessClient) -> Self {
        Self { client, published: BTreeSet::new(), serial: 0 }
    }

    /// Publishes an event about a claim, unless an equal one was published before.
    pub(super) fn publish_event(&mut self, claim: &PersistentVolumeClaim, text: EventText<'_>) {
        let meta = &claim.metadata;
        let (namespace, name) =
            (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
        let uid = meta.uid.clone().unwrap_or_default();
        if self.published.len() >= MAX_RECORDED_EVENTS {
            self.published.clear();
        }
        if !self.published.insert((uid.clone(), text.reason, text.message.clone())) {
            return;
        }
        let now = self.client.clock().now();
        self.serial += 1;
        let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": namespace, "name": format!("{name}.{:x}", now.as_nanosecond() + self.serial)},
            "involvedObject": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid,
                "resourceVersion": meta.resource_version,
            },
            "reason": text.reason, "message": text.message, "type": text.event_type, "count": 1,
            "source": {"component": text.component}, "firstTimestamp": at, "lastTimestamp": at,
        });
        // A failed write is ignored.
        let _ = self.client.create(&format!("/api/v1/namespaces/{namespace}/events"), &event);
    }
}

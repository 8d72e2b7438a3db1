//! The simulated provisioner: creates a volume for every class that names a provisioner, after a
//! delay, in the topology of the selected node.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kerf_runtime::Rng;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::claims::claim_path;
use super::events::{CONTROLLER_NAME, EventText};
use super::{CLAIM_SELECTED_NODE, VolumeController};

const ZONE: &str = "topology.kubernetes.io/zone";

impl VolumeController {
    /// Starts to provision a volume for a claim, unless that is already in progress.
    pub(super) fn start_provisioning(&mut self, key: &SmolStr, claim: &PersistentVolumeClaim, class: &StorageClass) {
        if self.provisioning_done_at.contains_key(key) {
            return;
        }
        let provisioner = class.provisioner.as_str();
        let annotations = json!({"volume.beta.kubernetes.io/storage-provisioner": provisioner, "volume.kubernetes.io/storage-provisioner": provisioner});
        if !self.merge_patch(&claim_path(key), &json!({"metadata": {"annotations": annotations}})) {
            return;
        }
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        );
        self.event_recorder.publish_event(
            claim,
            EventText { component: CONTROLLER_NAME, event_type: "Normal", reason: "ExternalProvisioning", message },
        );
        let message = format!("External provisioner is provisioning volume for claim {:?}", key.as_str());
        self.event_recorder.publish_event(
            claim,
            EventText { component: provisioner, event_type: "Normal", reason: "Provisioning", message },
        );
        let now = Instant::now();
        self.provisioning_done_at.insert(key.clone(), now + self.provision_delay);
        self.finish_provisioning(now);
    }

    /// Creates the volumes whose delay has passed.
    pub(super) fn finish_provisioning(&mut self, now: Instant) {
        let finished = self.provisioning_done_at.iter().filter(|(_, at)| **at <= now);
        let finished: Vec<SmolStr> = finished.map(|(key, _)| key.clone()).collect();
        for key in finished {
            self.provisioning_done_at.remove(&key);
            let Some(claim) = self.claims.get(&key).cloned() else { continue };
            let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
            let Some(class) = class.and_then(|name| self.classes.get(name)).cloned() else { continue };
            self.create_volume(&key, &claim, &class);
        }
    }

    fn create_volume(&mut self, key: &SmolStr, claim: &PersistentVolumeClaim, class: &StorageClass) {
        let provisioner = class.provisioner.as_str();
        let selected = claim.metadata.annotations.as_ref().and_then(|a| a.get(CLAIM_SELECTED_NODE)).cloned();
        if let Some(node) = selected.as_ref().filter(|node| !self.nodes.contains_key(node.as_str())) {
            let message = format!(
                "failed to provision volume with StorageClass {:?}: error getting node {node:?}: node {node:?} not found",
                class.metadata.name.as_deref().unwrap_or_default()
            );
            self.event_recorder.publish_event(
                claim,
                EventText { component: provisioner, event_type: "Warning", reason: "ProvisioningFailed", message },
            );
            // Removing the annotation makes the scheduler choose a node again.
            self.merge_patch(&claim_path(key), &json!({"metadata": {"annotations": {CLAIM_SELECTED_NODE: null}}}));
            return;
        }
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let name = format!("pvc-{uid}");
        let spec = claim.spec.as_ref();
        let mut volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": provisioner}},
            "spec": {
                "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
                "capacity": {"storage": storage(claim)},
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.metadata.namespace,
                    "name": claim.metadata.name, "uid": uid,
                },
                "csi": {"driver": provisioner, "volumeHandle": name},
                "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
                "storageClassName": class.metadata.name,
                "volumeMode": spec.and_then(|spec| spec.volume_mode.clone()),
            },
        });
        if let Some(topology) = self.volume_topology(key, class, selected.as_deref()) {
            volume["spec"]["nodeAffinity"] =
                json!({"required": {"nodeSelectorTerms": [{"matchExpressions": topology}]}});
        }
        // A volume that exists was created before this controller was restarted.
        let _ = self.client.create("/api/v1/persistentvolumes", &volume);
        let message = format!("Successfully provisioned volume {name}");
        self.event_recorder.publish_event(
            claim,
            EventText { component: provisioner, event_type: "Normal", reason: "ProvisioningSucceeded", message },
        );
    }

    /// Returns the node affinity terms of a volume: the topology of the selected node, or else one
    /// of the class's allowed topologies, or else one of the nodes' zones. Returns `None` if no
    /// topology is known.
    fn volume_topology(&self, key: &str, class: &StorageClass, node: Option<&str>) -> Option<Vec<Value>> {
        let expression = |name: &str, value: &str| json!({"key": name, "operator": "In", "values": [value]});
        if let Some(node) = node {
            let labels = self.nodes.get(node)?;
            let keys = self.topology_keys.get(node).and_then(|drivers| drivers.get(&class.provisioner));
            let zone = vec![ZONE.to_owned()];
            let keys = keys.filter(|keys| !keys.is_empty()).unwrap_or(&zone);
            let expressions: Vec<Value> =
                keys.iter().filter_map(|name| Some(expression(name, labels.get(name)?))).collect();
            return (!expressions.is_empty()).then_some(expressions);
        }
        // The choice depends only on the claim's key: it is the same in every run, and claims are
        // spread over topologies.
        let mut rng = Rng::new(0).fork(key);
        let allowed =
            class.allowed_topologies.iter().flatten().flat_map(|t| t.match_label_expressions.iter().flatten());
        let mut topologies: Vec<(&str, &str)> =
            allowed.flat_map(|e| e.values.iter().map(|value| (e.key.as_str(), value.as_str()))).collect();
        if topologies.is_empty() {
            topologies = self.nodes.values().filter_map(|labels| Some((ZONE, labels.get(ZONE)?.as_str()))).collect();
        }
        topologies.sort_unstable();
        topologies.dedup();
        let (name, value) = topologies.get(rng.below(topologies.len() as u64) as usize)?;
        Some(vec![expression(name, value)])
    }
}

fn storage(claim: &PersistentVolumeClaim) -> String {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let storage = resources.and_then(|r| r.requests.as_ref()).and_then(|requests| requests.get("storage"));
    storage.map(|quantity| quantity.0.clone()).unwrap_or_default()
}

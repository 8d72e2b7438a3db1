//! Binding of claims and volumes, and the phases of both.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};

use super::events::{CONTROLLER_NAME, EventText};
use super::matching::{best_match, is_bound, is_reserved_for};
use super::{CLAIM_SELECTED_NODE, QueuedObject, VolumeController};

/// Provisioner of a class whose volumes are created by an administrator.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

impl VolumeController {
    pub(super) fn sync_claim(&mut self, key: &SmolStr) {
        let Some(claim) = self.claims.get(key).cloned() else {
            self.provisioning_done_at.remove(key);
            return;
        };
        if !self.protect_claim(key, &claim) {
            return;
        }
        let volume_name = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).filter(|name| !name.is_empty());
        match volume_name {
            Some(volume) => self.sync_claim_with_volume_name(key, &claim, &volume),
            None => self.sync_unbound_claim(key, &claim),
        }
    }

    /// Reconciles a claim that names its volume.
    fn sync_claim_with_volume_name(&mut self, key: &SmolStr, claim: &PersistentVolumeClaim, name: &str) {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        match self.volumes.get(name).cloned() {
            Some(volume) => {
                let claim_ref = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
                if claim_ref.is_none() || is_reserved_for(&volume, claim) {
                    if phase != "Bound" || !is_bound(claim) || !has_complete_claim_ref(&volume, claim) {
                        self.bind(key, claim, &volume);
                    }
                } else if is_bound(claim) && phase != "Lost" {
                    let message = "Bound claim's PersistentVolume is bound to another claim".to_owned();
                    self.mark_claim_lost(key, claim, "ClaimMisbound", message);
                }
            }
            None if is_bound(claim) && phase != "Lost" => {
                let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!".to_owned();
                self.mark_claim_lost(key, claim, "ClaimLost", message);
            }
            None => {}
        }
    }

    fn mark_claim_lost(&mut self, key: &str, claim: &PersistentVolumeClaim, reason: &'static str, message: String) {
        self.event_recorder
            .publish_event(claim, EventText { component: CONTROLLER_NAME, event_type: "Warning", reason, message });
        self.merge_patch(&format!("{}/status", claim_path(key)), &json!({"status": {"phase": "Lost"}}));
    }

    /// Reconciles a claim that names no volume: binds it to the best match, waits, or starts
    /// provisioning.
    fn sync_unbound_claim(&mut self, key: &SmolStr, claim: &PersistentVolumeClaim) {
        let class_name = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default();
        let class = self.classes.get(class_name.as_str()).cloned();
        let waits_for_consumer =
            class.as_ref().and_then(|c| c.volume_binding_mode.as_deref()) == Some("WaitForFirstConsumer");
        let has_selected_node =
            claim.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(CLAIM_SELECTED_NODE));
        let mut candidates =
            self.volumes.values().filter(|volume| !waits_for_consumer || is_reserved_for(volume, claim));
        if let Some(volume) = best_match(claim, &mut candidates, None, |_| false).cloned() {
            self.bind(key, claim, &volume);
            return;
        }
        if waits_for_consumer && !has_selected_node {
            let message = "waiting for first consumer to be created before binding".to_owned();
            let event =
                EventText { component: CONTROLLER_NAME, event_type: "Normal", reason: "WaitForFirstConsumer", message };
            self.event_recorder.publish_event(claim, event);
            return;
        }
        match class {
            Some(class) if !matches!(class.provisioner.as_str(), "" | NO_PROVISIONER) => {
                self.start_provisioning(key, claim, &class);
            }
            Some(_) => {}
            None if class_name.is_empty() => {
                let message = "no persistent volumes available for this claim and no storage class is set".to_owned();
                self.event_recorder.publish_event(
                    claim,
                    EventText { component: CONTROLLER_NAME, event_type: "Normal", reason: "FailedBinding", message },
                );
            }
            None => {
                let message = format!("storageclass.storage.k8s.io {class_name:?} not found");
                let event = EventText {
                    component: CONTROLLER_NAME,
                    event_type: "Warning",
                    reason: "ProvisioningFailed",
                    message,
                };
                self.event_recorder.publish_event(claim, event);
            }
        }
    }

    /// Binds a claim and a volume to each other. The volume is written first, so that two claims
    /// cannot get it.
    fn bind(&mut self, key: &str, claim: &PersistentVolumeClaim, volume: &PersistentVolume) {
        let volume_name = volume.metadata.name.clone().unwrap_or_default();
        let volume_path = format!("/api/v1/persistentvolumes/{volume_name}");
        if !has_complete_claim_ref(volume, claim) {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            let mut patch = json!({"spec": {"claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name,
                "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version,
            }}});
            if volume.spec.as_ref().is_none_or(|spec| spec.claim_ref.is_none()) {
                patch["metadata"] = json!({"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}});
            }
            if !self.merge_patch(&volume_path, &patch) {
                return;
            }
        }
        self.merge_patch(&format!("{volume_path}/status"), &json!({"status": {"phase": "Bound"}}));
        if !is_bound(claim) {
            let mut annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
            let is_bound_by_controller =
                claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).is_none_or(str::is_empty);
            if is_bound_by_controller {
                annotations["pv.kubernetes.io/bound-by-controller"] = "yes".into();
            }
            let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume_name}});
            if !self.merge_patch(&claim_path(key), &patch) {
                return;
            }
        }
        let spec = volume.spec.as_ref();
        let status = json!({"status": {
            "phase": "Bound",
            "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
            "capacity": spec.and_then(|spec| spec.capacity.clone()),
        }});
        self.merge_patch(&format!("{}/status", claim_path(key)), &status);
    }

    pub(super) fn sync_volume(&mut self, name: &SmolStr) {
        let Some(volume) = self.volumes.get(name).cloned() else {
            // The claims that name this volume have lost it.
            let names_volume = |claim: &PersistentVolumeClaim| {
                claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) == Some(name.as_str())
            };
            let claims = self.claims.iter().filter(|(_, claim)| names_volume(claim)).map(|(key, _)| key.clone());
            self.queue.extend(claims.map(QueuedObject::Claim));
            return;
        };
        if !self.protect_volume(name, &volume) {
            return;
        }
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let Some(reference) = reference else {
            self.set_phase(name, &volume, "Available");
            // A claim may wait for this volume.
            let waiting = self.claims.iter().filter(|(_, claim)| !is_bound(claim)).map(|(key, _)| key.clone());
            self.queue.extend(waiting.map(QueuedObject::Claim));
            return;
        };
        let (namespace, claim_name) = (reference.namespace.as_deref(), reference.name.as_deref());
        let key = format_smolstr!("{}/{}", namespace.unwrap_or_default(), claim_name.unwrap_or_default());
        let claim = self.claims.get(&key).filter(|claim| is_reserved_for(&volume, claim));
        let has_uid = reference.uid.as_deref().is_some_and(|uid| !uid.is_empty());
        match claim {
            Some(claim) if is_bound(claim) => self.set_phase(name, &volume, "Bound"),
            Some(_) => drop(self.queue.insert(QueuedObject::Claim(key))),
            None if has_uid => self.release_volume(name, &volume),
            None => self.set_phase(name, &volume, "Available"),
        }
    }

    /// Releases a volume whose claim was deleted. Its reclaim policy decides whether the volume is
    /// deleted too.
    fn release_volume(&mut self, name: &SmolStr, volume: &PersistentVolume) {
        self.set_phase(name, volume, "Released");
        let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        if policy == Some("Delete") && volume.metadata.deletion_timestamp.is_none() {
            let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
            // The delete fails only if another client has deleted the volume.
            let _ = self.client.delete(&format!("/api/v1/persistentvolumes/{name}"), &options);
        }
    }

    fn set_phase(&mut self, name: &SmolStr, volume: &PersistentVolume, phase: &str) {
        if volume.status.as_ref().and_then(|status| status.phase.as_deref()) != Some(phase) {
            self.merge_patch(&format!("/api/v1/persistentvolumes/{name}/status"), &json!({"status": {"phase": phase}}));
        }
    }

    /// Writes a merge patch, and returns true if it succeeded. A failed write is not retried: it
    /// lost against another write, whose change is processed next.
    pub(super) fn merge_patch(&self, path: &str, patch: &Value) -> bool {
        let result = self.client.merge_patch(path, patch);
        if let Err(error) = result {
            tracing::debug!(path, %error, "a volume or a claim was not written");
        }
        result.is_ok()
    }
}

/// Returns true if the volume's `claimRef` names this claim including its uid.
fn has_complete_claim_ref(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| reference.uid.is_some() && reference.uid == claim.metadata.uid)
}

pub(super) fn claim_path(key: &str) -> String {
    let (namespace, name) = key.split_once('/').unwrap_or_default();
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
}

//! Counts the pods that use each claim, and creates the claims of ephemeral volumes, which their
//! pod owns. A claim is a PersistentVolumeClaim, as everywhere in [`super`].
//!
//! The counts decide whether a claim is protected against deletion. Nothing here binds, changes or
//! deletes a claim; the garbage collector deletes the claims of a deleted pod.

use k8s_openapi::api::core::v1::Pod;
use kerf_referee::placement::{is_terminal, is_terminating};
use kerf_referee::storage::volume_claim_names;
use serde_json::json;
use smol_str::{SmolStr, format_smolstr};

use super::{QueuedObject, VolumeController, decode_change, object_key};
use crate::cluster::in_process_client::RawChange;

impl VolumeController {
    /// Updates the number of pods that use each claim after a pod was created, changed or deleted:
    /// removes the pod's earlier claims, and adds those of its new version unless the pod is
    /// finished. Queues all these claims, and the pod if it has ephemeral volumes.
    pub(super) fn apply_pod_change(&mut self, change: &RawChange) {
        let key = object_key(change);
        let mut affected_claims = self.claims_by_pod.remove(&key).unwrap_or_default();
        for claim in &affected_claims {
            if let Some(count) = self.claim_use_counts.get_mut(claim) {
                *count -= 1;
                if *count == 0 {
                    self.claim_use_counts.remove(claim);
                }
            }
        }
        self.pods_with_ephemeral_volumes.remove(&key);
        // Most pods use no claims, so a search in the bytes avoids decoding them. A match
        // elsewhere, such as a label of that name, only costs the decoding.
        let bytes_contain =
            |field: &[u8]| change.object.as_ref().is_some_and(|b| b.windows(field.len()).any(|w| w == field));
        let uses_claims = bytes_contain(b"\"persistentVolumeClaim\"") || bytes_contain(b"\"ephemeral\"");
        if let Some(pod) = uses_claims.then(|| decode_change::<Pod>(change)).flatten().filter(|pod| !is_terminal(pod)) {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let claims: std::collections::BTreeSet<SmolStr> =
                volume_claim_names(&pod).iter().map(|claim| format_smolstr!("{namespace}/{claim}")).collect();
            for claim in &claims {
                *self.claim_use_counts.entry(claim.clone()).or_default() += 1;
            }
            affected_claims.extend(claims.iter().cloned());
            self.claims_by_pod.insert(key.clone(), claims);
            let has_ephemeral_volumes =
                pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(|v| v.ephemeral.is_some());
            if has_ephemeral_volumes && !is_terminating(&pod) {
                self.pods_with_ephemeral_volumes.insert(key.clone(), pod);
                self.queue.insert(QueuedObject::Pod(key));
            }
        }
        self.queue.extend(affected_claims.into_iter().map(QueuedObject::Claim));
    }

    /// Creates the missing claims of the ephemeral volumes of a pod, given as `namespace/name`. A
    /// claim that exists is left as it is, even if the pod does not own it.
    pub(super) fn create_ephemeral_claims(&mut self, pod_key: &SmolStr) {
        let Some(pod) = self.pods_with_ephemeral_volumes.get(pod_key) else { return };
        let meta = &pod.metadata;
        let (namespace, pod_name) =
            (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let template = volume.ephemeral.as_ref().and_then(|source| source.volume_claim_template.as_ref());
            let Some(template) = template else { continue };
            let claim_name = format!("{pod_name}-{}", volume.name);
            if self.claims.contains_key(&format_smolstr!("{namespace}/{claim_name}")) {
                continue;
            }
            let template_meta = template.metadata.as_ref();
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {
                    "namespace": namespace, "name": claim_name,
                    "labels": template_meta.and_then(|meta| meta.labels.clone()), "annotations": template_meta.and_then(|meta| meta.annotations.clone()),
                    "ownerReferences": [{
                        "apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": meta.uid,
                        "controller": true, "blockOwnerDeletion": true,
                    }],
                },
                "spec": template.spec,
            });
            // An error is ignored. If the claim exists by now, `apply_changes` reads it next. After
            // any other error the claim is created when the pod changes.
            let _ = self.client.create(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"), &claim);
        }
    }
}

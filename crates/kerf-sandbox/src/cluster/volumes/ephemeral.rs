//! Claims that pods use, and claims of ephemeral volumes, which are created for a pod and owned by
//! it.

use k8s_openapi::api::core::v1::Pod;
use kerf_referee::placement::{is_terminal, is_terminating};
use kerf_referee::storage::volume_claim_names;
use serde_json::json;
use smol_str::{SmolStr, format_smolstr};

use super::{Dirty, VolumeController, decode_change, object_key};
use crate::cluster::in_process_client::RawChange;

impl VolumeController {
    pub(super) fn apply_pod_change(&mut self, change: &RawChange) {
        let key = object_key(change);
        let mut touched = self.claims_by_pod.remove(&key).unwrap_or_default();
        for claim in &touched {
            if let Some(count) = self.claim_use_counts.get_mut(claim) {
                *count -= 1;
                if *count == 0 {
                    self.claim_use_counts.remove(claim);
                }
            }
        }
        self.pods_with_ephemeral_volumes.remove(&key);
        // Most pods use no claims, so a search in the bytes avoids decoding them.
        let mentions =
            |field: &[u8]| change.object.as_ref().is_some_and(|b| b.windows(field.len()).any(|w| w == field));
        let uses_claims = mentions(b"\"persistentVolumeClaim\"") || mentions(b"\"ephemeral\"");
        if let Some(pod) = uses_claims.then(|| decode_change::<Pod>(change)).flatten().filter(|pod| !is_terminal(pod)) {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let claims: std::collections::BTreeSet<SmolStr> =
                volume_claim_names(&pod).iter().map(|claim| format_smolstr!("{namespace}/{claim}")).collect();
            for claim in &claims {
                *self.claim_use_counts.entry(claim.clone()).or_default() += 1;
            }
            touched.extend(claims.iter().cloned());
            self.claims_by_pod.insert(key.clone(), claims);
            let has_ephemeral_volumes =
                pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(|v| v.ephemeral.is_some());
            if has_ephemeral_volumes && !is_terminating(&pod) {
                self.pods_with_ephemeral_volumes.insert(key.clone(), pod);
                self.dirty.insert(Dirty::Pod(key));
            }
        }
        self.dirty.extend(touched.into_iter().map(Dirty::Claim));
    }

    /// Creates the claims of a pod's ephemeral volumes.
    pub(super) fn create_ephemeral_claims(&mut self, key: &SmolStr) {
        let Some(pod) = self.pods_with_ephemeral_volumes.get(key) else { return };
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
            // A failed write is ignored: if the claim exists by now, its change follows.
            let _ = self.client.create(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"), &claim);
        }
    }
}

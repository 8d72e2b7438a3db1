//! Protection of claims and volumes in use by finalizers: a claim is kept while a pod uses it, a
//! volume while a claim is bound to it.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use smol_str::SmolStr;

use super::VolumeController;
use super::claims::claim_path;

const CLAIM_PROTECTION_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION_FINALIZER: &str = "kubernetes.io/pv-protection";

impl VolumeController {
    /// Adds the finalizer to a claim, or removes it if the claim is being deleted and no pod uses
    /// it. Returns false if the claim is being deleted and needs no further processing.
    pub(super) fn protect_claim(&mut self, key: &SmolStr, claim: &PersistentVolumeClaim) -> bool {
        let in_use = self.claim_use_counts.contains_key(key);
        self.protect(&claim_path(key), &claim.metadata, CLAIM_PROTECTION_FINALIZER, in_use)
    }

    /// Adds the finalizer to a volume, or removes it if the volume is being deleted and not bound.
    /// Returns false if the volume needs no further processing.
    pub(super) fn protect_volume(&mut self, name: &SmolStr, volume: &PersistentVolume) -> bool {
        let is_bound = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let path = format!("/api/v1/persistentvolumes/{name}");
        let needs_sync = self.protect(&path, &volume.metadata, VOLUME_PROTECTION_FINALIZER, is_bound);
        // A bound volume has to be released from its claim before it can be deleted.
        needs_sync || is_bound
    }

    fn protect(&self, path: &str, meta: &ObjectMeta, finalizer: &str, in_use: bool) -> bool {
        let finalizers = meta.finalizers.as_deref().unwrap_or_default();
        let has_finalizer = finalizers.iter().any(|other| other == finalizer);
        let others = finalizers.iter().filter(|other| *other != finalizer);
        match (meta.deletion_timestamp.is_some(), has_finalizer) {
            (false, true) => true,
            (false, false) => {
                let all: Vec<&str> = others.map(String::as_str).chain([finalizer]).collect();
                self.merge_patch(path, &json!({"metadata": {"finalizers": all}}));
                true
            }
            (true, true) if !in_use => {
                let remaining: Vec<&String> = others.collect();
                self.merge_patch(path, &json!({"metadata": {"finalizers": remaining}}));
                false
            }
            (true, _) => false,
        }
    }
}

//! VolumeAttachments: a volume is attached to a node before a pod on it can start, and detached
//! when no pod on it uses the volume any more.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};

use rustc_hash::FxHasher;
use serde_json::json;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::control_plane::{ControlPlane, RunAgain};
use super::kind::ControlPlaneKind;
use super::objects::{Pod, VolumeAttachment};
use super::pods::ignore_not_found_or_conflict;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

impl ControlPlane {
    /// Returns the volumes that have to be attached for a pod, with their drivers. Returns `None`
    /// if a claim is not bound yet.
    fn volumes_to_attach(&self, pod: &Pod) -> Option<Vec<(SmolStr, SmolStr)>> {
        let mut volumes = Vec::new();
        for claim in pod.volume_claim_names() {
            let claim = self.cache.volume_claims.get(&ObjectKey::new(Some(&pod.metadata.namespace), &claim))?;
            if claim.status.phase != "Bound" {
                return None;
            }
            let volume = self.cache.volumes.get(&ObjectKey::new(None, &claim.spec.volume_name))?;
            if let Some(csi) = &volume.spec.csi {
                volumes.push((claim.spec.volume_name.clone(), csi.driver.clone()));
            }
        }
        Some(volumes)
    }

    /// Returns true if all volumes of a pod are attached to its node.
    pub(crate) fn are_volumes_attached(&self, pod: &Pod) -> bool {
        self.volumes_to_attach(pod).is_some_and(|volumes| {
            volumes.iter().all(|(volume, driver)| {
                let name = attachment_name(volume, driver, &pod.spec.node_name);
                self.cache
                    .attachments
                    .get(&ObjectKey::new(None, &name))
                    .is_some_and(|attachment| attachment.status.attached)
            })
        })
    }

    /// Returns the volumes in use on a node, in the form of `status.volumesInUse`.
    pub(crate) fn volumes_in_use(&self, node: &str) -> Vec<String> {
        let mut names = BTreeSet::new();
        for pod in self.cache.pods_on(node).iter().filter(|pod| !pod.is_terminal()) {
            for (volume, driver) in self.volumes_to_attach(pod).unwrap_or_default() {
                let handle = self
                    .cache
                    .volumes
                    .get(&ObjectKey::new(None, &volume))
                    .and_then(|volume| volume.spec.csi.as_ref().map(|csi| csi.volume_handle.clone()))
                    .unwrap_or_default();
                names.insert(format!("kubernetes.io/csi/{driver}^{handle}"));
            }
        }
        names.into_iter().collect()
    }
}

/// Returns the name of an attachment, which is a hash of volume, driver and node.
fn attachment_name(volume: &str, driver: &str, node: &str) -> String {
    let mut hasher = FxHasher::default();
    (volume, driver, node).hash(&mut hasher);
    format!("csi-{:016x}", hasher.finish())
}

/// Creates the VolumeAttachments that a node's pods need, and deletes the others.
pub(crate) fn sync(plane: &mut ControlPlane, node: &ObjectKey) -> ApiResult<RunAgain> {
    let exists = plane.cache.nodes.get(node).is_some();
    let mut desired = BTreeMap::new();
    for pod in plane.cache.pods_on(node.name()).iter().filter(|pod| exists && !pod.is_terminal()) {
        for (volume, driver) in plane.volumes_to_attach(pod).unwrap_or_default() {
            desired.insert(attachment_name(&volume, &driver, node.name()), (volume, driver));
        }
    }
    for (name, (volume, driver)) in &desired {
        if plane.cache.attachments.get(&ObjectKey::new(None, name)).is_none() {
            let attachment = json!({
                "metadata": {"name": name},
                "spec": {"attacher": driver, "nodeName": node.name(), "source": {"persistentVolumeName": volume}},
            });
            ignore_not_found_or_conflict(plane.controller_client.create(
                ControlPlaneKind::VolumeAttachment,
                "",
                &attachment,
            ))?;
        }
    }
    for attachment in plane.cache.attachments_on(node.name()) {
        let key = attachment.metadata.key();
        if !desired.contains_key(key.name()) && !attachment.metadata.is_deleting() {
            plane.controller_client.delete(ControlPlaneKind::VolumeAttachment, &key, &attachment.metadata.uid)?;
        }
    }
    Ok(RunAgain::WhenChanged)
}

/// Marks an attachment as attached after the attach delay, as a CSI driver does.
pub(crate) fn attach(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let is_pending = |attachment: &VolumeAttachment| !attachment.status.attached && !attachment.metadata.is_deleting();
    if !plane.cache.attachments.get(key).is_some_and(|attachment| is_pending(&attachment)) {
        plane.attach_done_at.remove(key);
        return Ok(RunAgain::WhenChanged);
    }
    let delay = plane.config.timing.volume_attach;
    let now = Instant::now();
    let at = match plane.attach_done_at.get(key) {
        Some(at) => *at,
        None => {
            let at = now + delay.draw(&mut plane.rng);
            plane.attach_done_at.insert(key.clone(), at);
            at
        }
    };
    if at > now {
        return Ok(RunAgain::After(at - now));
    }
    plane.attach_done_at.remove(key);
    ignore_not_found_or_conflict(plane.controller_client.merge_patch_status(
        ControlPlaneKind::VolumeAttachment,
        key,
        &json!({"attached": true}),
    ))?;
    Ok(RunAgain::WhenChanged)
}

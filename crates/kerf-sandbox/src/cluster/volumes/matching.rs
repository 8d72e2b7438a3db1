//! The choice of a volume for a claim, by the rules of kube-controller-manager: the smallest volume
//! that satisfies the claim. The scheduler uses the same function for one node when a claim waits
//! for its first consumer.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kerf_api::quantity::Quantity;
use kerf_referee::selectors::{Labels, labels_or_empty, selects};
use kerf_referee::storage::is_volume_usable_on;

/// Annotation by which the scheduler names the node for which a volume has to be provisioned.
pub(crate) const CLAIM_SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a claim whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// Returns true if a claim names its volume and the binding is complete.
pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).is_some_and(|name| !name.is_empty());
    named && claim.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(BIND_COMPLETED))
}

/// Returns the best volume for a claim: the one reserved for it, or else the smallest available
/// one. With `node` (name and labels), only volumes that are usable on it. Skips volumes for which
/// `is_taken` returns true.
pub(crate) fn best_match<'a>(
    claim: &PersistentVolumeClaim,
    volumes: impl Iterator<Item = &'a PersistentVolume>,
    node: Option<(&str, &Labels)>,
    is_taken: impl Fn(&str) -> bool,
) -> Option<&'a PersistentVolume> {
    let mut best: Option<(Quantity, &str, &PersistentVolume)> = None;
    for volume in volumes {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        if is_taken(name) || !satisfies(claim, volume) {
            continue;
        }
        if node.is_some_and(|(name, labels)| !is_volume_usable_on(volume, name, labels)) {
            continue;
        }
        if is_reserved_for(volume, claim) {
            return Some(volume);
        }
        let is_free = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none());
        if !is_free || volume.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Available") {
            continue;
        }
        let size = (capacity(volume), name);
        if best.is_none_or(|(capacity, name, _)| size < (capacity, name)) {
            best = Some((size.0, name, volume));
        }
    }
    best.map(|(_, _, volume)| volume)
}

/// Returns true if the volume's `claimRef` names this claim.
pub(crate) fn is_reserved_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        reference.name == claim.metadata.name
            && reference.namespace == claim.metadata.namespace
            && reference.uid.as_deref().is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_deref())
    })
}

/// Returns true if the volume has the properties that the claim requests. Topology and binding are
/// not checked.
fn satisfies(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let (Some(requested), Some(offered)) = (&claim.spec, &volume.spec) else { return false };
    let mode = |mode: &Option<String>| mode.as_deref().unwrap_or("Filesystem").to_owned();
    let class = |class: &Option<String>| class.as_deref().unwrap_or_default().to_owned();
    let modes = offered.access_modes.as_deref().unwrap_or_default();
    volume.metadata.deletion_timestamp.is_none()
        && capacity(volume) >= requested_storage(claim)
        && mode(&requested.volume_mode) == mode(&offered.volume_mode)
        && class(&requested.storage_class_name) == class(&offered.storage_class_name)
        && requested.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && requested
            .selector
            .as_ref()
            .is_none_or(|s| selects(Some(s), labels_or_empty(volume.metadata.labels.as_ref())))
}

fn capacity(volume: &PersistentVolume) -> Quantity {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()).and_then(|all| all.get("storage"));
    capacity.and_then(|text| text.0.parse().ok()).unwrap_or(Quantity::ZERO)
}

/// Returns the storage that a claim requests, or zero.
pub(crate) fn requested_storage(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let storage = resources.and_then(|r| r.requests.as_ref()).and_then(|requests| requests.get("storage"));
    storage.and_then(|text| text.0.parse().ok()).unwrap_or(Quantity::ZERO)
}

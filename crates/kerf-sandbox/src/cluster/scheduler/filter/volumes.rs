//! Volume filters. A bound claim needs a volume that is usable on the node. For a claim that waits
//! for its first consumer, a volume must exist or be provisionable for the node. A
//! `ReadWriteOncePod` claim must not be in use, and no driver may exceed its limit of attached
//! volumes per node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::api::storage::v1::StorageClass;
use kerf_referee::selectors::{Labels, labels_or_empty};
use kerf_referee::storage::{can_class_provision_for, is_volume_usable_on};
use smol_str::SmolStr;

use super::{FilterRejection, Plugin};
use crate::cluster::scheduler::node::NodeInfo;
use crate::cluster::scheduler::pod::PodInfo;
use crate::cluster::scheduler::storage::{Attachable, class_name, count_by_driver};
use crate::cluster::scheduler::view::{View, claim_key};
use crate::cluster::volumes::{CLAIM_SELECTED_NODE, best_match, is_bound};

/// Provisioner of classes whose volumes are created by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Topology labels of volumes, each with the label of nodes that has the same meaning. A volume's
/// label may list several values, joined by `__`.
const VOLUME_TOPOLOGY_LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// The claims of one pod with their volumes and classes.
pub(super) struct VolumeFilter<'a> {
    view: &'a View,
    rejection: Option<FilterRejection>,
    bound: Vec<&'a PersistentVolume>,
    /// Claims that wait for their first consumer, smallest first.
    waiting: Vec<(SmolStr, &'a PersistentVolumeClaim, Option<&'a StorageClass>)>,
    /// True if another pod uses one of the pod's `ReadWriteOncePod` claims.
    is_exclusive_claim_in_use: bool,
    volumes_to_attach: BTreeSet<Attachable>,
}

/// The volume bindings that must be done before a pod can run on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VolumeBindings {
    /// Claims, each with the existing volume that it gets.
    pub(crate) existing: Vec<(SmolStr, SmolStr)>,
    /// Claims for which a volume must be provisioned.
    pub(crate) provisioned: Vec<SmolStr>,
}

impl VolumeBindings {
    pub(crate) fn is_empty(&self) -> bool {
        self.existing.is_empty() && self.provisioned.is_empty()
    }
}

impl<'a> VolumeFilter<'a> {
    pub(super) fn new(view: &'a View, pod: &Pod, info: &PodInfo) -> Self {
        let mut state = Self {
            view,
            rejection: None,
            bound: Vec::new(),
            waiting: Vec::new(),
            is_exclusive_claim_in_use: false,
            volumes_to_attach: BTreeSet::new(),
        };
        if info.claims.is_empty() {
            return state;
        }
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let Some((name, ephemeral)) = claim_of(pod, volume) else { continue };
            let key = claim_key(info, &name);
            if let Err(reason) = state.add_claim(key, &name, ephemeral, pod) {
                // The event reports the first reason.
                state.rejection.get_or_insert(FilterRejection::unresolvable(Plugin::VolumeBinding, reason));
            }
        }
        let unbound = "pod has unbound immediate PersistentVolumeClaims";
        if state.rejection.is_none()
            && state.waiting.iter().any(|(_, claim, class)| !waits_for_first_consumer(claim, *class))
        {
            state.rejection = Some(FilterRejection::unresolvable(Plugin::VolumeBinding, unbound));
        }
        state.waiting.sort_by_key(|(key, claim, _)| (crate::cluster::volumes::requested_storage(claim), key.clone()));
        state
    }

    fn add_claim(&mut self, key: SmolStr, name: &str, ephemeral: bool, pod: &Pod) -> Result<(), String> {
        let storage = &self.view.storage;
        let Some(claim) = storage.claims.get(&key) else {
            return Err(if ephemeral {
                format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}")
            } else {
                format!("persistentvolumeclaim {name:?} not found")
            });
        };
        let spec = claim.spec.as_ref();
        let volume_name = spec.and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
        if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
            let what = "bound to non-existent persistentvolume";
            return Err(format!("persistentvolumeclaim {name:?} {what} {volume_name:?}"));
        }
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if ephemeral && !belongs_to(claim, pod) {
            let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            return Err(format!("PVC {key} was not created for pod {namespace}/{pod_name} (pod is not owner)"));
        }
        let access_modes = spec.and_then(|spec| spec.access_modes.as_ref());
        let is_exclusive = access_modes.is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod"));
        self.is_exclusive_claim_in_use |= is_exclusive && self.view.is_claim_in_use(&key);
        self.volumes_to_attach.extend(storage.attachable_for(&key));
        if is_bound(claim) {
            let Some(volume) = storage.volumes.get(volume_name) else {
                return Err(format!("persistentvolume {volume_name:?} not found"));
            };
            self.bound.push(volume);
        } else {
            let class = class_name(claim).and_then(|class| storage.classes.get(class));
            self.waiting.push((key, claim, class));
        }
        Ok(())
    }

    /// Returns the rejection that holds for every node. Returns `None` if each node must be
    /// checked.
    pub(super) fn pre_filter(&self) -> Option<FilterRejection> {
        self.rejection.clone()
    }

    pub(super) fn check(&self, node: &NodeInfo) -> Result<(), FilterRejection> {
        if self.is_exclusive_claim_in_use {
            let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
            return Err(FilterRejection::resolvable(Plugin::VolumeRestrictions, reason));
        }
        if self.volumes_to_attach.is_empty() && self.bound.is_empty() && self.waiting.is_empty() {
            return Ok(());
        }
        if self.exceeds_attach_limit(node) {
            return Err(FilterRejection::resolvable(Plugin::NodeVolumeLimits, "node(s) exceed max volume count"));
        }
        let mut reasons = Vec::new();
        if self.bound.iter().any(|volume| !is_volume_usable_on(volume, &node.name, &node.labels)) {
            reasons.push("node(s) didn't match PersistentVolume's node affinity".into());
        }
        if self.plan_bindings(node).is_none() {
            reasons.push("node(s) didn't find available persistent volumes to bind".into());
        }
        if !reasons.is_empty() {
            return Err(FilterRejection { plugin: Plugin::VolumeBinding, reasons, is_resolvable: false });
        }
        if self.bound.iter().any(|volume| !is_in_zone_of(volume, &node.labels)) {
            return Err(FilterRejection::unresolvable(Plugin::VolumeZone, "node(s) had no available volume zone"));
        }
        Ok(())
    }

    pub(super) fn bindings(&self, node: &NodeInfo) -> VolumeBindings {
        self.plan_bindings(node).unwrap_or_default()
    }

    /// Assigns volumes to the waiting claims for the node. Returns `None` if this is impossible for
    /// one of them.
    fn plan_bindings(&self, node: &NodeInfo) -> Option<VolumeBindings> {
        let mut bindings = VolumeBindings::default();
        for (key, claim, class) in &self.waiting {
            let class = (*class)?;
            let class_name = class.metadata.name.as_deref().unwrap_or_default();
            let selected = claim.metadata.annotations.as_ref().and_then(|a| a.get(CLAIM_SELECTED_NODE));
            match selected {
                Some(selected) if *selected != node.name => return None,
                Some(_) => {}
                None => {
                    let is_taken = |name: &str| bindings.existing.iter().any(|(_, volume)| volume == name);
                    let candidates = self.view.storage.volumes_of_class(class_name);
                    let matching_volume = best_match(claim, candidates, Some((&node.name, &node.labels)), is_taken);
                    if let Some(volume) = matching_volume {
                        let name = volume.metadata.name.as_deref().unwrap_or_default();
                        bindings.existing.push((key.clone(), name.into()));
                        continue;
                    }
                }
            }
            if matches!(class.provisioner.as_str(), "" | NO_PROVISIONER)
                || !can_class_provision_for(class, &node.labels)
            {
                return None;
            }
            bindings.provisioned.push(key.clone());
        }
        Some(bindings)
    }

    fn exceeds_attach_limit(&self, node: &NodeInfo) -> bool {
        let storage = &self.view.storage;
        let Some(limits) = storage.limits(&node.name).filter(|_| !self.volumes_to_attach.is_empty()) else {
            return false;
        };
        let claims = node.pods.values().flat_map(|pod| pod.claims.iter().map(|claim| claim_key(pod, claim)));
        let mut attached_volumes: BTreeSet<Attachable> =
            claims.filter_map(|key| storage.attachable_for(&key)).collect();
        attached_volumes.extend(storage.attached(&node.name));
        let new_volumes: BTreeSet<Attachable> = self.volumes_to_attach.difference(&attached_volumes).cloned().collect();
        let attached_counts = count_by_driver(&attached_volumes);
        count_by_driver(&new_volumes).into_iter().any(|(driver, count)| {
            limits
                .get(driver)
                .is_some_and(|limit| attached_counts.get(driver).copied().unwrap_or_default() + count > *limit)
        })
    }
}

/// Returns true if an unbound claim is bound only after its pod has a node.
fn waits_for_first_consumer(claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> bool {
    let names_volume =
        claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).is_some_and(|name| !name.is_empty());
    !names_volume && class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"))
}

/// Returns the name of the claim behind a pod's volume, and true if it is an ephemeral claim that
/// is created for the pod. Returns `None` if the volume has no claim.
fn claim_of(pod: &Pod, volume: &Volume) -> Option<(String, bool)> {
    if let Some(source) = &volume.persistent_volume_claim {
        return Some((source.claim_name.clone(), false));
    }
    volume.ephemeral.as_ref()?;
    Some((format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name), true))
}

fn belongs_to(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref())
}

/// Returns true if the node is in the zone and region of the volume's labels. A node without
/// topology labels matches every volume.
fn is_in_zone_of(volume: &PersistentVolume, labels: &Labels) -> bool {
    let volume_labels = labels_or_empty(volume.metadata.labels.as_ref());
    let node_has_no_topology = VOLUME_TOPOLOGY_LABELS.iter().all(|(key, _)| !labels.contains_key(*key));
    node_has_no_topology
        || VOLUME_TOPOLOGY_LABELS.iter().all(|(volume_key, node_key)| {
            volume_labels.get(*volume_key).is_none_or(|allowed| {
                let node_value = labels.get(*volume_key).or_else(|| labels.get(*node_key));
                node_value.is_some_and(|node_value| allowed.split("__").any(|value| value == node_value))
            })
        })
}

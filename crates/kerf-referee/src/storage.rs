//! Persistent volumes: on which nodes a pod's volumes can be attached, and by which driver.
//!
//! A bound claim restricts the pod to nodes that can use its volume. A claim with
//! `WaitForFirstConsumer` restricts it to nodes for which the storage class can provision. A claim
//! in any other state keeps the pod pending.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;

use crate::selectors::{Labels, expression_matches, term_matches};

/// The label with the host name of a node.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

/// The volumes, volume claims and storage classes of a cluster.
#[derive(Debug, Clone, Default)]
pub struct VolumeObjects<'a> {
    claims: BTreeMap<(String, String), &'a PersistentVolumeClaim>,
    volumes: BTreeMap<String, &'a PersistentVolume>,
    classes: BTreeMap<String, &'a StorageClass>,
}

/// State of a pod's volume claim.
#[derive(Debug, Clone, Copy)]
pub enum VolumeClaimState<'a> {
    /// The claim does not exist.
    Missing,
    /// The claim is being deleted.
    Deleting,
    /// The claim's volume does not exist or is being deleted.
    Lost,
    /// The claim is bound to this volume.
    Bound(&'a PersistentVolume),
    /// The claim waits for its first consumer. This class will provision the volume.
    Waiting(&'a StorageClass),
    /// The claim is not bound, and no placement of the pod would cause it to be bound.
    Unbound,
}

impl<'a> VolumeObjects<'a> {
    /// Indexes claims by namespace and name, volumes and classes by name.
    pub fn new(
        claims: impl IntoIterator<Item = &'a PersistentVolumeClaim>,
        volumes: impl IntoIterator<Item = &'a PersistentVolume>,
        classes: impl IntoIterator<Item = &'a StorageClass>,
    ) -> Self {
        let key = |claim: &PersistentVolumeClaim| {
            let meta = &claim.metadata;
            (meta.namespace.clone().unwrap_or_else(|| "default".to_owned()), meta.name.clone().unwrap_or_default())
        };
        Self {
            claims: claims.into_iter().map(|claim| (key(claim), claim)).collect(),
            volumes: volumes.into_iter().map(|v| (v.metadata.name.clone().unwrap_or_default(), v)).collect(),
            classes: classes.into_iter().map(|c| (c.metadata.name.clone().unwrap_or_default(), c)).collect(),
        }
    }

    /// Returns the claim with this namespace and name, or `None` if it does not exist.
    pub fn volume_claim(&self, namespace: &str, name: &str) -> Option<&'a PersistentVolumeClaim> {
        self.claims.get(&(namespace.to_owned(), name.to_owned())).copied()
    }

    /// Returns whether the PersistentVolumeClaim exists and is bound, and to which volume.
    pub fn claim_state(&self, namespace: &str, name: &str) -> VolumeClaimState<'a> {
        let Some(claim) = self.volume_claim(namespace, name) else { return VolumeClaimState::Missing };
        if claim.metadata.deletion_timestamp.is_some() {
            return VolumeClaimState::Deleting;
        }
        if claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Lost") {
            return VolumeClaimState::Lost;
        }
        let spec = claim.spec.as_ref();
        if let Some(volume) = spec.and_then(|s| s.volume_name.as_deref()).filter(|name| !name.is_empty()) {
            let bound =
                claim.metadata.annotations.as_ref().is_some_and(|a| a.contains_key("pv.kubernetes.io/bind-completed"));
            return match self.volumes.get(volume) {
                None => VolumeClaimState::Lost,
                Some(_) if !bound => VolumeClaimState::Unbound,
                Some(volume) if volume.metadata.deletion_timestamp.is_some() => VolumeClaimState::Lost,
                Some(volume) => VolumeClaimState::Bound(volume),
            };
        }
        let class = spec.and_then(|s| s.storage_class_name.as_ref()).and_then(|name| self.classes.get(name));
        match class {
            Some(class) if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") => {
                VolumeClaimState::Waiting(class)
            }
            Some(_) | None => VolumeClaimState::Unbound,
        }
    }

    /// Returns the CSI driver that attaches the claim's volume. Returns `None` if the claim, volume
    /// or class is unknown, or if no CSI driver attaches the volume.
    pub fn csi_driver(&self, namespace: &str, name: &str) -> Option<String> {
        let spec = self.volume_claim(namespace, name)?.spec.as_ref()?;
        if let Some(volume) = spec.volume_name.as_ref().filter(|name| !name.is_empty()) {
            let volume = self.volumes.get(volume)?.spec.as_ref()?;
            let in_tree = volume.aws_elastic_block_store.as_ref().map(|_| "ebs.csi.aws.com".to_owned());
            return volume.csi.as_ref().map(|csi| csi.driver.clone()).or(in_tree);
        }
        let class = self.classes.get(spec.storage_class_name.as_ref()?)?;
        Some(csi_driver_of_provisioner(&class.provisioner).to_owned())
    }
}

/// Returns the names of the pod's volume claims: those that it references, and those of its
/// ephemeral volumes.
pub fn volume_claim_names(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name)),
            (None, None) => None,
        })
        .collect()
}

/// Returns true if the volume can be used on the node: it has no node affinity, or one of its terms
/// matches.
pub fn is_volume_usable_on(volume: &PersistentVolume, node: &str, labels: &Labels) -> bool {
    volume_node_affinity_terms(volume).is_none_or(|terms| terms.iter().any(|term| term_matches(term, node, labels)))
}

/// Returns true if the volume can be used on a new node with these labels. The host name of a
/// volume that is stored on one host (`local`, `hostPath`) is ignored, because the volume is
/// assumed to be created again on the new host (spec 02 §9.2). Terms without expressions are
/// skipped.
pub fn is_volume_usable_on_new_node(volume: &PersistentVolume, labels: &Labels) -> bool {
    let on_host = volume.spec.as_ref().is_some_and(|spec| spec.local.is_some() || spec.host_path.is_some());
    let terms: Vec<_> = volume_node_affinity_terms(volume)
        .unwrap_or_default()
        .iter()
        .filter_map(|term| term.match_expressions.as_ref().filter(|expressions| !expressions.is_empty()))
        .collect();
    terms.is_empty()
        || terms.iter().any(|expressions| {
            expressions
                .iter()
                .filter(|expression| !(on_host && expression.key == HOSTNAME))
                .all(|expression| expression_matches(expression, labels))
        })
}

/// Returns true if the class can provision a volume for a node with these labels: it has no allowed
/// topologies, or one of them matches.
pub fn can_class_provision_for(class: &StorageClass, labels: &Labels) -> bool {
    let terms = class.allowed_topologies.as_deref().unwrap_or_default();
    terms.is_empty()
        || terms.iter().any(|term| {
            let mut expressions = term.match_label_expressions.iter().flatten();
            expressions
                .all(|expression| labels.get(&expression.key).is_some_and(|value| expression.values.contains(value)))
        })
}

fn volume_node_affinity_terms(volume: &PersistentVolume) -> Option<&[NodeSelectorTerm]> {
    let required = volume.spec.as_ref()?.node_affinity.as_ref()?.required.as_ref()?;
    Some(&required.node_selector_terms)
}

/// Returns the CSI driver that replaces an in-tree provisioner. Returns any other name unchanged.
fn csi_driver_of_provisioner(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/azure-file" => "file.csi.azure.com",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        "kubernetes.io/portworx-volume" => "pxd.portworx.com",
        other => other,
    }
}

#[cfg(test)]
mod tests;

//! The scheduler's data about claims, volumes, storage classes and attachments.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use smol_str::SmolStr;

/// A volume, as the name of its driver and the driver's handle of the volume.
pub(super) type Attachable = (SmolStr, SmolStr);

#[derive(Debug, Default)]
pub(super) struct StorageView {
    /// Claims by `namespace/name`.
    pub(super) claims: BTreeMap<SmolStr, PersistentVolumeClaim>,
    pub(super) volumes: BTreeMap<SmolStr, PersistentVolume>,
    pub(super) classes: BTreeMap<SmolStr, StorageClass>,
    /// Maximum number of attached volumes, by node and driver.
    limits: BTreeMap<SmolStr, BTreeMap<SmolStr, i64>>,
    /// Node and volume of each VolumeAttachment, by its name.
    attachments: BTreeMap<SmolStr, (SmolStr, SmolStr)>,
}

impl StorageView {
    /// Stores the attach limits of a node's drivers. `None` removes them.
    pub(super) fn put_csi_node(&mut self, node: SmolStr, csi: Option<&CSINode>) {
        let Some(csi) = csi else {
            self.limits.remove(&node);
            return;
        };
        let limit = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
            Some((SmolStr::from(&driver.name), i64::from(driver.allocatable.as_ref()?.count?)))
        };
        self.limits.insert(node, csi.spec.drivers.iter().filter_map(limit).collect());
    }

    /// Stores a VolumeAttachment. `None` removes it.
    pub(super) fn put_attachment(&mut self, name: SmolStr, attachment: Option<&VolumeAttachment>) {
        match attachment.and_then(|a| Some((&a.spec.node_name, a.spec.source.persistent_volume_name.as_ref()?))) {
            Some((node, volume)) => drop(self.attachments.insert(name, (node.into(), volume.into()))),
            None => drop(self.attachments.remove(&name)),
        }
    }

    /// Returns the attach limits of a node by driver; `None` if there are none.
    pub(super) fn limits(&self, node: &str) -> Option<&BTreeMap<SmolStr, i64>> {
        self.limits.get(node).filter(|limits| !limits.is_empty())
    }

    /// Returns the volumes that are attached to a node, in use or not.
    pub(super) fn attached<'a>(&'a self, node: &'a str) -> impl Iterator<Item = Attachable> + 'a {
        let on_node = self.attachments.values().filter(move |(attached_node, _)| attached_node == node);
        on_node.filter_map(|(_, volume)| attachable(self.volumes.get(volume)?))
    }

    /// Returns the volume that must be attached for a claim; `None` if no CSI driver attaches it.
    /// An unbound claim counts as one volume of its class's provisioner.
    pub(super) fn attachable_for(&self, key: &SmolStr) -> Option<Attachable> {
        let claim = self.claims.get(key)?;
        let spec = claim.spec.as_ref()?;
        if let Some(volume) = spec.volume_name.as_deref().filter(|name| !name.is_empty()) {
            return attachable(self.volumes.get(volume)?);
        }
        let class = self.classes.get(class_name(claim)?)?;
        Some((SmolStr::from(&class.provisioner), SmolStr::from(format!("{key} (not made yet)"))))
    }

    /// Returns all volumes of a class, free or not.
    pub(super) fn volumes_of_class<'a>(&'a self, class: &'a str) -> impl Iterator<Item = &'a PersistentVolume> {
        self.volumes.values().filter(move |volume| {
            let spec = volume.spec.as_ref();
            spec.and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default() == class
        })
    }
}

fn attachable(volume: &PersistentVolume) -> Option<Attachable> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some((SmolStr::from(&csi.driver), SmolStr::from(&csi.volume_handle)))
}

/// Returns the storage class that a claim requests; `None` if it requests none.
pub(super) fn class_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.storage_class_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns the number of volumes of each driver.
pub(super) fn count_by_driver(volumes: &BTreeSet<Attachable>) -> BTreeMap<&str, i64> {
    let mut counts = BTreeMap::new();
    for (driver, _) in volumes {
        *counts.entry(driver.as_str()).or_default() += 1;
    }
    counts
}

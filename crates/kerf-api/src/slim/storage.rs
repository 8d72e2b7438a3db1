//! Volumes: claims, volumes, storage classes, and attachment limits of nodes.

use serde::Deserialize;

use super::meta::{ObjectMeta, Str};
use super::pod::{NodeSelectorRequirement, NodeSelectorTerm};

/// PersistentVolumeClaim, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersistentVolumeClaim {
    /// Name and namespace; the annotation `pv.kubernetes.io/bind-completed` is kept.
    pub metadata: ObjectMeta,
    /// Name of the bound volume, or empty.
    pub volume_name: Str,
    /// Name of the storage class; `None` if not set.
    pub storage_class_name: Option<Str>,
    /// `Pending`, `Bound` or `Lost`.
    pub phase: Str,
}

/// PersistentVolume, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    /// Name and other metadata.
    pub metadata: ObjectMeta,
    /// CSI driver (`ebs.csi.aws.com` for an in-tree EBS volume); `None` if there is none.
    pub driver: Option<Str>,
    /// True for a `local` or `hostPath` volume, whose affinity to a hostname Kerf ignores.
    pub is_local: bool,
    /// Required node affinity: alternatives, of which at least one must match.
    pub node_affinity: Vec<NodeSelectorTerm>,
}

/// StorageClass, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageClass {
    /// Name and other metadata.
    pub metadata: ObjectMeta,
    /// Driver that creates the volumes.
    pub provisioner: Str,
    /// Time at which a volume is created.
    pub volume_binding_mode: VolumeBindingMode,
    /// Alternatives for the topology of volumes; the operator of each expression is `In`.
    pub allowed_topologies: Vec<Vec<NodeSelectorRequirement>>,
}

/// Time at which a volume is created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum VolumeBindingMode {
    /// When the claim is created.
    #[default]
    Immediate,
    /// When a pod that uses the claim is scheduled.
    WaitForFirstConsumer,
}

/// Numbers of volumes that a node can attach, by driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// Metadata; the name is that of the node.
    pub metadata: ObjectMeta,
    /// CSI drivers of the node.
    pub drivers: Vec<CsiNodeDriver>,
}

/// CSI driver on a node and its attachment limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsiNodeDriver {
    /// Name of the driver.
    pub name: Str,
    /// Number of volumes that the driver can attach; `None` means no limit.
    pub count: Option<i32>,
}

/// Volume attached to a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// Name of the attachment.
    pub metadata: ObjectMeta,
    /// Node that the volume is attached to.
    pub node_name: Str,
    /// Name of the PersistentVolume; `None` for an inline volume.
    pub persistent_volume_name: Option<Str>,
}

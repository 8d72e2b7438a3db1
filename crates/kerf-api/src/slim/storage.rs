//! Volumes: claims, volumes, classes, and what a node can attach.

use serde::Deserialize;

use super::meta::{ObjectMeta, Str};
use super::pod::{NodeSelectorRequirement, NodeSelectorTerm};

/// A persistent volume claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersistentVolumeClaim {
    /// Names; the annotation `pv.kubernetes.io/bind-completed` is kept.
    pub metadata: ObjectMeta,
    /// The bound volume, or empty.
    pub volume_name: Str,
    /// The storage class; `None` when not named.
    pub storage_class_name: Option<Str>,
    /// `Pending`, `Bound` or `Lost`.
    pub phase: Str,
}

/// A persistent volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    /// Names.
    pub metadata: ObjectMeta,
    /// The CSI driver (`ebs.csi.aws.com` for the in-tree EBS volume), or none.
    pub driver: Option<Str>,
    /// Whether it is a `local` or `hostPath` volume, whose hostname pin does not bind Kerf.
    pub is_local: bool,
    /// Required node affinity: alternatives.
    pub node_affinity: Vec<NodeSelectorTerm>,
}

/// A storage class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageClass {
    /// Names.
    pub metadata: ObjectMeta,
    /// Who makes the volumes.
    pub provisioner: Str,
    /// When a volume is made.
    pub volume_binding_mode: VolumeBindingMode,
    /// Alternatives of where volumes may be, each expression an `In`.
    pub allowed_topologies: Vec<Vec<NodeSelectorRequirement>>,
}

/// When a volume is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum VolumeBindingMode {
    /// At once.
    #[default]
    Immediate,
    /// When a pod needs it.
    WaitForFirstConsumer,
}

/// What a node can attach, per driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// Named like its node.
    pub metadata: ObjectMeta,
    /// The drivers of the node.
    pub drivers: Vec<CsiNodeDriver>,
}

/// One driver of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsiNodeDriver {
    /// Driver name.
    pub name: Str,
    /// How many volumes it can attach; none means no limit.
    pub count: Option<i32>,
}

/// A volume attached to a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// Names.
    pub metadata: ObjectMeta,
    /// The node.
    pub node_name: Str,
    /// The volume.
    pub persistent_volume_name: Option<Str>,
}

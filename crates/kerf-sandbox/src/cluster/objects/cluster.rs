//! Namespaces, PodDisruptionBudgets, ControllerRevisions and the kinds that volumes need, reduced
//! to the fields that the control plane reads.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use smol_str::SmolStr;

use super::Meta;
use crate::api::selector::LabelSelector;

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Namespace {
    pub(crate) metadata: Meta,
    pub(crate) spec: NamespaceSpec,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct NamespaceSpec {
    pub(crate) finalizers: Vec<SmolStr>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct PodDisruptionBudget {
    pub(crate) metadata: Meta,
    pub(crate) spec: PodDisruptionBudgetSpec,
    pub(crate) status: Value,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodDisruptionBudgetSpec {
    pub(crate) min_available: Option<Value>,
    pub(crate) max_unavailable: Option<Value>,
    pub(crate) selector: Option<Value>,
}

impl PodDisruptionBudget {
    pub(crate) fn selector(&self) -> Option<LabelSelector> {
        LabelSelector::from_object(self.spec.selector.as_ref())
    }

    /// Returns the pods that were evicted and may still exist, with the time of each eviction.
    pub(crate) fn disrupted_pods(&self) -> BTreeMap<SmolStr, Timestamp> {
        let pods = self.status.get("disruptedPods").cloned().unwrap_or_default();
        serde_json::from_value(pods).unwrap_or_default()
    }
}

/// A ControllerRevision: one pod template of a StatefulSet or DaemonSet.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
#[allow(clippy::struct_field_names, reason = "the wire calls it so")]
pub(crate) struct ControllerRevision {
    pub(crate) metadata: Meta,
    pub(crate) data: Value,
    pub(crate) revision: i64,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct VolumeClaim {
    pub(crate) metadata: Meta,
    pub(crate) spec: VolumeClaimSpec,
    pub(crate) status: VolumeClaimStatus,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeClaimSpec {
    pub(crate) volume_name: SmolStr,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct VolumeClaimStatus {
    pub(crate) phase: SmolStr,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolume {
    pub(crate) metadata: Meta,
    pub(crate) spec: PersistentVolumeSpec,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolumeSpec {
    pub(crate) csi: Option<CsiSource>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CsiSource {
    pub(crate) driver: SmolStr,
    pub(crate) volume_handle: SmolStr,
}

/// A VolumeAttachment.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Attachment {
    pub(crate) metadata: Meta,
    pub(crate) spec: AttachmentSpec,
    pub(crate) status: AttachmentStatus,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AttachmentSpec {
    pub(crate) attacher: SmolStr,
    pub(crate) node_name: SmolStr,
    pub(crate) source: AttachmentSource,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AttachmentSource {
    pub(crate) persistent_volume_name: SmolStr,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct AttachmentStatus {
    pub(crate) attached: bool,
}

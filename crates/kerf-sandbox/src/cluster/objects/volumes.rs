//! PersistentVolumeClaims, PersistentVolumes and VolumeAttachments, reduced to the fields that the
//! control plane reads. The [`VolumeController`](crate::cluster::volumes::VolumeController) decodes
//! whole objects instead.

use smol_str::SmolStr;

use super::Meta;

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolumeClaim {
    pub(crate) metadata: Meta,
    pub(crate) spec: PersistentVolumeClaimSpec,
    pub(crate) status: PersistentVolumeClaimStatus,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PersistentVolumeClaimSpec {
    pub(crate) volume_name: SmolStr,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolumeClaimStatus {
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

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct VolumeAttachment {
    pub(crate) metadata: Meta,
    pub(crate) spec: VolumeAttachmentSpec,
    pub(crate) status: VolumeAttachmentStatus,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeAttachmentSpec {
    pub(crate) attacher: SmolStr,
    pub(crate) node_name: SmolStr,
    pub(crate) source: VolumeAttachmentSource,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeAttachmentSource {
    pub(crate) persistent_volume_name: SmolStr,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct VolumeAttachmentStatus {
    pub(crate) attached: bool,
}

//! Block devices of EC2 instances (spec 01 §7.4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{CelRule, rule};
use crate::unparsed::QuantityText;

/// At most one disk is the root volume.
pub(super) const ONE_ROOT: CelRule = rule(
    "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
    "must have only one blockDeviceMappings with rootVolume",
);

/// Disk of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// Name of the device, for example /dev/xvda.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// EBS volume of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// If true, the disk holds the data of kubelet and pods, and its size is the ephemeral storage
    /// of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<bool>,
}

const SIZE_OR_SNAPSHOT: CelRule =
    rule("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be defined");
const RATE_NEEDS_SNAPSHOT: CelRule = rule(
    "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
    "snapshotID must be set when volumeInitializationRate is set",
);

/// EBS volume of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [SIZE_OR_SNAPSHOT, RATE_NEEDS_SNAPSHOT]))]
pub struct BlockDevice {
    /// If true, the volume is deleted when its instance terminates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// If true, the volume is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// Provisioned I/O operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// Key for the encryption of the volume.
    #[serde(default, rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// Snapshot from which the volume is created.
    #[serde(default, rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Provisioned throughput in MiB per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// Rate in MiB per second at which a snapshot is loaded into the volume. Requires snapshotID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 100, "maximum" = 300))]
    pub volume_initialization_rate: Option<i32>,
    /// Size of the volume: up to 59000Gi, 64000G, 58Ti or 64T.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // As in Karpenter, the pattern rejects sizes such as 18Ti and accepts a bare Ti. Existing
    // objects depend on the former. The controller reports the latter.
    #[schemars(with = "Option<String>", extend(
        "pattern" = "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$"
    ))]
    pub volume_size: Option<QuantityText>,
    /// EBS volume type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"]))]
    pub volume_type: Option<String>,
}

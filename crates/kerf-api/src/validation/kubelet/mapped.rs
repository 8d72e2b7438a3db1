//! Kubelet settings that Kerf itself reads, in order to compute the allocatable resources of a node
//! and to configure AMI families that accept no configuration file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Names of the settings in [`MappedKubelet`].
pub(super) const FIELDS: [&str; 12] = [
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
];

/// Texts by key; `null` counts as absent.
type TextsByKey = BTreeMap<String, Option<String>>;

/// Maximum number of pods on a node: a number, or an expression over the instance type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MaxPods {
    /// Equal for every instance type.
    Number(i32),
    /// Computed for each instance type.
    Expression(String),
}

/// Settings that Kerf reads. For an absent setting the AMI family's default applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MappedKubelet {
    /// Addresses of the cluster's DNS servers.
    #[serde(rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    pub cluster_dns: Option<Vec<Option<String>>>,
    /// Maximum number of pods on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<MaxPods>,
    /// Maximum number of pods per CPU core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<i32>,
    /// Resources reserved for the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_reserved: Option<TextsByKey>,
    /// Resources reserved for Kubernetes components.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_reserved: Option<TextsByKey>,
    /// Amounts of free resources below which pods are evicted at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<TextsByKey>,
    /// Amounts of free resources below which pods are evicted after a grace period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft: Option<TextsByKey>,
    /// Grace period of each soft eviction threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft_grace_period: Option<TextsByKey>,
    /// Maximum time for a pod to terminate after a soft eviction, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// Disk usage in percent above which images are garbage-collected.
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// Disk usage in percent below which images are not garbage-collected.
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// True if CPU limits are enforced by CFS quota.
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
}

impl MappedKubelet {
    /// Decodes the settings. Never fails if [`failures`](super::failures) returns an empty list.
    pub fn from_settings(kubelet: &Map<String, Value>) -> Result<Self, serde_json::Error> {
        Self::deserialize(&Value::Object(kubelet.clone()))
    }
}

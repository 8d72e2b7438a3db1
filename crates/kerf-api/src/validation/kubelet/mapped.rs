//! The kubelet's settings that Kerf itself reads, to know what a node can hold and to tell families that take no file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The names of the settings in [`MappedKubelet`].
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

/// Texts by key; a `null` stands for no entry.
type TextsByKey = BTreeMap<String, Option<String>>;

/// How many pods a node takes: a number, or an expression over the instance type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MaxPods {
    /// The same for every instance type.
    Number(i32),
    /// Computed for each instance type.
    Expression(String),
}

/// The settings that Kerf reads. Absent ones are the image family's business.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MappedKubelet {
    /// Addresses of the cluster's DNS servers.
    #[serde(rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    pub cluster_dns: Option<Vec<Option<String>>>,
    /// How many pods the node takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<MaxPods>,
    /// How many pods the node takes for each core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<i32>,
    /// Resources kept for the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_reserved: Option<TextsByKey>,
    /// Resources kept for Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_reserved: Option<TextsByKey>,
    /// Below what is free of these, pods are evicted at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<TextsByKey>,
    /// Below what is free of these, pods are evicted after a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft: Option<TextsByKey>,
    /// How long that while is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft_grace_period: Option<TextsByKey>,
    /// The most seconds that such a pod may take to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// Disk usage in percent above which images are collected.
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// Disk usage in percent below which images are not collected.
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// Whether CPU limits are enforced by quota.
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
}

impl MappedKubelet {
    /// Reads the settings. This cannot fail for settings in which [`failures`](super::failures) finds nothing.
    pub fn from_settings(kubelet: &Map<String, Value>) -> Result<Self, serde_json::Error> {
        Self::deserialize(&Value::Object(kubelet.clone()))
    }
}

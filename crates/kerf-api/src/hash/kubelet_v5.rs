//! The kubelet configuration as hash version `v5` reads it: a struct of twelve fields, as in
//! Karpenter 1.12 to 1.14. Other fields are not hashed.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::structure::{StructHasher, hash_bool, hash_i32, hash_i64, hash_list, hash_map, hash_map_of, hash_text};
use crate::duration::Duration;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct KubeletV5 {
    #[serde(rename = "clusterDNS")]
    cluster_dns: Option<Vec<String>>,
    max_pods: Option<i32>,
    pods_per_core: Option<i32>,
    system_reserved: Option<BTreeMap<String, String>>,
    kube_reserved: Option<BTreeMap<String, String>>,
    eviction_hard: Option<BTreeMap<String, String>>,
    eviction_soft: Option<BTreeMap<String, String>>,
    eviction_soft_grace_period: Option<BTreeMap<String, String>>,
    eviction_max_pod_grace_period: Option<i32>,
    #[serde(rename = "imageGCHighThresholdPercent")]
    image_gc_high_threshold_percent: Option<i32>,
    #[serde(rename = "imageGCLowThresholdPercent")]
    image_gc_low_threshold_percent: Option<i32>,
    #[serde(rename = "cpuCFSQuota")]
    cpu_cfs_quota: Option<bool>,
}

/// Returns the hash of `spec.kubelet`. Fails if one of the twelve fields has another type, which
/// Karpenter 1.14 cannot read either.
pub(super) fn hash_kubelet(kubelet: &Map<String, Value>) -> Result<u64, String> {
    let kubelet = KubeletV5::deserialize(kubelet).map_err(|error| error.to_string())?;
    let periods = kubelet.eviction_soft_grace_period.as_ref().map(grace_periods).transpose()?;
    Ok(StructHasher::named("KubeletConfiguration")
        .field("ClusterDNS", kubelet.cluster_dns.map(|all| hash_list(all.iter().map(|address| hash_text(address)))))
        .field("MaxPods", kubelet.max_pods.map(hash_i32))
        .field("PodsPerCore", kubelet.pods_per_core.map(hash_i32))
        .field("SystemReserved", kubelet.system_reserved.map(hash_map))
        .field("KubeReserved", kubelet.kube_reserved.map(hash_map))
        .field("EvictionHard", kubelet.eviction_hard.map(hash_map))
        .field("EvictionSoft", kubelet.eviction_soft.map(hash_map))
        .field("EvictionSoftGracePeriod", periods)
        .field("EvictionMaxPodGracePeriod", kubelet.eviction_max_pod_grace_period.map(hash_i32))
        .field("ImageGCHighThresholdPercent", kubelet.image_gc_high_threshold_percent.map(hash_i32))
        .field("ImageGCLowThresholdPercent", kubelet.image_gc_low_threshold_percent.map(hash_i32))
        .field("CPUCFSQuota", kubelet.cpu_cfs_quota.map(hash_bool))
        .finish())
}

fn grace_periods(periods: &BTreeMap<String, String>) -> Result<u64, String> {
    let mut entries = Vec::new();
    for (signal, text) in periods {
        let period: Duration = text.parse().map_err(|error| format!("evictionSoftGracePeriod[{signal}]: {error}"))?;
        let nanos = Some(period.nanos()).filter(|nanos| *nanos != 0);
        entries
            .push((hash_text(signal), StructHasher::named("Duration").field("Duration", nanos.map(hash_i64)).finish()));
    }
    Ok(hash_map_of(entries))
}

//! The command line of the kubelet, as the scripts of AL2 and Windows take it (spec 05 §14.1).

use std::collections::BTreeMap;
use std::fmt::Display;

use kerf_api::taints::Taint;

use super::UserDataInput;

/// Returns the flags, separated by spaces. Flags without a value are left out.
pub(super) fn kubelet_flags(input: &UserDataInput<'_>) -> String {
    let settings = input.resolved_kubelet.settings();
    let number = |name: &str, value: Option<i64>| value.map(|value| format!("--{name}={value}"));
    let taints: Vec<String> = input.taints.iter().map(taint_text).collect();
    let flags = [
        joined("node-labels", "=", input.labels),
        Some(format!("--register-with-taints={:?}", taints.join(","))),
        number("max-pods", Some(input.node_max_pods())),
        number("pods-per-core", settings.pods_per_core),
        joined("system-reserved", "=", &settings.system_reserved),
        joined("kube-reserved", "=", &settings.kube_reserved),
        joined("eviction-hard", "<", &settings.eviction_hard),
        joined("eviction-soft", "<", &settings.eviction_soft),
        joined("eviction-soft-grace-period", "=", &settings.eviction_soft_grace_period),
        number("eviction-max-pod-grace-period", settings.eviction_max_pod_grace_period),
        number("image-gc-high-threshold", settings.image_gc_high_threshold_percent),
        number("image-gc-low-threshold", settings.image_gc_low_threshold_percent),
        settings.cpu_cfs_quota.map(|is_enforced| format!("--cpu-cfs-quota={is_enforced}")),
    ];
    flags.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns a flag whose value is a list of pairs, sorted by key. Returns `None` if there are none.
fn joined(name: &str, separator: &str, pairs: &BTreeMap<String, impl Display>) -> Option<String> {
    if pairs.is_empty() {
        return None;
    }
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}{separator}{value}")).collect();
    Some(format!("--{name}={:?}", pairs.join(",")))
}

fn taint_text(taint: &Taint) -> String {
    match taint.value.as_deref().unwrap_or_default() {
        "" => format!("{}:{}", taint.key, taint.effect),
        value => format!("{}={value}:{}", taint.key, taint.effect),
    }
}

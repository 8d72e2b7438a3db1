//! Taints and tolerations.
//!
//! A pod may run on a node only if it tolerates every taint with the effect `NoSchedule` or
//! `NoExecute`. `PreferNoSchedule` is a preference and never excludes a node.

use k8s_openapi::api::core::v1::{Pod, Taint, Toleration};

/// Returns true if the taint excludes pods that do not tolerate it.
pub fn prevents_scheduling(taint: &Taint) -> bool {
    taint.effect == "NoSchedule" || taint.effect == "NoExecute"
}

/// Returns true if the toleration tolerates the taint. No key together with `Exists` means every
/// key, no effect means every effect, and no operator means `Equal`. `Lt` and `Gt` tolerate a taint
/// whose integer value is less or greater than the toleration's.
pub fn toleration_tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let taint_value = taint.value.as_deref().unwrap_or_default();
    let tolerated_value = toleration.value.as_deref().unwrap_or_default();
    let numbers = || Some((taint_value.parse::<i64>().ok()?, tolerated_value.parse::<i64>().ok()?));
    let value_matches = match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => tolerated_value == taint_value,
        "Exists" => true,
        "Lt" => numbers().is_some_and(|(taint_value, tolerated_value)| taint_value < tolerated_value),
        "Gt" => numbers().is_some_and(|(taint_value, tolerated_value)| taint_value > tolerated_value),
        _ => false,
    };
    (effect.is_empty() || effect == taint.effect) && (key.is_empty() || key == taint.key) && value_matches
}

/// Returns true if one of the pod's tolerations tolerates the taint.
pub fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    tolerations.iter().any(|toleration| toleration_tolerates(toleration, taint))
}

/// Returns the first taint that excludes the pod, or `None` if the pod tolerates all that could.
pub fn first_untolerated_taint<'a>(pod: &Pod, taints: &'a [Taint]) -> Option<&'a Taint> {
    taints.iter().find(|taint| prevents_scheduling(taint) && !tolerates(pod, taint))
}

#[cfg(test)]
mod tests;

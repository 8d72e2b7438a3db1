//! Checks of the kubelet settings of an EC2NodeClass (spec 01 §7.5), which admission does not
//! validate.
//!
//! Settings without failures can be decoded into [`MappedKubelet`], the settings that Kerf itself
//! reads. A property test checks this.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::admission::text::quote;
use crate::duration::Duration;
use crate::ec2nodeclass::AmiFamily;
use crate::quantity::Quantity;

mod decode;
mod fields;
mod mapped;

pub use mapped::{MappedKubelet, MaxPods};

/// Reason of the condition if [`failures`] returns any.
pub const INVALID_REASON: &str = "InvalidKubeletConfiguration";
/// Reason of the condition if [`has_expression`] is true and the feature gate `NodeClassCEL` is
/// off.
pub const EXPRESSIONS_DISABLED_REASON: &str = "KubeletExpressionsDisabled";
/// Message of the condition with [`EXPRESSIONS_DISABLED_REASON`].
pub const EXPRESSIONS_DISABLED_MESSAGE: &str =
    "spec.kubelet contains a CEL expression, but the NodeClassCEL feature gate is disabled";
/// Reason of the condition if [`unsupported_failures`] returns any.
pub const UNSUPPORTED_REASON: &str = "UnsupportedKubeletConfiguration";

const EVICTION_SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
const RESERVABLE_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// Returns all failures of the settings that do not depend on the AMI family.
pub fn failures(kubelet: &Map<String, Value>) -> Vec<String> {
    let mut failures: Vec<String> =
        decode::failures(kubelet).into_iter().map(|why| format!("spec.kubelet: {why}")).collect();
    if kubelet.contains_key("registerWithTaints") {
        failures.push(
            "spec.kubelet.registerWithTaints: can't be set, Karpenter sets it from the NodeClaim's taints so the node \
             registers unschedulable until it's ready"
                .to_owned(),
        );
    }
    for field in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"] {
        failures.extend(unknown_key_failures(kubelet, field, &EVICTION_SIGNALS, "a valid eviction signal"));
    }
    for field in ["evictionHard", "evictionSoft", "evictionMinimumReclaim"] {
        failures.extend(value_failures(kubelet, field, threshold_failure));
    }
    failures.extend(value_failures(kubelet, "evictionSoftGracePeriod", grace_period_failure));
    failures.extend(soft_eviction_failures(kubelet));
    for field in ["kubeReserved", "systemReserved"] {
        failures.extend(unknown_key_failures(kubelet, field, &RESERVABLE_RESOURCES, "a reservable resource"));
        failures.extend(value_failures(kubelet, field, |value| value.starts_with('-').then_some(NEGATIVE_QUANTITY)));
    }
    failures.extend(image_gc_failures(kubelet));
    for field in ["podsPerCore", "evictionMaxPodGracePeriod", "maxPods"] {
        if let Some(value) = integer(kubelet, field).filter(|value| *value < 0) {
            failures.push(format!("spec.kubelet.{field}: {value} can't be negative"));
        }
    }
    failures
}

/// Returns true if a value must be computed per instance type: a text for `maxPods`, or a
/// reservation that is not a quantity.
pub fn has_expression(kubelet: &Map<String, Value>) -> bool {
    let is_expression = |value: &str| Quantity::from_str(value).is_err();
    kubelet.get("maxPods").is_some_and(Value::is_string)
        || ["kubeReserved", "systemReserved"]
            .into_iter()
            .any(|field| text_entries(kubelet, field).any(|(_, value)| is_expression(value)))
}

/// Returns failures for settings that instances of an AMI family would silently ignore.
pub fn unsupported_failures(kubelet: &Map<String, Value>, family: &AmiFamily) -> Vec<String> {
    let is_applied = |field: &str| match family {
        AmiFamily::Al2023 | AmiFamily::Custom => true,
        AmiFamily::Bottlerocket => mapped::FIELDS.contains(&field) && field != "podsPerCore",
        AmiFamily::Al2
        | AmiFamily::Windows2019
        | AmiFamily::Windows2022
        | AmiFamily::Windows2025
        | AmiFamily::Unsupported(_) => mapped::FIELDS.contains(&field),
    };
    let mut failures = Vec::new();
    let dropped: BTreeSet<&str> = kubelet.keys().map(String::as_str).filter(|field| !is_applied(field)).collect();
    if !dropped.is_empty() {
        failures.push(format!(
            "spec.kubelet has fields not applied by the {family} AMI family that would be silently dropped: {}",
            dropped.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
    let servers = kubelet.get("clusterDNS").and_then(Value::as_array).map_or(0, Vec::len);
    if servers > 1 && !matches!(family, AmiFamily::Al2023 | AmiFamily::Custom) {
        failures.push(format!(
            "spec.kubelet.clusterDNS: the {family} AMI family doesn't accept multiple entries, only one, but {servers} were set"
        ));
    }
    failures
}

const NEGATIVE_QUANTITY: &str = "can't be a negative resource quantity";

fn threshold_failure(value: &str) -> Option<&'static str> {
    const NEITHER: &str = "must be a percentage or a resource quantity";
    match value.strip_suffix('%') {
        Some(number) => (!is_percentage(number)).then_some(NEITHER),
        None => match Quantity::from_str(value) {
            Ok(quantity) => (quantity < Quantity::ZERO).then_some(NEGATIVE_QUANTITY),
            Err(_) => Some(NEITHER),
        },
    }
}

/// Returns true for a plain decimal number from 0 to 100.
fn is_percentage(number: &str) -> bool {
    let is_plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_plain && Quantity::from_str(number).is_ok_and(|share| share <= Quantity::from_units(100))
}

fn grace_period_failure(value: &str) -> Option<&'static str> {
    match Duration::from_str(value) {
        Ok(duration) => (duration < Duration::ZERO).then_some("can't be a negative duration"),
        Err(_) => Some("must be a duration"),
    }
}

fn soft_eviction_failures(kubelet: &Map<String, Value>) -> Vec<String> {
    let keys = |field| text_entries(kubelet, field).map(|(key, _)| key).collect::<BTreeSet<_>>();
    let (soft, periods) = (keys("evictionSoft"), keys("evictionSoftGracePeriod"));
    let without_period = soft
        .difference(&periods)
        .map(|key| format!("spec.kubelet.evictionSoft[{key}]: has no matching evictionSoftGracePeriod"));
    let without_threshold = periods
        .difference(&soft)
        .map(|key| format!("spec.kubelet.evictionSoftGracePeriod[{key}]: has no matching evictionSoft"));
    without_period.chain(without_threshold).collect()
}

fn image_gc_failures(kubelet: &Map<String, Value>) -> Vec<String> {
    let fields = ["imageGCHighThresholdPercent", "imageGCLowThresholdPercent"];
    let mut failures = Vec::new();
    for field in fields {
        if let Some(value) = integer(kubelet, field).filter(|value| !(0..=100).contains(value)) {
            failures.push(format!("spec.kubelet.{field}: {value} must be between 0 and 100"));
        }
    }
    if let [Some(high), Some(low)] = fields.map(|field| integer(kubelet, field))
        && high <= low
    {
        failures.push(format!(
            "spec.kubelet: imageGCHighThresholdPercent ({high}) must be greater than imageGCLowThresholdPercent ({low})"
        ));
    }
    failures
}

fn unknown_key_failures(kubelet: &Map<String, Value>, field: &str, known: &[&str], meaning: &str) -> Vec<String> {
    text_entries(kubelet, field)
        .filter(|(key, _)| !known.contains(key))
        .map(|(key, _)| {
            let known = known.join(", ");
            format!("spec.kubelet.{field}: {} isn't {meaning}, must be one of {known}", quote(key))
        })
        .collect()
}

fn value_failures(
    kubelet: &Map<String, Value>,
    field: &str,
    failure: impl Fn(&str) -> Option<&'static str>,
) -> Vec<String> {
    text_entries(kubelet, field)
        .filter_map(|(key, value)| {
            failure(value).map(|why| format!("spec.kubelet.{field}[{key}]: {} {why}", quote(value)))
        })
        .collect()
}

/// Returns the string entries of a map, sorted by key. Values of other types are reported as type
/// errors.
fn text_entries<'a>(kubelet: &'a Map<String, Value>, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut entries: Vec<(&str, &str)> = kubelet
        .get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| value.as_str().map(|value| (key.as_str(), value)))
        .collect();
    entries.sort_unstable();
    entries.into_iter()
}

fn integer(kubelet: &Map<String, Value>, field: &str) -> Option<i64> {
    kubelet.get(field).and_then(Value::as_i64)
}

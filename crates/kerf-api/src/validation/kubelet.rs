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
mod expression;
mod fields;
mod mapped;

pub use crate::admission::NumericExpressionError;
pub use expression::{InstanceTypeVariables, KubeletExpression, reserved_quantity};
pub use mapped::{MappedKubelet, MaxPods};

/// Reason of the condition if [`failures`] returns any.
pub const INVALID_REASON: &str = "InvalidKubeletConfiguration";
/// Reason of the condition if [`has_expression`] is true and the feature gate `NodeClassCEL` is
/// off.
pub const EXPRESSIONS_DISABLED_REASON: &str = "KubeletExpressionsDisabled";
/// Message of the condition with [`EXPRESSIONS_DISABLED_REASON`].
pub const EXPRESSIONS_DISABLED_MESSAGE: &str =
    "spec.kubelet contains a CEL expression, but the NodeClassCEL feature gate is disabled";
/// Reason of the condition if an expression does not compile ([`KubeletExpression::compile`]).
pub const EXPRESSION_INVALID_REASON: &str = "KubeletExpressionInvalid";
/// Reason of the condition if an expression has no usable value for an instance type.
pub const EXPRESSION_EVALUATION_FAILED_REASON: &str = "KubeletExpressionEvaluationFailed";
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
const RESERVED_MAPS: [&str; 2] = ["kubeReserved", "systemReserved"];
const IMAGE_GC_FIELDS: [&str; 2] = ["imageGCHighThresholdPercent", "imageGCLowThresholdPercent"];

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
    let signals = EntryKeys { known: &EVICTION_SIGNALS, meaning: "a valid eviction signal" };
    let thresholds = |field| entry_failures(kubelet, field, signals, threshold_failure);
    failures.extend(thresholds("evictionHard"));
    failures.extend(thresholds("evictionSoft"));
    failures.extend(entry_failures(kubelet, "evictionSoftGracePeriod", signals, grace_period_failure));
    failures.extend(thresholds("evictionMinimumReclaim"));
    failures.extend(soft_eviction_failures(kubelet));
    for field in RESERVED_MAPS {
        let resources = EntryKeys { known: &RESERVABLE_RESOURCES, meaning: "a reservable resource" };
        failures.extend(entry_failures(kubelet, field, resources, |value| {
            if value.starts_with('-') { Some(NEGATIVE_QUANTITY) } else { None }
        }));
    }
    for field in IMAGE_GC_FIELDS {
        if let Some(value) = integer(kubelet, field).filter(|value| !(0..=100).contains(value)) {
            failures.push(format!("spec.kubelet.{field}: {value} must be between 0 and 100"));
        }
    }
    for field in ["podsPerCore", "evictionMaxPodGracePeriod", "maxPods"] {
        if let Some(value) = integer(kubelet, field).filter(|value| *value < 0) {
            failures.push(format!("spec.kubelet.{field}: {value} can't be negative"));
        }
    }
    if let [Some(high), Some(low)] = IMAGE_GC_FIELDS.map(|field| integer(kubelet, field))
        && high <= low
    {
        failures.push(format!(
            "spec.kubelet: imageGCHighThresholdPercent ({high}) must be greater than imageGCLowThresholdPercent ({low})"
        ));
    }
    failures
}

/// Returns true if a value must be computed per instance type: a text for `maxPods`, or a
/// reservation that is not a quantity.
pub fn has_expression(kubelet: &Map<String, Value>) -> bool {
    kubelet.get("maxPods").is_some_and(Value::is_string)
        || RESERVED_MAPS.into_iter().any(|field| text_entries(kubelet, field).any(|(_, value)| is_expression(value)))
}

/// Returns true if the value of a reservation is an expression: it is not a quantity.
pub fn is_expression(value: &str) -> bool {
    Quantity::from_str(value).is_err()
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

/// Keys that a map may have, and the words that describe them.
#[derive(Clone, Copy)]
struct EntryKeys<'k> {
    known: &'k [&'k str],
    meaning: &'k str,
}

/// Returns the failures of the keys and values of a map, sorted by key.
fn entry_failures(
    kubelet: &Map<String, Value>,
    field: &str,
    keys: EntryKeys<'_>,
    value_failure: impl Fn(&str) -> Option<&'static str>,
) -> Vec<String> {
    let mut failures = Vec::new();
    for (key, value) in text_entries(kubelet, field) {
        if !keys.known.contains(&key) {
            let (known, meaning) = (keys.known.join(", "), keys.meaning);
            failures.push(format!("spec.kubelet.{field}: {} isn't {meaning}, must be one of {known}", quote(key)));
        }
        if let Some(why) = value_failure(value) {
            failures.push(format!("spec.kubelet.{field}[{key}]: {} {why}", quote(value)));
        }
    }
    failures
}

/// Returns the entries of a map of texts, sorted by key, without those that are `null`. Returns
/// none if the map has an entry of another type, which is a failure of its own.
fn text_entries<'a>(kubelet: &'a Map<String, Value>, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let entries = kubelet.get(field).and_then(Value::as_object).into_iter().flatten();
    let texts: Option<Vec<(&str, &str)>> = entries
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| value.as_str().map(|value| (key.as_str(), value)))
        .collect();
    let mut texts = texts.unwrap_or_default();
    texts.sort_unstable();
    texts.into_iter()
}

fn integer(kubelet: &Map<String, Value>, field: &str) -> Option<i64> {
    kubelet.get(field).and_then(Value::as_i64)
}

//! Validation of `spec.kubelet` (spec 06 §4.7.2 to §4.7.5, §17).

use std::collections::BTreeMap;
use std::str::FromStr as _;

use kerf_api::conditions::VALIDATION_SUCCEEDED;
use kerf_api::duration::Duration;
use kerf_api::ec2nodeclass::{AmiFamily, EC2NodeClassSpec};
use kerf_api::quantity::Quantity;
use kerf_runtime::ReconcileAction;
use serde_json::{Map, Value};

use super::kubelet_fields::decoding_errors;
use crate::instance_types::ami_family::AmiFamilyRules;
use crate::instance_types::kubelet::{KubeletExpressions, KubeletSettings};
use crate::nodeclass::error::NodeClassError;
use crate::nodeclass::reconcile::ClassReconcile;

/// Eviction signals of the kubelet.
const EVICTION_SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
/// Resources that can be reserved.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
/// Fields that Kerf interprets and every family can apply (spec 06 §17.3).
const MANAGED_FIELDS: [&str; 12] = [
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

/// Checks `spec.kubelet` and sets the condition of a class whose settings cannot be used. Returns
/// when to run again, or `None` if the settings can be used.
pub(super) fn validate(
    work: &mut ClassReconcile,
    expressions: KubeletExpressions,
) -> Result<Option<ReconcileAction>, NodeClassError> {
    let spec = work.spec();
    let Some(kubelet) = &spec.kubelet else { return Ok(None) };
    let findings = findings(kubelet);
    if !findings.is_empty() {
        work.set_false(VALIDATION_SUCCEEDED, "InvalidKubeletConfiguration", &findings.join("; "));
        // Only a change of the class can cure this, and that enqueues it.
        return Ok(Some(ReconcileAction::Done));
    }
    let mut fail = |reason: &str, message: String| {
        work.set_false(VALIDATION_SUCCEEDED, reason, &message);
        Err(NodeClassError::Kubelet(message))
    };
    let settings = match KubeletSettings::parse(Some(kubelet)) {
        Ok(settings) => settings,
        Err(error) => return fail("InvalidKubeletConfiguration", error.to_string()),
    };
    match expressions {
        KubeletExpressions::Ignore if settings.first_expression().is_some() => {
            let message = "spec.kubelet contains a CEL expression, but the NodeClassCEL feature gate is disabled";
            return fail("KubeletExpressionsDisabled", message.to_owned());
        }
        KubeletExpressions::Evaluate => {
            if let Err(error) = settings.clone().resolve(expressions) {
                return fail("KubeletExpressionInvalid", error.to_string());
            }
        }
        KubeletExpressions::Ignore => {}
    }
    let unsupported = unsupported_by_family(&spec, kubelet, &settings);
    if !unsupported.is_empty() {
        return fail("UnsupportedKubeletConfiguration", unsupported.join("; "));
    }
    Ok(None)
}

/// Returns a sentence for each part that the AMI family would drop silently.
fn unsupported_by_family(
    spec: &EC2NodeClassSpec,
    kubelet: &Map<String, Value>,
    settings: &KubeletSettings,
) -> Vec<String> {
    let family = spec.effective_ami_family();
    let passes_all_fields = match family {
        AmiFamily::Al2023 | AmiFamily::Custom => true,
        AmiFamily::Al2
        | AmiFamily::Bottlerocket
        | AmiFamily::Windows2019
        | AmiFamily::Windows2022
        | AmiFamily::Windows2025
        | AmiFamily::Unsupported(_) => false,
    };
    if passes_all_fields {
        return Vec::new();
    }
    let honours_pods_per_core = AmiFamilyRules::of(&family).honours_pods_per_core;
    let is_dropped = |name: &&String| {
        !MANAGED_FIELDS.contains(&name.as_str()) || (name.as_str() == "podsPerCore" && !honours_pods_per_core)
    };
    let mut sentences = Vec::new();
    let mut dropped: Vec<&str> = kubelet.keys().filter(is_dropped).map(String::as_str).collect();
    dropped.sort_unstable();
    if !dropped.is_empty() {
        sentences.push(format!(
            "spec.kubelet has fields not applied by the {family} AMI family that would be silently dropped: {}",
            dropped.join(", ")
        ));
    }
    if settings.cluster_dns.len() > 1 {
        sentences.push(format!(
            "spec.kubelet.clusterDNS: the {family} AMI family doesn't accept multiple entries, only one, but {} were set",
            settings.cluster_dns.len()
        ));
    }
    sentences
}

/// Returns all problems of a kubelet configuration (spec 06 §17.1). A field of a wrong type is one
/// problem and counts as absent otherwise.
fn findings(kubelet: &Map<String, Value>) -> Vec<String> {
    let mut findings: Vec<String> =
        decoding_errors(kubelet).into_iter().map(|error| format!("spec.kubelet: {error}")).collect();
    if kubelet.contains_key("registerWithTaints") {
        findings.push(
            "spec.kubelet.registerWithTaints: can't be set, Karpenter sets it from the NodeClaim's taints so the node \
             registers unschedulable until it's ready"
                .to_owned(),
        );
    }
    for field in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"] {
        for (key, value) in texts(kubelet, field) {
            if !EVICTION_SIGNALS.contains(&key) {
                let signals = EVICTION_SIGNALS.join(", ");
                findings.push(format!(
                    "spec.kubelet.{field}: {key:?} isn't a valid eviction signal, must be one of {signals}"
                ));
            }
            let problem =
                if field == "evictionSoftGracePeriod" { duration_problem(value) } else { threshold_problem(value) };
            findings.extend(problem.map(|problem| format!("spec.kubelet.{field}[{key}]: {value:?} {problem}")));
        }
    }
    let (soft, periods) = (texts(kubelet, "evictionSoft"), texts(kubelet, "evictionSoftGracePeriod"));
    let unmatched = |own: &BTreeMap<&str, &str>, partner: &BTreeMap<&str, &str>, name: &str, partner_name: &str| {
        let keys = own.keys().filter(|key| !partner.contains_key(*key));
        keys.map(|key| format!("spec.kubelet.{name}[{key}]: has no matching {partner_name}")).collect::<Vec<_>>()
    };
    findings.extend(unmatched(&soft, &periods, "evictionSoft", "evictionSoftGracePeriod"));
    findings.extend(unmatched(&periods, &soft, "evictionSoftGracePeriod", "evictionSoft"));
    for field in ["kubeReserved", "systemReserved"] {
        for (key, value) in texts(kubelet, field) {
            if !RESERVABLE.contains(&key) {
                let resources = RESERVABLE.join(", ");
                findings.push(format!(
                    "spec.kubelet.{field}: {key:?} isn't a reservable resource, must be one of {resources}"
                ));
            }
            if value.starts_with('-') {
                findings.push(format!("spec.kubelet.{field}[{key}]: {value:?} can't be a negative resource quantity"));
            }
        }
    }
    for field in ["imageGCHighThresholdPercent", "imageGCLowThresholdPercent"] {
        if let Some(percent) = integer(kubelet, field).filter(|percent| !(0..=100).contains(percent)) {
            findings.push(format!("spec.kubelet.{field}: {percent} must be between 0 and 100"));
        }
    }
    for field in ["podsPerCore", "evictionMaxPodGracePeriod", "maxPods"] {
        if let Some(count) = integer(kubelet, field).filter(|count| *count < 0) {
            findings.push(format!("spec.kubelet.{field}: {count} can't be negative"));
        }
    }
    let percents = integer(kubelet, "imageGCHighThresholdPercent").zip(integer(kubelet, "imageGCLowThresholdPercent"));
    if let Some((high, low)) = percents.filter(|(high, low)| high <= low) {
        findings.push(format!(
            "spec.kubelet: imageGCHighThresholdPercent ({high}) must be greater than imageGCLowThresholdPercent ({low})"
        ));
    }
    findings
}

/// Returns the entries of a field, sorted by key. Empty if the field is absent or has a value of
/// another type.
fn texts<'k>(kubelet: &'k Map<String, Value>, field: &str) -> BTreeMap<&'k str, &'k str> {
    let Some(Value::Object(entries)) = kubelet.get(field) else { return BTreeMap::new() };
    let texts: Option<BTreeMap<&str, &str>> =
        entries.iter().map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect();
    texts.unwrap_or_default()
}

fn integer(kubelet: &Map<String, Value>, field: &str) -> Option<i64> {
    kubelet.get(field).and_then(Value::as_i64)
}

fn threshold_problem(text: &str) -> Option<&'static str> {
    const MALFORMED: Option<&str> = Some("must be a percentage or a resource quantity");
    if let Some(percent) = text.strip_suffix('%') {
        return match percent.parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => None,
            Ok(_) | Err(_) => MALFORMED,
        };
    }
    match Quantity::from_str(text) {
        Ok(quantity) if quantity < Quantity::ZERO => Some("can't be a negative resource quantity"),
        Ok(_) => None,
        Err(_) => MALFORMED,
    }
}

fn duration_problem(text: &str) -> Option<&'static str> {
    match Duration::from_str(text) {
        Ok(duration) if duration.to_std().is_none() => Some("can't be a negative duration"),
        Ok(_) => None,
        Err(_) => Some("must be a duration"),
    }
}

#[cfg(test)]
mod tests {
    use kerf_api::ec2nodeclass::{AmiSelectorTerm, EC2NodeClass};
    use kerf_operator::ReconcileError as _;
    use serde_json::json;

    use super::*;
    use crate::nodeclass::error::NodeClassErrors;

    /// Validates a class with an alias, and returns the reason and message of the condition.
    fn validated(alias: &str, expressions: KubeletExpressions, kubelet: Value) -> Option<(String, String)> {
        let class = EC2NodeClass {
            spec: Some(EC2NodeClassSpec {
                ami_selector_terms: vec![AmiSelectorTerm { alias: Some(alias.to_owned()), ..Default::default() }],
                kubelet: kubelet.as_object().cloned(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let mut work = ClassReconcile::new(class, false, jiff::Timestamp::UNIX_EPOCH);
        let result = validate(&mut work, expressions);
        let condition = work.conditions.get(VALIDATION_SUCCEEDED).unwrap();
        let shown = (condition.reason.clone(), condition.message.clone());
        match result {
            Ok(None) => None,
            Ok(Some(action)) => {
                assert_eq!((action, shown.0.as_str()), (ReconcileAction::Done, "InvalidKubeletConfiguration"));
                Some(shown)
            }
            Err(error) => {
                assert!(NodeClassErrors::from(error).is_terminal());
                Some(shown)
            }
        }
    }

    fn reason(alias: &str, kubelet: Value) -> Option<String> {
        validated(alias, KubeletExpressions::Ignore, kubelet).map(|(reason, _)| reason)
    }

    // spec 06 §17.1
    #[test]
    fn all_problems_are_listed_at_once() {
        let kubelet = json!({
            "unknown": 1, "registerWithTaints": [],
            "evictionHard": {"memory.available": "-1Gi", "disk": "5%", "nodefs.available": "101%", "pid.available": "x"},
            "evictionSoft": {"memory.available": "5%", "imagefs.available": "1Gi"},
            "evictionSoftGracePeriod": {"memory.available": "soon", "nodefs.available": "-5s"},
            "evictionMinimumReclaim": {"nodefs.inodesFree": "0%"},
            "kubeReserved": {"gpu": "1", "cpu": "-1"}, "systemReserved": {"memory": "memory_mib / 100", "pid": "-5"},
            "imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 101,
            "podsPerCore": -1, "evictionMaxPodGracePeriod": -2, "maxPods": -3,
        });
        insta::assert_snapshot!(findings(kubelet.as_object().unwrap()).join("\n"));
    }

    #[test]
    fn settings_without_problems_pass() {
        let kubelet = json!({
            "maxPods": 110, "evictionHard": {"memory.available": "100%", "nodefs.available": "1Gi"},
            "evictionSoft": {"memory.available": "5%"}, "evictionSoftGracePeriod": {"memory.available": "1m30s"},
            "kubeReserved": {"cpu": "100m"}, "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80,
        });
        for alias in ["al2@latest", "al2023@latest", "bottlerocket@latest", "windows2022@latest"] {
            assert_eq!(reason(alias, kubelet.clone()), None, "{alias}");
        }
        assert_eq!(reason("al2@latest", json!({})), None);
    }

    // spec 06 #62
    #[test]
    fn expressions_need_the_feature_gate() {
        for kubelet in [json!({"maxPods": "vcpus * 8"}), json!({"kubeReserved": {"cpu": "vcpus * 30"}})] {
            let (reason, message) = validated("al2023@latest", KubeletExpressions::Ignore, kubelet.clone()).unwrap();
            assert_eq!(reason, "KubeletExpressionsDisabled");
            let expected = "spec.kubelet contains a CEL expression, but the NodeClassCEL feature gate is disabled";
            assert_eq!(message, expected);
            // This release cannot evaluate expressions.
            let (reason, _) = validated("al2023@latest", KubeletExpressions::Evaluate, kubelet).unwrap();
            assert_eq!(reason, "KubeletExpressionInvalid");
        }
        let static_values = json!({"maxPods": 7, "kubeReserved": {"cpu": "1"}});
        for expressions in [KubeletExpressions::Ignore, KubeletExpressions::Evaluate] {
            assert_eq!(validated("al2023@latest", expressions, static_values.clone()), None);
        }
    }

    // spec 06 #65
    #[test]
    fn fields_that_a_family_would_drop_are_rejected() {
        let kubelet = json!({"registryPullQPS": 10, "topologyManagerPolicy": "none", "maxPods": 10});
        for alias in ["bottlerocket@latest", "al2@latest", "windows2022@latest"] {
            assert_eq!(reason(alias, kubelet.clone()).as_deref(), Some("UnsupportedKubeletConfiguration"), "{alias}");
        }
        assert_eq!(reason("al2023@latest", kubelet.clone()), None);
        assert_eq!(reason("custom", kubelet.clone()), None, "an unknown alias has the family Custom");
        let (_, message) = validated("bottlerocket@latest", KubeletExpressions::Ignore, kubelet).unwrap();
        let expected = "spec.kubelet has fields not applied by the Bottlerocket AMI family that would be silently \
                        dropped: registryPullQPS, topologyManagerPolicy";
        assert_eq!(message, expected);
        assert_eq!(reason("al2@latest", json!({"podsPerCore": 4})), None);
        let reason = reason("bottlerocket@latest", json!({"podsPerCore": 4}));
        assert_eq!(reason.as_deref(), Some("UnsupportedKubeletConfiguration"));
    }

    // spec 06 #66
    #[test]
    fn several_dns_servers_need_al2023() {
        let kubelet = json!({"clusterDNS": ["10.0.0.1", "10.0.0.2"]});
        let (reason_of_al2, message) = validated("al2@latest", KubeletExpressions::Ignore, kubelet.clone()).unwrap();
        assert_eq!(reason_of_al2, "UnsupportedKubeletConfiguration");
        let expected =
            "spec.kubelet.clusterDNS: the AL2 AMI family doesn't accept multiple entries, only one, but 2 were set";
        assert_eq!(message, expected);
        assert_eq!(reason("al2023@latest", kubelet), None);
        assert_eq!(reason("al2@latest", json!({"clusterDNS": ["10.0.0.1"]})), None);
    }
}

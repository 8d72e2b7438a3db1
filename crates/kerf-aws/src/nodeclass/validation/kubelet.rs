//! Checks of `spec.kubelet` (spec 06 §4.7.2 to §4.7.5, §4.7.7). The checks themselves are in
//! `kerf-api`, and the expressions in the catalogue of instance types.

use kerf_api::conditions::VALIDATION_SUCCEEDED;
use kerf_api::validation::kubelet::{
    EXPRESSION_EVALUATION_FAILED_REASON, EXPRESSION_INVALID_REASON, EXPRESSIONS_DISABLED_MESSAGE,
    EXPRESSIONS_DISABLED_REASON, INVALID_REASON, UNSUPPORTED_REASON, failures, has_expression, unsupported_failures,
};
use kerf_runtime::ReconcileAction;

use crate::instance_types::{InstanceTypeCatalogue, InstanceTypeError, KubeletError};
use crate::nodeclass::dry_run_error::{DryRunError, TypeChoiceError};
use crate::nodeclass::error::NodeClassError;
use crate::nodeclass::reconcile::ClassReconcile;

/// Checks `spec.kubelet` and sets the condition of a class whose settings cannot be used. Returns
/// when to run again, or `None` if the settings can be used.
pub(super) fn validate(
    work: &mut ClassReconcile,
    types: &InstanceTypeCatalogue,
) -> Result<Option<ReconcileAction>, NodeClassError> {
    let spec = work.spec();
    let Some(kubelet) = &spec.kubelet else { return Ok(None) };
    let findings = failures(kubelet);
    if !findings.is_empty() {
        work.set_false(VALIDATION_SUCCEEDED, INVALID_REASON, &findings.join("; "));
        // Only a change of the class can cure this, and that enqueues it.
        return Ok(Some(ReconcileAction::Done));
    }
    if has_expression(kubelet) && !types.evaluates_expressions() {
        return Err(fail(work, EXPRESSIONS_DISABLED_REASON, EXPRESSIONS_DISABLED_MESSAGE.to_owned()));
    }
    match types.compile_expressions(&work.class) {
        Ok(()) => {}
        Err(error @ (KubeletError::Invalid { .. } | KubeletError::Evaluation { .. })) => {
            return Err(fail(work, INVALID_REASON, error.to_string()));
        }
        Err(error @ KubeletError::Expression { .. }) => {
            return Err(fail(work, EXPRESSION_INVALID_REASON, error.to_string()));
        }
    }
    let unsupported = unsupported_failures(kubelet, &spec.effective_ami_family());
    if !unsupported.is_empty() {
        return Err(fail(work, UNSUPPORTED_REASON, unsupported.join("; ")));
    }
    Ok(None)
}

/// Evaluates the expressions for all instance types, and sets the condition of a class if one has
/// no usable value. Returns when to run again if the types are unknown.
pub(super) fn check_expressions(
    work: &mut ClassReconcile,
    types: &InstanceTypeCatalogue,
) -> Result<Option<ReconcileAction>, NodeClassError> {
    match types.check_expressions(&work.class) {
        Ok(()) => Ok(None),
        Err(InstanceTypeError::NoInstanceTypes | InstanceTypeError::NoOfferings) => {
            Ok(Some(ReconcileAction::RequeueWithBackoff))
        }
        Err(InstanceTypeError::Kubelet(error)) => {
            Err(fail(work, EXPRESSION_EVALUATION_FAILED_REASON, error.to_string()))
        }
        Err(
            error @ (InstanceTypeError::NoSubnets | InstanceTypeError::VolumeSize(_) | InstanceTypeError::NotFound(_)),
        ) => Err(DryRunError::from(TypeChoiceError::from(error)).into()),
    }
}

fn fail(work: &mut ClassReconcile, reason: &str, message: String) -> NodeClassError {
    work.set_false(VALIDATION_SUCCEEDED, reason, &message);
    NodeClassError::Kubelet(message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kerf_api::ec2nodeclass::{AmiSelectorTerm, EC2NodeClass, EC2NodeClassSpec};
    use kerf_operator::ReconcileError as _;
    use kerf_runtime::Clock;
    use serde_json::{Value, json};

    use super::*;
    use crate::data;
    use crate::instance_types::InstanceTypeSettings;
    use crate::instance_types::kubelet::KubeletExpressions;
    use crate::nodeclass::error::NodeClassErrors;
    use crate::pricing::Pricing;
    use crate::unavailable_offerings::UnavailableOfferings;

    fn catalogue(expressions: KubeletExpressions) -> InstanceTypeCatalogue {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let settings = InstanceTypeSettings {
            region: "us-west-2".to_owned(),
            vm_memory_overhead_percent: 0.075,
            reserved_enis: 0,
            expressions,
            reserved_capacity: true,
        };
        let pricing = Arc::new(Pricing::new("us-west-2"));
        InstanceTypeCatalogue::new(settings, pricing, Arc::new(UnavailableOfferings::new(clock)), clock)
    }

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
        let types = catalogue(expressions);
        let shipped = data::catalogue();
        types.set_catalogue(shipped.instance_types.clone(), shipped.offerings.clone());
        let result = match validate(&mut work, &types) {
            Ok(None) => check_expressions(&mut work, &types),
            result => result,
        };
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
        insta::assert_snapshot!(failures(kubelet.as_object().unwrap()).join("\n"));
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
            assert_eq!(validated("al2023@latest", KubeletExpressions::Evaluate, kubelet), None);
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

    // spec 06 §4.7.4
    #[test]
    fn expressions_with_mistakes_are_named() {
        let evaluate = |kubelet| validated("al2023@latest", KubeletExpressions::Evaluate, kubelet).unwrap();
        let (reason, message) = evaluate(json!({"maxPods": "vcpu * 8", "kubeReserved": {"cpu": "1"}}));
        assert_eq!(reason, "KubeletExpressionInvalid");
        insta::assert_snapshot!(message, @r#"
        compiling expression "vcpu * 8": ERROR: <input>:1:1: undeclared reference to 'vcpu' (in container '')
         | vcpu * 8
         | ^ (field=spec.kubelet.maxPods)
        "#);
        let (reason, message) = evaluate(json!({"systemReserved": {"memory": "vcpus > 2"}}));
        assert_eq!(reason, "KubeletExpressionInvalid");
        let expected = "expression \"vcpus > 2\" must return int or double, got bool \
                        (field=spec.kubelet.systemReserved[memory])";
        assert_eq!(message, expected);
    }

    // spec 06 #63
    #[test]
    fn spec_06_63_one_type_without_a_usable_value_is_enough() {
        let kubelet = json!({"kubeReserved": {"memory": "instance_type == 'm5.large' ? -1 : vcpus"}});
        let (reason, message) = validated("al2023@latest", KubeletExpressions::Evaluate, kubelet).unwrap();
        assert_eq!(reason, "KubeletExpressionEvaluationFailed");
        let expected = "evaluating spec.kubelet.kubeReserved[memory] for instance type m5.large, result -1 is negative";
        assert_eq!(message, expected);
        let (reason, message) =
            validated("al2023@latest", KubeletExpressions::Evaluate, json!({"maxPods": "110 / (vcpus - 2)"})).unwrap();
        assert_eq!(reason, "KubeletExpressionEvaluationFailed");
        assert!(message.contains("division by zero"), "{message}");
    }

    // spec 06 #64
    #[test]
    fn spec_06_64_unknown_types_are_awaited() {
        let spec = EC2NodeClassSpec {
            kubelet: json!({"maxPods": "0 - 1"}).as_object().cloned(),
            ..EC2NodeClassSpec::default()
        };
        let class = EC2NodeClass { spec: Some(spec), ..EC2NodeClass::default() };
        let mut work = ClassReconcile::new(class, false, jiff::Timestamp::UNIX_EPOCH);
        let types = catalogue(KubeletExpressions::Evaluate);
        assert_eq!(validate(&mut work, &types).unwrap(), None);
        let action = check_expressions(&mut work, &types).unwrap();
        assert_eq!(action, Some(ReconcileAction::RequeueWithBackoff));
        assert_eq!(work.conditions.get(VALIDATION_SUCCEEDED).unwrap().reason, "AwaitingReconciliation");
    }
}

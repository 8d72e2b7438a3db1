//! Tests of the controllers' checks of a NodePool after admission (spec 01 §3.4).

use kerf_api::labels::{self, LabelRules};
use kerf_api::nodepool::{NodePool, NodePoolSpec};
use kerf_api::requirement::Operator;
use kerf_api::validation::nodepool::failures;
use kerf_api::validation::requirement::{self as checks, RequirementRef};
use serde_json::{Value, json};

use crate::admit::Manifest;
use crate::manifests::{nodepool, requirement};

const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Returns the spec as a controller reads it, even if admission would reject it.
fn spec(manifest: &Manifest) -> NodePoolSpec {
    serde_json::from_value::<NodePool>(manifest.0.clone()).unwrap().spec
}

fn runtime_failures(manifest: &Manifest) -> Vec<String> {
    failures(&spec(manifest), &LabelRules::aws())
}

fn with_requirement(requirement: Value) -> Manifest {
    nodepool().with("/spec/template/spec/requirements", vec![requirement])
}

fn with_label(key: &str, value: &str) -> Manifest {
    nodepool().with("/spec/template/metadata/labels", json!({ key: value }))
}

fn with_taints(field: &str, taints: Value) -> Manifest {
    nodepool().with(&format!("/spec/template/spec/{field}"), taints)
}

fn restricted_label_message(key: &str) -> String {
    let rules = LabelRules::aws();
    format!(
        "using label {key} is not allowed as it might interfere with the internal provisioning logic; specify a well known label: \
         [{}], or a custom label that does not use a restricted domain: [karpenter.k8s.aws karpenter.sh]",
        rules.well_known().collect::<Vec<_>>().join(" ")
    )
}

#[test]
fn a_minimal_pool_is_valid() {
    assert!(runtime_failures(&nodepool()).is_empty());
}

#[test]
fn spec_01_16_taint_keys() {
    for (key, why) in [
        ("test.com.com}", NAME_PART),
        (
            "Test.com/test",
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        ("/test", "prefix part must be non-empty"),
    ] {
        let manifest = with_taints("taints", json!([{ "key": key, "effect": "NoSchedule" }]));
        assert_eq!(runtime_failures(&manifest), [format!("invalid value: {why} in taints")]);
    }
    let manifest = with_taints("startupTaints", json!([{ "key": "test/", "effect": "NoSchedule" }]));
    assert_eq!(
        runtime_failures(&manifest),
        [
            "invalid value: name part must be non-empty in startupTaints".to_owned(),
            format!("invalid value: {NAME_PART} in startupTaints")
        ]
    );
    let manifest = with_taints("taints", json!([{ "key": "test/test/test", "effect": "NoSchedule" }]));
    let [failure] = <[String; 1]>::try_from(runtime_failures(&manifest)).unwrap();
    assert!(failure.starts_with("invalid value: a valid label key must consist of"), "{failure}");
}

#[test]
fn spec_01_17_long_taint_keys() {
    let manifest = with_taints("taints", json!([{ "key": format!("{}/x", "a".repeat(254)), "effect": "NoSchedule" }]));
    assert_eq!(runtime_failures(&manifest), ["invalid value: prefix part must be no more than 253 bytes in taints"]);
    let manifest = with_taints("taints", json!([{ "key": "a".repeat(64), "effect": "NoSchedule" }]));
    assert_eq!(runtime_failures(&manifest), ["invalid value: name part must be no more than 63 bytes in taints"]);
}

#[test]
fn spec_01_18_taint_values() {
    assert!(runtime_failures(&with_taints("taints", json!([{ "key": "a", "effect": "NoSchedule" }]))).is_empty());
    let manifest = with_taints("taints", json!([{ "key": "a", "value": "???", "effect": "NoSchedule" }]));
    assert_eq!(runtime_failures(&manifest), [format!("invalid value: {NAME_PART} in taints")]);
    let manifest =
        with_taints("taints", json!([{ "key": "a", "effect": "NoBreakfast" }, { "key": "b", "effect": "" }]));
    assert_eq!(runtime_failures(&manifest), ["invalid value: \"NoBreakfast\" in taints"]);
}

#[test]
fn spec_01_19_equal_taints() {
    let different = json!([{ "key": "a", "effect": "NoSchedule" }, { "key": "a", "effect": "NoExecute" }]);
    assert!(runtime_failures(&with_taints("taints", different.clone())).is_empty());
    let equal = json!([{ "key": "a", "effect": "NoSchedule" }, { "key": "a", "value": "b", "effect": "NoSchedule" }]);
    let text = "duplicate taint Key/Effect pair a=NoSchedule";
    assert_eq!(runtime_failures(&with_taints("taints", equal)), [text]);
    let across = with_taints("taints", different)
        .with("/spec/template/spec/startupTaints", json!([{ "key": "a", "effect": "NoSchedule" }]));
    assert_eq!(runtime_failures(&across), [text]);
}

#[test]
fn spec_01_20_the_label_of_a_pool_is_restricted() {
    assert_eq!(
        runtime_failures(&with_requirement(requirement(labels::NODEPOOL, "In", &["a"]))),
        ["invalid key: \"karpenter.sh/nodepool\" in requirements, restricted"]
    );
    assert_eq!(
        runtime_failures(&with_label(labels::NODEPOOL, "a")),
        ["invalid key name \"karpenter.sh/nodepool\" in labels, restricted"]
    );
}

#[test]
fn spec_01_21_restricted_keys() {
    for key in ["karpenter.sh/test", "kubernetes.io/hostname"] {
        let text = restricted_label_message(key);
        assert_eq!(
            runtime_failures(&with_requirement(requirement(key, "Exists", &[]))),
            [format!("invalid value: {text} in requirements, restricted")]
        );
        assert_eq!(runtime_failures(&with_label(key, "a")), [format!("invalid key name \"{key}\" in labels, {text}")]);
    }
}

#[test]
fn spec_01_23_kops_labels() {
    for key in ["kops.k8s.io/instancegroup", "kops.k8s.io/gpu", "kubernetes.io/test"] {
        assert!(runtime_failures(&with_label(key, "a")).is_empty());
        assert!(runtime_failures(&with_requirement(requirement(key, "In", &["a"]))).is_empty());
    }
}

#[test]
fn spec_01_24_label_keys() {
    let manifest = with_label("spaces are not allowed", "a");
    manifest.accepted();
    assert_eq!(
        runtime_failures(&manifest),
        [format!("invalid key name \"spaces are not allowed\" in labels, \"{NAME_PART}\"")]
    );
    let [failure] = <[String; 1]>::try_from(runtime_failures(&with_label("a", "b/c"))).unwrap();
    assert!(
        failure.starts_with("invalid value: b/c for label[a], a valid label must be an empty string or consist of"),
        "{failure}"
    );
}

#[test]
fn spec_01_25_unsupported_operators_are_reported() {
    assert_eq!(
        runtime_failures(&with_requirement(requirement("a", "unknown", &["b"]))),
        [
            "invalid value: key a has an unsupported operator unknown not in [DoesNotExist Exists Gt Gte In Lt Lte NotIn] in \
             requirements, restricted"
        ]
    );
    assert!(runtime_failures(&with_requirement(requirement("a", "NotIn", &[]))).is_empty());
}

#[test]
fn spec_01_26_bounds() {
    for operator in ["Gt", "Lt", "Gte", "Lte"] {
        for values in [&[][..], &["1", "2"], &["a"]] {
            assert_eq!(
                runtime_failures(&with_requirement(requirement("a", operator, values))),
                [format!(
                    "invalid value: key a with operator {operator} must have a single positive integer value in requirements, restricted"
                )]
            );
        }
        let [failure] =
            <[String; 1]>::try_from(runtime_failures(&with_requirement(requirement("a", operator, &["-1"])))).unwrap();
        assert!(failure.contains("must have a single positive integer value"), "{failure}");
    }
    assert_eq!(
        runtime_failures(&with_requirement(json!({ "key": "a", "operator": "In", "minValues": 1 }))),
        [
            "invalid value: key a with operator In must have a value defined; key a with operator In must have at least minimum \
             number of values defined in 'values' field in requirements, restricted"
        ]
    );
}

#[test]
fn spec_01_38_long_values() {
    let manifest = with_requirement(requirement("a", "In", &[&"b".repeat(100)]));
    manifest.accepted();
    assert_eq!(
        runtime_failures(&manifest),
        [format!(
            "invalid value: invalid value {} for key a, must be no more than 63 bytes in requirements, restricted",
            "b".repeat(100)
        )]
    );
}

#[test]
fn spec_01_39_known_values() {
    assert_eq!(
        runtime_failures(&with_requirement(requirement(labels::CAPACITY_TYPE, "In", &["xspot"]))),
        [
            "invalid value: no valid values found in [xspot] for karpenter.sh/capacity-type, expected one of: [on-demand reserved \
             spot], got: [xspot] in requirements, restricted"
        ]
    );
    assert_eq!(
        runtime_failures(&with_requirement(requirement(labels::aws::INSTANCE_TENANCY, "In", &["xdedicated"]))),
        [
            "invalid value: no valid values found in [xdedicated] for karpenter.k8s.aws/instance-tenancy, expected one of: \
             [dedicated default], got: [xdedicated] in requirements, restricted"
        ]
    );
    for (key, values) in
        [(labels::CAPACITY_TYPE, ["on-demand", "xspot"]), (labels::aws::INSTANCE_TENANCY, ["default", "xdedicated"])]
    {
        let requirement = RequirementRef { key, operator: &Operator::In, values: &values, min_values: None };
        assert!(checks::failures(requirement, &LabelRules::aws()).is_empty());
        assert_eq!(checks::ignored_values(requirement, &LabelRules::aws()), [values[1]], "ignored values are logged");
    }
    let too_few_values =
        json!({ "key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot", "xspot"], "minValues": 2 });
    assert_eq!(
        runtime_failures(&with_requirement(too_few_values)),
        [
            "invalid value: not enough valid values found in [spot xspot] for karpenter.sh/capacity-type, expected at least 2 valid \
             values from: [on-demand reserved spot], got: 1 in requirements, restricted"
        ]
    );
}

#[test]
fn spec_01_40_excluding_an_unknown_value_is_fine() {
    assert!(runtime_failures(&with_requirement(requirement(labels::CAPACITY_TYPE, "NotIn", &["xspot"]))).is_empty());
}

#[test]
fn spec_01_41_deprecated_keys_count_as_the_current_ones() {
    assert!(runtime_failures(&with_requirement(requirement("beta.kubernetes.io/arch", "In", &["amd64"]))).is_empty());
    let [failure] =
        <[String; 1]>::try_from(runtime_failures(&with_requirement(requirement("beta.kubernetes.io/arch", "In", &[]))))
            .unwrap();
    assert!(failure.contains("key kubernetes.io/arch with operator In"), "{failure}");
}

#[test]
fn spec_01_42_the_node_class_label_passes_admission_only() {
    let manifest = with_requirement(requirement(labels::aws::EC2NODECLASS, "In", &["a"]));
    manifest.accepted();
    assert_eq!(
        runtime_failures(&manifest),
        [format!("invalid value: {} in requirements, restricted", restricted_label_message(labels::aws::EC2NODECLASS))]
    );
}

// spec 01 #43: only the predicate; the controllers' tests check that nothing is written.
#[test]
fn spec_01_43_a_pool_is_managed_by_group_and_kind() {
    let reference = spec(&nodepool()).template.spec.node_class_ref;
    assert!(reference.is_kind("karpenter.k8s.aws", "EC2NodeClass"));
    assert!(!reference.is_kind("karpenter.kwok.sh", "EC2NodeClass"));
    assert!(!reference.is_kind("karpenter.k8s.aws", "KWOKNodeClass"));
}

// spec 01 #55
#[test]
fn spec_01_55_of_equal_weights_the_later_name_comes_first() {
    let pool = |name: &str, weight: Option<i32>| {
        let manifest = nodepool().with("/metadata/name", name);
        let manifest = weight.map_or(manifest.clone(), |weight| manifest.with("/spec/weight", weight));
        serde_json::from_value::<NodePool>(manifest.accepted()).unwrap()
    };
    let mut pools = [pool("a", None), pool("b", None), pool("c", Some(1)), pool("d", Some(7)), pool("e", Some(1))];
    pools.sort_by(NodePool::by_precedence);
    let names: Vec<_> = pools.iter().map(|pool| pool.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["d", "e", "c", "b", "a"]);
}

// spec 01 §2.2, §2.1: values that cannot be parsed are decoded and reported.
#[test]
fn values_that_cannot_be_parsed_are_reported() {
    let manifest = nodepool()
        .with("/spec/template/spec/expireAfter", "9999999999h")
        .with("/spec/template/spec/terminationGracePeriod", "2562048h")
        .with("/spec/disruption/consolidateAfter", "2562047h")
        .with("/spec/disruption/budgets", json!([{ "nodes": "1", "schedule": "@daily", "duration": "99999999h" }]))
        .with("/spec/limits", json!({ "cpu": "1e1.5", "memory": 5 }));
    manifest.accepted();
    assert_eq!(
        runtime_failures(&manifest),
        [
            "invalid value: time: invalid duration \"9999999999h\" in expireAfter",
            "invalid value: time: invalid duration \"2562048h\" in terminationGracePeriod",
            "invalid value: time: invalid duration \"99999999h\" in budgets",
            "invalid value: invalid quantity \"1e1.5\": quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' in limits[cpu]",
        ]
    );
}

// spec 01 §3.4: all failures are collected.
#[test]
fn all_failures_are_reported_at_once() {
    let manifest =
        with_label("a b", "c/d").with("/spec/template/spec/taints", json!([{ "key": "/", "effect": "x" }])).with(
            "/spec/template/spec/requirements",
            json!([requirement("karpenter.sh/x", "In", &[]), requirement("b", "Gt", &[])]),
        );
    let failures = runtime_failures(&manifest);
    assert_eq!(failures.len(), 2 + 4 + 2, "{failures:#?}");
    assert_eq!(
        kerf_api::validation::join(&failures).matches("; ").count(),
        7 + 2,
        "one of the eight texts contains two separators itself"
    );
}

// spec 01 §3.4, last paragraph; spec 02 §2.2.1: the same check for pods, without prefix and suffix.
#[test]
fn a_requirement_of_a_pod_is_checked_in_the_same_way() {
    let requirement =
        RequirementRef { key: "karpenter.sh/x", operator: &Operator::In, values: &["a"], min_values: None };
    assert_eq!(checks::failures(requirement, &LabelRules::aws()), [restricted_label_message("karpenter.sh/x")]);
    let requirement = RequirementRef { key: "a", operator: &Operator::In, values: &["b c"], min_values: None };
    assert_eq!(checks::failures(requirement, &LabelRules::kwok()).len(), 1);
}

//! Admission of NodePools.

use kerf_api::crds::CrdVariant;
use kerf_api::labels;
use serde_json::{Value, json};

use crate::admit::Manifest;
use crate::manifests::{nodepool, requirement};

const TEMPLATE: &str = "/spec/template/spec";
const REQUIREMENTS: &str = "/spec/template/spec/requirements";

fn with_requirement(requirement: Value) -> Manifest {
    nodepool().with(REQUIREMENTS, vec![requirement])
}

fn with_budget(budget: Value) -> Manifest {
    nodepool().with("/spec/disruption/budgets", vec![budget])
}

fn with_label(key: &str, value: &str) -> Manifest {
    nodepool().with("/spec/template/metadata/labels", json!({ key: value }))
}

fn with_taint(taint: Value) -> Manifest {
    nodepool().with("/spec/template/spec/taints", vec![taint])
}

#[test]
fn spec_01_1_disruption_is_defaulted_as_a_whole() {
    let stored = nodepool().accepted();
    assert_eq!(
        stored["spec"]["disruption"],
        json!({
            "consolidateAfter": "0s",
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "budgets": [{ "nodes": "10%" }],
        })
    );
    assert_eq!(stored["spec"]["template"]["spec"]["expireAfter"], "720h");
}

#[test]
fn spec_01_2_an_empty_disruption_is_filled() {
    let stored = nodepool().with("/spec/disruption", json!({})).accepted();
    assert_eq!(stored["spec"]["disruption"]["consolidateAfter"], "0s");
    let stored = nodepool().with("/spec/disruption", json!({ "budgets": null, "consolidateAfter": null })).accepted();
    assert_eq!(
        stored["spec"]["disruption"]["budgets"],
        json!([{ "nodes": "10%" }]),
        "null is treated as an absent field"
    );
    let stored = nodepool().with("/spec/disruption/budgets", json!([])).accepted();
    assert_eq!(stored["spec"]["disruption"]["budgets"], json!([]), "an empty list is kept");
}

#[test]
fn spec_01_3_a_static_pool_needs_no_consolidation() {
    nodepool().with("/spec/replicas", 3).accepted();
}

#[test]
fn spec_01_4_durations() {
    for duration in ["30s", "1h30m5s", "Never", "1s1h", "9999999999h"] {
        nodepool().with("/spec/template/spec/expireAfter", duration).accepted();
        nodepool().with("/spec/disruption/consolidateAfter", duration).accepted();
    }
}

#[test]
fn spec_01_5_bad_durations() {
    for duration in ["-1s", "1hr", "FooNever", "", "1.5h", "1d"] {
        let text = format!("Invalid value: \"{duration}\"");
        nodepool()
            .with("/spec/template/spec/expireAfter", duration)
            .rejected()
            .assert_only("spec.template.spec.expireAfter", &text);
        nodepool()
            .with("/spec/disruption/consolidateAfter", duration)
            .rejected()
            .assert_only("spec.disruption.consolidateAfter", &text);
    }
}

#[test]
fn spec_01_6_a_grace_period_cannot_be_never() {
    nodepool()
        .with("/spec/template/spec/terminationGracePeriod", "Never")
        .rejected()
        .assert_only("spec.template.spec.terminationGracePeriod", "should match '^([0-9]+(s|m|h))+$'");
    nodepool().with("/spec/template/spec/terminationGracePeriod", "1h30m5s").accepted();
}

#[test]
fn spec_01_7_consolidation_policies() {
    let policy = "/spec/disruption/consolidationPolicy";
    for value in ["balanced", "WhenUnderutilized", ""] {
        nodepool().with(policy, value).rejected().assert_only(
            "spec.disruption.consolidationPolicy",
            "supported values: \"WhenEmpty\", \"WhenEmptyOrUnderutilized\", \"Balanced\"",
        );
    }
    nodepool().with(policy, 1).rejected().assert_has("spec.disruption.consolidationPolicy", "must be of type string");
    nodepool().with(policy, "Balanced").accepted();
}

#[test]
fn spec_01_8_schedules_have_five_fields() {
    for schedule in ["*", "* * * * ", "@every 1h"] {
        with_budget(json!({ "nodes": "1", "schedule": schedule, "duration": "1h" }))
            .rejected()
            .assert_only("spec.disruption.budgets[0].schedule", "should match");
    }
}

#[test]
fn spec_01_9_schedule_and_duration_come_together() {
    for budget in [json!({ "nodes": "1", "schedule": "@daily" }), json!({ "nodes": "1", "duration": "1h" })] {
        let text = "'schedule' must be set with 'duration'";
        with_budget(budget.clone()).rejected().assert_only("spec.disruption.budgets", text);
        nodepool()
            .with("/spec/disruption/budgets", json!([{ "nodes": "5" }, budget, { "nodes": "6" }]))
            .rejected()
            .assert_only("spec.disruption.budgets", text);
    }
}

#[test]
fn spec_01_10_budget_durations_are_hours_and_minutes() {
    for duration in ["30s", "-20m", "Never", "2m2h"] {
        with_budget(json!({ "nodes": "1", "schedule": "@daily", "duration": duration }))
            .rejected()
            .assert_only("spec.disruption.budgets[0].duration", "should match");
    }
    for duration in ["20m", "2h20m", "2h20m0s", "48h"] {
        with_budget(json!({ "nodes": "1", "schedule": "@daily", "duration": duration })).accepted();
    }
}

// spec 03 #53
#[test]
fn spec_01_11_budget_nodes() {
    for nodes in ["-10", "-10%", "1000%", "101%", "", "10.5%"] {
        with_budget(json!({ "nodes": nodes }))
            .rejected()
            .assert_only("spec.disruption.budgets[0].nodes", "should match");
    }
    for nodes in ["0", "100%", "100000", "0%"] {
        with_budget(json!({ "nodes": nodes })).accepted();
    }
    let stored = with_budget(json!({})).accepted();
    assert_eq!(stored["spec"]["disruption"]["budgets"][0]["nodes"], "10%");
}

#[test]
fn spec_01_12_budget_reasons() {
    for reason in ["expired", "invalid", ""] {
        with_budget(json!({ "nodes": "1", "reasons": [reason] })).rejected().assert_only(
            "spec.disruption.budgets[0].reasons[0]",
            "supported values: \"Underutilized\", \"Empty\", \"Drifted\"",
        );
    }
    for reasons in [vec!["Drifted"], vec!["Underutilized", "Empty"], vec!["Empty", "Drifted", "Underutilized"], vec![]]
    {
        with_budget(json!({ "nodes": "1", "reasons": reasons })).accepted();
    }
}

#[test]
fn spec_01_13_reasons_are_a_set() {
    with_budget(json!({ "nodes": "1", "reasons": ["Empty", "Empty"] }))
        .rejected()
        .assert_only("spec.disruption.budgets[0].reasons[1]", "Duplicate value: \"Empty\"");
}

#[test]
fn spec_01_14_fifty_budgets_at_most() {
    let budgets = |n: usize| nodepool().with("/spec/disruption/budgets", vec![json!({ "nodes": "1" }); n]);
    budgets(50).accepted();
    budgets(51).rejected().assert_only("spec.disruption.budgets", "must have at most 50 items");
}

#[test]
fn spec_01_15_named_schedules() {
    with_budget(json!({ "nodes": "1", "schedule": "@annually", "duration": "20m" })).accepted();
}

// `nodepool_runtime` tests the runtime parts of #16 to #19.
#[test]
fn spec_01_16_taint_keys() {
    for key in ["test.com.com}", "Test.com/test", "test/test/test", "test/", "/test", "???"] {
        with_taint(json!({ "key": key, "effect": "NoSchedule" }))
            .rejected()
            .assert_only("spec.template.spec.taints[0].key", "should match");
    }
    with_taint(json!({ "key": "", "effect": "NoSchedule" }))
        .rejected()
        .assert_has("spec.template.spec.taints[0].key", "should be at least 1 chars long");
}

#[test]
fn spec_01_17_long_taint_keys_pass_admission() {
    with_taint(json!({ "key": format!("{}/x", "a".repeat(254)), "effect": "NoSchedule" })).accepted();
    with_taint(json!({ "key": "a".repeat(64), "effect": "NoSchedule" })).accepted();
}

#[test]
fn spec_01_18_taint_values() {
    with_taint(json!({ "key": "a", "effect": "NoSchedule" })).accepted();
    for value in ["???", ""] {
        with_taint(json!({ "key": "a", "value": value, "effect": "NoSchedule" }))
            .rejected()
            .assert_only("spec.template.spec.taints[0].value", "should match");
    }
}

#[test]
fn spec_01_19_equal_taints_pass_admission() {
    let taint = json!({ "key": "a", "effect": "NoSchedule" });
    nodepool()
        .with("/spec/template/spec/taints", json!([taint, taint, { "key": "a", "effect": "NoExecute" }]))
        .with("/spec/template/spec/startupTaints", vec![taint])
        .accepted();
    with_taint(json!({ "key": "a", "effect": "NoBreakfast" })).rejected().assert_has(
        "spec.template.spec.taints[0].effect",
        "supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
    );
}

// The tests of the other kinds contain their parts of #20 and #21.
#[test]
fn spec_01_20_the_label_of_a_pool_is_restricted() {
    let text = "label \"karpenter.sh/nodepool\" is restricted";
    with_requirement(requirement(labels::NODEPOOL, "In", &["a"]))
        .rejected()
        .assert_only("spec.template.spec.requirements[0].key", text);
    with_label(labels::NODEPOOL, "a").rejected().assert_only("spec.template.metadata.labels", text);
}

#[test]
fn spec_01_21_restricted_keys() {
    for (key, text) in [
        ("karpenter.sh/test", "label domain \"karpenter.sh\" is restricted"),
        ("a.karpenter.sh/test", "label domain \"karpenter.sh\" is restricted"),
        ("karpenter.sh", "label domain \"karpenter.sh\" is restricted"),
        ("kubernetes.io/hostname", "label \"kubernetes.io/hostname\" is restricted"),
    ] {
        with_requirement(requirement(key, "In", &["a"]))
            .rejected()
            .assert_only("spec.template.spec.requirements[0].key", text);
        with_label(key, "a").rejected().assert_only("spec.template.metadata.labels", text);
    }
    with_requirement(requirement(labels::CAPACITY_TYPE, "In", &["spot"])).accepted();
    with_label(labels::CAPACITY_TYPE, "spot").accepted();
}

#[test]
fn spec_01_22_kubernetes_keys_are_not_restricted() {
    for key in ["kubernetes.io/test", "k8s.io/test", "subdomain.kubernetes.io/test", "sub.domain.k8s.io/test"] {
        with_requirement(requirement(key, "In", &["a"])).accepted();
        with_label(key, "a").accepted();
    }
}

#[test]
fn spec_01_23_kops_labels() {
    nodepool()
        .with("/spec/template/metadata/labels", json!({ "kops.k8s.io/instancegroup": "a", "kops.k8s.io/gpu": "1" }))
        .accepted();
}

#[test]
fn spec_01_24_label_values_are_checked_but_keys_are_not() {
    with_label("spaces are not allowed", "a").accepted();
    with_label("a", "b/c").rejected().assert_only("spec.template.metadata.labels.a", "should match");
    with_label("a", &"b".repeat(64))
        .rejected()
        .assert_only("spec.template.metadata.labels.a", "may not be more than 63 bytes");
}

#[test]
fn spec_01_25_operators() {
    with_requirement(requirement("a", "unknown", &["b"])).rejected().assert_has(
        "spec.template.spec.requirements[0].operator",
        "Unsupported value: \"unknown\": supported values: \"Gte\", \"Lte\", \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\"",
    );
    for operator in ["In", "Gt", "Lt", "Gte", "Lte", "NotIn", "Exists", "DoesNotExist"] {
        with_requirement(requirement("a", operator, &["1"])).accepted();
    }
    for operator in ["NotIn", "Exists", "DoesNotExist"] {
        with_requirement(json!({ "key": "a", "operator": operator })).accepted();
    }
}

#[test]
fn spec_01_26_bounds_are_single_integers() {
    let path = "spec.template.spec.requirements";
    let text = "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value";
    for operator in ["Gt", "Lt", "Gte", "Lte"] {
        for values in [&[][..], &["1", "2"], &["-1"]] {
            with_requirement(requirement("a", operator, values)).rejected().assert_only(path, text);
        }
        // These make the evaluation of the rule fail, which also rejects the object; the rule's
        // message is included.
        with_requirement(requirement("a", operator, &["a"])).rejected().assert_has(path, "type conversion error");
        with_requirement(json!({ "key": "a", "operator": operator }))
            .rejected()
            .assert_has(path, "no such key: values");
    }
    with_requirement(json!({ "key": "a", "operator": "In" })).rejected().assert_has(path, "no such key: values");
    with_requirement(requirement("a", "In", &[]))
        .rejected()
        .assert_only(path, "requirements with operator 'In' must have a value defined");
}

#[test]
fn spec_01_27_min_values_have_bounds() {
    for (value, text) in
        [(-1, "greater than or equal to 1"), (0, "greater than or equal to 1"), (51, "less than or equal to 50")]
    {
        with_requirement(json!({ "key": "a", "operator": "Exists", "minValues": value }))
            .rejected()
            .assert_only("spec.template.spec.requirements[0].minValues", text);
    }
    with_requirement(json!({ "key": "a", "operator": "Exists", "minValues": 50 })).accepted();
}

#[test]
fn spec_01_28_min_values_are_listed() {
    with_requirement(json!({ "key": "a", "operator": "In", "values": ["b"], "minValues": 2 })).rejected().assert_only(
        "spec.template.spec.requirements",
        "requirements with 'minValues' must have at least that many values specified in the 'values' field",
    );
    with_requirement(json!({ "key": "a", "operator": "In", "values": ["b", "b"], "minValues": 2 })).accepted();
    let values: Vec<String> = (0..90).map(|i| i.to_string()).collect();
    with_requirement(json!({ "key": "a", "operator": "In", "values": values })).accepted();
}

#[test]
fn spec_01_29_a_hundred_requirements_at_most() {
    let requirements = |n: usize| nodepool().with(REQUIREMENTS, vec![requirement("a", "Exists", &[]); n]);
    requirements(0).accepted();
    requirements(100).accepted();
    requirements(101).rejected().assert_only("spec.template.spec.requirements", "must have at most 100 items");
    nodepool().without(REQUIREMENTS).rejected().assert_only("spec.template.spec.requirements", "Required value");
}

#[test]
fn spec_01_30_the_node_class_reference_is_required() {
    for field in ["group", "kind", "name"] {
        nodepool()
            .with(&format!("{TEMPLATE}/nodeClassRef/{field}"), "")
            .rejected()
            .assert_only(&format!("spec.template.spec.nodeClassRef.{field}"), &format!("{field} may not be empty"));
        nodepool()
            .without(&format!("{TEMPLATE}/nodeClassRef/{field}"))
            .rejected()
            .assert_only(&format!("spec.template.spec.nodeClassRef.{field}"), "Required value");
    }
    nodepool()
        .with(&format!("{TEMPLATE}/nodeClassRef/group"), "karpenter.k8s.aws/v1")
        .rejected()
        .assert_only("spec.template.spec.nodeClassRef.group", "should match '^[^/]*$'");
}

#[test]
fn spec_01_31_the_kind_of_the_node_class_is_immutable() {
    for field in ["group", "kind"] {
        nodepool()
            .with(&format!("{TEMPLATE}/nodeClassRef/{field}"), "other")
            .rejected_after(&nodepool())
            .assert_only("spec.template.spec.nodeClassRef", &format!("nodeClassRef.{field} is immutable"));
    }
    nodepool().with(&format!("{TEMPLATE}/nodeClassRef/name"), "other").accepted_after(&nodepool());
}

#[test]
fn spec_01_32_replicas() {
    for replicas in [0, 5, 1000, 2_147_483_647] {
        nodepool().with("/spec/replicas", replicas).accepted();
    }
    nodepool()
        .with("/spec/replicas", -100)
        .rejected()
        .assert_has("spec.replicas", "should be greater than or equal to 0");
    nodepool().with("/spec/replicas", 2_147_483_648_i64).rejected().assert_has(".spec.replicas", "2147483647");
    nodepool().with("/spec/replicas", 3.0).rejected().assert_has(".spec.replicas", "");
}

#[test]
fn spec_01_33_static_pools_are_limited_only_by_nodes() {
    let fixed = nodepool().with("/spec/replicas", 3);
    let text = "only 'limits.nodes' is supported on static NodePools";
    for resource in ["cpu", "memory", "pods", "ephemeral-storage"] {
        fixed.with("/spec/limits", json!({ resource: "10" })).rejected().assert_only("spec", text);
        fixed.with("/spec/limits", json!({ resource: "10", "nodes": 5 })).rejected().assert_only("spec", text);
        nodepool().with("/spec/limits", json!({ resource: "10" })).accepted();
    }
    fixed.with("/spec/limits", json!({ "nodes": "10" })).accepted();
    fixed.with("/spec/limits", json!({})).accepted();
    fixed.with("/spec/weight", 10).rejected().assert_only("spec", "'weight' is not supported on static NodePools");
}

#[test]
fn spec_01_34_a_pool_stays_static_or_dynamic() {
    let fixed = nodepool().with("/spec/replicas", 3);
    let text =
        "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes";
    fixed.rejected_after(&nodepool()).assert_only("spec", text);
    nodepool().rejected_after(&fixed).assert_only("spec", text);
    fixed.with("/spec/replicas", 5).accepted_after(&fixed);
    fixed.with("/spec/limits/nodes", "7").accepted_after(&fixed.with("/spec/limits/nodes", "5"));
}

#[test]
fn spec_01_35_a_static_pool_may_set_all_other_fields() {
    let manifest = Manifest::new(
        "
        apiVersion: karpenter.sh/v1
        kind: NodePool
        metadata: {name: static}
        spec:
          replicas: 2
          disruption:
            budgets: [{nodes: '1', reasons: [Drifted]}]
          template:
            metadata:
              labels: {team: a}
              annotations: {example.com/note: any text at all}
            spec:
              nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
              requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
              taints: [{key: a, value: b, effect: NoSchedule}]
              startupTaints: [{key: c, effect: NoExecute}]
              expireAfter: Never
              terminationGracePeriod: 1h
        ",
    );
    manifest.accepted();
}

#[test]
fn spec_01_36_the_providers_keys_are_an_allow_list() {
    let text = "label domain \"karpenter.k8s.aws\" is restricted";
    for key in ["karpenter.k8s.aws/foo", "karpenter.k8s.aws/instance-pods", "a.karpenter.k8s.aws/x"] {
        with_requirement(requirement(key, "In", &["a"]))
            .rejected()
            .assert_only("spec.template.spec.requirements[0].key", text);
        with_label(key, "a").rejected().assert_only("spec.template.metadata.labels", text);
    }
    for key in labels::aws::ALLOWED {
        with_requirement(requirement(key, "In", &["1"])).accepted();
        with_label(key, "1").accepted();
    }
}

#[test]
fn spec_01_36_in_the_variant_for_the_simulated_provider() {
    for key in labels::kwok::ALLOWED {
        with_requirement(requirement(key, "In", &["1"])).accepted_by(CrdVariant::Kwok);
    }
    with_requirement(requirement("karpenter.kwok.sh/foo", "In", &["1"]))
        .rejected_by(CrdVariant::Kwok)
        .assert_only("spec.template.spec.requirements[0].key", "label domain \"karpenter.kwok.sh\" is restricted");
    with_label("karpenter.kwok.sh/foo", "1").accepted_by(CrdVariant::Kwok);
    with_requirement(requirement("karpenter.k8s.aws/foo", "In", &["1"])).accepted_by(CrdVariant::Kwok);
}

#[test]
fn spec_01_37_domains_are_matched_as_text() {
    with_label("mykarpenter.sh/x", "a")
        .rejected()
        .assert_only("spec.template.metadata.labels", "label domain \"karpenter.sh\" is restricted");
}

#[test]
fn spec_01_38_values_are_not_checked() {
    with_requirement(requirement("a", "In", &[&"b".repeat(100)])).accepted();
}

// spec 01 §2.1: whole numbers in other spellings, and quantities as numbers.
#[test]
fn numbers_and_quantities() {
    let stored = nodepool().with("/spec/weight", 2.0).accepted();
    assert_eq!(stored["spec"]["weight"], json!(2));
    nodepool().with("/spec/weight", 101).rejected().assert_only("spec.weight", "should be less than or equal to 100");
    nodepool().with("/spec/limits", json!({ "cpu": 1000, "memory": "1Ti", "a.b/c": "1e3" })).accepted();
    nodepool().with("/spec/limits/cpu", 1.5).rejected().assert_has("spec.limits.cpu", "must be of type integer");
    nodepool().with("/spec/limits/cpu", "a").rejected().assert_has("spec.limits.cpu", "should match");
}

// spec 01 §2.6, §3.5
#[test]
fn the_status_is_validated_too() {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z",
    });
    let with_status = nodepool().with("/status/conditions", vec![condition.clone()]);
    assert_eq!(
        with_status.accepted_with_status()["status"]["nodes"],
        0,
        "the default is set if the object has a status"
    );
    assert!(with_status.accepted().get("status").is_none(), "a create has no status");
    nodepool()
        .with("/status/conditions", vec![condition.clone(), condition])
        .rejected_with_status()
        .assert_only("status.conditions[1]", "Duplicate value");
    with_status
        .with("/status/conditions/0/reason", "")
        .rejected_with_status()
        .assert_has("status.conditions[0].reason", "");
    with_status
        .without("/status/conditions/0/message")
        .rejected_with_status()
        .assert_only("status.conditions[0].message", "Required value");
    with_status.with("/status/nodes", -1).rejected_with_status().assert_only(".status.nodes", "");
}

//! NodePools, NodeClaims, NodeOverlays and CapacityBuffers (spec 01 #1 to #38, #56, #57, #79 to
//! #88).

use serde_json::{Value, json};

use super::{AdmissionCases, with};
use crate::fidelity::step::SpecExpectation;
use kerf_api::labels;

fn rejected(text: &str) -> SpecExpectation {
    SpecExpectation::Rejected(text.to_owned())
}

pub(super) fn nodepool() -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []}}}})
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

pub(super) fn nodepools(c: &mut AdmissionCases) {
    const TEMPLATE: &str = "/spec/template/spec";
    let requires = |requirement: Value| with(&nodepool(), "/spec/template/spec/requirements", json!([requirement]));
    let budget = |budget: Value| with(&nodepool(), "/spec/disruption/budgets", json!([budget]));
    let label = |key: &str, value: &str| with(&nodepool(), "/spec/template/metadata/labels", json!({ key: value }));
    let taint = |taint: Value| with(&nodepool(), "/spec/template/spec/taints", json!([taint]));

    c.accepts("spec 01 #1: no disruption", &nodepool());
    c.accepts("spec 01 #2: an empty disruption", &with(&nodepool(), "/spec/disruption", json!({})));
    c.accepts("spec 01 #2: no budgets", &with(&nodepool(), "/spec/disruption/budgets", json!([])));
    c.accepts("spec 01 #3: replicas", &with(&nodepool(), "/spec/replicas", json!(3)));
    for (field, path) in
        [("expireAfter", "/spec/template/spec/expireAfter"), ("consolidateAfter", "/spec/disruption/consolidateAfter")]
    {
        for duration in ["30s", "1h30m5s", "Never"] {
            c.accepts(&format!("spec 01 #4: {field} {duration}"), &with(&nodepool(), path, json!(duration)));
        }
        for duration in ["-1s", "1hr", "FooNever"] {
            c.rejects(
                &format!("spec 01 #5: {field} {duration}"),
                "should match",
                &with(&nodepool(), path, json!(duration)),
            );
        }
    }
    let grace = "/spec/template/spec/terminationGracePeriod";
    c.rejects("spec 01 #6: never", "should match", &with(&nodepool(), grace, json!("Never")));
    c.accepts("spec 01 #6: a grace period", &with(&nodepool(), grace, json!("1h30m5s")));
    let policy = "/spec/disruption/consolidationPolicy";
    for value in [json!("balanced"), json!("WhenUnderutilized"), json!(""), json!(1)] {
        c.rejects(
            &format!("spec 01 #7: {value}"),
            "spec.disruption.consolidationPolicy",
            &with(&nodepool(), policy, value),
        );
    }
    c.accepts("spec 01 #7: Balanced", &with(&nodepool(), policy, json!("Balanced")));
    for schedule in ["*", "* * * * "] {
        c.rejects(
            &format!("spec 01 #8: {schedule:?}"),
            "should match",
            &budget(json!({"nodes": "1", "schedule": schedule, "duration": "1h"})),
        );
    }
    for half in [json!({"nodes": "1", "schedule": "@daily"}), json!({"nodes": "1", "duration": "1h"})] {
        let several = with(&nodepool(), "/spec/disruption/budgets", json!([{"nodes": "5"}, half, {"nodes": "6"}]));
        c.rejects("spec 01 #9: half a window", "'schedule' must be set with 'duration'", &budget(half));
        c.rejects("spec 01 #9: half a window among others", "'schedule' must be set with 'duration'", &several);
    }
    for duration in ["30s", "-20m"] {
        c.rejects(
            &format!("spec 01 #10: {duration}"),
            "should match",
            &budget(json!({"nodes": "1", "schedule": "@daily", "duration": duration})),
        );
    }
    for duration in ["20m", "2h20m", "2h20m0s"] {
        c.accepts(
            &format!("spec 01 #10: {duration}"),
            &budget(json!({"nodes": "1", "schedule": "@daily", "duration": duration})),
        );
    }
    for nodes in ["-10", "-10%", "1000%", "101%"] {
        c.rejects(&format!("spec 01 #11: {nodes}"), "should match", &budget(json!({"nodes": nodes})));
    }
    for nodes in ["0", "100%", "100000"] {
        c.accepts(&format!("spec 01 #11: {nodes}"), &budget(json!({"nodes": nodes})));
    }
    for reason in ["expired", "invalid", ""] {
        c.rejects(
            &format!("spec 01 #12: {reason:?}"),
            "Unsupported value",
            &budget(json!({"nodes": "1", "reasons": [reason]})),
        );
    }
    for reasons in [json!(["Drifted"]), json!(["Underutilized", "Empty"]), json!(["Empty", "Drifted", "Underutilized"])]
    {
        c.accepts(&format!("spec 01 #12: {reasons}"), &budget(json!({"nodes": "1", "reasons": reasons})));
    }
    c.rejects(
        "spec 01 #13: a reason twice",
        "Duplicate value",
        &budget(json!({"nodes": "1", "reasons": ["Empty", "Empty"]})),
    );
    c.rejects(
        "spec 01 #14: 51 budgets",
        "must have at most 50 items",
        &with(&nodepool(), "/spec/disruption/budgets", json!(vec![json!({"nodes": "1"}); 51])),
    );
    c.accepts("spec 01 #15: @annually", &budget(json!({"nodes": "1", "schedule": "@annually", "duration": "20m"})));
    for key in ["test.com.com}", "Test.com/test", "test/test/test", "test/", "/test"] {
        c.rejects(&format!("spec 01 #16: {key}"), "should match", &taint(json!({"key": key, "effect": "NoSchedule"})));
    }
    c.accepts(
        "spec 01 #17: a long prefix",
        &taint(json!({"key": format!("{}/x", "a".repeat(254)), "effect": "NoSchedule"})),
    );
    c.accepts("spec 01 #17: a long name", &taint(json!({"key": "a".repeat(64), "effect": "NoSchedule"})));
    c.accepts("spec 01 #18: no value", &taint(json!({"key": "a", "effect": "NoSchedule"})));
    c.rejects("spec 01 #18: ???", "should match", &taint(json!({"key": "a", "value": "???", "effect": "NoSchedule"})));
    let (one, other) = (json!({"key": "a", "effect": "NoSchedule"}), json!({"key": "a", "effect": "NoExecute"}));
    c.accepts("spec 01 #19: two effects", &with(&nodepool(), "/spec/template/spec/taints", json!([one, other])));
    c.accepts(
        "spec 01 #19: one effect in both lists",
        &with(&taint(one.clone()), "/spec/template/spec/startupTaints", json!([one])),
    );
    c.rejects(
        "spec 01 #20: the pool",
        "label \"karpenter.sh/nodepool\" is restricted",
        &requires(requirement(labels::NODEPOOL, "In", &["a"])),
    );
    for (key, text) in [
        ("karpenter.sh/test", "label domain \"karpenter.sh\" is restricted"),
        ("kubernetes.io/hostname", "label \"kubernetes.io/hostname\" is restricted"),
    ] {
        c.rejects(&format!("spec 01 #21: {key}"), text, &requires(requirement(key, "In", &["a"])));
        c.rejects(&format!("spec 01 #21: label {key}"), text, &label(key, "a"));
    }
    for key in ["kubernetes.io/test", "k8s.io/test", "subdomain.kubernetes.io/test"] {
        c.accepts(&format!("spec 01 #22: {key}"), &requires(requirement(key, "In", &["a"])));
    }
    c.accepts(
        "spec 01 #23: kops",
        &with(
            &nodepool(),
            "/spec/template/metadata/labels",
            json!({"kops.k8s.io/instancegroup": "a", "kops.k8s.io/gpu": "1"}),
        ),
    );
    c.accepts("spec 01 #24: a key with spaces", &label("spaces are not allowed", "a"));
    c.rejects("spec 01 #24: a value with a slash", "should match", &label("a", "b/c"));
    c.rejects("spec 01 #25: unknown", "Unsupported value", &requires(requirement("a", "unknown", &["b"])));
    for operator in ["In", "NotIn", "Exists", "Gt", "Lt", "Gte", "Lte"] {
        c.accepts(&format!("spec 01 #25: {operator}"), &requires(requirement("a", operator, &["1"])));
    }
    c.accepts("spec 01 #25: NotIn nothing", &requires(json!({"key": "a", "operator": "NotIn"})));
    for operator in ["Gt", "Lt", "Gte", "Lte"] {
        for values in [&[][..], &["1", "2"], &["a"], &["-1"]] {
            c.rejects(
                &format!("spec 01 #26: {operator} {values:?}"),
                "spec.template.spec.requirements",
                &requires(requirement("a", operator, values)),
            );
        }
        c.rejects(
            &format!("spec 01 #26: {operator} without values"),
            "spec.template.spec.requirements",
            &requires(json!({"key": "a", "operator": operator})),
        );
    }
    for value in [-1, 0, 51] {
        c.rejects(
            &format!("spec 01 #27: {value}"),
            "minValues",
            &requires(json!({"key": "a", "operator": "Exists", "minValues": value})),
        );
    }
    c.rejects(
        "spec 01 #28: too few values",
        "must have at least that many values",
        &requires(json!({"key": "a", "operator": "In", "values": ["b"], "minValues": 2})),
    );
    let many_values: Vec<String> = (0..90).map(|n| n.to_string()).collect();
    c.accepts("spec 01 #28: 90 values", &requires(json!({"key": "a", "operator": "In", "values": many_values})));
    c.accepts("spec 01 #29: no requirements", &nodepool());
    c.rejects(
        "spec 01 #29: 101 requirements",
        "must have at most 100 items",
        &with(&nodepool(), "/spec/template/spec/requirements", json!(vec![requirement("a", "Exists", &[]); 101])),
    );
    for field in ["group", "kind", "name"] {
        c.rejects(
            &format!("spec 01 #30: no {field}"),
            &format!("{field} may not be empty"),
            &with(&nodepool(), &format!("{TEMPLATE}/nodeClassRef/{field}"), json!("")),
        );
    }
    c.rejects(
        "spec 01 #30: a group with a version",
        "should match",
        &with(&nodepool(), &format!("{TEMPLATE}/nodeClassRef/group"), json!("karpenter.k8s.aws/v1")),
    );

    let fixed = with(&nodepool(), "/spec/replicas", json!(3));
    c.creates("a dynamic pool", &with(&nodepool(), "/metadata/name", json!("dynamic")));
    c.creates("a static pool", &with(&fixed, "/metadata/name", json!("static")));
    let reference = |field: &str| json!({"spec": {"template": {"spec": {"nodeClassRef": {field: "other"}}}}});
    for field in ["group", "kind"] {
        c.changes(
            &format!("spec 01 #31: another {field}"),
            "NodePool",
            "dynamic",
            reference(field),
            rejected(&format!("nodeClassRef.{field} is immutable")),
        );
    }
    c.changes("spec 01 #31: another name", "NodePool", "dynamic", reference("name"), SpecExpectation::Accepted);
    for replicas in [0, 5, 1000] {
        c.accepts(&format!("spec 01 #32: {replicas}"), &with(&nodepool(), "/spec/replicas", json!(replicas)));
    }
    c.rejects(
        "spec 01 #32: -100",
        "should be greater than or equal to 0",
        &with(&nodepool(), "/spec/replicas", json!(-100)),
    );
    for resource in ["cpu", "memory", "pods", "ephemeral-storage"] {
        c.rejects(
            &format!("spec 01 #33: {resource}"),
            "only 'limits.nodes' is supported on static NodePools",
            &with(&fixed, "/spec/limits", json!({ resource: "10" })),
        );
    }
    c.rejects(
        "spec 01 #33: weight",
        "'weight' is not supported on static NodePools",
        &with(&fixed, "/spec/weight", json!(10)),
    );
    c.accepts("spec 01 #33: nodes", &with(&fixed, "/spec/limits", json!({"nodes": "10"})));
    let mode =
        "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes";
    c.changes("spec 01 #34: becomes static", "NodePool", "dynamic", json!({"spec": {"replicas": 3}}), rejected(mode));
    c.changes(
        "spec 01 #34: becomes dynamic",
        "NodePool",
        "static",
        json!({"spec": {"replicas": null}}),
        rejected(mode),
    );
    c.changes(
        "spec 01 #34: three to five",
        "NodePool",
        "static",
        json!({"spec": {"replicas": 5}}),
        SpecExpectation::Accepted,
    );
    c.changes(
        "spec 01 #34: another limit",
        "NodePool",
        "static",
        json!({"spec": {"limits": {"nodes": "9"}}}),
        SpecExpectation::Accepted,
    );
    let mut complete = fixed.clone();
    complete["spec"]["disruption"] = json!({"budgets": [{"nodes": "1", "reasons": ["Drifted"]}]});
    complete["spec"]["template"]["metadata"] =
        json!({"labels": {"team": "a"}, "annotations": {"example.com/note": "any text at all"}});
    for (field, value) in [
        ("taints", json!([{"key": "a", "value": "b", "effect": "NoSchedule"}])),
        ("requirements", json!([requirement("kubernetes.io/arch", "In", &["amd64"])])),
        ("expireAfter", json!("Never")),
        ("terminationGracePeriod", json!("1h")),
    ] {
        complete["spec"]["template"]["spec"][field] = value;
    }
    c.accepts("spec 01 #35: a whole static pool", &complete);
    let domain = "label domain \"karpenter.k8s.aws\" is restricted";
    c.rejects("spec 01 #36: a requirement", domain, &requires(requirement("karpenter.k8s.aws/foo", "In", &["a"])));
    c.rejects("spec 01 #36: a label", domain, &label("karpenter.k8s.aws/foo", "a"));
    for key in labels::aws::ALLOWED {
        c.accepts(&format!("spec 01 #36: {key}"), &requires(requirement(key, "In", &["1"])));
    }
    c.rejects(
        "spec 01 #37: a domain that ends so",
        "label domain \"karpenter.sh\" is restricted",
        &label("mykarpenter.sh/x", "a"),
    );
    c.accepts("spec 01 #38: a long value", &requires(requirement("a", "In", &[&"b".repeat(100)])));

    // Sections 2.1 and 2.6: numbers, quantities, conditions.
    c.accepts("a whole number in another spelling", &with(&nodepool(), "/spec/weight", json!(2.0)));
    c.rejects(
        "a weight too much",
        "should be less than or equal to 100",
        &with(&nodepool(), "/spec/weight", json!(101)),
    );
    c.accepts("quantities", &with(&nodepool(), "/spec/limits", json!({"cpu": 1000, "memory": "1Ti", "a.b/c": "1e3"})));
    c.rejects("half a CPU as a number", "spec.limits.cpu", &with(&nodepool(), "/spec/limits", json!({"cpu": 1.5})));
    c.rejects("no quantity", "spec.limits.cpu", &with(&nodepool(), "/spec/limits", json!({"cpu": "a"})));
    let condition = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2019-01-01T00:00:00Z"});
    c.status("a condition", "NodePool", "dynamic", json!({"conditions": [condition]}), SpecExpectation::Accepted);
    c.status(
        "a condition twice",
        "NodePool",
        "dynamic",
        json!({"conditions": [condition, condition]}),
        rejected("Duplicate value"),
    );
    c.status(
        "a condition without a reason",
        "NodePool",
        "dynamic",
        json!({"conditions": [with(&condition, "/reason", json!(""))]}),
        rejected("status.conditions[0].reason"),
    );
    c.status(
        "a condition of no status",
        "NodePool",
        "dynamic",
        json!({"conditions": [with(&condition, "/status", json!("Perhaps"))]}),
        rejected("Unsupported value"),
    );
    c.status("fewer nodes than none", "NodePool", "dynamic", json!({"nodes": -1}), rejected("status.nodes"));
}

pub(super) fn nodeclaims(c: &mut AdmissionCases) {
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "claim", "finalizers": ["karpenter.sh/termination"]}, "spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": [],
        "resources": {"requests": {"memory": "50000"}}, "terminationGracePeriod": "1h",
        "taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "2019-01-01T00:00:00Z"}]}});
    let requires = |requirement: Value| with(&claim, "/spec/requirements", json!([requirement]));
    c.accepts("spec 01 #20: a claim's pool", &requires(requirement(labels::NODEPOOL, "In", &["a"])));
    for (key, text) in [
        ("karpenter.sh/test", "label domain \"karpenter.sh\" is restricted"),
        ("kubernetes.io/hostname", "label \"kubernetes.io/hostname\" is restricted"),
    ] {
        c.rejects(&format!("spec 01 #21: a claim's {key}"), text, &requires(requirement(key, "In", &["a"])));
    }
    for key in ["kubernetes.io/test", "k8s.io/test", "subdomain.kubernetes.io/test"] {
        c.accepts(&format!("spec 01 #22: a claim's {key}"), &requires(requirement(key, "In", &["a"])));
    }
    c.rejects(
        "spec 01 #26: a claim's bound",
        "must have a single positive integer value",
        &requires(requirement("a", "Gt", &["-1"])),
    );
    c.creates("a claim", &claim);
    for (what, spec) in [
        ("node class", json!({"nodeClassRef": {"name": "other"}})),
        ("expiry", json!({"expireAfter": "30h"})),
        ("grace", json!({"terminationGracePeriod": "60m"})),
        ("requests", json!({"resources": {"requests": {"memory": "50k"}}})),
        ("startup taints", json!({"startupTaints": []})),
        ("requirements", json!({"requirements": [requirement("a", "Exists", &[])]})),
    ] {
        c.changes(
            &format!("spec 01 #56: another {what}"),
            "NodeClaim",
            "claim",
            json!({"spec": spec}),
            rejected("spec is immutable"),
        );
    }
    c.changes(
        "spec 01 #56: a label is no spec",
        "NodeClaim",
        "claim",
        json!({"metadata": {"labels": {"a": "b"}}}),
        SpecExpectation::Accepted,
    );
    c.changes(
        "spec 01 #57: its finalizer goes",
        "NodeClaim",
        "claim",
        json!({"metadata": {"finalizers": null}}),
        SpecExpectation::Accepted,
    );
    let condition =
        json!({"type": "Launched", "status": "Unknown", "lastTransitionTime": "2019-01-01T00:00:00Z", "reason": ""});
    c.status(
        "a claim's condition may lack much",
        "NodeClaim",
        "claim",
        json!({"conditions": [condition]}),
        SpecExpectation::Accepted,
    );
}

pub(super) fn overlays_and_buffers(c: &mut AdmissionCases) {
    let overlay = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "overlay"}, "spec": {"requirements": []}});
    let requires = |requirement: Value| with(&overlay, "/spec/requirements", json!([requirement]));
    c.accepts("spec 01 #20: an overlay's pool", &requires(requirement(labels::NODEPOOL, "In", &["a"])));
    for (key, text) in [
        ("karpenter.sh/test", "label domain \"karpenter.sh\" is restricted"),
        ("kubernetes.io/hostname", "label \"kubernetes.io/hostname\" is restricted"),
    ] {
        c.rejects(&format!("spec 01 #21: an overlay's {key}"), text, &requires(requirement(key, "In", &["a"])));
    }
    for key in ["kubernetes.io/test", "k8s.io/test", "subdomain.kubernetes.io/test"] {
        c.accepts(&format!("spec 01 #22: an overlay's {key}"), &requires(requirement(key, "In", &["a"])));
    }
    c.rejects(
        "spec 01 #79: both",
        "cannot set both 'price' and 'priceAdjustment'",
        &with(&with(&overlay, "/spec/price", json!("1")), "/spec/priceAdjustment", json!("+1")),
    );
    for price in ["+42", ".5", "42.", "42%", "1e10", " 42", "-"] {
        c.rejects(&format!("spec 01 #80: {price:?}"), "should match", &with(&overlay, "/spec/price", json!(price)));
    }
    for price in ["43", "34.43"] {
        c.accepts(&format!("spec 01 #80: {price}"), &with(&overlay, "/spec/price", json!(price)));
    }
    for adjustment in ["1", "1.3", "1%", "-100.0%", "-101.1%"] {
        c.rejects(
            &format!("spec 01 #81: {adjustment}"),
            "should match",
            &with(&overlay, "/spec/priceAdjustment", json!(adjustment)),
        );
    }
    for adjustment in ["+1%", "-1%", "-100%", "+298%", "+100.102%", "+43", "-43", "-34.43"] {
        c.accepts(&format!("spec 01 #81: {adjustment}"), &with(&overlay, "/spec/priceAdjustment", json!(adjustment)));
    }
    for resource in ["cpu", "memory", "pods"] {
        c.rejects(
            &format!("spec 01 #82: {resource}"),
            "invalid resource restricted",
            &with(&overlay, "/spec/capacity", json!({ resource: "1" })),
        );
    }
    c.accepts("spec 01 #82: a device", &with(&overlay, "/spec/capacity", json!({"smarter-devices/fuse": "1"})));
    c.rejects(
        "spec 01 #83: NotIn nothing",
        "requirements with operator 'NotIn' must have a value defined",
        &requires(requirement("a", "NotIn", &[])),
    );
    c.accepts(
        "spec 01 #84: the provider's resource",
        &with(&overlay, "/spec/capacity", json!({"vpc.amazonaws.com/pod-eni": "1"})),
    );

    let buffer = json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "buffer"}, "spec": {}});
    let template = with(&buffer, "/spec/podTemplateRef/name", json!("t"));
    let workload = json!({"kind": "Deployment", "name": "d"});
    c.rejects(
        "spec 01 #86: both",
        "but not both",
        &with(&with(&template, "/spec/replicas", json!(1)), "/spec/scalableRef", workload.clone()),
    );
    c.rejects("spec 01 #86: no count", "replicas or limits must also be set", &template);
    for field in ["replicas", "percentage"] {
        c.rejects(
            &format!("spec 01 #87: {field} below zero"),
            "should be greater than or equal to 0",
            &with(&buffer, &format!("/spec/{field}"), json!(-1)),
        );
        c.accepts(&format!("spec 01 #87: {field} of zero"), &with(&buffer, &format!("/spec/{field}"), json!(0)));
    }
    for field in ["kind", "name"] {
        let nameless = with(
            &with(&buffer, "/spec/scalableRef", workload.clone()),
            &format!("/spec/scalableRef/{field}"),
            json!(""),
        );
        c.rejects(&format!("spec 01 #87: no {field}"), "should be at least 1 chars long", &nameless);
    }
    c.accepts("spec 01 #88: the strategy", &buffer);
}

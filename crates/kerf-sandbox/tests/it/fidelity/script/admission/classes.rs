//! EC2NodeClasses (spec 01 #92 to #106).

use serde_json::{Value, json};

use super::{AdmissionCases, with};

fn class() -> Value {
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "class"}, "spec": {
        "role": "node", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [{"tags": {"discovery": "mine"}}],
        "securityGroupSelectorTerms": [{"tags": {"discovery": "mine"}}]}})
}

fn without(object: &Value, field: &str) -> Value {
    let mut changed = object.clone();
    changed["spec"].as_object_mut().unwrap().remove(field);
    changed
}

pub(super) fn ec2(c: &mut AdmissionCases) {
    let amis = |terms: Value| with(&class(), "/spec/amiSelectorTerms", terms);
    let ebs =
        |ebs: Value| with(&class(), "/spec/blockDeviceMappings", json!([{"deviceName": "/dev/xvda", "ebs": ebs}]));
    c.accepts("defaults of a class", &class());
    let identity = "must specify exactly one of ['role', 'instanceProfile']";
    c.rejects("spec 01 #92: both", identity, &with(&class(), "/spec/instanceProfile", json!("p")));
    c.rejects("spec 01 #92: neither", identity, &without(&class(), "role"));
    c.creates("a class", &with(&class(), "/metadata/name", json!("kept")));
    c.changes(
        "spec 01 #92: the other",
        "EC2NodeClass",
        "kept",
        json!({"spec": {"role": null, "instanceProfile": "p"}}),
        crate::fidelity::step::SpecExpectation::Accepted,
    );
    c.rejects("spec 01 #93: Ubuntu", "amiFamily", &with(&class(), "/spec/amiFamily", json!("Ubuntu")));
    c.rejects(
        "spec 01 #93: a contradiction",
        "if set, amiFamily must be",
        &with(&class(), "/spec/amiFamily", json!("AL2")),
    );
    c.accepts("spec 01 #93: Custom", &with(&class(), "/spec/amiFamily", json!("Custom")));
    c.rejects(
        "spec 01 #94: neither",
        "must specify amiFamily if amiSelectorTerms does not contain an alias",
        &amis(json!([{"id": "ami-123"}])),
    );
    for alias in ["@latest", "al2023", "al2023@", "al2023-latest", "ubuntu@latest", "windows2022@v1.0.0"] {
        c.rejects(&format!("spec 01 #95: {alias}"), "alias", &amis(json!([{"alias": alias}])));
    }
    c.accepts("spec 01 #95: bottlerocket@1.10.0", &amis(json!([{"alias": "bottlerocket@1.10.0"}])));
    for other in [json!({"id": "ami-1"}), json!({"alias": "al2023@latest"}), json!({"tags": {"a": "b"}})] {
        c.rejects(
            "spec 01 #96: not alone",
            "'alias' is mutually exclusive",
            &amis(json!([{"alias": "al2023@latest"}, other])),
        );
    }
    let named = with(&class(), "/spec/amiFamily", json!("AL2023"));
    for field in
        ["subnetSelectorTerms", "securityGroupSelectorTerms", "capacityReservationSelectorTerms", "amiSelectorTerms"]
    {
        let at = format!("/spec/{field}");
        c.rejects(
            &format!("spec 01 #97: {field} of nothing"),
            "expected at least one, got none",
            &with(&named, &at, json!([{}])),
        );
        c.rejects(
            &format!("spec 01 #97: {field} with an empty key"),
            "empty tag keys or values aren't supported",
            &with(&named, &at, json!([{"tags": {"": "b"}}])),
        );
        c.rejects(
            &format!("spec 01 #97: {field} with an empty value"),
            "empty tag keys or values aren't supported",
            &with(&named, &at, json!([{"tags": {"a": ""}}])),
        );
    }
    for (field, term) in [
        ("subnetSelectorTerms", json!({"id": "subnet-1", "tags": {"a": "b"}})),
        ("securityGroupSelectorTerms", json!({"id": "sg-1", "tags": {"a": "b"}})),
        ("capacityReservationSelectorTerms", json!({"id": "cr-1", "ownerID": "012345678901"})),
        ("amiSelectorTerms", json!({"id": "ami-1", "owner": "self"})),
    ] {
        c.rejects(
            &format!("spec 01 #97: {field} with an id and more"),
            "'id' is mutually exclusive",
            &with(&named, &format!("/spec/{field}"), json!([term])),
        );
    }
    c.accepts(
        "spec 01 #98: one of two",
        &with(
            &class(),
            "/spec/subnetSelectorTerms",
            json!([{"id": "subnet-1", "tags": {"a": "b"}}, {"id": "subnet-2"}]),
        ),
    );
    let reservations = "/spec/capacityReservationSelectorTerms";
    c.rejects("spec 01 #99: none", "'id' is mutually exclusive", &with(&class(), reservations, json!([])));
    c.accepts("spec 01 #99: null", &with(&class(), reservations, Value::Null));
    c.rejects(
        "spec 01 #99: an owner alone",
        "expected at least one, got none",
        &with(&class(), reservations, json!([{"ownerID": "012345678901"}])),
    );
    for key in [
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "kubernetes.io/cluster/x",
        "eks:eks-cluster-name",
        "karpenter.k8s.aws/ec2nodeclass",
    ] {
        c.rejects(
            &format!("spec 01 #100: {key}"),
            "tag contains a restricted tag matching",
            &with(&class(), "/spec/tags", json!({ key: "v" })),
        );
    }
    let roots = |flags: &[bool]| {
        let mappings: Vec<Value> =
            flags.iter().map(|flag| json!({"rootVolume": flag, "ebs": {"volumeSize": "1Gi"}})).collect();
        with(&class(), "/spec/blockDeviceMappings", json!(mappings))
    };
    c.rejects(
        "spec 01 #101: two roots",
        "must have only one blockDeviceMappings with rootVolume",
        &roots(&[true, true]),
    );
    c.accepts("spec 01 #101: one root", &roots(&[true, false]));
    for size in ["1Mi", "100", "65T", "59001Gi", "18Ti"] {
        c.rejects(&format!("spec 01 #102: {size}"), "volumeSize", &ebs(json!({"volumeSize": size})));
    }
    for size in ["58Ti", "64T", "59000Gi"] {
        c.accepts(&format!("spec 01 #102: {size}"), &ebs(json!({"volumeSize": size})));
    }
    c.rejects(
        "spec 01 #103: no snapshot",
        "snapshotID must be set when volumeInitializationRate is set",
        &ebs(json!({"volumeSize": "1Gi", "volumeInitializationRate": 100})),
    );
    for rate in [99, 888] {
        c.rejects(
            &format!("spec 01 #103: {rate}"),
            "volumeInitializationRate",
            &ebs(json!({"snapshotID": "snap-1", "volumeInitializationRate": rate})),
        );
    }
    let interface = |card: i32, device: i32, kind: &str| json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind});
    let interfaces = |list: Vec<Value>| with(&class(), "/spec/networkInterfaces", json!(list));
    c.accepts("spec 01 #104: none", &interfaces(vec![]));
    c.rejects(
        "spec 01 #104: no primary",
        "must include a primary interface",
        &interfaces(vec![interface(0, 1, "interface")]),
    );
    c.rejects(
        "spec 01 #104: one twice",
        "must not have duplicate",
        &interfaces(vec![interface(0, 0, "interface"), interface(0, 0, "interface")]),
    );
    c.rejects(
        "spec 01 #104: two on a card",
        "at most one efa",
        &interfaces(vec![interface(0, 0, "interface"), interface(1, 0, "efa-only"), interface(1, 1, "efa-only")]),
    );
    c.rejects("spec 01 #104: efa", "Unsupported value: \"efa\"", &interfaces(vec![interface(0, 0, "efa")]));
    c.rejects(
        "spec 01 #105: nothing",
        "at least one of tcpEstablishedTimeout",
        &with(&class(), "/spec/connectionTracking", json!({})),
    );
    for (field, low, high) in
        [("tcpEstablishedTimeout", 59, 432_001), ("udpStreamTimeout", 59, 181), ("udpTimeout", 29, 61)]
    {
        for value in [low, high] {
            c.rejects(
                &format!("spec 01 #105: {field} {value}"),
                "should be",
                &with(&class(), "/spec/connectionTracking", json!({ field: value })),
            );
        }
    }
    c.accepts(
        "spec 01 #106: any kubelet",
        &with(&class(), "/spec/kubelet", json!({"notAKubeletField": true, "podsPerCore": "ten"})),
    );
}

//! Behaviour that only custom resources have: their own scale, versions that must be named, and
//! bodies that no Go type describes. The section uses the CRDs of [`super::admission`].

use serde_json::{Value, json};

use super::Section;
use super::admission::with;
use crate::fidelity::step::{APPLY, JSON_PATCH, MERGE, STRATEGIC, SpecExpectation};

const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";

fn pool(name: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []}}}})
}

fn scale(name: &str, replicas: &Value) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": {"replicas": replicas}})
}

pub(super) fn section() -> Section {
    let mut s = Section::new("custom");
    s.post("a dynamic pool", POOLS, with(&pool("dyn"), "/spec/weight", json!(5)));
    s.post("a static pool", POOLS, with(&pool("stat"), "/spec/replicas", json!(3)));
    scales(&mut s);
    bodies(&mut s);
    patches(&mut s);
    s
}

/// Spec 01 section 3.1: a number that cannot be parsed is rejected, and never treated as missing.
fn scales(s: &mut Section) {
    // These messages quote the whole scale, including times.
    let whole = &["/message", "/details"];
    s.get("the scale of a dynamic pool", &format!("{POOLS}/dyn/scale"));
    s.get("the scale of a static pool", &format!("{POOLS}/stat/scale"));
    let stat = &format!("{POOLS}/stat/scale");
    let odd = [json!("5"), json!(2.5), json!(3.0), json!(true), json!(i64::from(i32::MAX) + 1)];
    for replicas in &odd {
        s.put(&format!("scaled to {replicas}"), stat, scale("stat", replicas));
        s.patch(&format!("scaled by a patch to {replicas}"), stat, MERGE, json!({"spec": {"replicas": replicas}}))
            .ignore(whole);
    }
    s.put("scaled below zero", stat, scale("stat", &json!(-1))).spec_expectation = Some(SpecExpectation::Rejected(
        ".spec.replicas: Invalid value: -1: should be a non-negative integer".to_owned(),
    ));
    s.patch("scaled by a patch below zero", stat, MERGE, json!({"spec": {"replicas": -1}}));
    s.put("scaled by another kind", stat, json!({"kind": "Foo", "apiVersion": "v1"}));
    s.patch("scaled by a patch of another kind", stat, MERGE, json!({"kind": "Foo"})).ignore(whole);
    s.put("scaled by a list", stat, json!([]));
    s.put("scaled by nothing", stat, json!({}));
    s.put("scaled under another name", stat, scale("other", &json!(5)));
    s.patch("scaled by a patch under another name", stat, MERGE, json!({"metadata": {"name": "other"}}));
    s.put("scaled, of an old version", stat, with(&scale("stat", &json!(5)), "/metadata/resourceVersion", json!("1")));
    s.put(
        "scaled with an unknown field, strictly",
        &format!("{stat}?fieldValidation=Strict"),
        with(&scale("stat", &json!(5)), "/spec/foo", json!(1)),
    );
    s.patch(
        "scaled by a patch with an unknown field, strictly",
        &format!("{stat}?fieldValidation=Strict"),
        MERGE,
        json!({"spec": {"foo": 1}}),
    )
    .ignore(whole);
    s.patch("scaled by a strategic patch", stat, STRATEGIC, json!({"spec": {"replicas": 4}}));
    s.get("its scale is what it was", stat);
    s.patch(
        "scaled by a JSON patch",
        stat,
        JSON_PATCH,
        json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]),
    );
    s.put("scaled to nothing", stat, scale("stat", &json!(0)));
    s.patch("scaled by a patch that says nothing", stat, MERGE, json!({"spec": {}}));
    s.put("a scale of nothing", &format!("{POOLS}/zz/scale"), scale("zz", &json!(5)));
    s.put("an odd scale of nothing", &format!("{POOLS}/zz/scale"), scale("zz", &json!("5")));
    s.get("a claim has no scale", "/apis/karpenter.sh/v1/nodeclaims/x/scale");
    let dynamic = &format!("{POOLS}/dyn/scale");
    s.put("a dynamic pool scaled", dynamic, scale("dyn", &json!(5)));
    s.put("a dynamic pool scaled below zero", dynamic, scale("dyn", &json!(-1)));
    s.patch("a dynamic pool scaled by a patch", dynamic, MERGE, json!({"spec": {"replicas": 5}}));
    s.patch("a dynamic pool scaled by a patch that says nothing", dynamic, MERGE, json!({"spec": {}}));
}

fn bodies(s: &mut Section) {
    let (dry, dynamic) = (&format!("{POOLS}?dryRun=All"), &format!("{POOLS}/dyn"));
    s.put("replaced without a version", dynamic, with(&pool("dyn"), "/spec/weight", json!(6)));
    s.put("replaced without a version, and wrong", dynamic, with(&pool("dyn"), "/spec/weight", json!(600)));
    s.put("replaced, of version 0", dynamic, with(&pool("dyn"), "/metadata/resourceVersion", json!("0")));
    s.put("replaced, of a version that is none", dynamic, with(&pool("dyn"), "/metadata/resourceVersion", json!("x")));
    s.put(
        "a status replaced without a version",
        &format!("{dynamic}/status"),
        with(&pool("dyn"), "/status", json!({"nodes": 3})),
    );
    s.put("replaced where there is nothing", &format!("{POOLS}/zz"), pool("zz"));
    s.get("the pool", dynamic).capture("custom-rv", "/metadata/resourceVersion");
    s.put(
        "replaced, of its version",
        dynamic,
        with(&with(&pool("dyn"), "/spec/weight", json!(7)), "/metadata/resourceVersion", json!("{custom-rv}")),
    );
    s.get("the pool again", dynamic).capture("custom-now", "/metadata/resourceVersion");
    for (title, key, value) in [
        ("a time that is none", "creationTimestamp", json!("x")),
        ("a time of another zone", "creationTimestamp", json!("2020-01-01T00:00:00+02:00")),
        ("a time that is a number", "creationTimestamp", json!(5)),
        ("an end that is none", "deletionTimestamp", json!("x")),
        ("a generation that is none", "generation", json!("x")),
        ("labels that are none", "labels", json!("x")),
        ("a label that is a number", "labels", json!({"a": 1})),
        ("a name that is a number", "name", json!(5)),
        ("owners that are none", "ownerReferences", json!("x")),
        ("finalizers that are none", "finalizers", json!("x")),
        ("an unknown field of its metadata", "foo", json!("x")),
    ] {
        let odd = with(&pool("odd"), &format!("/metadata/{key}"), value);
        s.post(&format!("with {title}"), dry, odd.clone());
        s.post(&format!("with {title}, strictly"), &format!("{dry}&fieldValidation=Strict"), odd);
    }
    s.post("of another kind", dry, with(&pool("odd"), "/kind", json!("NodeClaim")));
    s.post("of another version", dry, with(&pool("odd"), "/apiVersion", json!("karpenter.sh/v1beta1")));
    s.post("of another group", dry, with(&pool("odd"), "/apiVersion", json!("example.com/v1")));
    s.post("of no kind", dry, with(&pool("odd"), "/kind", json!(""))).ignore(&["/message"]);
    s.put(
        "replaced by another kind",
        dynamic,
        with(&with(&pool("dyn"), "/kind", json!("NodeClaim")), "/metadata/resourceVersion", json!("{custom-now}")),
    );
    let yaml = |weight: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: odd}}\nspec:\n  weight: {weight}\n  template:\n    spec:\n      nodeClassRef: {{group: g, kind: k, name: c}}\n      requirements: []\n"
        )
    };
    for weight in [".inf", "-.Inf", ".NaN"] {
        s.post(&format!("YAML with {weight}"), dry, json!(null)).content("application/yaml").text(&yaml(weight));
        s.step(
            &format!("YAML with {weight}, applied"),
            "PATCH",
            &format!("{POOLS}/odd?dryRun=All&fieldManager=one"),
            APPLY,
            &json!(null),
        )
        .text(&yaml(weight));
    }
    s.post("YAML", dry, json!(null)).content("application/yaml").text(&yaml("5"));
}

fn patches(s: &mut Section) {
    let whole = &["/message", "/details"];
    let dynamic = &format!("{POOLS}/dyn");
    let strict = &format!("{dynamic}?fieldValidation=Strict");
    s.patch("merge: an unknown field, strictly", strict, MERGE, json!({"spec": {"foo": 1}})).ignore(whole);
    s.patch(
        "merge: an unknown field of a status, strictly",
        &format!("{dynamic}/status?fieldValidation=Strict"),
        MERGE,
        json!({"status": {"foo": 1}}),
    )
    .ignore(whole);
    s.patch(
        "JSON: an unknown field, strictly",
        strict,
        JSON_PATCH,
        json!([{"op": "add", "path": "/spec/foo", "value": 1}]),
    )
    .ignore(whole);
    s.patch("merge: an unknown field", dynamic, MERGE, json!({"spec": {"foo": 1}}));
    s.patch("merge: another kind", dynamic, MERGE, json!({"kind": "NodeClaim"})).ignore(whole);
    s.patch("merge: a time that is none", dynamic, MERGE, json!({"metadata": {"creationTimestamp": "x"}}))
        .ignore(whole);
    s.patch("merge: a wrong type", dynamic, MERGE, json!({"spec": {"weight": "x"}}));
    s.patch("merge: no version", dynamic, MERGE, json!({"metadata": {"resourceVersion": null}}));
    s.patch("strategic", dynamic, STRATEGIC, json!({"spec": {"weight": 8}}));
    s.patch("of a media type that is no patch", dynamic, "application/json", json!({"spec": {"weight": 8}}));
    let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "custom"}, "spec": {
        "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "r", "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}]}});
    s.post("a class", CLASSES, class);
    s.patch(
        "merge: nulls in a list",
        &format!("{CLASSES}/custom"),
        MERGE,
        json!({"spec": {"kubelet": {"deep": {"list": [1, null, {"a": null, "b": 2}, [null, {"c": null}]]}}}}),
    );
    s.patch(
        "merge: nulls in what is new",
        &format!("{CLASSES}/custom"),
        MERGE,
        json!({"spec": {"kubelet": {"fresh": {"a": null, "b": {"c": null}}}}}),
    );
    s.patch(
        "merge: nulls in a list of the schema",
        dynamic,
        MERGE,
        json!({"spec": {"template": {"spec": {"taints": [{"key": "a", "value": null, "effect": "NoSchedule"}]}}}}),
    );
    let one = &format!("{dynamic}?fieldManager=one&force=true");
    for (title, pointer, value) in [
        ("a text for a number", "/spec/weight", json!("x")),
        ("a number for a text", "/spec/template/spec/nodeClassRef/name", json!(5)),
        ("a text for a list", "/spec/template/spec/requirements", json!("x")),
        ("a list for an object", "/spec/template", json!([])),
        ("a number for an object", "/spec", json!(5)),
        ("a fraction for a number", "/spec/weight", json!(5.5)),
        ("an object for a label", "/spec/template/metadata", json!({"labels": {"a": {}}})),
        ("a flag for a quantity", "/spec/limits", json!({"cpu": true})),
        ("an unknown field", "/spec/foo", json!(1)),
        ("a time that is none", "/metadata/creationTimestamp", json!("x")),
        ("a label that is a number", "/metadata/labels", json!({"a": 1})),
    ] {
        s.apply(&format!("applied with {title}"), one, with(&pool("dyn"), pointer, value));
    }
    s.get("by a field that cannot be selected", &format!("{POOLS}?fieldSelector=spec.weight%3D5"));
    s.get("maps by a field that cannot be selected", "/api/v1/namespaces/default/configmaps?fieldSelector=data.a%3D5");
    s.get("by a bad selector", &format!("{POOLS}?labelSelector=a%20in"));
}

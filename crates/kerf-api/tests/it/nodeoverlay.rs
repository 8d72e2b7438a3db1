//! Tests of NodeOverlays: admission, and the controllers' checks.

use kerf_api::crds::CrdVariant;
use kerf_api::labels::{self, LabelRules};
use kerf_api::nodeoverlay::NodeOverlay;
use kerf_api::validation::nodeoverlay::{AWS_RESOURCES, failures};
use serde_json::{Value, json};

use crate::admit::Manifest;
use crate::manifests::requirement;

fn overlay() -> Manifest {
    Manifest::new(
        "
        apiVersion: karpenter.sh/v1alpha1
        kind: NodeOverlay
        metadata: {name: a}
        spec: {requirements: []}
        ",
    )
}

fn with_requirement(requirement: Value) -> Manifest {
    overlay().with("/spec/requirements", vec![requirement])
}

#[track_caller]
fn runtime_failures(manifest: &Manifest) -> Vec<String> {
    let overlay: NodeOverlay = serde_json::from_value(manifest.accepted()).unwrap();
    failures(&overlay.spec, &LabelRules::aws(), AWS_RESOURCES)
}

#[test]
fn spec_01_20_an_overlay_may_name_a_pool() {
    assert!(runtime_failures(&with_requirement(requirement(labels::NODEPOOL, "In", &["a"]))).is_empty());
}

#[test]
fn spec_01_21_restricted_keys() {
    for (key, text) in [
        ("karpenter.sh/test", "label domain \"karpenter.sh\" is restricted"),
        ("kubernetes.io/hostname", "label \"kubernetes.io/hostname\" is restricted"),
        ("karpenter.k8s.aws/foo", "label domain \"karpenter.k8s.aws\" is restricted"),
    ] {
        with_requirement(requirement(key, "In", &["a"])).rejected().assert_only("spec.requirements[0].key", text);
    }
}

#[test]
fn spec_01_22_kubernetes_keys_are_not_restricted() {
    for key in ["kubernetes.io/test", "k8s.io/test", "subdomain.kubernetes.io/test"] {
        with_requirement(requirement(key, "In", &["a"])).accepted();
    }
}

// spec 01 §10.2: the list of allowed keys is shorter than a pool's.
#[test]
fn spec_01_36_the_reduced_allow_list() {
    for key in labels::aws::ALLOWED {
        let manifest = with_requirement(requirement(key, "In", &["1"]));
        if labels::aws::DISALLOWED_FOR_OVERLAYS.contains(&key) {
            manifest
                .rejected()
                .assert_only("spec.requirements[0].key", "label domain \"karpenter.k8s.aws\" is restricted");
        } else {
            manifest.accepted();
        }
    }
    with_requirement(requirement("karpenter.kwok.sh/foo", "In", &["1"])).accepted_by(CrdVariant::Kwok);
}

#[test]
fn spec_01_79_price_and_adjustment_are_mutually_exclusive() {
    overlay()
        .with("/spec/price", "1")
        .with("/spec/priceAdjustment", "+1")
        .rejected()
        .assert_only("spec", "cannot set both 'price' and 'priceAdjustment'");
}

#[test]
fn spec_01_80_prices() {
    for price in ["+42", ".5", "42.", "42%", "1e10", " 42", "-", "", "-1"] {
        overlay().with("/spec/price", price).rejected().assert_only("spec.price", "should match");
    }
    for price in ["43", "34.43", "0"] {
        overlay().with("/spec/price", price).accepted();
    }
}

#[test]
fn spec_01_81_price_adjustments() {
    for adjustment in ["1", "1.3", "1%", "-100.0%", "-101.1%", "-101%", "-.5%", "+5.", "", "+", "10%"] {
        overlay()
            .with("/spec/priceAdjustment", adjustment)
            .rejected()
            .assert_only("spec.priceAdjustment", "should match");
    }
    for adjustment in [
        "+1%",
        "-1%",
        "-100%",
        "+298%",
        "+100.102%",
        "+43",
        "-43",
        "-34.43",
        "+.5",
        "+.5%",
        "-0.5",
        "-15%",
        "-99.99%",
        "-129",
    ] {
        overlay().with("/spec/priceAdjustment", adjustment).accepted();
    }
}

#[test]
fn spec_01_82_only_extended_resources() {
    for resource in ["cpu", "memory", "pods", "ephemeral-storage"] {
        overlay()
            .with("/spec/capacity", json!({ resource: "1" }))
            .rejected()
            .assert_only("spec.capacity", "invalid resource restricted");
    }
    assert!(runtime_failures(&overlay().with("/spec/capacity", json!({ "smarter-devices/fuse": "1" }))).is_empty());
}

#[test]
fn spec_01_83_not_in_needs_values() {
    with_requirement(requirement("a", "NotIn", &[]))
        .rejected()
        .assert_only("spec.requirements", "requirements with operator 'NotIn' must have a value defined");
    with_requirement(json!({ "key": "a", "operator": "NotIn" }))
        .rejected()
        .assert_has("spec.requirements", "no such key: values");
    with_requirement(requirement("a", "Gte", &["1", "2"])).rejected().assert_only(
        "spec.requirements",
        "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
    );
}

#[test]
fn spec_01_84_resources_of_the_provider_cannot_be_changed() {
    let manifest = overlay()
        .with("/spec/capacity", json!({ "vpc.amazonaws.com/pod-eni": "1", "nvidia.com/gpu": 8, "amd.com/gpu": 1 }));
    assert_eq!(runtime_failures(&manifest), ["invalid capacity: vpc.amazonaws.com/pod-eni in resource, restricted"]);
}

// spec 01 §5: the requirement check of pools, with its prefix and suffix.
#[test]
fn spec_01_42_the_node_class_label_passes_admission_only() {
    let failures = runtime_failures(&with_requirement(requirement(labels::aws::EC2NODECLASS, "In", &["a"])));
    assert_eq!(failures.len(), 1);
    assert!(
        failures[0].starts_with("invalid value: using label karpenter.k8s.aws/ec2nodeclass is not allowed"),
        "{failures:?}"
    );
    assert!(failures[0].ends_with("in requirements, restricted"));
}

#[test]
fn weights_and_required_fields() {
    for weight in [1, 10_000] {
        overlay().with("/spec/weight", weight).accepted();
    }
    overlay().with("/spec/weight", 0).rejected().assert_only("spec.weight", "should be greater than or equal to 1");
    overlay()
        .with("/spec/weight", 10_001)
        .rejected()
        .assert_only("spec.weight", "should be less than or equal to 10000");
    overlay().without("/spec/requirements").rejected().assert_only("spec.requirements", "Required value");
    overlay().without("/spec").rejected().assert_only("spec", "Required value");
}

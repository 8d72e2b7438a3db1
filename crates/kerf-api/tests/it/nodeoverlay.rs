//! NodeOverlays: admission, and what the controllers check after it.

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
fn spec_01_22_kubernetes_keys_are_free() {
    for key in ["kubernetes.io/test", "k8s.io/test", "subdomain.kubernetes.io/test"] {
        with_requirement(requirement(key, "In", &["a"])).accepted();
    }
}

#[test]
fn spec_01_80_prices() {
    for price in ["+42", ".5", "42.", "42%", "1e10", " 42", "-", "", "-1"] {
        overlay().with("/spec/price", price).refused().only("spec.price", "should match");
    }
    for price in ["43", "34.43", "0"] {
        overlay().with("/spec/price", price).accepted();
    }
}

#[test]
fn spec_01_81_price_adjustments() {
    for adjustment in ["1", "1.3", "1%", "-100.0%", "-101.1%", "-101%", "-.5%", "+5.", "", "+", "10%"] {
        overlay().with("/spec/priceAdjustment", adjustment).refused().only("spec.priceAdjustment", "should match");
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
fn spec_01_84_resources_of_the_provider_are_its_own() {
    let manifest = overlay()
        .with("/spec/capacity", json!({ "vpc.amazonaws.com/pod-eni": "1", "nvidia.com/gpu": 8, "amd.com/gpu": 1 }));
    assert_eq!(runtime_failures(&manifest), ["invalid capacity: vpc.amazonaws.com/pod-eni in resource, restricted"]);
}

// spec 01 §5: the requirement check of pools, with its wrapper.
#[test]
fn spec_01_42_what_admission_allows_and_the_controller_does_not() {
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
    overlay().with("/spec/weight", 0).refused().only("spec.weight", "should be greater than or equal to 1");
    overlay().with("/spec/weight", 10_001).refused().only("spec.weight", "should be less than or equal to 10000");
    overlay().without("/spec/requirements").refused().only("spec.requirements", "Required value");
    overlay().without("/spec").refused().only("spec", "Required value");
}

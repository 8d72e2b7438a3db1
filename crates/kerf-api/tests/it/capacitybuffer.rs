//! Admission of CapacityBuffers.

use kerf_api::capacitybuffer::{ACTIVE_CAPACITY, CapacityBuffer};
use serde_json::json;

use crate::admit::Manifest;

fn buffer() -> Manifest {
    Manifest::new(
        "
        apiVersion: autoscaling.x-k8s.io/v1beta1
        kind: CapacityBuffer
        metadata: {name: a, namespace: default}
        spec: {}
        ",
    )
}

#[test]
fn spec_01_86_one_reference_and_a_count() {
    let template = buffer().with("/spec/podTemplateRef/name", "t");
    let workload = json!({ "kind": "Deployment", "name": "d" });
    template
        .with("/spec/replicas", 1)
        .with("/spec/scalableRef", workload.clone())
        .rejected()
        .assert_only("spec", "You must define either PodTemplateRef or ScalableRef, but not both");
    template.rejected().assert_only("spec", "If podTemplateRef is set, replicas or limits must also be set");
    template.with("/spec/replicas", 1).accepted();
    template.with("/spec/limits", json!({ "cpu": "1" })).accepted();
    buffer().with("/spec/scalableRef", workload).accepted();
    buffer().accepted();
    buffer().without("/spec").rejected().assert_only("spec", "Required value");
}

#[test]
fn spec_01_87_numbers_and_names() {
    for field in ["replicas", "percentage"] {
        buffer()
            .with(&format!("/spec/{field}"), -1)
            .rejected()
            .assert_only(&format!("spec.{field}"), "should be greater than or equal to 0");
        buffer().with(&format!("/spec/{field}"), 0).accepted();
    }
    buffer().with("/spec/percentage", 250).accepted();
    buffer()
        .with("/spec/podTemplateRef/name", "")
        .with("/spec/replicas", 1)
        .rejected()
        .assert_only("spec.podTemplateRef.name", "should be at least 1 chars long");
    for field in ["kind", "name"] {
        buffer()
            .with("/spec/scalableRef", json!({ "kind": "Deployment", "name": "d" }))
            .with(&format!("/spec/scalableRef/{field}"), "")
            .rejected()
            .assert_only(&format!("spec.scalableRef.{field}"), "should be at least 1 chars long");
    }
}

#[test]
fn spec_01_88_the_strategy_is_defaulted() {
    let stored = buffer().accepted();
    assert_eq!(stored["spec"]["provisioningStrategy"], ACTIVE_CAPACITY);
    assert_eq!(ACTIVE_CAPACITY, "buffer.x-k8s.io/active-capacity");
    let typed: CapacityBuffer = serde_json::from_value(stored).unwrap();
    assert_eq!(typed.spec.provisioning_strategy.as_deref(), Some(ACTIVE_CAPACITY));
}

//! Admission of a KWOKNodeClass (spec 04 §14.1).

use kerf_api::conditions::ConditionStatus;
use kerf_api::kwoknodeclass::KWOKNodeClass;

use crate::admit::Manifest;

fn node_class() -> Manifest {
    Manifest::new("{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}}")
}

#[test]
fn a_class_is_ready_when_it_is_created() {
    // Creating drops the status, and reading sets its default, so every reader sees it.
    let created = Manifest(node_class().accepted());
    let class: KWOKNodeClass = serde_json::from_value(created.accepted_with_status()).unwrap();
    let conditions = class.status.unwrap().conditions;
    assert_eq!((conditions[0].condition_type.as_str(), &conditions[0].status), ("Ready", &ConditionStatus::True));
    assert_eq!(conditions[0].last_transition_time.0.to_string(), "2024-01-01T01:01:01Z");
}

#[test]
fn the_registration_delay_is_a_duration() {
    node_class().with("/spec/nodeRegistrationDelay", "30s").accepted();
    node_class()
        .with("/spec/nodeRegistrationDelay", "Never")
        .rejected()
        .assert_only("spec.nodeRegistrationDelay", "should match '^([0-9]+(s|m|h))+$'");
}

//! Admission of NodeClaims.

use kerf_api::crds::CrdVariant;
use kerf_api::labels;
use kerf_api::nodeclaim::NodeClaim;
use serde_json::{Value, json};

use crate::admit::Manifest;
use crate::manifests::requirement;

fn nodeclaim() -> Manifest {
    Manifest::new(
        "
        apiVersion: karpenter.sh/v1
        kind: NodeClaim
        metadata: {name: a}
        spec:
          nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
          requirements: []
        ",
    )
}

fn with_requirement(requirement: Value) -> Manifest {
    nodeclaim().with("/spec/requirements", vec![requirement])
}

#[test]
fn spec_01_20_a_claim_may_name_its_pool() {
    with_requirement(requirement(labels::NODEPOOL, "In", &["a"])).accepted();
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
    with_requirement(requirement("karpenter.kwok.sh/foo", "In", &["a"]))
        .rejected_by(CrdVariant::Kwok)
        .assert_only("spec.requirements[0].key", "label domain \"karpenter.kwok.sh\" is restricted");
}

#[test]
fn spec_01_22_kubernetes_keys_are_not_restricted() {
    for key in ["kubernetes.io/test", "k8s.io/test", "subdomain.kubernetes.io/test"] {
        with_requirement(requirement(key, "In", &["a"])).accepted();
    }
}

#[test]
fn spec_01_26_to_29_requirements_have_the_pools_rules() {
    with_requirement(requirement("a", "Gt", &["-1"])).rejected().assert_only(
        "spec.requirements",
        "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
    );
    with_requirement(requirement("a", "NotIn", &[])).accepted();
    with_requirement(json!({ "key": "a", "operator": "In", "values": ["b"], "minValues": 2 })).rejected().assert_only(
        "spec.requirements",
        "requirements with 'minValues' must have at least that many values specified in the 'values' field",
    );
}

#[test]
fn spec_01_56_the_spec_is_immutable() {
    let old = nodeclaim()
        .with("/spec/resources/requests", json!({ "memory": "50000" }))
        .with("/spec/taints", json!([{ "key": "a", "effect": "NoSchedule", "timeAdded": "2024-01-01T00:00:00Z" }]))
        .with("/spec/terminationGracePeriod", "1h");
    for changed in [
        old.with("/spec/nodeClassRef/name", "other"),
        old.with("/spec/expireAfter", "30h"),
        old.with("/spec/terminationGracePeriod", "60m"),
        old.with("/spec/resources/requests/memory", "50k"),
        old.with("/spec/resources/requests/memory", 50000),
        old.with("/spec/startupTaints", json!([])),
        old.with("/spec/requirements", vec![requirement("a", "Exists", &[])]),
    ] {
        changed.rejected_after(&old).assert_only("spec", "spec is immutable");
    }
    for same in [
        old.clone(),
        old.with("/spec/expireAfter", "720h"),
        old.with("/spec/taints/0/timeAdded", "2024-01-01T01:00:00+01:00"),
        old.with("/metadata/labels", json!({ "a": "b" })),
    ] {
        same.accepted_after(&old);
    }
}

#[test]
fn spec_01_57_a_finalizer_can_be_removed_with_any_spelling_of_quantities() {
    let old = nodeclaim()
        .with("/metadata/finalizers", json!(["karpenter.sh/termination"]))
        .with("/spec/resources/requests", json!({ "memory": "50000", "cpu": 1 }));
    // Computed from the typed object, like a controller's patch.
    let mut claim: NodeClaim = serde_json::from_value(old.accepted()).unwrap();
    claim.metadata.finalizers = None;
    let new = Manifest(serde_json::to_value(&claim).unwrap());
    assert_eq!(new.0["spec"], old.accepted()["spec"]);
    new.accepted_after(&old);
}

// spec 01 §2.6: reason and message may be absent here, and only here.
#[test]
fn conditions_may_lack_reason_and_message() {
    let condition =
        json!({ "type": "Launched", "status": "Unknown", "lastTransitionTime": "2024-01-01T00:00:00Z", "reason": "" });
    let stored = nodeclaim().with("/status/conditions", vec![condition]).accepted_with_status();
    let claim: NodeClaim = serde_json::from_value(stored).unwrap();
    assert_eq!(claim.status.unwrap().conditions[0].reason, "");
}

#[test]
fn everything_that_admission_accepts_can_be_decoded() {
    let stored = nodeclaim()
        .with("/spec/expireAfter", "9999999999h")
        .with("/spec/resources/requests", json!({ "a": "1e1.5", "b": 5, "c": "+.5" }))
        .with("/spec/requirements", vec![requirement(&"a".repeat(300), "NotIn", &[])])
        .accepted();
    let claim: NodeClaim = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&claim).unwrap()["spec"], stored["spec"]);
}

//! EC2NodeClasses: admission, and what the controllers check after it without asking EC2.

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::validation::ec2nodeclass::tags_failure;
use serde_json::json;

use crate::admit::Manifest;
use crate::manifests::node_class;

fn typed(manifest: &Manifest) -> EC2NodeClass {
    serde_json::from_value(manifest.accepted()).unwrap()
}

// spec 01 §13.1
#[test]
fn metadata_options_are_defaulted() {
    let all = json!({
        "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required",
    });
    assert_eq!(node_class().accepted()["spec"]["metadataOptions"], all);
    assert_eq!(node_class().with("/spec/metadataOptions", json!({})).accepted()["spec"]["metadataOptions"], all);
    let some = node_class().with("/spec/metadataOptions", json!({ "httpTokens": "optional" })).accepted();
    assert_eq!(some["spec"]["metadataOptions"]["httpPutResponseHopLimit"], 1);
    for limit in [0, 65] {
        node_class()
            .with("/spec/metadataOptions/httpPutResponseHopLimit", limit)
            .refused()
            .only("spec.metadataOptions.httpPutResponseHopLimit", "should be");
    }
}

// spec 01 §7
#[test]
fn a_class_without_a_spec_is_admitted() {
    assert_eq!(typed(&node_class().without("/spec")).spec, None);
}

#[test]
fn spec_01_98_one_bad_term_among_good_ones_passes() {
    node_class()
        .with("/spec/subnetSelectorTerms", json!([{ "id": "subnet-1", "tags": { "a": "b" } }, { "id": "subnet-2" }]))
        .accepted();
}

// spec 01 §7.3, at run time
#[test]
fn spec_01_100_tags_are_checked_again_before_launch() {
    let tags =
        ["kubernetes.io/cluster/x", "karpenter.sh/nodepool", "kubernetes.io/clusters", "kubernetes.io/cluster/-", "a"];
    assert_eq!(
        tags_failure(&tags.into_iter().map(|key| (key.to_owned(), String::new())).collect()).unwrap(),
        "tags failed validation requirements (tags=\"karpenter.sh/nodepool\", \"kubernetes.io/cluster/x\")"
    );
}

// spec 01 §2.6: no list type here, so a condition may be there twice.
#[test]
fn conditions_are_an_atomic_list() {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z",
    });
    node_class().with("/status/conditions", vec![condition.clone(), condition]).accepted_with_status();
    let reservation = json!({
        "id": "cr-1", "availabilityZone": "a", "instanceType": "t", "ownerID": "012345678901", "instanceMatchCriteria": "open",
    });
    let stored = node_class().with("/status/capacityReservations", vec![reservation]).accepted_with_status();
    assert_eq!(stored["status"]["capacityReservations"][0]["reservationType"], "default");
    assert_eq!(stored["status"]["capacityReservations"][0]["state"], "active");
}

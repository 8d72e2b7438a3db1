//! Tests of claim states and of the nodes on which volumes can be used.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{object, pod};

fn claim(spec: Value, bound: bool) -> PersistentVolumeClaim {
    let annotations = if bound { json!({"pv.kubernetes.io/bind-completed": "yes"}) } else { json!({}) };
    object(json!({"metadata": {"name": "data", "namespace": "default", "annotations": annotations}, "spec": spec}))
}

fn volume(spec: Value) -> PersistentVolume {
    object(json!({"metadata": {"name": "pv"}, "spec": spec}))
}

fn class(mode: &str) -> StorageClass {
    object(json!({
        "metadata": {"name": "sc"}, "provisioner": "kubernetes.io/aws-ebs", "volumeBindingMode": mode,
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["b", "c"]}]}],
    }))
}

fn zone(zone: &str) -> Labels {
    object(json!({"zone": zone}))
}

#[test]
fn claims_are_those_named_and_those_of_ephemeral_volumes() {
    let pod = pod(
        "p",
        json!({}),
        json!({"volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "c", "emptyDir": {}},
        ]}),
    );
    assert_eq!(volume_claim_names(&pod), ["data", "p-b"]);
}

#[test]
fn spec_02_113_only_bound_and_waiting_claims_allow_scheduling() {
    let wait = class("WaitForFirstConsumer");
    let immediate = class("Immediate");
    let volume = volume(json!({}));
    let waiting = claim(json!({"storageClassName": "sc"}), false);
    let named = claim(json!({"volumeName": "pv"}), false);
    let bound = claim(json!({"volumeName": "pv"}), true);
    let state_of = |claim, class| VolumeObjects::new([claim], [&volume], [class]).claim_state("default", "data");
    assert!(matches!(state_of(&waiting, &wait), VolumeClaimState::Waiting(_)));
    assert!(matches!(state_of(&waiting, &immediate), VolumeClaimState::Unbound));
    assert!(matches!(state_of(&named, &wait), VolumeClaimState::Unbound));
    assert!(matches!(state_of(&bound, &wait), VolumeClaimState::Bound(_)));
    let lost = claim(json!({"volumeName": "other"}), true);
    assert!(matches!(state_of(&lost, &wait), VolumeClaimState::Lost));
    let mut deleting = bound.clone();
    deleting.metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
    assert!(matches!(state_of(&deleting, &wait), VolumeClaimState::Deleting));
    assert!(matches!(VolumeObjects::default().claim_state("default", "data"), VolumeClaimState::Missing));
}

#[test]
fn spec_02_114_a_bound_claim_needs_no_class() {
    let volume = volume(json!({}));
    let bound = claim(json!({"volumeName": "pv", "storageClassName": ""}), true);
    assert!(matches!(
        VolumeObjects::new([&bound], [&volume], []).claim_state("default", "data"),
        VolumeClaimState::Bound(_)
    ));
    let unbound = claim(json!({"storageClassName": ""}), false);
    assert!(matches!(VolumeObjects::new([&unbound], [], []).claim_state("default", "data"), VolumeClaimState::Unbound));
}

#[test]
fn spec_02_108_a_class_provisions_only_for_its_topologies() {
    let class = class("WaitForFirstConsumer");
    assert!(can_class_provision_for(&class, &zone("c")));
    assert!(!can_class_provision_for(&class, &zone("a")));
    assert!(!can_class_provision_for(&class, &Labels::new()));
}

#[test]
fn spec_02_109_a_volume_is_usable_where_any_of_its_terms_matches() {
    let term = |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
    let volume = volume(json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [term("a"), term("b")]}}}));
    assert!(is_volume_usable_on(&volume, "n", &zone("b")) && is_volume_usable_on_new_node(&volume, &zone("b")));
    assert!(!is_volume_usable_on(&volume, "n", &zone("c")) && !is_volume_usable_on_new_node(&volume, &zone("c")));
}

#[test]
fn spec_02_111_the_host_of_a_local_volume_does_not_restrict_a_new_node() {
    let host = json!({"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["gone"]}]});
    let affinity = json!({"required": {"nodeSelectorTerms": [host]}});
    let local = volume(json!({"local": {"path": "/data"}, "nodeAffinity": affinity}));
    let network = volume(json!({"nodeAffinity": affinity}));
    assert!(is_volume_usable_on_new_node(&local, &zone("a")));
    assert!(!is_volume_usable_on_new_node(&network, &zone("a")));
    assert!(!is_volume_usable_on(&local, "new", &zone("a")), "kube-scheduler knows no such exception");
}

#[test]
fn drivers_are_found_through_volume_or_class() {
    let by_class = claim(json!({"storageClassName": "sc"}), false);
    let class = class("WaitForFirstConsumer");
    assert_eq!(
        VolumeObjects::new([&by_class], [], [&class]).csi_driver("default", "data").as_deref(),
        Some("ebs.csi.aws.com")
    );
    let by_volume = claim(json!({"volumeName": "pv", "storageClassName": "sc"}), true);
    let csi = volume(json!({"csi": {"driver": "disk.example.com", "volumeHandle": "v"}}));
    let driver = VolumeObjects::new([&by_volume], [&csi], [&class]).csi_driver("default", "data");
    assert_eq!(driver.as_deref(), Some("disk.example.com"));
    let nfs = volume(json!({"nfs": {"path": "/", "server": "s"}}));
    assert_eq!(VolumeObjects::new([&by_volume], [&nfs], [&class]).csi_driver("default", "data"), None);
}

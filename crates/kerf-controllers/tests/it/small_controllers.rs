//! Small controllers: garbage collection, consistency, pod events, hydration (spec 04 §6).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodeclaim::NodeClaim;
use kube::api::DeleteParams;
use serde_json::json;

use crate::cloud::ScriptedCloud;
use crate::launch::env_with_scripted_cloud;
use crate::test_cluster::{TestCluster, consolidating_pool};
use crate::test_env::{TestEnv, claim_condition};

async fn env_with_registered_claim(name: &str) -> (TestEnv, Arc<ScriptedCloud>, String) {
    let (rig, cloud) = env_with_scripted_cloud().await;
    rig.create_claim(name, json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}})).await;
    rig.wait(3).await;
    let node = rig.only_node().await.metadata.name.unwrap();
    (rig, cloud, node)
}

// spec 04 #79
#[tokio::test(start_paused = true)]
async fn a_claim_whose_machine_is_gone_is_collected() {
    let (rig, cloud, node) = env_with_registered_claim("a").await;
    rig.make_ready(&node).await;
    *cloud.instances.lock().unwrap() = Some(Vec::new());
    rig.wait(250).await;
    rig.only_claim().await; // the kubelet is still ready: the cloud's list is out of date
    rig.set_ready_condition(&node, "Unknown").await;
    rig.wait(130).await;
    assert!(rig.claims().await.iter().all(|claim| claim.metadata.deletion_timestamp.is_some()));

    let (rig, cloud) = env_with_scripted_cloud().await;
    let never = kerf_cloud::Instance { provider_id: "kwok://never".into(), ..Default::default() };
    cloud.script_launch(crate::cloud::ScriptedLaunch::Returns(never));
    *cloud.instances.lock().unwrap() = Some(Vec::new());
    rig.create_claim("a", json!({})).await;
    rig.wait(250).await;
    assert!(
        rig.only_claim().await.metadata.deletion_timestamp.is_none(),
        "one that never registered is left to liveness"
    );
}

// spec 04 #80
#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_was_deleted_stays_while_its_machine_exists() {
    let (rig, cloud, node) = env_with_registered_claim("a").await;
    let id = rig.only_claim().await.status.unwrap().provider_id.unwrap();
    *cloud.instances.lock().unwrap() = Some(vec![kerf_cloud::Instance { provider_id: id, ..Default::default() }]);
    rig.patch::<Node>(&node, json!({"metadata": {"finalizers": null}})).await;
    rig.api::<Node>().delete(&node, &DeleteParams::default()).await.unwrap();
    rig.wait(600).await;
    assert!(rig.only_claim().await.metadata.deletion_timestamp.is_none());
}

/// The opposite case: an instance without a claim. It remains if a claim is deleted before its
/// launch is recorded.
#[tokio::test(start_paused = true)]
async fn a_machine_without_a_claim_is_terminated() {
    let rig = TestEnv::start().await;
    rig.create_claim("a", json!({})).await;
    rig.wait(3).await;
    let mut stray = rig.only_node().await;
    stray.metadata.name = Some("kwok-stray".into());
    stray.metadata.resource_version = None;
    stray.metadata.uid = None;
    stray.metadata.finalizers = None;
    stray.metadata.owner_references = None;
    stray.spec.as_mut().unwrap().provider_id = Some("kwok://kwok-stray".into());
    stray.metadata.labels.as_mut().unwrap().insert("kubernetes.io/hostname".into(), "gone".into());
    rig.create::<Node>(serde_json::to_value(stray).unwrap()).await;
    rig.wait(250).await;
    assert_ne!(rig.only_node().await.metadata.name.unwrap(), "kwok-stray", "the one with a claim is still there");
}

/// Nodes that other tools simulate are not collected, whatever their provider IDs look like.
// spec 04 §1.6, #85
#[tokio::test(start_paused = true)]
async fn a_node_that_was_never_launched_here_is_left_alone() {
    let rig = TestEnv::start().await;
    let node = json!({"metadata": {"name": "u1", "labels": {"kubernetes.io/hostname": "u1", "type": "kwok"},
        "annotations": {"kwok.x-k8s.io/node": "fake"}}, "spec": {"providerID": "kwok://u1"}});
    rig.create::<Node>(node).await;
    rig.wait(250).await;
    let node = rig.only_node().await.metadata;
    assert_eq!((node.name.as_deref(), node.deletion_timestamp), (Some("u1"), None));
}

// spec 04 #81
#[tokio::test(start_paused = true)]
async fn a_node_that_is_less_than_was_promised_is_told_of() {
    let (rig, _cloud, node) = env_with_registered_claim("a").await;
    rig.make_ready(&node).await;
    rig.wait(3).await;
    let promised = rig.only_claim().await.status.unwrap().capacity.unwrap()["memory"].to_string();
    assert_eq!(promised, "4Gi");
    rig.patch_status::<Node>(&node, json!({"capacity": {"memory": "2Gi"}})).await;
    rig.wait(601).await;
    let expected = "expected 4Gi of resource memory, but found 2Gi (50.0% of expected)";
    assert_eq!(rig.events("FailedConsistencyCheck"), [("a".into(), expected.into())]);
    assert_eq!(claim_condition(&rig.only_claim().await, "ConsistentStateFound"), "False/ConsistencyCheckFailed");
    // 2.666 of 4 GiB, which rounds to 66.7%.
    rig.patch_status::<Node>(&node, json!({"capacity": {"memory": "2863311530"}})).await;
    rig.wait(601).await;
    let expected = "expected 4Gi of resource memory, but found 2863311530 (66.7% of expected)";
    assert_eq!(rig.events("FailedConsistencyCheck")[1], ("a".into(), expected.into()));
    rig.patch_status::<Node>(&node, json!({"capacity": {"memory": "4Gi"}})).await;
    rig.wait(601).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "ConsistentStateFound"), "True/ConsistentStateFound");
}

// spec 04 #82
#[tokio::test(start_paused = true)]
async fn pods_that_come_and_go_are_noted_on_the_claim() {
    let (rig, _cloud, node) = env_with_registered_claim("a").await;
    let noted = async || rig.only_claim().await.status.unwrap().last_pod_event_time.map(|time| time.0);
    rig.pending_pod("p1", "100m", json!({})).await;
    rig.pending_pod("p2", "100m", json!({})).await;
    rig.pending_pod("p3", "100m", json!({})).await;
    rig.wait(1).await;
    assert_eq!(noted().await, None);
    rig.bind("p1", &node).await;
    rig.wait(1).await;
    let first = noted().await.unwrap();
    rig.wait(4).await;
    rig.bind("p2", &node).await;
    rig.wait(1).await;
    assert_eq!(noted().await, Some(first), "less than ten seconds later");
    rig.wait(5).await;
    rig.bind("p3", &node).await;
    rig.wait(1).await;
    let second = noted().await.unwrap();
    assert!(second > first);
    rig.wait(15).await;
    let daemon = json!({"metadata": {"name": "d", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    rig.pods().create(&kube::api::PostParams::default(), &serde_json::from_value(daemon).unwrap()).await.unwrap();
    rig.wait(2).await;
    assert_eq!(noted().await, Some(second), "daemons do not count");
}

// spec 04 §15 departure 14
#[tokio::test(start_paused = true)]
async fn a_restart_is_no_pod_event() {
    let (mut rig, cloud, node) = env_with_registered_claim("a").await;
    rig.pending_pod("p1", "100m", json!({})).await;
    rig.bind("p1", &node).await;
    rig.wait(2).await;
    let noted = rig.only_claim().await.status.unwrap().last_pod_event_time.unwrap();
    rig.wait(600).await;
    rig.restart(cloud);
    rig.wait(60).await;
    assert_eq!(rig.only_claim().await.status.unwrap().last_pod_event_time.unwrap(), noted);
}

// spec 04 #83
#[tokio::test(start_paused = true)]
async fn the_class_label_is_given_to_what_lacks_it() {
    let (rig, _cloud, node) = env_with_registered_claim("a").await;
    let key = "karpenter.kwok.sh/kwoknodeclass";
    assert_eq!(rig.only_claim().await.metadata.labels.unwrap()[key], "default");
    rig.patch::<Node>(&node, json!({"metadata": {"labels": {key: null}}})).await;
    rig.patch::<NodeClaim>("a", json!({"metadata": {"labels": {key: null}}})).await;
    rig.wait(3).await;
    assert_eq!(rig.only_claim().await.metadata.labels.unwrap()[key], "default");
    assert_eq!(rig.only_node().await.metadata.labels.unwrap()[key], "default");
}

// spec 07 #37
#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_a_node_that_is_not_ours() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    let protected = json!({"karpenter.sh/do-not-disrupt": "true"});
    town.env.create::<Node>(json!({"metadata": {"name": "foreign", "annotations": protected}})).await;
    town.deploy("web", 1, "500m", json!({"metadata": {"annotations": protected}})).await;
    town.wait_until("it runs", 60, async |town| town.running().await == 1).await;
    town.advance(120).await;
    let told = town.env.events("DisruptionBlocked");
    assert!(!told.is_empty(), "ours stays, and that is told");
    assert!(told.iter().all(|(about, _)| about != "foreign"), "{told:?}");
}

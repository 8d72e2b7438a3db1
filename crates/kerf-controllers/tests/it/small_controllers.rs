//! Small controllers: garbage collection, consistency, pod events, hydration (spec 04 §6).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_kwok::{Kwok, built_in_catalogue};
use kube::api::DeleteParams;
use serde_json::json;

use crate::cloud::ScriptedCloud;
use crate::launch::env_with_scripted_cloud;
use crate::test_cluster::{TestCluster, consolidating_pool};
use crate::test_env::{TestEnv, claim_condition};

async fn env_with_registered_claim(name: &str) -> (TestEnv, Arc<ScriptedCloud>, String) {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.create_claim(name, json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}})).await;
    env.wait(3).await;
    let node = env.only_node().await.metadata.name.unwrap();
    (env, cloud, node)
}

// spec 04 #79
#[tokio::test(start_paused = true)]
async fn a_claim_without_an_instance_is_collected() {
    let (env, cloud, node) = env_with_registered_claim("a").await;
    env.make_ready(&node).await;
    *cloud.instances.lock().unwrap() = Some(Vec::new());
    env.wait(250).await;
    env.only_claim().await; // the kubelet is still ready: the cloud's list is out of date
    env.set_ready_condition(&node, "Unknown").await;
    env.wait(130).await;
    assert!(env.claims().await.iter().all(|claim| claim.metadata.deletion_timestamp.is_some()));

    let (env, cloud) = env_with_scripted_cloud().await;
    let never = kerf_cloud::Instance { provider_id: "kwok://never".into(), ..Default::default() };
    cloud.script_launch(crate::cloud::ScriptedLaunch::Returns(never));
    *cloud.instances.lock().unwrap() = Some(Vec::new());
    env.create_claim("a", json!({})).await;
    env.wait(250).await;
    assert!(
        env.only_claim().await.metadata.deletion_timestamp.is_none(),
        "liveness deletes a claim that never registered"
    );
}

// spec 04 #80
#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_was_deleted_stays_while_its_instance_exists() {
    let (env, cloud, node) = env_with_registered_claim("a").await;
    let id = env.only_claim().await.status.unwrap().provider_id.unwrap();
    *cloud.instances.lock().unwrap() = Some(vec![kerf_cloud::Instance { provider_id: id, ..Default::default() }]);
    env.patch::<Node>(&node, json!({"metadata": {"finalizers": null}})).await;
    env.api::<Node>().delete(&node, &DeleteParams::default()).await.unwrap();
    env.wait(600).await;
    assert!(env.only_claim().await.metadata.deletion_timestamp.is_none());
}

/// The opposite case: an instance without a claim. It remains if a claim is deleted before its
/// launch is recorded.
#[tokio::test(start_paused = true)]
async fn an_instance_without_a_claim_is_terminated() {
    let env = TestEnv::start().await;
    env.create_claim("a", json!({})).await;
    env.wait(3).await;
    let mut orphan = env.only_node().await;
    orphan.metadata.name = Some("kwok-stray".into());
    orphan.metadata.resource_version = None;
    orphan.metadata.uid = None;
    orphan.metadata.finalizers = None;
    orphan.metadata.owner_references = None;
    orphan.spec.as_mut().unwrap().provider_id = Some("kwok://kwok-stray".into());
    orphan.metadata.labels.as_mut().unwrap().insert("kubernetes.io/hostname".into(), "stray".into());
    env.create::<Node>(serde_json::to_value(orphan).unwrap()).await;
    env.wait(250).await;
    assert_ne!(env.only_node().await.metadata.name.unwrap(), "kwok-stray", "the node with a claim still exists");
}

/// Nodes that other tools simulate are not collected, whatever their provider IDs look like.
// spec 04 §1.6, #85
#[tokio::test(start_paused = true)]
async fn a_node_that_kerf_did_not_launch_is_ignored() {
    let env = TestEnv::start().await;
    let node = json!({"metadata": {"name": "u1", "labels": {"kubernetes.io/hostname": "u1", "type": "kwok"},
        "annotations": {"kwok.x-k8s.io/node": "fake"}}, "spec": {"providerID": "kwok://u1"}});
    env.create::<Node>(node).await;
    env.wait(250).await;
    let node = env.only_node().await.metadata;
    assert_eq!((node.name.as_deref(), node.deletion_timestamp), (Some("u1"), None));
}

// spec 04 #81
#[tokio::test(start_paused = true)]
async fn a_node_with_less_capacity_than_promised_is_reported() {
    let (env, _cloud, node) = env_with_registered_claim("a").await;
    env.make_ready(&node).await;
    env.wait(3).await;
    let promised = env.only_claim().await.status.unwrap().capacity.unwrap()["memory"].to_string();
    assert_eq!(promised, "4Gi");
    env.patch_status::<Node>(&node, json!({"capacity": {"memory": "2Gi"}})).await;
    env.wait(601).await;
    let expected = "expected 4Gi of resource memory, but found 2Gi (50.0% of expected)";
    assert_eq!(env.events("FailedConsistencyCheck"), [("a".into(), expected.into())]);
    assert_eq!(claim_condition(&env.only_claim().await, "ConsistentStateFound"), "False/ConsistencyCheckFailed");
    // 2.666 of 4 GiB, which rounds to 66.7%.
    env.patch_status::<Node>(&node, json!({"capacity": {"memory": "2863311530"}})).await;
    env.wait(601).await;
    let expected = "expected 4Gi of resource memory, but found 2863311530 (66.7% of expected)";
    assert_eq!(env.events("FailedConsistencyCheck")[1], ("a".into(), expected.into()));
    env.patch_status::<Node>(&node, json!({"capacity": {"memory": "4Gi"}})).await;
    env.wait(601).await;
    assert_eq!(claim_condition(&env.only_claim().await, "ConsistentStateFound"), "True/ConsistentStateFound");
}

// spec 04 #82
#[tokio::test(start_paused = true)]
async fn pod_events_are_recorded_on_the_claim() {
    let (env, _cloud, node) = env_with_registered_claim("a").await;
    let last_pod_event = async || env.only_claim().await.status.unwrap().last_pod_event_time.map(|time| time.0);
    env.pending_pod("p1", "100m", json!({})).await;
    env.pending_pod("p2", "100m", json!({})).await;
    env.pending_pod("p3", "100m", json!({})).await;
    env.wait(1).await;
    assert_eq!(last_pod_event().await, None);
    env.bind("p1", &node).await;
    env.wait(1).await;
    let first = last_pod_event().await.unwrap();
    env.wait(4).await;
    env.bind("p2", &node).await;
    env.wait(1).await;
    assert_eq!(last_pod_event().await, Some(first), "less than ten seconds later");
    env.wait(5).await;
    env.bind("p3", &node).await;
    env.wait(1).await;
    let second = last_pod_event().await.unwrap();
    assert!(second > first);
    env.wait(15).await;
    let daemon = json!({"metadata": {"name": "d", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    env.pods().create(&kube::api::PostParams::default(), &serde_json::from_value(daemon).unwrap()).await.unwrap();
    env.wait(2).await;
    assert_eq!(last_pod_event().await, Some(second), "daemon pods do not count");
}

// spec 04 §15 departure 14
#[tokio::test(start_paused = true)]
async fn a_restart_is_no_pod_event() {
    let (mut env, cloud, node) = env_with_registered_claim("a").await;
    env.pending_pod("p1", "100m", json!({})).await;
    env.bind("p1", &node).await;
    env.wait(2).await;
    let last_pod_event = env.only_claim().await.status.unwrap().last_pod_event_time.unwrap();
    env.wait(600).await;
    env.restart(cloud);
    env.wait(60).await;
    assert_eq!(env.only_claim().await.status.unwrap().last_pod_event_time.unwrap(), last_pod_event);
}

// spec 04 #83
#[tokio::test(start_paused = true)]
async fn a_missing_class_label_is_added() {
    let (env, _cloud, node) = env_with_registered_claim("a").await;
    let key = "karpenter.kwok.sh/kwoknodeclass";
    assert_eq!(env.only_claim().await.metadata.labels.unwrap()[key], "default");
    env.patch::<Node>(&node, json!({"metadata": {"labels": {key: null}}})).await;
    env.patch::<NodeClaim>("a", json!({"metadata": {"labels": {key: null}}})).await;
    env.wait(3).await;
    assert_eq!(env.only_claim().await.metadata.labels.unwrap()[key], "default");
    assert_eq!(env.only_node().await.metadata.labels.unwrap()[key], "default");
}

// spec 07 #37
#[tokio::test(start_paused = true)]
async fn unmanaged_nodes_have_no_events() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    let protected = json!({"karpenter.sh/do-not-disrupt": "true"});
    cluster.env.create::<Node>(json!({"metadata": {"name": "foreign", "annotations": protected}})).await;
    cluster.deploy("web", 1, "500m", json!({"metadata": {"annotations": protected}})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.running().await == 1).await;
    cluster.advance(120).await;
    let events = cluster.env.events("DisruptionBlocked");
    assert!(!events.is_empty(), "the managed node has an Event");
    assert!(events.iter().all(|(object, _)| object != "foreign"), "{events:?}");
}

// spec 04 §14.3, §15
#[tokio::test(start_paused = true)]
async fn a_restart_during_the_registration_delay_loses_no_instance() {
    let mut env = TestEnv::start().await;
    env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "30s"}})).await;
    env.create_claim("a", json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}})).await;
    env.wait(5).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Launched"), "True/Launched");
    assert!(env.list::<Node>().await.is_empty(), "the instance is still booting");
    env.restart(Arc::new(Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue())));
    env.wait(20).await;
    assert!(env.list::<Node>().await.is_empty(), "the delay runs from the launch, and 30 s have not passed");
    env.wait(10).await;
    let claim = env.only_claim().await;
    let provider_id = env.only_node().await.spec.unwrap().provider_id;
    assert_eq!(provider_id, claim.status.as_ref().unwrap().provider_id, "the recorded instance has registered");
    assert_eq!(claim_condition(&claim, "Registered"), "True/Registered");
    // The instance is terminated from outside: it must not come back.
    let node = env.only_node().await.metadata.name.unwrap();
    env.patch::<Node>(&node, json!({"metadata": {"finalizers": null}})).await;
    env.api::<Node>().delete(&node, &DeleteParams::default()).await.unwrap();
    env.wait(60).await;
    assert!(env.list::<Node>().await.is_empty());
}

//! Static capacity: a pool with `replicas` has exactly that many nodes (spec 04 §9).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::Node;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::CreateError;
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_sandbox::{Fault, Verb};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cloud::ScriptedCloud;
use crate::test_env::{TestEnv, pool};

/// Starts the controllers with the feature gate on and a pool with this spec.
async fn env_with_static_pool(spec: Value) -> (TestEnv, Arc<ScriptedCloud>) {
    let mut rig = TestEnv::without_controllers().await;
    rig.settings.static_capacity = true;
    rig.create::<NodePool>(pool("general", spec)).await;
    let cloud =
        Arc::new(ScriptedCloud::wrapping(Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue())));
    let rig = rig.start_controllers(cloud.clone()).await;
    rig.wait(3).await;
    (rig, cloud)
}

async fn scale(rig: &TestEnv, replicas: usize) {
    rig.patch::<NodePool>("general", json!({"spec": {"replicas": replicas}})).await;
}

/// Returns the names of claims that are not being deleted.
async fn remaining_claims(rig: &TestEnv) -> Vec<String> {
    let claims = rig.claims().await.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
    claims.map(|claim| claim.metadata.name.unwrap()).collect()
}

async fn node_of(rig: &TestEnv, claim: &str) -> String {
    rig.api::<NodeClaim>().get(claim).await.unwrap().status.unwrap().node_name.unwrap()
}

/// Creates a pod on a node. `metadata` is merged into its metadata.
async fn create_running_pod(rig: &TestEnv, name: &str, node: &str, metadata: Value) {
    let mut pod =
        json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    crate::test_env::merge(&mut pod["metadata"], metadata);
    rig.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

// spec 04 #113
#[tokio::test(start_paused = true)]
async fn a_static_pool_gets_its_nodes_from_its_template() {
    let requirements = json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
    let template = json!({"metadata": {"labels": {"team": "a"}}, "spec": {"requirements": requirements}});
    let (rig, _) = env_with_static_pool(json!({"replicas": 2, "template": template})).await;
    let claims = rig.claims().await;
    assert_eq!(claims.len(), 2);
    for claim in claims {
        assert_eq!(claim.spec.node_class_ref.name, "default");
        let labels = claim.metadata.labels.unwrap();
        assert_eq!((labels["team"].as_str(), labels["karpenter.sh/nodepool"].as_str()), ("a", "general"));
        assert_eq!(labels["kubernetes.io/arch"], "arm64", "the machine is what was asked for");
        let asked: Vec<&str> = claim.spec.requirements.iter().map(|r| r.key.as_str()).collect();
        assert!(asked.contains(&"kubernetes.io/arch") && asked.contains(&"team"), "{asked:?}");
        assert!(!asked.contains(&"node.kubernetes.io/instance-type"), "the provider chooses");
        assert!(claim.metadata.annotations.unwrap().contains_key("karpenter.sh/nodepool-hash"));
        assert_eq!(claim.metadata.owner_references.unwrap()[0].name, "general");
    }
    assert_eq!(rig.metrics.nodeclaims_created.get(&["provisioned", "general", "false"]), 2.0);
    scale(&rig, 5).await;
    rig.wait(3).await;
    assert_eq!(rig.list::<Node>().await.len(), 5);
    // A deleted claim is replaced.
    rig.delete_claim(&remaining_claims(&rig).await[0]).await;
    rig.wait(3).await;
    assert_eq!(remaining_claims(&rig).await.len(), 5);
}

// spec 04 #114
#[tokio::test(start_paused = true)]
async fn the_node_limit_holds() {
    let (rig, _) = env_with_static_pool(json!({"replicas": 15, "limits": {"nodes": "10"}})).await;
    rig.wait(100).await;
    assert_eq!(rig.claims().await.len(), 10);

    let (rig, _) = env_with_static_pool(json!({"replicas": 1, "limits": {"nodes": "1"}})).await;
    scale(&rig, 3).await;
    rig.wait(100).await;
    assert_eq!(rig.claims().await.len(), 1);
    rig.patch::<NodePool>("general", json!({"spec": {"limits": {"nodes": "2"}}})).await;
    rig.wait(2).await;
    assert_eq!(rig.claims().await.len(), 2);
}

// spec 04 #115
#[tokio::test(start_paused = true)]
async fn claims_that_are_on_their_way_count() {
    let (rig, cloud) = env_with_static_pool(json!({"replicas": 0})).await;
    rig.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "5m"}})).await;
    scale(&rig, 2).await;
    rig.wait(280).await;
    assert_eq!((rig.claims().await.len(), rig.list::<Node>().await.len()), (2, 0));
    // Claims that are not launched count as well.
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::Other("throttled".into()));
    scale(&rig, 4).await;
    rig.wait(120).await;
    assert_eq!(rig.claims().await.len(), 4);
}

// spec 04 #116
#[tokio::test(start_paused = true)]
async fn pools_that_are_not_meant_get_nothing() {
    let (rig, _) = env_with_static_pool(json!({})).await;
    let class = |name: &str| json!({"replicas": 2, "template": {"spec": {"nodeClassRef": {"name": name}}}});
    rig.create::<NodePool>(pool("not-ready", class("missing"))).await;
    let other = json!({"replicas": 2, "template": {"spec": {"nodeClassRef": {"kind": "OtherClass"}}}});
    rig.create::<NodePool>(pool("theirs", other)).await;
    let mut going = pool("going", json!({"replicas": 0}));
    going["metadata"]["finalizers"] = json!(["test/keep"]);
    rig.create::<NodePool>(going).await;
    rig.wait(3).await;
    rig.api::<NodePool>().delete("going", &DeleteParams::default()).await.unwrap();
    rig.patch::<NodePool>("going", json!({"spec": {"replicas": 2}})).await;
    rig.wait(200).await;
    assert_eq!(rig.claims().await, []);
    // Once its class exists, the pool is ready and gets its nodes.
    rig.create::<KWOKNodeClass>(json!({"metadata": {"name": "missing"}, "spec": {}})).await;
    rig.wait(3).await;
    assert_eq!(rig.claims().await.len(), 2);
}

/// The feature gate is off by default: a pool with replicas then gets no nodes.
#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_happens() {
    let rig = TestEnv::start().await;
    rig.create::<NodePool>(pool("static", json!({"replicas": 2}))).await;
    rig.wait(200).await;
    assert_eq!(rig.claims().await, []);
}

// spec 04 #108
#[tokio::test(start_paused = true)]
async fn a_static_pool_reports_what_it_has() {
    let (rig, cloud) = env_with_static_pool(json!({"replicas": 2})).await;
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::InsufficientCapacity("none left".into()));
    scale(&rig, 3).await;
    rig.wait(60).await;
    let tried = cloud.created.load(Ordering::SeqCst) - 2;
    assert!((3..10).contains(&tried), "the third was tried, and not all the time: {tried}");
    let status = rig.api::<NodePool>().get("general").await.unwrap().status.unwrap();
    assert_eq!(status.nodes, Some(2));
}

// spec 04 #117
#[tokio::test(start_paused = true)]
async fn what_is_going_anyway_is_not_too_many() {
    let (rig, _) = env_with_static_pool(json!({"replicas": 4})).await;
    // An active command is about to delete three of them.
    let ids: Vec<String> = rig.claims().await.into_iter().filter_map(|c| c.status.unwrap().provider_id).collect();
    for id in &ids[..3] {
        rig.cluster.lock().mark_for_deletion(id);
    }
    scale(&rig, 1).await;
    rig.wait(200).await;
    assert_eq!(remaining_claims(&rig).await.len(), 4);
    // The command is rolled back: now there are too many.
    for id in &ids[..3] {
        rig.cluster.lock().unmark_for_deletion(id);
    }
    rig.wait(61).await;
    assert_eq!(remaining_claims(&rig).await.len(), 1);
}

// spec 04 #118
#[tokio::test(start_paused = true)]
async fn those_go_first_whose_end_disturbs_least() {
    let (rig, cloud) = env_with_static_pool(json!({"replicas": 5})).await;
    let names = remaining_claims(&rig).await;
    let daemon = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}]});
    // In the order from the claim that is deleted last to the one that is deleted first.
    let kept = json!({"annotations": {"karpenter.sh/do-not-disrupt": "true", "controller.kubernetes.io/pod-deletion-cost": "-2147483648"}});
    create_running_pod(&rig, "kept", &node_of(&rig, &names[0]).await, kept).await;
    let dear = json!({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "2147483647"}});
    create_running_pod(&rig, "dear", &node_of(&rig, &names[1]).await, dear).await;
    create_running_pod(&rig, "plain", &node_of(&rig, &names[2]).await, json!({})).await;
    create_running_pod(&rig, "daemon", &node_of(&rig, &names[3]).await, daemon).await;
    for name in &names {
        rig.make_ready(&node_of(&rig, name).await).await;
    }
    // The last one has no instance yet.
    rig.delete_claim(&names[4]).await;
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::Other("throttled".into()));
    rig.wait(5).await;
    let unlaunched = remaining_claims(&rig).await.into_iter().find(|name| !names.contains(name)).unwrap();
    let mut left: Vec<&str> = [&unlaunched].into_iter().chain(names[..4].iter().rev()).map(String::as_str).collect();
    for replicas in (0..5).rev() {
        left.remove(0);
        scale(&rig, replicas).await;
        rig.wait(3).await;
        let mut expected = left.clone();
        expected.sort_unstable();
        assert_eq!(remaining_claims(&rig).await, expected, "{replicas} replicas");
    }
}

// spec 04 #119
#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_tried_again() {
    let (rig, _) = env_with_static_pool(json!({"replicas": 2})).await;
    rig.inject_fault(Fault::InternalError, Verb::Delete, "nodeclaims");
    scale(&rig, 1).await;
    rig.wait(3).await;
    assert_eq!(remaining_claims(&rig).await.len(), 2);
    assert!(rig.metrics.reconcile_errors.get(&["static.deprovisioning"]) > 0.0);
    assert_eq!(rig.cluster.lock().pool_claims("general").active, 2);
    rig.server.set_faults(Vec::new(), 1);
    rig.wait(60).await;
    assert_eq!(remaining_claims(&rig).await.len(), 1);
}

/// Pending pods lead to no more nodes, and a node without pods stays.
#[tokio::test(start_paused = true)]
async fn pods_neither_add_nor_take_away() {
    let (rig, _) = env_with_static_pool(json!({"replicas": 1, "disruption": {"consolidateAfter": "0s"}})).await;
    rig.make_ready(&rig.only_node().await.metadata.name.unwrap()).await;
    rig.pending_pod("huge", "1000", json!({})).await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    rig.pods().patch("huge", &PatchParams::default(), &patch).await.unwrap();
    rig.wait(600).await;
    assert_eq!(remaining_claims(&rig).await.len(), 1);
}

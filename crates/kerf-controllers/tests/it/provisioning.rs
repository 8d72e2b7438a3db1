//! Provisioning: from a pending pod to a ready node for it.

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodepool::NodePool;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::test_env::{TestEnv, claim_condition, pool, pool_condition};

#[tokio::test(start_paused = true)]
async fn a_pending_pod_leads_to_a_claim_an_instance_and_a_ready_node() {
    let env = TestEnv::start().await;
    let general: NodePool = env.api().get("general").await.unwrap();
    assert_eq!(pool_condition(&general, "Ready"), "True/Ready");

    env.pending_pod("web", "3", json!({})).await;
    env.wait(2).await;
    let claim = env.only_claim().await;
    let name = claim.metadata.name.clone().unwrap();
    assert!(name.starts_with("general-"), "{name}");
    assert_eq!(claim_condition(&claim, "Launched"), "True/Launched");
    assert_eq!(claim_condition(&claim, "Registered"), "True/Registered");
    assert_eq!(claim_condition(&claim, "Initialized"), "Unknown/NodeNotReady");
    assert_eq!(claim_condition(&claim, "Ready"), "Unknown/ReconcilingDependents");
    assert_eq!(claim.metadata.labels.as_ref().unwrap()["node.kubernetes.io/instance-type"], "c-4x-amd64-linux");
    assert_eq!(env.events("Nominated"), [("web".into(), format!("Pod should schedule on: nodeclaim/{name}"))]);

    let node = env.only_node().await;
    env.make_ready(node.metadata.name.as_deref().unwrap()).await;
    env.wait(2).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "Initialized"), "True/Initialized");
    assert_eq!(claim_condition(&claim, "Ready"), "True/Ready");
    assert_eq!(claim.status.unwrap().node_name, node.metadata.name);
    let labels = env.only_node().await.metadata.labels.unwrap();
    assert_eq!(labels["karpenter.sh/initialized"], "true");

    // The pod waits for its scheduler. It counts on the node that was launched for it, so nothing
    // else is launched.
    env.wait(60).await;
    env.only_claim().await;
    env.bind("web", node.metadata.name.as_deref().unwrap()).await;
    env.wait(60).await;
    let general: NodePool = env.api().get("general").await.unwrap();
    assert_eq!(general.status.as_ref().unwrap().nodes, Some(1));
    assert_eq!(general.status.unwrap().resources.unwrap()["cpu"].to_string(), "4");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_planned_node_was_taken_gets_another_at_once() {
    let env = TestEnv::start().await;
    env.pending_pod("web", "3", json!({})).await;
    env.wait(2).await;
    let node = env.only_node().await.metadata.name.unwrap();
    env.make_ready(&node).await;
    env.wait(2).await;
    // An unplanned pod arrives, and the scheduler binds it to the node that was launched for the
    // other.
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}});
    let quick = json!({"metadata": {"name": "quick", "namespace": "default"}, "spec": {"containers": [container]}});
    env.pods().create(&PostParams::default(), &serde_json::from_value(quick).unwrap()).await.unwrap();
    env.bind("quick", &node).await;
    env.wait(2).await;
    assert_eq!(env.claims().await.len(), 2, "the pod is placed again at once, not ten seconds after its first trigger");
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_batch_share_instances() {
    let env = TestEnv::start().await;
    for n in 0..20 {
        env.pending_pod(&format!("web-{n}"), "900m", json!({})).await;
    }
    env.wait(3).await;
    let claims = env.claims().await.len();
    assert!((1..=10).contains(&claims), "{claims} claims for 20 small pods");
    assert!(env.cpus().await >= 18);
}

// spec 02 #10, #18, spec 07 #33
#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_has_an_event_with_the_reason() {
    let env = TestEnv::start().await;
    env.pending_pod("huge", "10k", json!({})).await;
    env.pending_pod("choosy", "1", json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}]}}}}))
        .await;
    env.wait(30).await;
    assert_eq!(env.claims().await, []);
    let events = env.events("FailedScheduling");
    assert!(
        events.iter().all(|(pod, message)| pod == "huge" && message.starts_with("Failed to schedule pod, ")),
        "{events:?}"
    );
    assert!(!events.is_empty());
}

// spec 02 #54
#[tokio::test(start_paused = true)]
async fn limits_hold() {
    let env = TestEnv::start().await;
    env.create::<NodePool>(pool("small", json!({"limits": {"cpu": "2"}, "weight": 10}))).await;
    env.patch::<NodePool>("general", json!({"spec": {"limits": {"cpu": "0"}}})).await;
    env.wait(1).await;
    env.pending_pod("a", "1500m", json!({})).await;
    env.wait(3).await;
    let claim = env.only_claim().await;
    assert_eq!(claim.metadata.labels.unwrap()["karpenter.sh/nodepool"], "small");
    env.pending_pod("b", "1500m", json!({})).await;
    env.wait(30).await;
    env.only_claim().await;
    assert!(env.events("FailedScheduling").iter().any(|(pod, why)| pod == "b" && why.contains("limits")));
}

// spec 02 #14
#[tokio::test(start_paused = true)]
async fn pods_of_a_disrupted_node_get_a_new_one() {
    let env = TestEnv::start().await;
    env.pending_pod("web", "3", json!({})).await;
    env.wait(3).await;
    let first = env.only_claim().await;
    let node = env.only_node().await.metadata.name.unwrap();
    env.make_ready(&node).await;
    env.bind("web", &node).await;
    env.wait(3).await;
    // A StatefulSet recreates its pod under the same name, so the pod is reschedulable also while
    // it terminates.
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": true});
    let owned = Patch::Merge(json!({"metadata": {"ownerReferences": [owner]}}));
    env.pods().patch("web", &PatchParams::default(), &owned).await.unwrap();
    // The node is disrupted; its taint triggers provisioning.
    env.delete_claim(first.metadata.name.as_deref().unwrap()).await;
    env.patch::<Node>(&node, json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}))
        .await;
    env.wait(5).await;
    let claims = env.claims().await;
    assert_eq!(claims.len(), 2, "the pod gets an instance before it is evicted");
    assert!(claims.iter().any(|claim| claim.metadata.deletion_timestamp.is_none()));
}

//! Nodes that register and are never Ready (spec 04 §5.6).

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodepool::NodePool;
use serde_json::json;

use crate::test_env::{TestEnv, claim_condition};

const REPLACES: &str = "kerf.sh/replaces-never-ready";

// spec 04 #148
#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_is_never_ready_is_replaced_once() {
    let env = TestEnv::start().await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(5).await;
    let first = env.only_claim().await.metadata.name.unwrap();
    let node = env.only_node().await.metadata.name.unwrap();
    env.wait(60).await;
    // The kubelet reports once and then never again.
    env.set_ready_condition(&node, "False").await;
    env.wait(60).await;
    env.set_ready_condition(&node, "Unknown").await;
    env.wait(27 * 60).await;
    assert_eq!(env.only_claim().await.metadata.name.as_deref(), Some(first.as_str()));
    env.wait(6 * 60).await;
    let second = env.only_claim().await;
    assert_eq!(second.metadata.annotations.as_ref().unwrap()[REPLACES], first);
    assert_eq!(claim_condition(&second, "Registered"), "True/Registered");
    let events = env.events("NodeNeverReady");
    assert!(events.iter().any(|(object, _)| *object == first), "{events:?}");
    // The replacement is not Ready either. It stays, because the cause is not the instance.
    env.wait(2 * 3600).await;
    assert_eq!(env.only_claim().await.metadata.name, second.metadata.name);

    // Another node of the NodePool becomes Ready, so the cause was the instance after all.
    env.create_claim("other", json!({})).await;
    env.wait(5).await;
    let claims = env.claims().await;
    let other = claims.iter().find(|claim| claim.metadata.name.as_deref() == Some("other")).unwrap();
    env.make_ready(other.status.as_ref().unwrap().node_name.as_deref().unwrap()).await;
    env.wait(10 * 60).await;
    assert!(env.claims().await.iter().all(|claim| claim.metadata.name != second.metadata.name));
}

// spec 04 #149
#[tokio::test(start_paused = true)]
async fn a_node_that_was_ready_once_stays() {
    let env = TestEnv::start().await;
    let startup = json!([{"key": "example.com/slow", "effect": "NoSchedule"}]);
    env.patch::<NodePool>("general", json!({"spec": {"template": {"spec": {"startupTaints": startup}}}})).await;
    env.wait(2).await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(5).await;
    let node = env.only_node().await.metadata.name.unwrap();
    env.make_ready(&node).await;
    env.wait(60).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "Initialized"), "Unknown/StartupTaintsExist");
    env.wait(3600).await;
    assert_eq!(env.only_claim().await.metadata.name, claim.metadata.name, "startup taints may stay for any time");
    env.set_ready_condition(&node, "False").await;
    env.wait(3600).await;
    assert_eq!(env.only_claim().await.metadata.name, claim.metadata.name);
    assert_eq!(env.list::<Node>().await.len(), 1);
}

// spec 04 #150
#[tokio::test(start_paused = true)]
async fn a_node_that_is_never_ready_and_that_no_pod_waits_for_is_deleted() {
    let env = TestEnv::start().await;
    env.create_claim("a", json!({})).await;
    env.wait(29 * 60).await;
    env.only_claim().await;
    env.wait(2 * 60).await;
    assert_eq!(env.claims().await, []);
}

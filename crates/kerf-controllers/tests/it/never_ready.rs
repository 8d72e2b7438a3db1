//! Nodes that register and are never Ready (spec 04 §5.6).

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use serde_json::json;

use crate::test_env::{TestEnv, claim_condition};

const REPLACES: &str = "kerf.sh/replaces-never-ready";
const REPLACEMENTS: &str = "kerf.sh/never-ready-replacements";

/// Returns the value of an annotation of a claim.
fn annotation<'c>(claim: &'c NodeClaim, key: &str) -> &'c str {
    &claim.metadata.annotations.as_ref().unwrap()[key]
}

// spec 04 #148
#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_is_never_ready_is_replaced_in_doubling_intervals() {
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
    env.wait(2 * 60).await;
    let mut claim = env.only_claim().await;
    assert_eq!(annotation(&claim, REPLACES), first);
    assert_eq!(annotation(&claim, REPLACEMENTS), "1");
    assert_eq!(claim_condition(&claim, "Registered"), "True/Registered");
    let events = env.events("NodeNeverReady");
    assert!(events.iter().any(|(object, text)| *object == first && text.contains("within 30 minutes")), "{events:?}");

    // No replacement is Ready either. Each has twice the time of the one before, at most 8 hours.
    for (count, hours) in [(2, 1), (3, 2), (4, 4), (5, 8), (6, 8)] {
        env.wait(hours * 3600 - 5 * 60).await;
        assert_eq!(env.only_claim().await.metadata.name, claim.metadata.name, "before {hours} hours");
        env.wait(6 * 60).await;
        let next = env.only_claim().await;
        assert_eq!(annotation(&next, REPLACES), claim.metadata.name.unwrap(), "after {hours} hours");
        assert_eq!(annotation(&next, REPLACEMENTS), count.to_string());
        claim = next;
    }
    let events = env.events("NodeNeverReady");
    assert!(events.iter().any(|(_, text)| text.contains("within 480 minutes")), "{events:?}");
}

// spec 04 #148
#[tokio::test(start_paused = true)]
async fn a_replacement_has_half_of_the_time_if_another_claim_of_its_pool_is_initialized() {
    let env = TestEnv::start().await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(32 * 60).await;
    let second = env.only_claim().await;
    assert_eq!(annotation(&second, REPLACEMENTS), "1");
    env.wait(40 * 60).await;
    assert_eq!(env.only_claim().await.metadata.name, second.metadata.name, "the first replacement has an hour");
    // Another node of the NodePool becomes Ready, so the cause was the instance after all.
    env.create_claim("other", json!({})).await;
    env.wait(5).await;
    let claims = env.claims().await;
    let other = claims.iter().find(|claim| claim.metadata.name.as_deref() == Some("other")).unwrap();
    env.make_ready(other.status.as_ref().unwrap().node_name.as_deref().unwrap()).await;
    env.wait(6 * 60).await;
    assert!(env.claims().await.iter().all(|claim| claim.metadata.name != second.metadata.name));
}

// spec 04 #148
#[tokio::test(start_paused = true)]
async fn a_late_replacement_has_half_of_the_longest_time_too() {
    let env = TestEnv::start().await;
    env.create_claim("late", json!({})).await;
    let annotations = json!({"metadata": {"annotations": {REPLACES: "x", REPLACEMENTS: "7"}}});
    env.patch::<NodeClaim>("late", annotations).await;
    env.wait(5).await;
    env.create_claim("other", json!({})).await;
    env.wait(5).await;
    let claims = env.claims().await;
    let other = claims.iter().find(|claim| claim.metadata.name.as_deref() == Some("other")).unwrap();
    env.make_ready(other.status.as_ref().unwrap().node_name.as_deref().unwrap()).await;
    env.wait(4 * 3600 - 10 * 60).await;
    assert_eq!(env.claims().await.len(), 2, "before half of 8 hours");
    env.wait(16 * 60).await;
    let claims = env.claims().await;
    assert!(claims.iter().all(|claim| claim.metadata.name.as_deref() != Some("late")), "after half of 8 hours");
    let events = env.events("NodeNeverReady");
    assert!(events.iter().any(|(object, text)| object == "late" && text.contains("within 240 minutes")), "{events:?}");
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

//! Node repair: nodes that are unhealthy by the provider's policies are replaced, unless too many
//! are (spec 03 §12.3).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::RepairPolicy;
use kerf_kwok::{Kwok, built_in_catalogue};
use serde_json::json;

use crate::cloud::ScriptedCloud;
use crate::test_env::{TestEnv, pool};

const TERMINATION: &str = "karpenter.sh/nodeclaim-termination-timestamp";

/// Creates a cluster of ready nodes of one pool, with or without node repair.
async fn env_with_ready_nodes(nodes: usize, is_enabled: bool, policies: Vec<RepairPolicy>) -> TestEnv {
    let mut env = TestEnv::without_controllers().await;
    env.settings.node_repair = is_enabled;
    let spec = json!({"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}});
    env.create::<NodePool>(pool("general", spec)).await;
    let mut cloud = ScriptedCloud::wrapping(Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue()));
    if !policies.is_empty() {
        cloud.repair = Some(policies);
    }
    let env = env.start_controllers(Arc::new(cloud)).await;
    for n in 0..nodes {
        env.create_claim(&format!("n{n}"), json!({})).await;
    }
    env.wait(3).await;
    for node in env.list::<Node>().await {
        env.make_ready(&node.metadata.name.unwrap()).await;
    }
    env.wait(3).await;
    env
}

async fn node_of(env: &TestEnv, claim: &str) -> String {
    env.api::<NodeClaim>().get(claim).await.unwrap().status.unwrap().node_name.unwrap()
}

/// Returns the number of claims that are not being deleted.
async fn count_remaining(env: &TestEnv) -> usize {
    env.claims().await.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()).count()
}

// spec 03 #119: three of ten are too many.
#[tokio::test(start_paused = true)]
async fn if_many_nodes_are_unhealthy_none_is_repaired() {
    let env = env_with_ready_nodes(10, true, Vec::new()).await;
    for claim in ["n0", "n1", "n2"] {
        let node = node_of(&env, claim).await;
        env.set_ready_condition(&node, "False").await;
    }
    env.wait(660).await;
    assert_eq!(count_remaining(&env).await, 10);
    let events = env.events("NodeRepairBlocked");
    assert!(
        events.iter().all(|(_, message)| message == "more than 20% nodes are unhealthy in the nodepool"),
        "{events:?}"
    );
    let mut objects: Vec<&str> =
        events.iter().map(|(object, _)| object.as_str()).filter(|name| name.len() < 8).collect();
    objects.sort_unstable();
    assert_eq!(objects, ["general", "n0", "n1", "n2"], "the Events are about claims, pool and nodes: {events:?}");
    assert_eq!(events.len(), 7);
    // Once one node recovers, the others are checked again within five minutes.
    let node = node_of(&env, "n2").await;
    env.set_ready_condition(&node, "True").await;
    env.wait(301).await;
    assert_eq!(count_remaining(&env).await, 8);
}

// spec 03 #119: one of three is not too many, and nothing protects the node.
#[tokio::test(start_paused = true)]
async fn an_unhealthy_node_is_replaced_whatever_protects_it() {
    let env = env_with_ready_nodes(3, true, Vec::new()).await;
    let node = node_of(&env, "n0").await;
    env.patch::<Node>(&node, json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})).await;
    env.set_ready_condition(&node, "Unknown").await;
    env.wait(598).await;
    assert_eq!(count_remaining(&env).await, 3);
    env.wait(3).await;
    assert_eq!(count_remaining(&env).await, 2);
    let metrics = &env.metrics;
    assert_eq!(metrics.nodeclaims_disrupted.get(&["unhealthy", "general", "spot", "", "graceful"]), 1.0);
    assert_eq!(metrics.nodeclaims_unhealthy_disrupted.get(&["ready", "general", "spot", ""]), 1.0);
    env.wait(30).await;
    assert_eq!(env.claims().await.len(), 2, "the drain waits for no pod");
}

// spec 03 #119: of two policies the one that is due first applies.
#[tokio::test(start_paused = true)]
async fn the_policy_that_is_due_first_applies() {
    let minutes = |n: u64| std::time::Duration::from_mins(n);
    let policies = vec![
        RepairPolicy { condition: "Ready", status: "False", toleration: minutes(60) },
        RepairPolicy { condition: "KernelReady", status: "False", toleration: minutes(30) },
    ];
    let env = env_with_ready_nodes(3, true, policies).await;
    let node = node_of(&env, "n0").await;
    let unhealthy = |kind: &str| json!({"type": kind, "status": "False", "lastTransitionTime": env.clock.now(), "lastHeartbeatTime": env.clock.now()});
    env.patch_status::<Node>(&node, json!({"conditions": [unhealthy("Ready"), unhealthy("KernelReady")]})).await;
    env.wait(30 * 60 - 2).await;
    assert_eq!(count_remaining(&env).await, 3);
    env.wait(3).await;
    assert_eq!(count_remaining(&env).await, 2);
    assert_eq!(env.metrics.nodeclaims_unhealthy_disrupted.get(&["kernel_ready", "general", "spot", ""]), 1.0);
}

// spec 03 #120: an existing termination timestamp, and conditions that no policy names.
#[tokio::test(start_paused = true)]
async fn a_future_termination_timestamp_is_replaced_by_now() {
    for (written, is_kept) in [("2026-01-01T02:10:00Z", false), ("2025-12-31T00:00:00Z", true)] {
        let env = env_with_ready_nodes(3, true, Vec::new()).await;
        let node = node_of(&env, "n0").await;
        // Another finalizer keeps the claim, so that its annotation can be read.
        let patch = json!({"metadata": {"annotations": {TERMINATION: written}, "finalizers": ["karpenter.sh/termination", "test/keep"]}});
        env.patch::<NodeClaim>("n0", patch).await;
        env.set_ready_condition(&node, "False").await;
        env.wait(602).await;
        let claim = env.api::<NodeClaim>().get("n0").await.unwrap();
        assert!(claim.metadata.deletion_timestamp.is_some());
        let end = claim.metadata.annotations.unwrap()[TERMINATION].clone();
        assert_eq!(end == written, is_kept, "{end}");
        assert!(end.parse::<jiff::Timestamp>().unwrap() <= env.clock.now());
    }
}

// spec 03 #120, and the feature gate, which is off by default.
#[tokio::test(start_paused = true)]
async fn conditions_without_a_policy_cause_no_repair() {
    let env = env_with_ready_nodes(3, true, Vec::new()).await;
    let node = node_of(&env, "n0").await;
    let at = env.clock.now();
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": at, "lastHeartbeatTime": at});
    env.patch_status::<Node>(
        &node,
        json!({"conditions": [condition("Ready", "True"), condition("DiskPressure", "True")]}),
    )
    .await;
    env.wait(3600).await;
    assert_eq!(count_remaining(&env).await, 3);

    let env = env_with_ready_nodes(3, false, Vec::new()).await;
    let node = node_of(&env, "n0").await;
    env.set_ready_condition(&node, "False").await;
    env.wait(3600).await;
    assert_eq!(count_remaining(&env).await, 3);
}

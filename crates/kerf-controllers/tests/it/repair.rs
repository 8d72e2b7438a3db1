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
async fn env_with_ready_nodes(nodes: usize, is_on: bool, policies: Vec<RepairPolicy>) -> TestEnv {
    let mut rig = TestEnv::without_controllers().await;
    rig.settings.node_repair = is_on;
    let none = json!({"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}});
    rig.create::<NodePool>(pool("general", none)).await;
    let mut cloud = ScriptedCloud::wrapping(Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue()));
    if !policies.is_empty() {
        cloud.repair = Some(policies);
    }
    let rig = rig.start_controllers(Arc::new(cloud)).await;
    for n in 0..nodes {
        rig.create_claim(&format!("n{n}"), json!({})).await;
    }
    rig.wait(3).await;
    for node in rig.list::<Node>().await {
        rig.make_ready(&node.metadata.name.unwrap()).await;
    }
    rig.wait(3).await;
    rig
}

async fn node_of(rig: &TestEnv, claim: &str) -> String {
    rig.api::<NodeClaim>().get(claim).await.unwrap().status.unwrap().node_name.unwrap()
}

/// Returns the number of claims that are not being deleted.
async fn count_remaining(rig: &TestEnv) -> usize {
    rig.claims().await.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()).count()
}

// spec 03 #119: three of ten are too many.
#[tokio::test(start_paused = true)]
async fn if_many_nodes_are_broken_none_is_repaired() {
    let rig = env_with_ready_nodes(10, true, Vec::new()).await;
    for claim in ["n0", "n1", "n2"] {
        let node = node_of(&rig, claim).await;
        rig.set_ready_condition(&node, "False").await;
    }
    rig.wait(660).await;
    assert_eq!(count_remaining(&rig).await, 10);
    let told = rig.events("NodeRepairBlocked");
    assert!(told.iter().all(|(_, message)| message == "more than 20% nodes are unhealthy in the nodepool"), "{told:?}");
    let mut about: Vec<&str> = told.iter().map(|(about, _)| about.as_str()).filter(|name| name.len() < 8).collect();
    about.sort_unstable();
    assert_eq!(about, ["general", "n0", "n1", "n2"], "each claim and the pool, and the nodes: {told:?}");
    assert_eq!(told.len(), 7);
    // Once one node recovers, the others are checked again within five minutes.
    let node = node_of(&rig, "n2").await;
    rig.set_ready_condition(&node, "True").await;
    rig.wait(301).await;
    assert_eq!(count_remaining(&rig).await, 8);
}

// spec 03 #119: one of three is not too many, and nothing protects the node.
#[tokio::test(start_paused = true)]
async fn a_broken_node_is_replaced_whatever_protects_it() {
    let rig = env_with_ready_nodes(3, true, Vec::new()).await;
    let node = node_of(&rig, "n0").await;
    rig.patch::<Node>(&node, json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})).await;
    rig.set_ready_condition(&node, "Unknown").await;
    rig.wait(598).await;
    assert_eq!(count_remaining(&rig).await, 3);
    rig.wait(3).await;
    assert_eq!(count_remaining(&rig).await, 2);
    let metrics = &rig.metrics;
    assert_eq!(metrics.nodeclaims_disrupted.get(&["unhealthy", "general", "spot", "", "graceful"]), 1.0);
    assert_eq!(metrics.nodeclaims_unhealthy_disrupted.get(&["ready", "general", "spot", ""]), 1.0);
    rig.wait(30).await;
    assert_eq!(rig.claims().await.len(), 2, "its drain waits for nobody");
}

// spec 03 #119: of two policies the one that is due first applies.
#[tokio::test(start_paused = true)]
async fn the_policy_that_is_due_first_counts() {
    let minutes = |n: u64| std::time::Duration::from_mins(n);
    let policies = vec![
        RepairPolicy { condition: "Ready", status: "False", toleration: minutes(60) },
        RepairPolicy { condition: "KernelReady", status: "False", toleration: minutes(30) },
    ];
    let rig = env_with_ready_nodes(3, true, policies).await;
    let node = node_of(&rig, "n0").await;
    let bad = |kind: &str| json!({"type": kind, "status": "False", "lastTransitionTime": rig.clock.now(), "lastHeartbeatTime": rig.clock.now()});
    rig.patch_status::<Node>(&node, json!({"conditions": [bad("Ready"), bad("KernelReady")]})).await;
    rig.wait(30 * 60 - 2).await;
    assert_eq!(count_remaining(&rig).await, 3);
    rig.wait(3).await;
    assert_eq!(count_remaining(&rig).await, 2);
    assert_eq!(rig.metrics.nodeclaims_unhealthy_disrupted.get(&["kernel_ready", "general", "spot", ""]), 1.0);
}

// spec 03 #120: an existing termination timestamp, and conditions that no policy names.
#[tokio::test(start_paused = true)]
async fn an_end_that_is_still_to_come_is_brought_forward() {
    for (written, is_kept) in [("2026-01-01T02:10:00Z", false), ("2025-12-31T00:00:00Z", true)] {
        let rig = env_with_ready_nodes(3, true, Vec::new()).await;
        let node = node_of(&rig, "n0").await;
        // Another finalizer keeps the claim, so that its annotation can be read.
        let ending = json!({"metadata": {"annotations": {TERMINATION: written}, "finalizers": ["karpenter.sh/termination", "test/keep"]}});
        rig.patch::<NodeClaim>("n0", ending).await;
        rig.set_ready_condition(&node, "False").await;
        rig.wait(602).await;
        let claim = rig.api::<NodeClaim>().get("n0").await.unwrap();
        assert!(claim.metadata.deletion_timestamp.is_some());
        let end = claim.metadata.annotations.unwrap()[TERMINATION].clone();
        assert_eq!(end == written, is_kept, "{end}");
        assert!(end.parse::<jiff::Timestamp>().unwrap() <= rig.clock.now());
    }
}

// spec 03 #120, and the feature gate, which is off by default.
#[tokio::test(start_paused = true)]
async fn what_no_policy_names_is_no_reason() {
    let rig = env_with_ready_nodes(3, true, Vec::new()).await;
    let node = node_of(&rig, "n0").await;
    let at = rig.clock.now();
    let said = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": at, "lastHeartbeatTime": at});
    rig.patch_status::<Node>(&node, json!({"conditions": [said("Ready", "True"), said("DiskPressure", "True")]})).await;
    rig.wait(3600).await;
    assert_eq!(count_remaining(&rig).await, 3);

    let rig = env_with_ready_nodes(3, false, Vec::new()).await;
    let node = node_of(&rig, "n0").await;
    rig.set_ready_condition(&node, "False").await;
    rig.wait(3600).await;
    assert_eq!(count_remaining(&rig).await, 3);
}

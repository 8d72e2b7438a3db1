//! Nodes end well: drained first, gone afterwards, and what ran on them runs elsewhere.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use super::scenario_cluster::{ScenarioCluster, node_of, scenario};

/// Two pods on one node.
async fn settled(g: &mut ScenarioCluster, pool: serde_json::Value) -> (NodeClaim, Node) {
    g.pool("general", pool).await;
    g.start();
    g.deployment("web", 2, "1", json!({})).await;
    g.until_running("web", 2).await;
    g.until_initialized(1).await;
    (g.claims().await.remove(0), g.node().await)
}

async fn gone(g: &ScenarioCluster, claim: &NodeClaim, node: &Node) {
    g.until("claim and node are gone", async || {
        g.all::<NodeClaim>().get_opt(&claim.name_any()).await.unwrap().is_none()
            && g.all::<Node>().get_opt(&node.name_any()).await.unwrap().is_none()
    })
    .await;
}

// spec 07 section 13, O
#[test]
fn a_deleted_claim_moves_its_pods() {
    scenario(async |g| {
        let (claim, node) = settled(g, json!({})).await;
        g.all::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        gone(g, &claim, &node).await;
        g.until_running("web", 2).await;
        assert!(g.pods("web").await.iter().all(|pod| node_of(pod) != node.name_any()));
    });
}

// spec 07 section 13, O
#[test]
fn a_deleted_node_takes_its_claim_along() {
    scenario(async |g| {
        let (claim, node) = settled(g, json!({})).await;
        g.all::<Node>().delete(&node.name_any(), &DeleteParams::default()).await.unwrap();
        gone(g, &claim, &node).await;
        g.until_running("web", 2).await;
    });
}

// spec 07 section 13, O
#[test]
fn a_deleted_pool_takes_all_its_nodes_along() {
    scenario(async |g| {
        let (claim, node) = settled(g, json!({})).await;
        g.all::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
        gone(g, &claim, &node).await;
        assert_eq!(g.running("web").await, 0, "there is no pool for them any more");
    });
}

// spec 07 section 13, P
#[test]
fn a_budget_that_never_allows_holds_a_node_until_it_does() {
    scenario(async |g| {
        let (claim, node) = settled(g, json!({})).await;
        let budget = json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
        g.place::<PodDisruptionBudget>(budget).await;
        g.until("the budget is counted", async || {
            let budget = g.own::<PodDisruptionBudget>().get("all").await.unwrap();
            budget.status.is_some_and(|status| status.current_healthy == Some(2))
        })
        .await;
        g.all::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        g.wait(10).await;
        assert_eq!(g.pods("web").await.iter().filter(|pod| node_of(pod) == node.name_any()).count(), 2, "none may go");
        assert!(g.all::<Node>().get_opt(&node.name_any()).await.unwrap().is_some());
        g.own::<PodDisruptionBudget>().delete("all", &DeleteParams::default()).await.unwrap();
        gone(g, &claim, &node).await;
        g.until_running("web", 2).await;
    });
}

// spec 07 section 13, P
#[test]
fn a_grace_period_ends_what_a_budget_would_hold_for_ever() {
    scenario(async |g| {
        let (claim, node) = settled(g, json!({"template": {"spec": {"terminationGracePeriod": "20s"}}})).await;
        let budget = json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
        g.place::<PodDisruptionBudget>(budget).await;
        g.until("the budget is counted", async || {
            let budget = g.own::<PodDisruptionBudget>().get("all").await.unwrap();
            budget.status.is_some_and(|status| status.current_healthy == Some(2))
        })
        .await;
        g.all::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        gone(g, &claim, &node).await;
    });
}

#[test]
fn nobody_is_placed_on_a_node_that_goes() {
    scenario(async |g| {
        let (claim, node) = settled(g, json!({})).await;
        let budget = json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
        g.place::<PodDisruptionBudget>(budget).await;
        g.until("the budget is counted", async || {
            let budget = g.own::<PodDisruptionBudget>().get("all").await.unwrap();
            budget.status.is_some_and(|status| status.current_healthy == Some(2))
        })
        .await;
        g.all::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        g.until("the node is tainted", async || {
            let node = g.all::<Node>().get(&node.name_any()).await.unwrap();
            node.spec
                .iter()
                .flat_map(|spec| spec.taints.iter().flatten())
                .any(|taint| taint.key == "karpenter.sh/disrupted")
        })
        .await;
        g.deployment("late", 1, "100m", json!({})).await;
        g.until_running("late", 1).await;
        assert!(g.pods("late").await.iter().all(|pod| node_of(pod) != node.name_any()));
    });
}

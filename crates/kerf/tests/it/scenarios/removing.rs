//! Termination: a node is drained before it is deleted, and its pods run elsewhere.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use super::scenario_cluster::{ScenarioCluster, node_of, run_scenario};

/// Starts Kerf with two pods on one node.
async fn start_with_two_pods(g: &mut ScenarioCluster, pool: serde_json::Value) -> (NodeClaim, Node) {
    g.create_pool("general", pool).await;
    g.start_kerf();
    g.create_deployment("web", 2, "1", json!({})).await;
    g.wait_until_running("web", 2).await;
    g.wait_until_initialized(1).await;
    (g.claims().await.remove(0), g.only_node().await)
}

async fn wait_until_gone(g: &ScenarioCluster, claim: &NodeClaim, node: &Node) {
    g.wait_until("claim and node are gone", async || {
        g.cluster_scoped::<NodeClaim>().get_opt(&claim.name_any()).await.unwrap().is_none()
            && g.cluster_scoped::<Node>().get_opt(&node.name_any()).await.unwrap().is_none()
    })
    .await;
}

// spec 07 section 13, O
#[test]
fn a_deleted_claim_moves_its_pods() {
    run_scenario(async |g| {
        let (claim, node) = start_with_two_pods(g, json!({})).await;
        g.cluster_scoped::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        wait_until_gone(g, &claim, &node).await;
        g.wait_until_running("web", 2).await;
        assert!(g.pods("web").await.iter().all(|pod| node_of(pod) != node.name_any()));
    });
}

// spec 07 section 13, O
#[test]
fn a_deleted_node_takes_its_claim_along() {
    run_scenario(async |g| {
        let (claim, node) = start_with_two_pods(g, json!({})).await;
        g.cluster_scoped::<Node>().delete(&node.name_any(), &DeleteParams::default()).await.unwrap();
        wait_until_gone(g, &claim, &node).await;
        g.wait_until_running("web", 2).await;
    });
}

// spec 07 section 13, O
#[test]
fn a_deleted_pool_takes_all_its_nodes_along() {
    run_scenario(async |g| {
        let (claim, node) = start_with_two_pods(g, json!({})).await;
        g.cluster_scoped::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
        wait_until_gone(g, &claim, &node).await;
        assert_eq!(g.running_pods("web").await, 0, "there is no pool for them any more");
    });
}

// spec 07 section 13, P
#[test]
fn a_budget_that_never_allows_holds_a_node_until_it_does() {
    run_scenario(async |g| {
        let (claim, node) = start_with_two_pods(g, json!({})).await;
        let budget = json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
        g.create_namespaced::<PodDisruptionBudget>(budget).await;
        g.wait_until("the budget is counted", async || {
            let budget = g.namespaced::<PodDisruptionBudget>().get("all").await.unwrap();
            budget.status.is_some_and(|status| status.current_healthy == Some(2))
        })
        .await;
        g.cluster_scoped::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        g.sleep_seconds(10).await;
        assert_eq!(g.pods("web").await.iter().filter(|pod| node_of(pod) == node.name_any()).count(), 2, "none may go");
        assert!(g.cluster_scoped::<Node>().get_opt(&node.name_any()).await.unwrap().is_some());
        g.namespaced::<PodDisruptionBudget>().delete("all", &DeleteParams::default()).await.unwrap();
        wait_until_gone(g, &claim, &node).await;
        g.wait_until_running("web", 2).await;
    });
}

// spec 07 section 13, P
#[test]
fn a_grace_period_ends_what_a_budget_would_hold_for_ever() {
    run_scenario(async |g| {
        let (claim, node) =
            start_with_two_pods(g, json!({"template": {"spec": {"terminationGracePeriod": "20s"}}})).await;
        let budget = json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
        g.create_namespaced::<PodDisruptionBudget>(budget).await;
        g.wait_until("the budget is counted", async || {
            let budget = g.namespaced::<PodDisruptionBudget>().get("all").await.unwrap();
            budget.status.is_some_and(|status| status.current_healthy == Some(2))
        })
        .await;
        g.cluster_scoped::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        wait_until_gone(g, &claim, &node).await;
    });
}

#[test]
fn nobody_is_placed_on_a_node_that_goes() {
    run_scenario(async |g| {
        let (claim, node) = start_with_two_pods(g, json!({})).await;
        let budget = json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
        g.create_namespaced::<PodDisruptionBudget>(budget).await;
        g.wait_until("the budget is counted", async || {
            let budget = g.namespaced::<PodDisruptionBudget>().get("all").await.unwrap();
            budget.status.is_some_and(|status| status.current_healthy == Some(2))
        })
        .await;
        g.cluster_scoped::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        g.wait_until("the node is tainted", async || {
            let node = g.cluster_scoped::<Node>().get(&node.name_any()).await.unwrap();
            node.spec
                .iter()
                .flat_map(|spec| spec.taints.iter().flatten())
                .any(|taint| taint.key == "karpenter.sh/disrupted")
        })
        .await;
        g.create_deployment("late", 1, "100m", json!({})).await;
        g.wait_until_running("late", 1).await;
        assert!(g.pods("late").await.iter().all(|pod| node_of(pod) != node.name_any()));
    });
}

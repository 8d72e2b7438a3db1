//! Termination: a node is drained before it is deleted, and its pods run elsewhere.

use std::cell::RefCell;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use super::scenario_cluster::{ScenarioCluster, node_of, run_scenario};

/// Starts Kerf with two pods on one node.
async fn start_with_two_pods(cluster: &mut ScenarioCluster, pool: serde_json::Value) -> (NodeClaim, Node) {
    cluster.create_pool("general", pool).await;
    cluster.start_kerf();
    cluster.create_deployment("web", 2, "1", json!({})).await;
    cluster.wait_until_running("web", 2).await;
    cluster.wait_until_initialized(1).await;
    (cluster.claims().await.remove(0), cluster.only_node().await)
}

async fn wait_until_gone(cluster: &ScenarioCluster, claim: &NodeClaim, node: &Node) {
    cluster
        .wait_until("claim and node are deleted", async || {
            cluster.cluster_scoped::<NodeClaim>().get_opt(&claim.name_any()).await.unwrap().is_none()
                && cluster.cluster_scoped::<Node>().get_opt(&node.name_any()).await.unwrap().is_none()
        })
        .await;
}

// spec 07 section 13, O
#[test]
fn deleting_a_claim_moves_its_pods() {
    run_scenario(async |cluster| {
        let (claim, node) = start_with_two_pods(cluster, json!({})).await;
        cluster.cluster_scoped::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        wait_until_gone(cluster, &claim, &node).await;
        cluster.wait_until_running("web", 2).await;
        assert!(cluster.pods("web").await.iter().all(|pod| node_of(pod) != node.name_any()));
    });
}

// spec 07 section 13, O
#[test]
fn deleting_a_node_deletes_its_claim() {
    run_scenario(async |cluster| {
        let (claim, node) = start_with_two_pods(cluster, json!({})).await;
        cluster.cluster_scoped::<Node>().delete(&node.name_any(), &DeleteParams::default()).await.unwrap();
        wait_until_gone(cluster, &claim, &node).await;
        cluster.wait_until_running("web", 2).await;
    });
}

// spec 07 section 13, O
#[test]
fn deleting_a_pool_deletes_its_nodes() {
    run_scenario(async |cluster| {
        let (claim, node) = start_with_two_pods(cluster, json!({})).await;
        cluster.cluster_scoped::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
        wait_until_gone(cluster, &claim, &node).await;
        assert_eq!(cluster.running_pods("web").await, 0, "no NodePool is left for the pods");
    });
}

// spec 07 section 13, P
#[test]
fn a_pod_disruption_budget_delays_the_deletion_of_a_node() {
    run_scenario(async |cluster| {
        let (claim, node) = start_with_two_pods(cluster, json!({})).await;
        let budget = json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
        cluster.create_namespaced::<PodDisruptionBudget>(budget).await;
        cluster
            .wait_until("the budget is counted", async || {
                let budget = cluster.namespaced::<PodDisruptionBudget>().get("all").await.unwrap();
                budget.status.is_some_and(|status| status.current_healthy == Some(2))
            })
            .await;
        cluster.cluster_scoped::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        cluster.sleep_seconds(10).await;
        assert_eq!(
            cluster.pods("web").await.iter().filter(|pod| node_of(pod) == node.name_any()).count(),
            2,
            "no node may be removed"
        );
        assert!(cluster.cluster_scoped::<Node>().get_opt(&node.name_any()).await.unwrap().is_some());
        cluster.namespaced::<PodDisruptionBudget>().delete("all", &DeleteParams::default()).await.unwrap();
        wait_until_gone(cluster, &claim, &node).await;
        cluster.wait_until_running("web", 2).await;
    });
}

// spec 07 section 13, P
#[test]
fn a_termination_grace_period_overrides_a_pod_disruption_budget() {
    run_scenario(async |cluster| {
        let (claim, node) =
            start_with_two_pods(cluster, json!({"template": {"spec": {"terminationGracePeriod": "20s"}}})).await;
        let budget = json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
        cluster.create_namespaced::<PodDisruptionBudget>(budget).await;
        cluster
            .wait_until("the budget is counted", async || {
                let budget = cluster.namespaced::<PodDisruptionBudget>().get("all").await.unwrap();
                budget.status.is_some_and(|status| status.current_healthy == Some(2))
            })
            .await;
        cluster.cluster_scoped::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        wait_until_gone(cluster, &claim, &node).await;
    });
}

#[test]
fn no_pod_is_placed_on_a_node_that_is_being_deleted() {
    run_scenario(async |cluster| {
        let (claim, node) = start_with_two_pods(cluster, json!({})).await;
        let budget = json!({"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
        cluster.create_namespaced::<PodDisruptionBudget>(budget).await;
        cluster
            .wait_until("the budget is counted", async || {
                let budget = cluster.namespaced::<PodDisruptionBudget>().get("all").await.unwrap();
                budget.status.is_some_and(|status| status.current_healthy == Some(2))
            })
            .await;
        cluster.cluster_scoped::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        cluster
            .wait_until("the node is tainted", async || {
                let node = cluster.cluster_scoped::<Node>().get(&node.name_any()).await.unwrap();
                node.spec
                    .iter()
                    .flat_map(|spec| spec.taints.iter().flatten())
                    .any(|taint| taint.key == "karpenter.sh/disrupted")
            })
            .await;
        cluster.create_deployment("late", 1, "100m", json!({})).await;
        cluster.wait_until_running("late", 1).await;
        assert!(cluster.pods("late").await.iter().all(|pod| node_of(pod) != node.name_any()));
    });
}

// spec 04 #151
#[test]
fn deleting_a_static_pool_in_the_foreground_launches_nothing_more() {
    run_scenario(async |cluster| {
        cluster.create_pool("fixed", json!({"replicas": 3})).await;
        cluster.start_kerf_with_static_capacity();
        cluster.wait_until_initialized(3).await;
        let originals: BTreeSet<String> = cluster.claims().await.iter().map(kube::ResourceExt::name_any).collect();
        // The claims are deleted before their pool.
        cluster.cluster_scoped::<NodePool>().delete("fixed", &DeleteParams::foreground()).await.unwrap();
        let seen = RefCell::new(BTreeSet::new());
        cluster
            .wait_until("pool, claims and nodes are deleted", async || {
                let claims = cluster.claims().await;
                seen.borrow_mut().extend(claims.iter().map(kube::ResourceExt::name_any));
                let pool = cluster.cluster_scoped::<NodePool>().get_opt("fixed").await.unwrap();
                pool.is_none() && claims.is_empty() && cluster.nodes().await.is_empty()
            })
            .await;
        let with_events = cluster.objects_with_events("NodeClaim").await;
        seen.borrow_mut().extend(with_events);
        assert_eq!(seen.into_inner(), originals);
    });
}

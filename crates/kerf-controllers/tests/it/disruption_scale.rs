//! Disruption over hours and over hundreds of nodes: it neither causes churn nor stalls.

use serde_json::json;

use crate::test_cluster::{TestCluster, consolidating_pool};

/// The cheapest type has no capacity for six hours.
#[tokio::test(start_paused = true)]
async fn a_type_without_capacity_is_not_retried_constantly() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.unavailable_types.types.lock().unwrap().push("s");
    cluster.deploy_oversized().await;
    cluster.wait_until("the next best type is used", 120, async |cluster| cluster.is_settled(1, &["m"]).await).await;
    for _ in 0..6 * 60 {
        cluster.env.wait(60).await;
        cluster.check_invariants();
        assert_eq!(cluster.running().await, 1, "no pod is lost");
    }
    let failed = cluster.env.metrics.disruption.queue_failures.get(&["replace", "underutilized", "single"]);
    assert!((1.0..=3.0).contains(&failed), "{failed} failed attempts");
    assert!(cluster.is_settled(1, &["m"]).await && cluster.is_idle().await);
    let created = cluster.env.metrics.nodeclaims_created.get(&["underutilized", "general", "false"]);
    assert!(created <= 4.0, "{created} replacements");
}

/// 300 nodes of which half become empty at once, with a budget of 10%.
#[tokio::test(start_paused = true)]
async fn hundreds_of_empty_nodes_are_deleted_in_as_few_rounds_as_the_budget_allows() {
    const NODES: u32 = 300;
    let cluster =
        TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "10%"}]})))
            .await;
    let port = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": "1500m"}}}]);
    cluster.deploy("web", NODES, "1500m", json!({"spec": {"containers": port}})).await;
    for _ in 0..60 {
        cluster.env.wait(10).await;
        if cluster.running().await == NODES as usize {
            break;
        }
    }
    assert_eq!((cluster.running().await, cluster.types().await.len()), (300, 300));
    cluster.scale("web", NODES / 2).await;
    cluster.env.wait(30).await;
    cluster.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    let mut minutes = 0.0;
    while cluster.types().await.len() > (NODES / 2) as usize {
        cluster.env.wait(10).await;
        cluster.check_invariants();
        minutes += 10.0 / 60.0;
        assert!(minutes < 20.0, "{:#}", cluster.env.decisions());
    }
    assert_eq!(cluster.running().await, (NODES / 2) as usize);
    let (mut nodes, mut rounds_min) = (NODES, 0.0);
    while nodes > NODES / 2 {
        nodes -= nodes.div_ceil(10).min(nodes - NODES / 2);
        rounds_min += 1.0;
    }
    let rounds = cluster.env.metrics.disruption.decisions.get(&["delete", "empty", "empty"]);
    assert!(rounds <= rounds_min + 1.0, "{rounds} rounds in {minutes:.1} minutes, {rounds_min} would be enough");
}

/// Karpenter must not taint the candidates of a search that timed out. Here a search that ends
/// without a command taints nothing either.
#[tokio::test(start_paused = true)]
async fn spec_03_105_a_search_without_a_command_taints_no_node() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy("web", 3, "1500m", json!({})).await;
    cluster.wait_until("the pods run", 60, async |cluster| cluster.is_settled(3, &["m", "s"]).await).await;
    let searches = || cluster.env.metrics.disruption.evaluation_duration.count(&["underutilized", "multi"]);
    let before = searches();
    cluster.patch_pool(json!({"spec": {"weight": 10}})).await;
    for _ in 0..60 {
        cluster.env.wait(1).await;
        assert_eq!((cluster.tainted().await, cluster.disrupted().await), (Vec::new(), 0));
    }
    assert!(searches() > before, "both nodes were evaluated together");
    assert!(cluster.is_settled(3, &["m", "s"]).await);
}

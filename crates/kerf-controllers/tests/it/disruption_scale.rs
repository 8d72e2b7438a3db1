//! Disruption over hours and over hundreds of nodes: it neither causes churn nor stalls.

use serde_json::json;

use crate::test_cluster::{TestCluster, consolidating_pool};

/// The cheapest type has no capacity for six hours.
#[tokio::test(start_paused = true)]
async fn a_type_that_is_sold_out_is_not_tried_over_and_over() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.sold_out.types.lock().unwrap().push("s");
    town.deploy_oversized().await;
    town.wait_until("the next best is taken", 120, async |town| town.is_settled(1, &["m"]).await).await;
    for _ in 0..6 * 60 {
        town.env.wait(60).await;
        town.check_invariants();
        assert_eq!(town.running().await, 1, "no pod is lost");
    }
    let failed = town.env.metrics.disruption.queue_failures.get(&["replace", "underutilized", "single"]);
    assert!((1.0..=3.0).contains(&failed), "{failed} attempts in vain");
    assert!(town.is_settled(1, &["m"]).await && town.is_idle().await);
    let created = town.env.metrics.nodeclaims_created.get(&["underutilized", "general", "false"]);
    assert!(created <= 4.0, "{created} replacements");
}

/// 300 nodes of which half become empty at once, with a budget of 10%.
#[tokio::test(start_paused = true)]
async fn hundreds_of_empty_nodes_go_in_as_few_rounds_as_the_budget_allows() {
    const NODES: u32 = 300;
    let town =
        TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "10%"}]})))
            .await;
    let port = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": "1500m"}}}]);
    town.deploy("web", NODES, "1500m", json!({"spec": {"containers": port}})).await;
    for _ in 0..60 {
        town.env.wait(10).await;
        if town.running().await == NODES as usize {
            break;
        }
    }
    assert_eq!((town.running().await, town.types().await.len()), (300, 300));
    town.scale("web", NODES / 2).await;
    town.env.wait(30).await;
    town.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    let mut minutes = 0.0;
    while town.types().await.len() > (NODES / 2) as usize {
        town.env.wait(10).await;
        town.check_invariants();
        minutes += 10.0 / 60.0;
        assert!(minutes < 20.0, "{:#}", town.env.decisions());
    }
    assert_eq!(town.running().await, (NODES / 2) as usize);
    let (mut nodes, mut least) = (NODES, 0.0);
    while nodes > NODES / 2 {
        nodes -= nodes.div_ceil(10).min(nodes - NODES / 2);
        least += 1.0;
    }
    let rounds = town.env.metrics.disruption.decisions.get(&["delete", "empty", "empty"]);
    assert!(rounds <= least + 1.0, "{rounds} rounds in {minutes:.1} minutes, {least} would do");
}

/// Karpenter must not taint the candidates of a search that timed out. Here a search that ends
/// without a command taints nothing either.
#[tokio::test(start_paused = true)]
async fn spec_03_105_a_search_without_a_find_taints_no_node() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy("web", 3, "1500m", json!({})).await;
    town.wait_until("they run", 60, async |town| town.is_settled(3, &["m", "s"]).await).await;
    let searches = || town.env.metrics.disruption.evaluation_duration.count(&["underutilized", "multi"]);
    let before = searches();
    town.patch_pool(json!({"spec": {"weight": 10}})).await;
    for _ in 0..60 {
        town.env.wait(1).await;
        assert_eq!((town.tainted().await, town.disrupted().await), (Vec::new(), 0));
    }
    assert!(searches() > before, "both nodes were looked at together");
    assert!(town.is_settled(3, &["m", "s"]).await);
}

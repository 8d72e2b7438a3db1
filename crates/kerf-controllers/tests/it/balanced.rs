//! The `Balanced` policy for operators (spec 03 §8.8): the metrics of moves, and the Events of
//! approved moves.

use serde_json::json;

use crate::test_cluster::{TestCluster, catalogue_with_prices, consolidating_pool};

fn balanced_pool() -> serde_json::Value {
    consolidating_pool(json!({"consolidationPolicy": "Balanced"}))
}

/// Returns the number of moves and of scores of the pool, by decision and policy.
fn moves_and_scores(cluster: &TestCluster, decision: &str, policy: &str) -> (f64, u64) {
    let (metrics, labels) = (&cluster.env.metrics.disruption, [decision, "general", policy]);
    (metrics.consolidation_moves.get(&labels), metrics.consolidation_score.count(&labels))
}

#[tokio::test(start_paused = true)]
async fn an_approved_move_of_one_node_has_events_on_the_node_and_its_claim() {
    let cluster = TestCluster::start(balanced_pool()).await;
    cluster.deploy_oversized().await;
    let claim = cluster.env.only_claim().await.metadata.name.unwrap();
    let node = cluster.env.only_node().await.metadata.name.unwrap();
    cluster.wait_until("a small node is left", 120, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    // 30 of 40 cents are saved, and the pool's whole disruption cost is spent.
    let why = "score 0.75 >= threshold 0.50 (k: 2, savings 75.0%, disruption 100.0%)".to_owned();
    assert_eq!(cluster.env.events("ConsolidationApproved"), [(node, why.clone()), (claim, why)]);
    assert_eq!(moves_and_scores(&cluster, "approved", "Balanced"), (1.0, 1));
    assert_eq!(moves_and_scores(&cluster, "rejected", "Balanced"), (0.0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_approved_move_of_several_nodes_has_an_event_on_the_pool() {
    let cluster = TestCluster::start(balanced_pool()).await;
    cluster.deploy("wide", 2, "7", json!({})).await;
    cluster.deploy("web", 2, "500m", json!({})).await;
    cluster.wait_until("all pods run", 60, async |cluster| cluster.is_settled(4, &["l", "l"]).await).await;
    cluster.scale("wide", 0).await;
    cluster.wait_until("a small node is left", 120, async |cluster| cluster.is_settled(2, &["s"]).await).await;
    let events = cluster.env.events("ConsolidationApproved");
    let why = "score 0.88 >= threshold 0.50 (k: 2, savings 87.5%, disruption 100.0%)".to_owned();
    assert_eq!(events, [("general".to_owned(), why)]);
    assert_eq!(moves_and_scores(&cluster, "approved", "Balanced"), (1.0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_move_is_counted_and_has_no_event() {
    let mut cluster = TestCluster::without_controllers(balanced_pool()).await;
    cluster.catalogue = catalogue_with_prices([0.3, 0.35, 0.4]);
    cluster.restart();
    cluster.env.wait(2).await;
    cluster.deploy_oversized().await;
    cluster.advance(60).await;
    assert!(cluster.is_settled(1, &["l"]).await, "saving 10 of 40 cents is not enough");
    let (moves, scores) = moves_and_scores(&cluster, "rejected", "Balanced");
    assert!(moves >= 1.0 && scores >= 1, "{moves} {scores}");
    assert_eq!(moves_and_scores(&cluster, "approved", "Balanced"), (0.0, 0));
    assert_eq!(cluster.env.events("ConsolidationApproved"), []);
}

#[tokio::test(start_paused = true)]
async fn other_policies_count_their_moves_without_scores() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy_oversized().await;
    cluster.wait_until("a small node is left", 120, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    assert_eq!(moves_and_scores(&cluster, "approved", "WhenEmptyOrUnderutilized"), (1.0, 0));
    assert_eq!(cluster.env.events("ConsolidationApproved"), []);
}

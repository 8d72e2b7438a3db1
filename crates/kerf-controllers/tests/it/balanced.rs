//! The `Balanced` policy for operators (spec 03 §8.8): the metrics of moves, and the Events of
//! approved moves.

use serde_json::json;

use crate::test_cluster::{TestCluster, catalogue_with_prices, consolidating_pool};

fn balanced_pool() -> serde_json::Value {
    consolidating_pool(json!({"consolidationPolicy": "Balanced"}))
}

/// Returns the number of moves and of scores of the pool, by decision and policy.
fn moves_and_scores(town: &TestCluster, decision: &str, policy: &str) -> (f64, u64) {
    let (metrics, labels) = (&town.env.metrics.disruption, [decision, "general", policy]);
    (metrics.consolidation_moves.get(&labels), metrics.consolidation_score.count(&labels))
}

#[tokio::test(start_paused = true)]
async fn a_move_of_one_node_is_told_to_the_node_and_its_claim() {
    let town = TestCluster::start(balanced_pool()).await;
    town.deploy_oversized().await;
    let claim = town.env.only_claim().await.metadata.name.unwrap();
    let node = town.env.only_node().await.metadata.name.unwrap();
    town.wait_until("a small node is left", 120, async |town| town.is_settled(1, &["s"]).await).await;
    // 30 of 40 cents are saved, and the pool's whole disruption cost is spent.
    let why = "score 0.75 >= threshold 0.50 (k: 2, savings 75.0%, disruption 100.0%)".to_owned();
    assert_eq!(town.env.events("ConsolidationApproved"), [(node, why.clone()), (claim, why)]);
    assert_eq!(moves_and_scores(&town, "approved", "Balanced"), (1.0, 1));
    assert_eq!(moves_and_scores(&town, "rejected", "Balanced"), (0.0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_move_of_several_nodes_is_told_to_the_pool() {
    let town = TestCluster::start(balanced_pool()).await;
    town.deploy("wide", 2, "7", json!({})).await;
    town.deploy("web", 2, "500m", json!({})).await;
    town.wait_until("all run", 60, async |town| town.is_settled(4, &["l", "l"]).await).await;
    town.scale("wide", 0).await;
    town.wait_until("a small node is left", 120, async |town| town.is_settled(2, &["s"]).await).await;
    let told = town.env.events("ConsolidationApproved");
    let why = "score 0.88 >= threshold 0.50 (k: 2, savings 87.5%, disruption 100.0%)".to_owned();
    assert_eq!(told, [("general".to_owned(), why)]);
    assert_eq!(moves_and_scores(&town, "approved", "Balanced"), (1.0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_not_worth_it_is_counted_and_not_told() {
    let mut town = TestCluster::without_controllers(balanced_pool()).await;
    town.catalogue = catalogue_with_prices([0.3, 0.35, 0.4]);
    town.restart();
    town.env.wait(2).await;
    town.deploy_oversized().await;
    town.advance(60).await;
    assert!(town.is_settled(1, &["l"]).await, "ten of forty cents are too little");
    let (moves, scores) = moves_and_scores(&town, "rejected", "Balanced");
    assert!(moves >= 1.0 && scores >= 1, "{moves} {scores}");
    assert_eq!(moves_and_scores(&town, "approved", "Balanced"), (0.0, 0));
    assert_eq!(town.env.events("ConsolidationApproved"), []);
}

#[tokio::test(start_paused = true)]
async fn other_policies_score_nothing_and_count_their_moves() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy_oversized().await;
    town.wait_until("a small node is left", 120, async |town| town.is_settled(1, &["s"]).await).await;
    assert_eq!(moves_and_scores(&town, "approved", "WhenEmptyOrUnderutilized"), (1.0, 0));
    assert_eq!(town.env.events("ConsolidationApproved"), []);
}

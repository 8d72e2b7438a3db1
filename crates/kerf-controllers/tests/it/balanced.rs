//! The `Balanced` policy as operators see it (spec 03 §8.8): what is counted of moves, and who is told that they are worth it.

use serde_json::json;

use crate::test_cluster::{TestCluster, shrinking, sizes_at};

fn balanced() -> serde_json::Value {
    shrinking(json!({"consolidationPolicy": "Balanced"}))
}

/// Moves and scores of the pool by decision.
fn counted(town: &TestCluster, decision: &str, policy: &str) -> (f64, u64) {
    let (metrics, labels) = (&town.rig.metrics.disruption, [decision, "general", policy]);
    (metrics.consolidation_moves.get(&labels), metrics.consolidation_score.count(&labels))
}

#[tokio::test(start_paused = true)]
async fn a_move_of_one_node_is_told_to_the_node_and_its_claim() {
    let town = TestCluster::start(balanced()).await;
    town.oversized().await;
    let claim = town.rig.claim().await.metadata.name.unwrap();
    let node = town.rig.node().await.metadata.name.unwrap();
    town.until("a small node is left", 120, async |town| town.settled(1, &["s"]).await).await;
    // Thirty of forty cents, for all that the pool disrupts.
    let why = "score 0.75 >= threshold 0.50 (k: 2, savings 75.0%, disruption 100.0%)".to_owned();
    assert_eq!(town.rig.events("ConsolidationApproved"), [(node, why.clone()), (claim, why)]);
    assert_eq!(counted(&town, "approved", "Balanced"), (1.0, 1));
    assert_eq!(counted(&town, "rejected", "Balanced"), (0.0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_move_of_several_nodes_is_told_to_the_pool() {
    let town = TestCluster::start(balanced()).await;
    town.deploy("wide", 2, "7", json!({})).await;
    town.deploy("web", 2, "500m", json!({})).await;
    town.until("all run", 60, async |town| town.settled(4, &["l", "l"]).await).await;
    town.scale("wide", 0).await;
    town.until("a small node is left", 120, async |town| town.settled(2, &["s"]).await).await;
    let told = town.rig.events("ConsolidationApproved");
    let why = "score 0.88 >= threshold 0.50 (k: 2, savings 87.5%, disruption 100.0%)".to_owned();
    assert_eq!(told, [("general".to_owned(), why)]);
    assert_eq!(counted(&town, "approved", "Balanced"), (1.0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_not_worth_it_is_counted_and_not_told() {
    let mut town = TestCluster::bare(balanced()).await;
    town.catalogue = sizes_at([0.3, 0.35, 0.4]);
    town.restart();
    town.rig.wait(2).await;
    town.oversized().await;
    town.pass(60).await;
    assert!(town.settled(1, &["l"]).await, "ten of forty cents are too little");
    let (moves, scores) = counted(&town, "rejected", "Balanced");
    assert!(moves >= 1.0 && scores >= 1, "{moves} {scores}");
    assert_eq!(counted(&town, "approved", "Balanced"), (0.0, 0));
    assert_eq!(town.rig.events("ConsolidationApproved"), []);
}

#[tokio::test(start_paused = true)]
async fn other_policies_score_nothing_and_count_their_moves() {
    let town = TestCluster::start(shrinking(json!({}))).await;
    town.oversized().await;
    town.until("a small node is left", 120, async |town| town.settled(1, &["s"]).await).await;
    assert_eq!(counted(&town, "approved", "WhenEmptyOrUnderutilized"), (1.0, 0));
    assert_eq!(town.rig.events("ConsolidationApproved"), []);
}

//! Before nodes are disrupted, what silent watches have not shown is listed again (spec 07 §1
//! rule 9).

use std::time::Duration;

use kerf_sandbox::{Fault, FaultRule, Verb};
use serde_json::json;

use crate::test_cluster::{TestCluster, consolidating_pool};

/// Returns a rule that affects all requests of the controllers for PodDisruptionBudgets to which
/// the fault can happen.
fn budget_fault(fault: Fault) -> FaultRule {
    let resources = vec!["poddisruptionbudgets".into()];
    FaultRule { user_agent_prefix: "kerf".into(), resources, ..FaultRule::new(fault, 1_000_000) }
}

fn silent_watch() -> FaultRule {
    budget_fault(Fault::SilentWatch { after: Duration::ZERO })
}

/// Starts a cluster whose controllers see no change of a PodDisruptionBudget.
async fn cluster_with_silent_budgets() -> TestCluster {
    let mut cluster = TestCluster::without_controllers(consolidating_pool(json!({}))).await;
    cluster.env.server.set_faults(vec![silent_watch()], 1);
    cluster.restart();
    cluster.env.wait(2).await;
    cluster
}

/// As `cluster_with_silent_budgets`, with a small node that nothing but drift would replace.
async fn cluster_with_small_node() -> TestCluster {
    let cluster = cluster_with_silent_budgets().await;
    cluster.deploy("web", 1, "500m", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    cluster.advance(15).await;
    cluster
}

/// Stops all answers to lists of PodDisruptionBudgets.
fn stop_lists(cluster: &TestCluster) {
    let unanswered = FaultRule { verbs: vec![Verb::List], ..budget_fault(Fault::NoResponse) };
    cluster.env.server.set_faults(vec![silent_watch(), unanswered], 1);
}

// spec 07 #74
#[tokio::test(start_paused = true)]
async fn a_drifted_node_is_not_disrupted_against_a_budget_that_the_watch_has_not_shown() {
    let cluster = cluster_with_small_node().await;
    cluster.create_pdb("web", json!({"maxUnavailable": 0})).await;
    cluster.change_template().await;
    cluster.advance(60).await;
    assert_eq!(cluster.disrupted().await, 0);
    assert_eq!(cluster.env.claims().await.len(), 1, "no replacement is launched");
}

// spec 07 #74
#[tokio::test(start_paused = true)]
async fn a_node_is_not_consolidated_against_a_budget_that_the_watch_has_not_shown() {
    let cluster = cluster_with_silent_budgets().await;
    cluster.deploy_oversized().await;
    cluster.create_pdb("web", json!({"maxUnavailable": 0})).await;
    cluster.advance(60).await;
    assert_eq!(cluster.disrupted().await, 0);
    assert_eq!(cluster.env.claims().await.len(), 1, "no replacement is launched");
}

// spec 07 §1 rule 9
#[tokio::test(start_paused = true)]
async fn a_drifted_node_waits_until_the_budgets_can_be_listed() {
    let cluster = cluster_with_small_node().await;
    let old = cluster.env.only_claim().await.metadata.name;
    stop_lists(&cluster);
    cluster.change_template().await;
    cluster.advance(100).await;
    assert_eq!((cluster.disrupted().await, cluster.env.only_claim().await.metadata.name), (0, old.clone()));
    cluster.env.server.set_faults(Vec::new(), 1);
    cluster
        .wait_until("the node is replaced", 180, async |cluster| {
            let claims = cluster.env.claims().await;
            claims.len() == 1 && claims[0].metadata.name != old && cluster.is_settled(1, &["s"]).await
        })
        .await;
}

// spec 07 §1 rule 9
#[tokio::test(start_paused = true)]
async fn a_node_is_consolidated_once_the_budgets_can_be_listed() {
    let cluster = cluster_with_silent_budgets().await;
    cluster.deploy_oversized().await;
    stop_lists(&cluster);
    cluster.advance(100).await;
    assert_eq!((cluster.disrupted().await, cluster.types().await), (0, vec!["l".to_owned()]));
    cluster.env.server.set_faults(Vec::new(), 1);
    cluster
        .wait_until("the small node replaces the large one", 180, async |cluster| cluster.is_settled(1, &["s"]).await)
        .await;
}

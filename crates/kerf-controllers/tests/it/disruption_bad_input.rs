//! Disruption with mistakes of users: disruption budgets that never allow anything,
//! PodDisruptionBudgets that can never be met, malformed pause annotations, pools deleted during a
//! command.

use k8s_openapi::api::core::v1::Node;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodepool::NodePool;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, consolidating_pool, is_tainted};

/// Creates a cluster with an empty node in a pool with these disruption settings.
async fn cluster_with_empty_node(disruption: Value) -> TestCluster {
    let town = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    town.deploy("web", 1, "1", json!({})).await;
    town.wait_until("it runs", 60, async |town| town.is_settled(1, &["s"]).await).await;
    town.scale("web", 0).await;
    town.env.wait(5).await;
    town.patch_pool(json!({ "spec": { "disruption": disruption } })).await;
    town
}

/// Returns the codes of all reasons that blocked the only node in the last pass.
fn codes(town: &TestCluster) -> Vec<String> {
    let last = &town.env.decisions()["lastPass"];
    let reasons = last["blocked"][0]["reasons"].as_array().cloned().unwrap_or_default();
    reasons.iter().map(|reason| reason["code"].as_str().unwrap().to_owned()).collect()
}

// spec 03 #54
#[tokio::test(start_paused = true)]
async fn a_budget_that_never_allows_anything_is_told() {
    let town = cluster_with_empty_node(json!({"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]})).await;
    town.advance(180).await;
    assert_eq!(town.types().await, ["s"]);
    assert_eq!(codes(&town), ["DisruptionBudget"]);
    let told = town.env.events("DisruptionBlocked");
    let of_pool: Vec<&str> = told.iter().filter(|(name, _)| name == "general").map(|(_, text)| text.as_str()).collect();
    let text = |reason: &str| format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
    assert_eq!(of_pool, [text("Empty"), text("Drifted"), text("Underutilized")]);
    let metrics = &town.env.metrics.disruption;
    assert_eq!(metrics.allowed_disruptions.get(&["general", "Empty"]), Some(0.0));
    assert_eq!(metrics.eligible_nodes.get(&["empty"]), Some(1.0));
    town.env.api::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
    town.env.wait(30).await;
    assert_eq!(metrics.allowed_disruptions.get(&["general", "Empty"]), None, "the series goes with the pool");
}

/// A schedule that never fires counts as always active, because that protects nodes.
#[tokio::test(start_paused = true)]
async fn a_schedule_that_never_fires_allows_nothing() {
    let never = json!({"nodes": "0", "schedule": "0 0 30 2 *", "duration": "1h"});
    let town = cluster_with_empty_node(json!({"consolidateAfter": "0s", "budgets": [never]})).await;
    town.advance(120).await;
    assert_eq!((town.types().await, codes(&town)), (vec!["s".to_owned()], vec!["DisruptionBudget".to_owned()]));
}

/// Disruption runs again at the second at which a budget's window ends.
#[tokio::test(start_paused = true)]
async fn a_window_that_closes_lets_the_node_go_at_once() {
    let first_minutes = json!({"nodes": "0", "schedule": "@daily", "duration": "10m"});
    let town = cluster_with_empty_node(json!({"consolidateAfter": "0s", "budgets": [first_minutes]})).await;
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let now = || town.env.clock.now().duration_since(start).as_secs();
    town.wait_until("the node is tainted", 700, async |town| town.env.list::<Node>().await.iter().any(is_tainted))
        .await;
    assert!((615..=618).contains(&now()), "{}", now());
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_that_can_never_be_met_is_named_with_its_pod() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy("wide", 1, "7", json!({})).await;
    town.deploy("web", 1, "500m", json!({})).await;
    town.create_pdb("web", json!({"minAvailable": 1})).await;
    town.wait_until("both run", 60, async |town| town.is_settled(2, &["l"]).await).await;
    town.scale("wide", 0).await;
    town.advance(120).await;
    assert!(town.is_settled(1, &["l"]).await);
    let pod = town.pods().await[0].metadata.name.clone().unwrap();
    let reason = &town.env.decisions()["lastPass"]["blocked"][0]["reasons"][0];
    assert_eq!(reason["code"], "PodDisruptionBudget");
    assert_eq!(reason["message"], "Pdb prevents pod evictions (PodDisruptionBudget=[default/web])");
    assert_eq!(reason["pod"], format!("default/{pod}"));
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_deleted_in_mid_move_leaves_nothing_behind() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy("wide", 1, "7", json!({})).await;
    town.deploy("web", 1, "500m", json!({})).await;
    town.wait_until("both run", 60, async |town| town.is_settled(2, &["l"]).await).await;
    town.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "1m"}})).await;
    town.scale("wide", 0).await;
    town.wait_until("the node is tainted", 60, async |town| town.env.list::<Node>().await.iter().any(is_tainted)).await;
    town.env.api::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
    town.wait_until("all is gone", 300, async |town| {
        town.env.claims().await.is_empty() && town.env.list::<Node>().await.is_empty()
    })
    .await;
    assert_eq!(town.env.decisions()["decisions"][0]["outcome"], "rolled back");
    assert!(town.env.orphans().await.is_empty());
}

/// The replacement is deleted with its pool. The candidate belongs to another pool and stays as it
/// was.
#[tokio::test(start_paused = true)]
async fn a_replacement_whose_pool_is_deleted_is_given_up_and_the_node_let_go() {
    let large = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["l"]}]);
    let mut spec = consolidating_pool(json!({}));
    crate::test_env::merge(&mut spec, json!({"template": {"spec": {"requirements": large}}}));
    let town = TestCluster::start(spec).await;
    town.deploy("web", 1, "500m", json!({})).await;
    town.wait_until("it runs", 60, async |town| town.is_settled(1, &["l"]).await).await;
    let before = town.env.only_claim().await.metadata.name;
    town.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "1m"}})).await;
    town.env.create::<NodePool>(crate::test_env::pool("small", json!({}))).await;
    town.wait_until("a replacement is launched", 60, async |town| town.env.claims().await.len() == 2).await;
    assert_eq!(town.tainted().await.len(), 1);
    town.env.api::<NodePool>().delete("small", &DeleteParams::default()).await.unwrap();
    town.wait_until("the node is let go", 300, async |town| town.is_idle().await).await;
    assert_eq!(town.env.only_claim().await.metadata.name, before);
    let decision = &town.env.decisions()["decisions"][0];
    assert_eq!((&decision["outcome"], &decision["why"]), (&json!("rolled back"), &json!("replacement was deleted")));
    town.advance(120).await;
    assert!(town.is_settled(1, &["l"]).await);
    // The rollback was immediate: no other instance was launched for a pod that stays on its node.
    assert_eq!(town.env.metrics.nodeclaims_created.get(&["provisioned", "general", "false"]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_paused_pool_is_left_alone_until_its_time() {
    let paused = |value: Value| json!({"metadata": {"annotations": {"kerf.sh/pause-disruption": value}}});
    let town = cluster_with_empty_node(json!({"consolidateAfter": "Never"})).await;
    town.patch_pool(paused(json!("true"))).await;
    town.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    town.advance(60).await;
    assert_eq!((town.types().await, codes(&town)), (vec!["s".to_owned()], vec!["Paused".to_owned()]));

    town.patch_pool(paused(json!("next week"))).await;
    town.advance(60).await;
    assert_eq!(town.types().await, ["s"], "what cannot be read pauses");
    let told = town.env.events("InvalidPauseDisruption");
    assert!(told.len() == 1 && told[0].1.contains("\"next week\""), "{told:?}");

    let end = town.env.clock.now() + jiff::SignedDuration::from_secs(90);
    town.patch_pool(paused(json!(end.to_string()))).await;
    town.advance(85).await;
    assert_eq!(town.types().await, ["s"]);
    town.wait_until("it goes", 60, async |town| town.types().await.is_empty()).await;
}

/// A command that is active when the pool is paused is completed. A command that waits for
/// validation is not started.
#[tokio::test(start_paused = true)]
async fn a_brake_stops_what_has_not_begun() {
    let town = cluster_with_empty_node(json!({"consolidateAfter": "0s"})).await;
    town.env.wait(5).await;
    town.patch_pool(json!({"metadata": {"annotations": {"kerf.sh/pause-disruption": "true"}}})).await;
    town.advance(60).await;
    assert_eq!(town.types().await, ["s"]);
    town.patch_pool(json!({"metadata": {"annotations": {"kerf.sh/pause-disruption": null}}})).await;
    town.wait_until("it is tainted", 60, async |town| town.env.list::<Node>().await.iter().any(is_tainted)).await;
    town.patch_pool(json!({"metadata": {"annotations": {"kerf.sh/pause-disruption": "true"}}})).await;
    town.wait_until("it goes", 60, async |town| town.types().await.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_controller_starts_nothing() {
    let mut town = cluster_with_empty_node(json!({"consolidateAfter": "Never"})).await;
    town.env.settings.pause_disruption = true;
    town.restart();
    town.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    town.advance(120).await;
    assert_eq!(town.types().await, ["s"]);
    town.env.settings.pause_disruption = false;
    town.restart();
    town.wait_until("it goes", 60, async |town| town.types().await.is_empty()).await;
}

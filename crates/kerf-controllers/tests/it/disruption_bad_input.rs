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
    let cluster = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    cluster.deploy("web", 1, "1", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    cluster.scale("web", 0).await;
    cluster.env.wait(5).await;
    cluster.patch_pool(json!({ "spec": { "disruption": disruption } })).await;
    cluster
}

/// Returns the codes of all reasons that blocked the only node in the last pass.
fn codes(cluster: &TestCluster) -> Vec<String> {
    let last = &cluster.env.decisions()["lastPass"];
    let reasons = last["blocked"][0]["reasons"].as_array().cloned().unwrap_or_default();
    reasons.iter().map(|reason| reason["code"].as_str().unwrap().to_owned()).collect()
}

// spec 03 #54
#[tokio::test(start_paused = true)]
async fn a_budget_that_never_allows_anything_has_an_event() {
    let cluster = cluster_with_empty_node(json!({"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]})).await;
    cluster.advance(180).await;
    assert_eq!(cluster.types().await, ["s"]);
    assert_eq!(codes(&cluster), ["DisruptionBudget"]);
    let events = cluster.env.events("DisruptionBlocked");
    let of_pool: Vec<&str> =
        events.iter().filter(|(name, _)| name == "general").map(|(_, text)| text.as_str()).collect();
    let text = |reason: &str| format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
    assert_eq!(of_pool, [text("Empty"), text("Drifted"), text("Underutilized")]);
    let metrics = &cluster.env.metrics.disruption;
    assert_eq!(metrics.allowed_disruptions.get(&["general", "Empty"]), Some(0.0));
    assert_eq!(metrics.eligible_nodes.get(&["empty"]), Some(1.0));
    cluster.env.api::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
    cluster.env.wait(30).await;
    assert_eq!(metrics.allowed_disruptions.get(&["general", "Empty"]), None, "the series is removed with the pool");
}

/// A schedule that never fires counts as always active, because that protects nodes.
#[tokio::test(start_paused = true)]
async fn a_schedule_that_never_fires_allows_nothing() {
    let never = json!({"nodes": "0", "schedule": "0 0 30 2 *", "duration": "1h"});
    let cluster = cluster_with_empty_node(json!({"consolidateAfter": "0s", "budgets": [never]})).await;
    cluster.advance(120).await;
    assert_eq!((cluster.types().await, codes(&cluster)), (vec!["s".to_owned()], vec!["DisruptionBudget".to_owned()]));
}

/// Disruption runs again at the second at which a budget's window ends.
#[tokio::test(start_paused = true)]
async fn a_node_is_disrupted_when_the_budget_window_closes() {
    let first_minutes = json!({"nodes": "0", "schedule": "@daily", "duration": "10m"});
    let cluster = cluster_with_empty_node(json!({"consolidateAfter": "0s", "budgets": [first_minutes]})).await;
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let now = || cluster.env.clock.now().duration_since(start).as_secs();
    cluster
        .wait_until("the node is tainted", 700, async |cluster| cluster.env.list::<Node>().await.iter().any(is_tainted))
        .await;
    assert!((615..=618).contains(&now()), "{}", now());
}

#[tokio::test(start_paused = true)]
async fn a_pdb_that_can_never_be_met_is_named_with_its_pod() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy("wide", 1, "7", json!({})).await;
    cluster.deploy("web", 1, "500m", json!({})).await;
    cluster.create_pdb("web", json!({"minAvailable": 1})).await;
    cluster.wait_until("both pods run", 60, async |cluster| cluster.is_settled(2, &["l"]).await).await;
    cluster.scale("wide", 0).await;
    cluster.advance(120).await;
    assert!(cluster.is_settled(1, &["l"]).await);
    let pod = cluster.pods().await[0].metadata.name.clone().unwrap();
    let reason = &cluster.env.decisions()["lastPass"]["blocked"][0]["reasons"][0];
    assert_eq!(reason["code"], "PodDisruptionBudget");
    assert_eq!(reason["message"], "Pdb prevents pod evictions (PodDisruptionBudget=[default/web])");
    assert_eq!(reason["pod"], format!("default/{pod}"));
}

#[tokio::test(start_paused = true)]
async fn a_pool_deleted_during_a_command_leaves_no_orphans() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy("wide", 1, "7", json!({})).await;
    cluster.deploy("web", 1, "500m", json!({})).await;
    cluster.wait_until("both pods run", 60, async |cluster| cluster.is_settled(2, &["l"]).await).await;
    cluster.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "1m"}})).await;
    cluster.scale("wide", 0).await;
    cluster
        .wait_until("the node is tainted", 60, async |cluster| cluster.env.list::<Node>().await.iter().any(is_tainted))
        .await;
    cluster.env.api::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
    cluster
        .wait_until("all claims and nodes are deleted", 300, async |cluster| {
            cluster.env.claims().await.is_empty() && cluster.env.list::<Node>().await.is_empty()
        })
        .await;
    assert_eq!(cluster.env.decisions()["decisions"][0]["outcome"], "rolled back");
    assert!(cluster.env.orphans().await.is_empty());
}

/// The replacement is deleted with its pool. The candidate belongs to another pool and stays as it
/// was.
#[tokio::test(start_paused = true)]
async fn a_command_is_rolled_back_when_the_pool_of_its_replacement_is_deleted() {
    let large = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["l"]}]);
    let mut spec = consolidating_pool(json!({}));
    crate::test_env::merge(&mut spec, json!({"template": {"spec": {"requirements": large}}}));
    let cluster = TestCluster::start(spec).await;
    cluster.deploy("web", 1, "500m", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["l"]).await).await;
    let before = cluster.env.only_claim().await.metadata.name;
    cluster.env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "1m"}})).await;
    cluster.env.create::<NodePool>(crate::test_env::pool("small", json!({}))).await;
    cluster.wait_until("a replacement is launched", 60, async |cluster| cluster.env.claims().await.len() == 2).await;
    assert_eq!(cluster.tainted().await.len(), 1);
    cluster.env.api::<NodePool>().delete("small", &DeleteParams::default()).await.unwrap();
    cluster.wait_until("the node is unmarked", 300, async |cluster| cluster.is_idle().await).await;
    assert_eq!(cluster.env.only_claim().await.metadata.name, before);
    let decision = &cluster.env.decisions()["decisions"][0];
    assert_eq!((&decision["outcome"], &decision["why"]), (&json!("rolled back"), &json!("replacement was deleted")));
    cluster.advance(120).await;
    assert!(cluster.is_settled(1, &["l"]).await);
    // The rollback was immediate: no other instance was launched for a pod that stays on its node.
    assert_eq!(cluster.env.metrics.nodeclaims_created.get(&["provisioned", "general", "false"]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_paused_pool_is_not_disrupted_before_the_given_time() {
    let paused = |value: Value| json!({"metadata": {"annotations": {"kerf.sh/pause-disruption": value}}});
    let cluster = cluster_with_empty_node(json!({"consolidateAfter": "Never"})).await;
    cluster.patch_pool(paused(json!("true"))).await;
    cluster.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    cluster.advance(60).await;
    assert_eq!((cluster.types().await, codes(&cluster)), (vec!["s".to_owned()], vec!["Paused".to_owned()]));

    cluster.patch_pool(paused(json!("next week"))).await;
    cluster.advance(60).await;
    assert_eq!(cluster.types().await, ["s"], "an invalid value pauses");
    let events = cluster.env.events("InvalidPauseDisruption");
    assert!(events.len() == 1 && events[0].1.contains("\"next week\""), "{events:?}");

    let end = cluster.env.clock.now() + jiff::SignedDuration::from_secs(90);
    cluster.patch_pool(paused(json!(end.to_string()))).await;
    cluster.advance(85).await;
    assert_eq!(cluster.types().await, ["s"]);
    cluster.wait_until("the node is removed", 60, async |cluster| cluster.types().await.is_empty()).await;
}

/// A command that is active when the pool is paused is completed. A command that waits for
/// validation is not started.
#[tokio::test(start_paused = true)]
async fn a_pause_stops_commands_that_have_not_started() {
    let cluster = cluster_with_empty_node(json!({"consolidateAfter": "0s"})).await;
    cluster.env.wait(5).await;
    cluster.patch_pool(json!({"metadata": {"annotations": {"kerf.sh/pause-disruption": "true"}}})).await;
    cluster.advance(60).await;
    assert_eq!(cluster.types().await, ["s"]);
    cluster.patch_pool(json!({"metadata": {"annotations": {"kerf.sh/pause-disruption": null}}})).await;
    cluster
        .wait_until("the node is tainted", 60, async |cluster| cluster.env.list::<Node>().await.iter().any(is_tainted))
        .await;
    cluster.patch_pool(json!({"metadata": {"annotations": {"kerf.sh/pause-disruption": "true"}}})).await;
    cluster.wait_until("the node is removed", 60, async |cluster| cluster.types().await.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_controller_starts_nothing() {
    let mut cluster = cluster_with_empty_node(json!({"consolidateAfter": "Never"})).await;
    cluster.env.settings.pause_disruption = true;
    cluster.restart();
    cluster.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    cluster.advance(120).await;
    assert_eq!(cluster.types().await, ["s"]);
    cluster.env.settings.pause_disruption = false;
    cluster.restart();
    cluster.wait_until("the node is removed", 60, async |cluster| cluster.types().await.is_empty()).await;
}

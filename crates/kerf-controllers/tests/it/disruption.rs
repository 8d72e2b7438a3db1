//! Nodes that are empty, underutilized or drifted (spec 03): which are disrupted, when, and what is
//! launched first.

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::test_cluster::{TestCluster, consolidating_pool, instance_type_of, is_tainted, node_of};

#[tokio::test(start_paused = true)]
async fn an_empty_node_goes_after_the_second_look() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy("web", 1, "900m", json!({})).await;
    town.wait_until("a pod runs", 60, async |town| town.is_settled(1, &["s"]).await).await;
    town.scale("web", 0).await;
    let took = town.wait_until("the node goes", 60, async |town| town.types().await.is_empty()).await;
    assert!(took >= 15, "{took}");
    assert!(town.env.claims().await.is_empty());
    let metrics = &town.env.metrics;
    assert_eq!(metrics.disruption.decisions.get(&["delete", "empty", "empty"]), 1.0);
    assert_eq!(metrics.disruption.decisions_by_nodepool.get(&["general", "delete", "empty", "empty"]), 1.0);
    let labels = ["empty", "general", "on-demand", "when_empty_or_underutilized", "graceful"];
    assert_eq!(metrics.nodeclaims_disrupted.get(&labels), 1.0);
    let told: Vec<String> = town.env.events("DisruptionTerminating").into_iter().map(|(_, text)| text).collect();
    assert_eq!(told, ["Disrupting Node: Empty", "Disrupting NodeClaim: Empty"]);
    let decision = &town.env.decisions()["decisions"][0];
    assert_eq!((&decision["outcome"], &decision["reason"]), (&json!("succeeded"), &json!("Empty")));
}

// spec 04 #29 and #30
#[tokio::test(start_paused = true)]
async fn a_cluster_in_which_nothing_happens_is_left_alone() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy("web", 1, "1500m", json!({})).await;
    town.wait_until("it runs", 60, async |town| town.is_settled(1, &["s"]).await).await;
    town.env.wait(60).await;
    let looks = || town.env.metrics.disruption.evaluation_duration.count(&["underutilized", "single"]);
    let before = looks();
    town.env.wait(180).await;
    assert_eq!(looks(), before, "three minutes in which nothing happened");
    town.env.wait(600).await;
    assert!((before + 2..=before + 3).contains(&looks()), "{before} {}", looks());
    let before = looks();
    town.patch_pool(json!({"spec": {"weight": 10}})).await;
    town.env.wait(1).await;
    assert!(looks() > before, "a change of the pool's spec is looked at within a second");
}

#[tokio::test(start_paused = true)]
async fn an_underused_node_goes_and_its_pods_move() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    // Two large nodes, which are then nearly empty.
    town.deploy("wide", 2, "7", json!({})).await;
    town.wait_until("they run", 60, async |town| town.is_settled(2, &["l", "l"]).await).await;
    town.deploy("web", 2, "200m", json!({})).await;
    town.wait_until("all run", 60, async |town| town.running().await == 4).await;
    town.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "Never"}}})).await;
    town.scale("wide", 0).await;
    town.env.wait(20).await;
    assert_eq!(town.types().await, ["l", "l"], "Never means never");
    town.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    town.wait_until("one small node is left", 120, async |town| town.is_settled(2, &["s"]).await).await;
    town.advance(60).await;
    assert!(town.is_settled(2, &["s"]).await, "it stays");
    let metrics = &town.env.metrics.disruption;
    assert_eq!(metrics.decisions.get(&["replace", "underutilized", "multi"]), 1.0);
    assert_eq!(town.env.metrics.nodeclaims_created.get(&["underutilized", "general", "false"]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_replaced_by_a_cheaper_one_that_is_up_first() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy("wide", 1, "7", json!({})).await;
    town.deploy("web", 1, "500m", json!({})).await;
    town.wait_until("both run", 60, async |town| town.is_settled(2, &["l"]).await).await;
    town.scale("wide", 0).await;
    town.wait_until("one small node is left", 120, async |town| town.is_settled(1, &["s"]).await).await;
    assert_eq!(town.env.metrics.disruption.decisions.get(&["replace", "underutilized", "single"]), 1.0);
    let reasons = ["DisruptionLaunching", "DisruptionWaitingReadiness"];
    let told = reasons.map(|reason| town.env.events(reason).into_iter().map(|(_, text)| text).collect::<Vec<_>>());
    assert_eq!(told, [["Launching NodeClaim: Underutilized"], ["Waiting on readiness to continue disruption"]]);
    assert_eq!(
        town.env.events("ConsolidationCandidate")[0].1,
        format!("Consolidation candidate: replace: [{}] -> [1 replacement] (savings: $0.30)", old_node(&town))
    );
}

fn old_node(town: &TestCluster) -> String {
    town.env.decisions()["decisions"][0]["nodes"][0]["node"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_drifted_node_is_replaced_without_a_second_look() {
    let town = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    town.deploy("web", 1, "1500m", json!({})).await;
    town.wait_until("it runs", 60, async |town| town.is_settled(1, &["s"]).await).await;
    let old = town.env.only_claim().await;
    town.change_template().await;
    town.wait_until("it is tainted", 10, async |town| town.env.list::<Node>().await.iter().any(is_tainted)).await;
    town.wait_until("it is replaced", 60, async |town| {
        let claims = town.env.claims().await;
        claims.len() == 1 && claims[0].metadata.name != old.metadata.name && town.is_settled(1, &["s"]).await
    })
    .await;
    assert_eq!(town.env.metrics.disruption.decisions.get(&["replace", "drifted", ""]), 1.0);
    let pods = town.pods().await;
    let node = town.env.only_node().await;
    assert_eq!(node_of(&pods[0]), node.metadata.name.as_deref());
    assert_eq!(instance_type_of(&node), "s");
    assert_eq!(node.metadata.labels.unwrap()["colour"], "blue");
}

// spec 03 §8.5: no ConsolidationCandidate Event for a deletion without replacement.
#[tokio::test(start_paused = true)]
async fn a_node_whose_pods_fit_elsewhere_goes_without_being_announced() {
    let town = TestCluster::start(consolidating_pool(json!({}))).await;
    town.deploy("wide", 2, "3500m", json!({})).await;
    town.wait_until("they run", 60, async |town| town.running().await == 2 && town.types().await.len() == 1).await;
    town.deploy("web", 1, "7", json!({})).await;
    town.wait_until("all run", 60, async |town| town.running().await == 3 && town.types().await.len() == 2).await;
    town.deploy("small", 1, "200m", json!({})).await;
    town.wait_until("it runs, too", 60, async |town| town.running().await == 4).await;
    town.scale("web", 0).await;
    town.wait_until("one node is left", 120, async |town| town.types().await.len() == 1).await;
    assert_eq!(town.env.events("ConsolidationCandidate"), []);
}

// spec 03 #83, also where consolidation is disabled
#[tokio::test(start_paused = true)]
async fn a_drifted_node_whose_pods_fit_nowhere_says_so() {
    let mut town = TestCluster::without_controllers(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    // Only one such Event is kept per node, so disruption stays paused until the cluster is ready.
    town.env.settings.pause_disruption = true;
    town.restart();
    town.deploy("web", 1, "1500m", json!({"spec": {"nodeSelector": {"example.com/rack": "one"}}})).await;
    town.env.wait(5).await;
    town.deploy("other", 1, "1500m", json!({})).await;
    town.wait_until("one runs", 60, async |town| town.running().await == 1).await;
    let node = town.env.only_node().await.metadata.name.unwrap();
    town.env.patch::<Node>(&node, json!({"metadata": {"labels": {"example.com/rack": "one"}}})).await;
    town.scale("other", 0).await;
    town.wait_until("the picky one runs", 60, async |town| town.is_settled(1, &["s"]).await).await;
    town.env.settings.pause_disruption = false;
    town.restart();
    town.change_template().await;
    town.env.wait(60).await;
    let told: Vec<String> = town.env.events("DisruptionBlocked").into_iter().map(|(_, text)| text).collect();
    assert!(told.iter().any(|text| text.starts_with("Not all pods would schedule")), "{told:?}");
}

//! Nodes that are empty, underutilized or drifted (spec 03): which are disrupted, when, and what is
//! launched first.

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::test_cluster::{TestCluster, consolidating_pool, instance_type_of, is_tainted, node_of};

#[tokio::test(start_paused = true)]
async fn an_empty_node_is_deleted_after_validation() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy("web", 1, "900m", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    cluster.scale("web", 0).await;
    let took = cluster.wait_until("the node is removed", 60, async |cluster| cluster.types().await.is_empty()).await;
    assert!(took >= 15, "{took}");
    assert!(cluster.env.claims().await.is_empty());
    let metrics = &cluster.env.metrics;
    assert_eq!(metrics.disruption.decisions.get(&["delete", "empty", "empty"]), 1.0);
    assert_eq!(metrics.disruption.decisions_by_nodepool.get(&["general", "delete", "empty", "empty"]), 1.0);
    let labels = ["empty", "general", "on-demand", "when_empty_or_underutilized", "graceful"];
    assert_eq!(metrics.nodeclaims_disrupted.get(&labels), 1.0);
    let events: Vec<String> = cluster.env.events("DisruptionTerminating").into_iter().map(|(_, text)| text).collect();
    assert_eq!(events, ["Disrupting Node: Empty", "Disrupting NodeClaim: Empty"]);
    let decision = &cluster.env.decisions()["decisions"][0];
    assert_eq!((&decision["outcome"], &decision["reason"]), (&json!("succeeded"), &json!("Empty")));
}

// spec 04 #29 and #30
#[tokio::test(start_paused = true)]
async fn a_cluster_without_changes_is_rarely_evaluated() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy("web", 1, "1500m", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    cluster.env.wait(60).await;
    let evaluations = || cluster.env.metrics.disruption.evaluation_duration.count(&["underutilized", "single"]);
    let before = evaluations();
    cluster.env.wait(180).await;
    assert_eq!(evaluations(), before, "no evaluation in three minutes without a change");
    cluster.env.wait(600).await;
    assert!((before + 2..=before + 3).contains(&evaluations()), "{before} {}", evaluations());
    let before = evaluations();
    cluster.patch_pool(json!({"spec": {"weight": 10}})).await;
    cluster.env.wait(1).await;
    assert!(evaluations() > before, "a change of the pool's spec is evaluated within a second");
}

#[tokio::test(start_paused = true)]
async fn an_underutilized_node_is_deleted_and_its_pods_move() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    // Two large nodes, which are then nearly empty.
    cluster.deploy("wide", 2, "7", json!({})).await;
    cluster.wait_until("the pods run", 60, async |cluster| cluster.is_settled(2, &["l", "l"]).await).await;
    cluster.deploy("web", 2, "200m", json!({})).await;
    cluster.wait_until("all pods run", 60, async |cluster| cluster.running().await == 4).await;
    cluster.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "Never"}}})).await;
    cluster.scale("wide", 0).await;
    cluster.env.wait(20).await;
    assert_eq!(cluster.types().await, ["l", "l"], "consolidateAfter: Never disables consolidation");
    cluster.patch_pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    cluster.wait_until("one small node is left", 120, async |cluster| cluster.is_settled(2, &["s"]).await).await;
    cluster.advance(60).await;
    assert!(cluster.is_settled(2, &["s"]).await, "the node stays");
    let metrics = &cluster.env.metrics.disruption;
    assert_eq!(metrics.decisions.get(&["replace", "underutilized", "multi"]), 1.0);
    assert_eq!(cluster.env.metrics.nodeclaims_created.get(&["underutilized", "general", "false"]), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_replaced_by_a_cheaper_one_that_is_ready_first() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy("wide", 1, "7", json!({})).await;
    cluster.deploy("web", 1, "500m", json!({})).await;
    cluster.wait_until("both pods run", 60, async |cluster| cluster.is_settled(2, &["l"]).await).await;
    cluster.scale("wide", 0).await;
    cluster.wait_until("one small node is left", 120, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    assert_eq!(cluster.env.metrics.disruption.decisions.get(&["replace", "underutilized", "single"]), 1.0);
    let reasons = ["DisruptionLaunching", "DisruptionWaitingReadiness"];
    let events = reasons.map(|reason| cluster.env.events(reason).into_iter().map(|(_, text)| text).collect::<Vec<_>>());
    assert_eq!(events, [["Launching NodeClaim: Underutilized"], ["Waiting on readiness to continue disruption"]]);
    assert_eq!(
        cluster.env.events("ConsolidationCandidate")[0].1,
        format!("Consolidation candidate: replace: [{}] -> [1 replacement] (savings: $0.30)", old_node(&cluster))
    );
}

fn old_node(cluster: &TestCluster) -> String {
    cluster.env.decisions()["decisions"][0]["nodes"][0]["node"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_drifted_node_is_replaced_without_a_validation_delay() {
    let cluster = TestCluster::start(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    cluster.deploy("web", 1, "1500m", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["s"]).await).await;
    let old = cluster.env.only_claim().await;
    cluster.change_template().await;
    cluster
        .wait_until("the node is tainted", 10, async |cluster| cluster.env.list::<Node>().await.iter().any(is_tainted))
        .await;
    cluster
        .wait_until("the node is replaced", 60, async |cluster| {
            let claims = cluster.env.claims().await;
            claims.len() == 1 && claims[0].metadata.name != old.metadata.name && cluster.is_settled(1, &["s"]).await
        })
        .await;
    assert_eq!(cluster.env.metrics.disruption.decisions.get(&["replace", "drifted", ""]), 1.0);
    let pods = cluster.pods().await;
    let node = cluster.env.only_node().await;
    assert_eq!(node_of(&pods[0]), node.metadata.name.as_deref());
    assert_eq!(instance_type_of(&node), "s");
    assert_eq!(node.metadata.labels.unwrap()["colour"], "blue");
}

// spec 03 §8.5: no ConsolidationCandidate Event for a deletion without replacement.
#[tokio::test(start_paused = true)]
async fn a_deletion_without_replacement_has_no_candidate_event() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy("wide", 2, "3500m", json!({})).await;
    cluster
        .wait_until("the pods run", 60, async |cluster| {
            cluster.running().await == 2 && cluster.types().await.len() == 1
        })
        .await;
    cluster.deploy("web", 1, "7", json!({})).await;
    cluster
        .wait_until("all pods run", 60, async |cluster| {
            cluster.running().await == 3 && cluster.types().await.len() == 2
        })
        .await;
    cluster.deploy("small", 1, "200m", json!({})).await;
    cluster.wait_until("the other pod runs too", 60, async |cluster| cluster.running().await == 4).await;
    cluster.scale("web", 0).await;
    cluster.wait_until("one node is left", 120, async |cluster| cluster.types().await.len() == 1).await;
    assert_eq!(cluster.env.events("ConsolidationCandidate"), []);
}

// spec 03 #83, also where consolidation is disabled
#[tokio::test(start_paused = true)]
async fn a_drifted_node_whose_pods_fit_nowhere_has_an_event() {
    let mut cluster = TestCluster::without_controllers(consolidating_pool(json!({"consolidateAfter": "Never"}))).await;
    // Only one such Event is kept per node, so disruption stays paused until the cluster is ready.
    cluster.env.settings.pause_disruption = true;
    cluster.restart();
    cluster.deploy("web", 1, "1500m", json!({"spec": {"nodeSelector": {"example.com/rack": "one"}}})).await;
    cluster.env.wait(5).await;
    cluster.deploy("other", 1, "1500m", json!({})).await;
    cluster.wait_until("one pod runs", 60, async |cluster| cluster.running().await == 1).await;
    let node = cluster.env.only_node().await.metadata.name.unwrap();
    cluster.env.patch::<Node>(&node, json!({"metadata": {"labels": {"example.com/rack": "one"}}})).await;
    cluster.scale("other", 0).await;
    cluster
        .wait_until("the pod with a node selector runs", 60, async |cluster| cluster.is_settled(1, &["s"]).await)
        .await;
    cluster.env.settings.pause_disruption = false;
    cluster.restart();
    cluster.change_template().await;
    cluster.env.wait(60).await;
    let events: Vec<String> = cluster.env.events("DisruptionBlocked").into_iter().map(|(_, text)| text).collect();
    assert!(events.iter().any(|text| text.starts_with("Not all pods would schedule")), "{events:?}");
}

//! Backoff of disruption: a move that would reverse an earlier move waits, longer each time, also
//! after a restart of the controllers.

use kerf_api::nodeclaim::NodeClaim;
use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, catalogue_with_prices, consolidating_pool};

/// Prices at which a small instance is the cheapest for a small pod, and prices at which a large
/// one is.
const USUAL_PRICES: [f64; 3] = [0.1, 0.2, 0.4];
const INVERTED_PRICES: [f64; 3] = [0.5, 0.9, 0.4];

/// Returns the annotation of the only claim that lists what it replaced.
async fn replaced_annotation(cluster: &TestCluster) -> Value {
    let claim: NodeClaim = cluster.env.only_claim().await;
    let annotations = claim.metadata.annotations.unwrap_or_default();
    annotations.get("kerf.sh/replaced").map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

/// Returns the codes of commands that were found and are held.
fn held_codes(cluster: &TestCluster) -> Vec<Value> {
    let last = &cluster.env.decisions()["lastPass"];
    last["held"].as_array().unwrap().iter().map(|held| held["code"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_move_is_not_reversed_within_the_hour_and_the_next_reversal_waits_longer() {
    let mut cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy_oversized().await;
    let first = cluster.env.only_claim().await.metadata.name.unwrap();
    cluster
        .wait_until("the small node replaces the large one", 120, async |cluster| cluster.is_settled(1, &["s"]).await)
        .await;
    let annotation = replaced_annotation(&cluster).await;
    assert_eq!(
        (&annotation["nodeClaims"], &annotation["instanceTypes"], &annotation["reversals"]),
        (&json!([first]), &json!(["l"]), &json!(0))
    );

    // Prices change while no controllers run. The successor knows only the annotation on the claim.
    cluster.catalogue = catalogue_with_prices(INVERTED_PRICES);
    cluster.restart();
    cluster.advance(50 * 60).await;
    assert!(cluster.is_settled(1, &["s"]).await, "the reversal waits for an hour");
    assert_eq!(held_codes(&cluster), [json!("ReversedMove")]);
    cluster
        .wait_until("the large node replaces the small one", 15 * 60, async |cluster| {
            cluster.is_settled(1, &["l"]).await
        })
        .await;
    let annotation = replaced_annotation(&cluster).await;
    assert_eq!((&annotation["instanceTypes"], &annotation["reversals"]), (&json!(["s"]), &json!(1)));

    // The next reversal waits twice as long.
    cluster.catalogue = catalogue_with_prices(USUAL_PRICES);
    cluster.restart();
    cluster.advance(110 * 60).await;
    assert!(cluster.is_settled(1, &["l"]).await, "the second reversal waits for two hours");
    assert_eq!(held_codes(&cluster), [json!("ReversedMove")]);
    cluster
        .wait_until("the small node replaces the large one", 15 * 60, async |cluster| {
            cluster.is_settled(1, &["s"]).await
        })
        .await;
    assert_eq!(replaced_annotation(&cluster).await["reversals"], 2);
}

/// Only moves that save money wait: drifted nodes are replaced at once.
#[tokio::test(start_paused = true)]
async fn a_drifted_node_does_not_wait() {
    let cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.deploy_oversized().await;
    cluster
        .wait_until("the small node replaces the large one", 120, async |cluster| cluster.is_settled(1, &["s"]).await)
        .await;
    let moved = cluster.env.only_claim().await.metadata.name.unwrap();
    cluster.change_template().await;
    cluster
        .wait_until("the node is replaced", 120, async |cluster| {
            let claims = cluster.env.claims().await;
            claims.len() == 1 && claims[0].metadata.name.as_ref() != Some(&moved) && cluster.is_settled(1, &["s"]).await
        })
        .await;
    let annotation = replaced_annotation(&cluster).await;
    assert_eq!((&annotation["nodeClaims"], &annotation["instanceTypes"]), (&json!([moved]), &Value::Null));
}

/// Returns prices at which a small instance is cheaper by this many thousandths of a dollar.
fn prices_lower_by(thousandths: u32) -> [f64; 3] {
    [0.4 - f64::from(thousandths) / 1000.0, 0.4, 0.4]
}

async fn cluster_with_pod_age(minutes: u64, thousandths: u32) -> TestCluster {
    cluster_with_pod_age_seconds(minutes * 60, thousandths).await
}

/// Creates a cluster with one large node, which was the cheapest, whose only pod has this age when
/// small instances become slightly cheaper.
async fn cluster_with_pod_age_seconds(seconds: u64, thousandths: u32) -> TestCluster {
    let mut cluster = TestCluster::start(consolidating_pool(json!({}))).await;
    cluster.catalogue = catalogue_with_prices(INVERTED_PRICES);
    cluster.restart();
    cluster.deploy("web", 1, "500m", json!({})).await;
    cluster.wait_until("the pod runs", 60, async |cluster| cluster.is_settled(1, &["l"]).await).await;
    cluster.advance(seconds).await;
    cluster.catalogue = catalogue_with_prices(prices_lower_by(thousandths));
    cluster.restart();
    cluster
}

#[tokio::test(start_paused = true)]
async fn settled_pods_are_not_moved_for_low_savings() {
    let mut cluster = cluster_with_pod_age(61, 9).await;
    cluster.advance(20 * 60).await;
    assert!(cluster.is_settled(1, &["l"]).await, "saving 0.009 of 0.4 dollars is less than 1/40");
    assert_eq!(held_codes(&cluster), [json!("SmallChange")]);

    cluster.catalogue = catalogue_with_prices(prices_lower_by(10));
    cluster.restart();
    cluster
        .wait_until("the small node replaces the large one, for 1/40 of the cost", 120, async |cluster| {
            cluster.is_settled(1, &["s"]).await
        })
        .await;
}

// spec 03 §16 rule 24: the second look
#[tokio::test(start_paused = true)]
async fn pods_that_settle_before_validation_are_not_moved_for_low_savings() {
    let cluster = cluster_with_pod_age_seconds(3600 - 12, 9).await;
    cluster.advance(20 * 60).await;
    assert!(cluster.is_settled(1, &["l"]).await, "the pod settled between the first look and the second");
    assert_eq!(held_codes(&cluster), [json!("SmallChange")]);
}

#[tokio::test(start_paused = true)]
async fn young_pods_are_moved_for_low_savings() {
    let cluster = cluster_with_pod_age(10, 9).await;
    cluster
        .wait_until("the small node replaces the large one", 120, async |cluster| cluster.is_settled(1, &["s"]).await)
        .await;
}

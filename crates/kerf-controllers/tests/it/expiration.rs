//! Expiration: a claim is deleted when `expireAfter` has passed, whatever protects it (spec 03
//! §12.1).

use kerf_api::nodepool::NodePool;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::test_env::TestEnv;

const DISRUPTED_LABELS: [&str; 5] = ["expired", "general", "", "", "graceful"];

/// Returns the names of claims that are not being deleted.
async fn remaining_claims(rig: &TestEnv) -> Vec<String> {
    let all = rig.claims().await.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
    all.map(|claim| claim.metadata.name.unwrap()).collect()
}

// spec 03 #118
#[tokio::test(start_paused = true)]
async fn a_claim_ends_at_the_instant_at_which_it_expires() {
    let rig = TestEnv::start().await;
    let none = json!({"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}});
    rig.patch::<NodePool>("general", none).await;
    rig.create_claim("short", json!({"expireAfter": "30s"})).await;
    rig.create_claim("long", json!({"expireAfter": "200s"})).await;
    rig.create_claim("never", json!({"expireAfter": "Never"})).await;
    rig.wait(2).await;
    let node = rig.api::<kerf_api::nodeclaim::NodeClaim>().get("short").await.unwrap().status.unwrap();
    let node = node.node_name.unwrap();
    rig.make_ready(&node).await;
    rig.pending_pod("web", "100m", json!({})).await;
    let kept = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    rig.pods().patch("web", &PatchParams::default(), &kept).await.unwrap();
    rig.bind("web", &node).await;
    rig.wait(26).await;
    assert_eq!(remaining_claims(&rig).await, ["long", "never", "short"], "28 seconds old");
    rig.wait(3).await;
    assert_eq!(remaining_claims(&rig).await, ["long", "never"]);
    let mut counted = DISRUPTED_LABELS;
    counted[2] = "spot";
    assert_eq!(rig.metrics.nodeclaims_disrupted.get(&counted), 1.0);
    assert_eq!(rig.metrics.pods_disruption_initiated.get(&counted), 1.0);
    rig.wait(160).await;
    assert_eq!(remaining_claims(&rig).await, ["long", "never"]);
    assert_eq!(rig.metrics.nodeclaims_disrupted.get(&counted), 1.0, "it is still draining, and counted once");
    rig.wait(15).await;
    assert_eq!(remaining_claims(&rig).await, ["never"]);
    rig.wait(1000).await;
    assert_eq!(remaining_claims(&rig).await, ["never"]);
}

/// A claim that expired while no controllers ran is deleted at the next start, also without a pool.
#[tokio::test(start_paused = true)]
async fn what_expired_while_nobody_was_there_ends_at_the_next_start() {
    let mut rig = TestEnv::start().await;
    rig.stop();
    rig.create_claim("a", json!({"expireAfter": "30s"})).await;
    rig.patch::<kerf_api::nodeclaim::NodeClaim>("a", json!({"metadata": {"labels": {"karpenter.sh/nodepool": null}}}))
        .await;
    rig.wait(60).await;
    let cloud = kerf_kwok::Kwok::new(rig.server.client_as("kwok"), rig.clock, kerf_kwok::built_in_catalogue());
    let rig = rig.start_controllers(std::sync::Arc::new(cloud)).await;
    assert_eq!(remaining_claims(&rig).await, Vec::<String>::new());
}

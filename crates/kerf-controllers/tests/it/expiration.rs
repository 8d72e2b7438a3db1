//! Expiration: a claim is deleted when `expireAfter` has passed, whatever protects it (spec 03
//! §12.1).

use kerf_api::nodepool::NodePool;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::test_env::TestEnv;

const DISRUPTED_LABELS: [&str; 5] = ["expired", "general", "", "", "graceful"];

/// Returns the names of claims that are not being deleted.
async fn remaining_claims(env: &TestEnv) -> Vec<String> {
    let all = env.claims().await.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
    all.map(|claim| claim.metadata.name.unwrap()).collect()
}

// spec 03 #118
#[tokio::test(start_paused = true)]
async fn a_claim_is_deleted_when_it_expires() {
    let env = TestEnv::start().await;
    let none = json!({"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}});
    env.patch::<NodePool>("general", none).await;
    env.create_claim("short", json!({"expireAfter": "30s"})).await;
    env.create_claim("long", json!({"expireAfter": "200s"})).await;
    env.create_claim("never", json!({"expireAfter": "Never"})).await;
    env.wait(2).await;
    let node = env.api::<kerf_api::nodeclaim::NodeClaim>().get("short").await.unwrap().status.unwrap();
    let node = node.node_name.unwrap();
    env.make_ready(&node).await;
    env.pending_pod("web", "100m", json!({})).await;
    let protected = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    env.pods().patch("web", &PatchParams::default(), &protected).await.unwrap();
    env.bind("web", &node).await;
    env.wait(26).await;
    assert_eq!(remaining_claims(&env).await, ["long", "never", "short"], "28 seconds old");
    env.wait(3).await;
    assert_eq!(remaining_claims(&env).await, ["long", "never"]);
    let mut labels = DISRUPTED_LABELS;
    labels[2] = "spot";
    assert_eq!(env.metrics.nodeclaims_disrupted.get(&labels), 1.0);
    assert_eq!(env.metrics.pods_disruption_initiated.get(&labels), 1.0);
    env.wait(160).await;
    assert_eq!(remaining_claims(&env).await, ["long", "never"]);
    assert_eq!(env.metrics.nodeclaims_disrupted.get(&labels), 1.0, "the draining claim is counted once");
    env.wait(15).await;
    assert_eq!(remaining_claims(&env).await, ["never"]);
    env.wait(1000).await;
    assert_eq!(remaining_claims(&env).await, ["never"]);
}

/// A claim that expired while no controllers ran is deleted at the next start, also without a pool.
#[tokio::test(start_paused = true)]
async fn a_claim_that_expired_while_no_controllers_ran_is_deleted_at_the_next_start() {
    let mut env = TestEnv::start().await;
    env.stop();
    env.create_claim("a", json!({"expireAfter": "30s"})).await;
    env.patch::<kerf_api::nodeclaim::NodeClaim>("a", json!({"metadata": {"labels": {"karpenter.sh/nodepool": null}}}))
        .await;
    env.wait(60).await;
    let cloud = kerf_kwok::Kwok::new(env.server.client_as("kwok"), env.clock, kerf_kwok::built_in_catalogue());
    let env = env.start_controllers(std::sync::Arc::new(cloud)).await;
    assert_eq!(remaining_claims(&env).await, Vec::<String>::new());
}

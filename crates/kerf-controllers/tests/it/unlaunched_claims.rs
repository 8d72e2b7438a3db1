//! A claim that fails to launch delays only the pods that it was created for (spec 04 §4.9).

use std::sync::Arc;

use kerf_api::nodepool::NodePool;
use serde_json::{Value, json};

use crate::cloud::ScriptedCloud;
use crate::launch::env_with_scripted_cloud;
use crate::test_env::{TestEnv, claim_condition, pool};

/// Creates the pools `general` and `broken`. Launches of `broken` fail. `spec` is merged into the
/// spec of `broken`.
async fn env_with_broken_pool(spec: Value) -> (TestEnv, Arc<ScriptedCloud>) {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.failing_pools.lock().unwrap().push("broken");
    env.create::<NodePool>(pool("general", json!({"weight": 1}))).await;
    let mut broken = pool("broken", json!({"template": {"metadata": {"labels": {"team": "broken"}}}}));
    crate::test_env::merge(&mut broken["spec"], spec);
    env.create::<NodePool>(broken).await;
    env.wait(2).await;
    (env, cloud)
}

async fn claims_of(env: &TestEnv, pool: &str) -> usize {
    let labels = env.claims().await.into_iter().filter_map(|claim| claim.metadata.labels);
    labels.filter(|labels| labels["karpenter.sh/nodepool"] == pool).count()
}

fn on_broken() -> Value {
    json!({"nodeSelector": {"team": "broken"}})
}

// spec 04 #143
#[tokio::test(start_paused = true)]
async fn a_claim_that_fails_to_launch_delays_no_other_pod() {
    let (env, cloud) = env_with_broken_pool(json!({})).await;
    env.pending_pod("stuck", "1", on_broken()).await;
    env.wait(20).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Launched"), "Unknown/LaunchFailed");
    env.pending_pod("other", "1", json!({})).await;
    env.pending_pod("another", "1", on_broken()).await;
    env.wait(15).await;
    assert_eq!((claims_of(&env, "general").await, claims_of(&env, "broken").await), (1, 2));
    // The pods stay assigned to the claims that do not launch.
    env.wait(120).await;
    assert_eq!((claims_of(&env, "general").await, claims_of(&env, "broken").await), (1, 2));
    cloud.failing_pools.lock().unwrap().clear();
    env.wait(90).await;
    let claims = env.claims().await;
    assert!(claims.iter().all(|claim| claim_condition(claim, "Launched") == "True/Launched"), "{claims:#?}");
    assert_eq!(claims.len(), 3, "nothing is launched twice");
}

// spec 04 #144
#[tokio::test(start_paused = true)]
async fn a_pool_with_limits_waits_for_its_unlaunched_claims() {
    let (env, cloud) = env_with_broken_pool(json!({"limits": {"cpu": "1000"}})).await;
    env.pending_pod("stuck", "1", on_broken()).await;
    env.wait(20).await;
    env.pending_pod("other", "1", json!({})).await;
    env.pending_pod("another", "1", on_broken()).await;
    env.wait(60).await;
    assert_eq!((claims_of(&env, "general").await, claims_of(&env, "broken").await), (1, 1));
    cloud.failing_pools.lock().unwrap().clear();
    env.wait(90).await;
    assert_eq!((claims_of(&env, "general").await, claims_of(&env, "broken").await), (1, 2));
}

// spec 04 #145
#[tokio::test(start_paused = true)]
async fn after_a_restart_a_claim_with_unknown_pods_is_waited_for() {
    let (mut env, cloud) = env_with_broken_pool(json!({})).await;
    env.pending_pod("stuck", "1", on_broken()).await;
    env.wait(20).await;
    env.restart(cloud.clone());
    env.wait(60).await;
    env.only_claim().await;
    cloud.failing_pools.lock().unwrap().clear();
    env.wait(90).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Launched"), "True/Launched", "nothing is launched twice");
}

// spec 04 #146
#[tokio::test(start_paused = true)]
async fn the_pods_of_a_claim_that_never_launches_get_another_claim_when_it_is_deleted() {
    let (env, cloud) = env_with_broken_pool(json!({})).await;
    env.pending_pod("stuck", "1", on_broken()).await;
    env.wait(20).await;
    let first = env.only_claim().await.metadata.name;
    env.wait(5 * 60).await;
    cloud.failing_pools.lock().unwrap().clear();
    env.wait(60).await;
    let claim = env.only_claim().await;
    assert_ne!(claim.metadata.name, first);
    assert_eq!(claim_condition(&claim, "Launched"), "True/Launched");
}

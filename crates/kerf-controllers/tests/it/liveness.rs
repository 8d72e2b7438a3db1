//! Claims that do not launch or register, and the registration health of their pool (spec 04 §5.6,
//! §5.7, §8.4).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodepool::NodePool;
use kerf_cloud::{CreateError, Instance};
use kube::api::DeleteParams;
use serde_json::json;

use crate::cloud::{ScriptedCloud, ScriptedLaunch};
use crate::launch::env_with_scripted_cloud;
use crate::test_env::{TestEnv, claim_condition, pool, pool_condition};

const HEALTH: &str = "NodeRegistrationHealthy";

fn launch_that_never_joins(n: usize) -> ScriptedLaunch {
    ScriptedLaunch::Returns(Instance { provider_id: format!("kwok://never-{n}"), ..Instance::default() })
}

async fn env_with_pool() -> (TestEnv, Arc<ScriptedCloud>) {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    env.wait(2).await;
    (env, cloud)
}

async fn general_pool(env: &TestEnv) -> NodePool {
    env.api().get("general").await.unwrap()
}

// spec 04 #61, spec 01 #69
#[tokio::test(start_paused = true)]
async fn a_claim_whose_launch_keeps_failing_is_deleted() {
    let (env, cloud) = env_with_scripted_cloud().await;
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::Other("boom".into()));
    env.create_claim("a", json!({})).await;
    env.wait(60).await;
    env.only_claim().await;
    env.wait(5 * 60).await;
    assert_eq!(env.claims().await, []);
}

// spec 04 #62, #73, spec 01 #69
#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_never_joins_is_deleted_after_15_minutes() {
    let (env, cloud) = env_with_scripted_cloud().await;
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::Other("boom".into()));
    env.create_claim("a", json!({})).await;
    env.wait(3 * 60).await;
    *cloud.always_fails.lock().unwrap() = None;
    cloud.script_launch(launch_that_never_joins(1));
    env.wait(61).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Launched"), "True/Launched");
    // `Registered` has been Unknown since the creation of the claim, so the timeout counts from
    // there.
    env.wait(10 * 60 + 50).await;
    env.only_claim().await;
    env.wait(60).await;
    assert_eq!(env.claims().await, []);
    assert!(cloud.deleted.load(Ordering::SeqCst) > 0, "its instance is terminated");
}

// spec 04 #63
#[tokio::test(start_paused = true)]
async fn a_registered_claim_is_never_deleted_by_liveness() {
    let env = TestEnv::start().await;
    env.create_claim("a", json!({})).await;
    env.wait(5).await;
    let node = env.only_node().await.metadata.name.unwrap();
    env.make_ready(&node).await;
    env.wait(5).await;
    env.set_ready_condition(&node, "False").await;
    // Eight times the registration timeout.
    env.wait(2 * 3600).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Registered"), "True/Registered");
}

// spec 04 #64
#[tokio::test(start_paused = true)]
async fn two_failed_launches_make_a_pool_unhealthy() {
    let (env, cloud) = env_with_pool().await;
    assert_eq!(pool_condition(&general_pool(&env).await, HEALTH), "Unknown/AwaitingReconciliation");
    let rejected_launch =
        || CreateError::Rejected { reason: "Fraud".into(), message: "call us".into(), cause: "403".into() };
    *cloud.always_fails.lock().unwrap() = Some(rejected_launch);
    env.create_claim("a", json!({})).await;
    env.wait(6 * 60).await;
    assert_eq!(env.claims().await, []);
    assert_eq!(pool_condition(&general_pool(&env).await, HEALTH), "Unknown/AwaitingReconciliation");
    env.create_claim("b", json!({})).await;
    env.wait(6 * 60).await;
    let general = general_pool(&env).await;
    assert_eq!(pool_condition(&general, HEALTH), "False/Fraud");
    assert_eq!(pool_condition(&general, "Ready"), "True/Ready", "readiness does not depend on registration health");
}

// spec 04 #65, #66
#[tokio::test(start_paused = true)]
async fn two_failed_registrations_make_a_pool_unhealthy_and_one_success_is_not_enough() {
    let (env, cloud) = env_with_pool().await;
    for n in 0..2 {
        cloud.script_launch(launch_that_never_joins(n));
        env.create_claim(&format!("a{n}"), json!({})).await;
    }
    env.wait(16 * 60).await;
    let unhealthy = general_pool(&env).await;
    assert_eq!(pool_condition(&unhealthy, HEALTH), "False/RegistrationFailed");
    let conditions = unhealthy.status.unwrap().conditions;
    assert_eq!(conditions.iter().find(|c| c.condition_type == HEALTH).unwrap().message, "Failed to register node");
    env.create_claim("b", json!({})).await;
    env.wait(5).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Registered"), "True/Registered");
    assert_eq!(pool_condition(&general_pool(&env).await, HEALTH), "False/RegistrationFailed");
}

// spec 04 #67
#[tokio::test(start_paused = true)]
async fn a_recreated_pool_has_no_registration_history() {
    let (env, cloud) = env_with_pool().await;
    for n in 0..2 {
        cloud.script_launch(launch_that_never_joins(n));
        env.create_claim(&format!("a{n}"), json!({})).await;
    }
    env.wait(14 * 60).await;
    // The claims outlive their pool, because no garbage collector runs here.
    env.api::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
    env.create::<NodePool>(pool("general", json!({}))).await;
    env.wait(3 * 60).await;
    assert_eq!(env.claims().await, []);
    assert_eq!(pool_condition(&general_pool(&env).await, HEALTH), "Unknown/AwaitingReconciliation");
}

// spec 04 #68, #69
#[tokio::test(start_paused = true)]
async fn a_restart_keeps_registration_health_and_a_change_resets_it() {
    let (mut env, cloud) = env_with_pool().await;
    env.create_claim("a", json!({})).await;
    env.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&env).await, HEALTH), "True/NodeRegistrationHealthy");
    env.restart(cloud.clone());
    env.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&env).await, HEALTH), "True/NodeRegistrationHealthy");
    // After one restored success, one failure does not make the pool unhealthy; two do.
    for n in 0..2 {
        cloud.script_launch(launch_that_never_joins(n));
        env.create_claim(&format!("b{n}"), json!({})).await;
    }
    env.wait(16 * 60).await;
    assert_eq!(pool_condition(&general_pool(&env).await, HEALTH), "False/RegistrationFailed");
    env.restart(cloud.clone());
    env.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&env).await, HEALTH), "False/RegistrationFailed");
    env.patch::<NodePool>("general", json!({"spec": {"weight": 7}})).await;
    env.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&env).await, HEALTH), "Unknown/AwaitingReconciliation");
    env.create_claim("c", json!({})).await;
    env.wait(5).await;
    assert_eq!(
        pool_condition(&general_pool(&env).await, HEALTH),
        "True/NodeRegistrationHealthy",
        "the registration history was empty"
    );
    env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "1s"}})).await;
    env.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&env).await, HEALTH), "Unknown/AwaitingReconciliation");
}

// spec 04 #70
#[tokio::test(start_paused = true)]
async fn without_a_class_there_is_no_registration_health() {
    let env = TestEnv::start().await;
    let elsewhere = json!({"template": {"spec": {"nodeClassRef": {"name": "nowhere"}}}});
    env.create::<NodePool>(pool("lost", elsewhere)).await;
    env.wait(5).await;
    let lost: NodePool = env.api().get("lost").await.unwrap();
    assert_eq!(pool_condition(&lost, HEALTH), "absent");
    assert_eq!(pool_condition(&lost, "NodeClassReady"), "False/NodeClassNotFound");
}

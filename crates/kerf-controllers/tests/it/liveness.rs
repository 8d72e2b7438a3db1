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
    let (rig, cloud) = env_with_scripted_cloud().await;
    rig.create::<NodePool>(pool("general", json!({}))).await;
    rig.wait(2).await;
    (rig, cloud)
}

async fn general_pool(rig: &TestEnv) -> NodePool {
    rig.api().get("general").await.unwrap()
}

// spec 04 #61, spec 01 #69
#[tokio::test(start_paused = true)]
async fn a_launch_that_keeps_failing_is_given_up() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::Other("boom".into()));
    rig.create_claim("a", json!({})).await;
    rig.wait(60).await;
    rig.only_claim().await;
    rig.wait(5 * 60).await;
    assert_eq!(rig.claims().await, []);
}

// spec 04 #62, #73, spec 01 #69
#[tokio::test(start_paused = true)]
async fn a_machine_that_never_joins_is_given_up_15_minutes_after_its_launch() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::Other("boom".into()));
    rig.create_claim("a", json!({})).await;
    rig.wait(3 * 60).await;
    *cloud.always_fails.lock().unwrap() = None;
    cloud.script_launch(launch_that_never_joins(1));
    rig.wait(61).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "Launched"), "True/Launched");
    // `Registered` has been Unknown since the creation of the claim, so the timeout counts from
    // there.
    rig.wait(10 * 60 + 50).await;
    rig.only_claim().await;
    rig.wait(60).await;
    assert_eq!(rig.claims().await, []);
    assert!(cloud.deleted.load(Ordering::SeqCst) > 0, "its machine is terminated");
}

// spec 04 #63
#[tokio::test(start_paused = true)]
async fn a_registered_claim_is_never_given_up() {
    let rig = TestEnv::start().await;
    rig.create_claim("a", json!({})).await;
    // Eight times the registration timeout.
    rig.wait(2 * 3600).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "Registered"), "True/Registered");
}

// spec 04 #64
#[tokio::test(start_paused = true)]
async fn two_failed_launches_make_a_pool_unhealthy() {
    let (rig, cloud) = env_with_pool().await;
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "Unknown/AwaitingReconciliation");
    let refuse = || CreateError::Refused { reason: "Fraud".into(), message: "call us".into(), cause: "403".into() };
    *cloud.always_fails.lock().unwrap() = Some(refuse);
    rig.create_claim("a", json!({})).await;
    rig.wait(6 * 60).await;
    assert_eq!(rig.claims().await, []);
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "Unknown/AwaitingReconciliation");
    rig.create_claim("b", json!({})).await;
    rig.wait(6 * 60).await;
    let general = general_pool(&rig).await;
    assert_eq!(pool_condition(&general, HEALTH), "False/Fraud");
    assert_eq!(pool_condition(&general, "Ready"), "True/Ready", "health has no part in readiness");
}

// spec 04 #65, #66
#[tokio::test(start_paused = true)]
async fn two_machines_that_never_join_make_a_pool_unhealthy_and_one_that_does_is_not_enough() {
    let (rig, cloud) = env_with_pool().await;
    for n in 0..2 {
        cloud.script_launch(launch_that_never_joins(n));
        rig.create_claim(&format!("a{n}"), json!({})).await;
    }
    rig.wait(16 * 60).await;
    let unhealthy = general_pool(&rig).await;
    assert_eq!(pool_condition(&unhealthy, HEALTH), "False/RegistrationFailed");
    let conditions = unhealthy.status.unwrap().conditions;
    assert_eq!(conditions.iter().find(|c| c.condition_type == HEALTH).unwrap().message, "Failed to register node");
    rig.create_claim("b", json!({})).await;
    rig.wait(5).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "Registered"), "True/Registered");
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "False/RegistrationFailed");
}

// spec 04 #67
#[tokio::test(start_paused = true)]
async fn a_pool_made_anew_has_no_past() {
    let (rig, cloud) = env_with_pool().await;
    for n in 0..2 {
        cloud.script_launch(launch_that_never_joins(n));
        rig.create_claim(&format!("a{n}"), json!({})).await;
    }
    rig.wait(14 * 60).await;
    // The claims outlive their pool, because no garbage collector runs here.
    rig.api::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
    rig.create::<NodePool>(pool("general", json!({}))).await;
    rig.wait(3 * 60).await;
    assert_eq!(rig.claims().await, []);
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "Unknown/AwaitingReconciliation");
}

// spec 04 #68, #69
#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_verdict_and_a_change_starts_afresh() {
    let (mut rig, cloud) = env_with_pool().await;
    rig.create_claim("a", json!({})).await;
    rig.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "True/NodeRegistrationHealthy");
    rig.restart(cloud.clone());
    rig.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "True/NodeRegistrationHealthy");
    // After one restored success, one failure does not make the pool unhealthy; two do.
    for n in 0..2 {
        cloud.script_launch(launch_that_never_joins(n));
        rig.create_claim(&format!("b{n}"), json!({})).await;
    }
    rig.wait(16 * 60).await;
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "False/RegistrationFailed");
    rig.restart(cloud.clone());
    rig.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "False/RegistrationFailed");
    rig.patch::<NodePool>("general", json!({"spec": {"weight": 7}})).await;
    rig.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "Unknown/AwaitingReconciliation");
    rig.create_claim("c", json!({})).await;
    rig.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "True/NodeRegistrationHealthy", "the ring was empty");
    rig.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "1s"}})).await;
    rig.wait(5).await;
    assert_eq!(pool_condition(&general_pool(&rig).await, HEALTH), "Unknown/AwaitingReconciliation");
}

// spec 04 #70
#[tokio::test(start_paused = true)]
async fn without_a_class_there_is_no_verdict() {
    let rig = TestEnv::start().await;
    let elsewhere = json!({"template": {"spec": {"nodeClassRef": {"name": "nowhere"}}}});
    rig.create::<NodePool>(pool("lost", elsewhere)).await;
    rig.wait(5).await;
    let lost: NodePool = rig.api().get("lost").await.unwrap();
    assert_eq!(pool_condition(&lost, HEALTH), "absent");
    assert_eq!(pool_condition(&lost, "NodeClassReady"), "False/NodeClassNotFound");
}

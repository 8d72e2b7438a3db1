//! Launch: the finalizer is stored first, one instance per claim, and the reactions to errors (spec
//! 04 §5.3).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodepool::NodePool;
use kerf_cloud::{CreateError, Instance};
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_sandbox::{Fault, FaultRule, Verb};
use serde_json::json;

use crate::cloud::{ScriptedCloud, ScriptedLaunch};
use crate::test_env::{TestEnv, claim_condition, pool};

/// Creates an environment with a scripted cloud and no pool.
pub(crate) async fn env_with_scripted_cloud() -> (TestEnv, Arc<ScriptedCloud>) {
    let env = TestEnv::without_controllers().await;
    let cloud =
        Arc::new(ScriptedCloud::wrapping(Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue())));
    (env.start_controllers(cloud.clone()).await, cloud)
}

// spec 04 #39, spec 01 #58
#[tokio::test(start_paused = true)]
async fn a_claim_of_another_provider_is_ignored() {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.create_claim("theirs", json!({"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "OtherClass"}})).await;
    env.wait(3600).await;
    let claim = env.only_claim().await;
    assert_eq!(claim.metadata.finalizers, None);
    assert_eq!(claim.status.map(|status| status.conditions).unwrap_or_default(), []);
    assert_eq!(cloud.created.load(Ordering::SeqCst), 0);
}

// spec 01 §1: unmanaged claims are ignored completely
#[tokio::test(start_paused = true)]
async fn a_claim_of_another_provider_does_not_block_provisioning() {
    let env = TestEnv::without_controllers().await;
    let theirs = json!({"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}});
    env.create_claim("theirs", theirs.clone()).await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
    let env = env.start_controllers(Arc::new(cloud)).await;
    env.pending_pod("first", "1", json!({})).await;
    env.wait(15).await;
    assert_eq!(
        env.claims().await.len(),
        2,
        "a claim of another provider that existed before the controllers is ignored"
    );
    env.create_claim("theirs-too", theirs).await;
    env.pending_pod("second", "100", json!({})).await;
    env.wait(15).await;
    assert_eq!(env.claims().await.len(), 4, "a claim of another provider that is created later is ignored");
}

// spec 04 #40, spec 01 #58
#[tokio::test(start_paused = true)]
async fn the_finalizer_is_stored_before_anything_is_launched() {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.inject_fault(Fault::InternalError, Verb::Patch, "nodeclaims");
    env.create_claim("a", json!({})).await;
    env.wait(60).await;
    assert_eq!(cloud.created.load(Ordering::SeqCst), 0, "no instance without a finalizer");
    env.server.set_faults(Vec::new(), 1);
    env.wait(60).await;
    assert_eq!(cloud.created.load(Ordering::SeqCst), 1);
    assert_eq!(env.only_claim().await.metadata.finalizers.unwrap(), ["karpenter.sh/termination"]);
}

// spec 04 #41, spec 01 #68
#[tokio::test(start_paused = true)]
async fn a_claim_that_can_never_be_launched_is_deleted() {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Fails(|| CreateError::InsufficientCapacity("no hosts in a".into())));
    env.create_claim("a", json!({})).await;
    env.wait(5).await;
    assert_eq!(env.claims().await, []);
    assert_eq!(
        env.events("InsufficientCapacityError"),
        [("a".into(), "NodeClaim a event: insufficient capacity, no hosts in a".into())]
    );
    cloud.script_launch(ScriptedLaunch::Fails(|| CreateError::NodeClassNotReady("no subnets".into())));
    env.create_claim("b", json!({})).await;
    env.wait(5).await;
    assert_eq!(env.claims().await, []);
    assert_eq!(env.events("InsufficientCapacityError").len(), 1, "a node class that is not ready has no Event");
    assert_eq!(cloud.deleted.load(Ordering::SeqCst), 0, "there is no instance to terminate");
    assert_eq!(cloud.created.load(Ordering::SeqCst), 2, "no launch is retried");
}

// spec 04 #42, spec 01 #68
#[tokio::test(start_paused = true)]
async fn a_rejected_launch_with_reason_and_message_sets_the_condition_and_is_retried() {
    let (env, cloud) = env_with_scripted_cloud().await;
    let rejected_launch =
        || CreateError::Rejected { reason: "Fraud".into(), message: "call us".into(), cause: "403".into() };
    *cloud.always_fails.lock().unwrap() = Some(rejected_launch);
    env.create_claim("a", json!({})).await;
    env.wait(10).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "Launched"), "Unknown/Fraud");
    let launched = claim.status.unwrap().conditions.into_iter().find(|c| c.condition_type == "Launched").unwrap();
    assert_eq!(launched.message, "call us");
    // The condition has the provider's summary, the Event the whole error.
    let text = "Failed to launch the instance: creating nodeclaim, 403";
    assert_eq!(env.events("LaunchFailed"), [("a".into(), text.into())]);
    assert!(cloud.created.load(Ordering::SeqCst) > 1);
    *cloud.always_fails.lock().unwrap() = None;
    env.wait(60).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Launched"), "True/Launched");
}

// spec 04 #43, spec 10 #102
#[tokio::test(start_paused = true)]
async fn a_long_error_is_truncated() {
    let (env, cloud) = env_with_scripted_cloud().await;
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::Other("x".repeat(2000).into()));
    env.create_claim("a", json!({})).await;
    env.wait(3).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "Launched"), "Unknown/LaunchFailed");
    let launched = claim.status.unwrap().conditions.into_iter().find(|c| c.condition_type == "Launched").unwrap();
    assert_eq!(launched.message, format!("{}...", "x".repeat(1021)));
}

// spec 04 #44
#[tokio::test(start_paused = true)]
async fn a_write_that_fails_after_a_launch_does_not_launch_twice() {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.create_claim("a", json!({"startupTaints": [{"key": "wait", "effect": "NoSchedule"}]})).await;
    env.wait(5).await;
    // Writes to claims fail for a while, after the finalizer is stored.
    let fails = FaultRule {
        user_agent_prefix: "kerf".into(),
        resources: vec!["nodeclaims".into()],
        verbs: vec![Verb::Patch],
        ..FaultRule::new(Fault::InternalError, 700_000)
    };
    env.server.set_faults(vec![fails], 3);
    for name in ["b", "c", "d", "e"] {
        env.create_claim(name, json!({})).await;
    }
    env.wait(240).await;
    env.server.set_faults(Vec::new(), 1);
    env.wait(120).await;
    assert!(env.claims().await.iter().all(|claim| claim_condition(claim, "Launched") == "True/Launched"));
    assert_eq!(cloud.created.load(Ordering::SeqCst), 5, "one launch for each claim");
    assert_eq!(env.list::<Node>().await.len(), 5);
}

// spec 04 #45
#[tokio::test(start_paused = true)]
async fn the_claims_labels_and_the_instances_annotations_win() {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Returns(Instance {
        provider_id: "kwok://elsewhere".into(),
        labels: [("zone".to_owned(), "a".to_owned()), ("rack".to_owned(), "7".to_owned())].into(),
        annotations: [("note".to_owned(), "instance".to_owned())].into(),
        ..Instance::default()
    }));
    env.create::<kerf_api::nodeclaim::NodeClaim>(json!({
        "metadata": {"name": "a", "labels": {"zone": "b"}, "annotations": {"note": "claim", "own": "1"}},
        "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
    }))
    .await;
    env.wait(3).await;
    let metadata = env.only_claim().await.metadata;
    let labels = metadata.labels.unwrap();
    assert_eq!((labels["zone"].as_str(), labels["rack"].as_str()), ("b", "7"));
    let annotations = metadata.annotations.unwrap();
    assert_eq!((annotations["note"].as_str(), annotations["own"].as_str()), ("instance", "1"));
}

// spec 07 #34
#[tokio::test(start_paused = true)]
async fn a_long_error_is_truncated_in_its_event() {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Fails(|| CreateError::InsufficientCapacity("x".repeat(2000).into())));
    env.create_claim("a", json!({})).await;
    env.wait(5).await;
    let message = &env.events("InsufficientCapacityError")[0].1;
    assert_eq!(message.len(), 1024, "{message}");
    assert!(message.starts_with("NodeClaim a event: insufficient capacity, xxx") && message.ends_with("xxx..."));
}

/// The first launch fails for lack of capacity, and provisioning creates another claim.
#[tokio::test(start_paused = true)]
async fn insufficient_capacity_leads_to_another_claim() {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Fails(|| CreateError::InsufficientCapacity("none left".into())));
    env.create::<NodePool>(pool("general", json!({}))).await;
    env.wait(2).await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(30).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Launched"), "True/Launched");
    assert_eq!(cloud.created.load(Ordering::SeqCst), 2);
}

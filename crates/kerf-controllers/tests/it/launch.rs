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
    let rig = TestEnv::without_controllers().await;
    let cloud =
        Arc::new(ScriptedCloud::wrapping(Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue())));
    (rig.start_controllers(cloud.clone()).await, cloud)
}

// spec 04 #39, spec 01 #58
#[tokio::test(start_paused = true)]
async fn a_claim_of_another_provider_is_left_alone() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    rig.create_claim("theirs", json!({"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "OtherClass"}})).await;
    rig.wait(3600).await;
    let claim = rig.only_claim().await;
    assert_eq!(claim.metadata.finalizers, None);
    assert_eq!(claim.status.map(|status| status.conditions).unwrap_or_default(), []);
    assert_eq!(cloud.created.load(Ordering::SeqCst), 0);
}

// spec 01 §1: unmanaged claims are ignored completely
#[tokio::test(start_paused = true)]
async fn a_claim_of_another_provider_holds_nobody_up() {
    let rig = TestEnv::without_controllers().await;
    let theirs = json!({"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}});
    rig.create_claim("theirs", theirs.clone()).await;
    rig.create::<NodePool>(pool("general", json!({}))).await;
    let cloud = Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue());
    let rig = rig.start_controllers(Arc::new(cloud)).await;
    rig.pending_pod("first", "1", json!({})).await;
    rig.wait(15).await;
    assert_eq!(rig.claims().await.len(), 2, "one that was there before the controllers");
    rig.create_claim("theirs-too", theirs).await;
    rig.pending_pod("second", "100", json!({})).await;
    rig.wait(15).await;
    assert_eq!(rig.claims().await.len(), 4, "and one that came later");
}

// spec 04 #40, spec 01 #58
#[tokio::test(start_paused = true)]
async fn the_finalizer_is_stored_before_anything_is_launched() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    rig.inject_fault(Fault::InternalError, Verb::Patch, "nodeclaims");
    rig.create_claim("a", json!({})).await;
    rig.wait(60).await;
    assert_eq!(cloud.created.load(Ordering::SeqCst), 0, "no finalizer, no machine");
    rig.server.set_faults(Vec::new(), 1);
    rig.wait(60).await;
    assert_eq!(cloud.created.load(Ordering::SeqCst), 1);
    assert_eq!(rig.only_claim().await.metadata.finalizers.unwrap(), ["karpenter.sh/termination"]);
}

// spec 04 #41, spec 01 #68
#[tokio::test(start_paused = true)]
async fn a_claim_that_can_never_be_launched_disappears() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Fails(|| CreateError::InsufficientCapacity("no hosts in a".into())));
    rig.create_claim("a", json!({})).await;
    rig.wait(5).await;
    assert_eq!(rig.claims().await, []);
    assert_eq!(
        rig.events("InsufficientCapacityError"),
        [("a".into(), "NodeClaim a event: insufficient capacity, no hosts in a".into())]
    );
    cloud.script_launch(ScriptedLaunch::Fails(|| CreateError::NodeClassNotReady("no subnets".into())));
    rig.create_claim("b", json!({})).await;
    rig.wait(5).await;
    assert_eq!(rig.claims().await, []);
    assert_eq!(rig.events("InsufficientCapacityError").len(), 1, "a class that is not ready is logged only");
    assert_eq!(cloud.deleted.load(Ordering::SeqCst), 0, "there was nothing to terminate");
    assert_eq!(cloud.created.load(Ordering::SeqCst), 2, "and neither was tried again");
}

// spec 04 #42, spec 01 #68
#[tokio::test(start_paused = true)]
async fn a_refusal_with_words_is_told_in_these_words_and_tried_again() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    let refuse = || CreateError::Refused { reason: "Fraud".into(), message: "call us".into(), cause: "403".into() };
    *cloud.always_fails.lock().unwrap() = Some(refuse);
    rig.create_claim("a", json!({})).await;
    rig.wait(10).await;
    let claim = rig.only_claim().await;
    assert_eq!(claim_condition(&claim, "Launched"), "Unknown/Fraud");
    let launched = claim.status.unwrap().conditions.into_iter().find(|c| c.condition_type == "Launched").unwrap();
    assert_eq!(launched.message, "call us");
    assert!(cloud.created.load(Ordering::SeqCst) > 1);
    *cloud.always_fails.lock().unwrap() = None;
    rig.wait(60).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "Launched"), "True/Launched");
}

// spec 04 #43
#[tokio::test(start_paused = true)]
async fn a_long_error_is_cut() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::Other("x".repeat(400).into()));
    rig.create_claim("a", json!({})).await;
    rig.wait(3).await;
    let claim = rig.only_claim().await;
    assert_eq!(claim_condition(&claim, "Launched"), "Unknown/LaunchFailed");
    let launched = claim.status.unwrap().conditions.into_iter().find(|c| c.condition_type == "Launched").unwrap();
    assert_eq!(launched.message, format!("{}...", "x".repeat(300)));
}

// spec 04 #44
#[tokio::test(start_paused = true)]
async fn a_write_that_fails_after_a_launch_does_not_launch_twice() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    rig.create_claim("a", json!({"startupTaints": [{"key": "wait", "effect": "NoSchedule"}]})).await;
    rig.wait(5).await;
    // Writes to claims fail for a while, after the finalizer is stored.
    let fails = FaultRule {
        user_agent_prefix: "kerf".into(),
        resources: vec!["nodeclaims".into()],
        verbs: vec![Verb::Patch],
        ..FaultRule::new(Fault::InternalError, 700_000)
    };
    rig.server.set_faults(vec![fails], 3);
    for name in ["b", "c", "d", "e"] {
        rig.create_claim(name, json!({})).await;
    }
    rig.wait(240).await;
    rig.server.set_faults(Vec::new(), 1);
    rig.wait(120).await;
    assert!(rig.claims().await.iter().all(|claim| claim_condition(claim, "Launched") == "True/Launched"));
    assert_eq!(cloud.created.load(Ordering::SeqCst), 5, "one launch for each claim");
    assert_eq!(rig.list::<Node>().await.len(), 5);
}

// spec 04 #45
#[tokio::test(start_paused = true)]
async fn a_claims_own_labels_win_and_the_machines_annotations_do() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Returns(Instance {
        provider_id: "kwok://elsewhere".into(),
        labels: [("zone".to_owned(), "a".to_owned()), ("rack".to_owned(), "7".to_owned())].into(),
        annotations: [("note".to_owned(), "machine".to_owned())].into(),
        ..Instance::default()
    }));
    rig.create::<kerf_api::nodeclaim::NodeClaim>(json!({
        "metadata": {"name": "a", "labels": {"zone": "b"}, "annotations": {"note": "claim", "own": "1"}},
        "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
    }))
    .await;
    rig.wait(3).await;
    let metadata = rig.only_claim().await.metadata;
    let labels = metadata.labels.unwrap();
    assert_eq!((labels["zone"].as_str(), labels["rack"].as_str()), ("b", "7"));
    let annotations = metadata.annotations.unwrap();
    assert_eq!((annotations["note"].as_str(), annotations["own"].as_str()), ("machine", "1"));
}

// spec 07 #34
#[tokio::test(start_paused = true)]
async fn a_long_refusal_is_cut_in_its_event() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Fails(|| CreateError::InsufficientCapacity("x".repeat(1000).into())));
    rig.create_claim("a", json!({})).await;
    rig.wait(5).await;
    let told = &rig.events("InsufficientCapacityError")[0].1;
    let why = told.strip_prefix("NodeClaim a event: ").unwrap();
    assert_eq!(why.len(), 303, "{why}");
    assert!(why.starts_with("insufficient capacity, xxx") && why.ends_with("xxx..."));
}

/// The first launch fails for lack of capacity, and provisioning creates another claim.
#[tokio::test(start_paused = true)]
async fn a_stock_out_leads_to_another_claim() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Fails(|| CreateError::InsufficientCapacity("none left".into())));
    rig.create::<NodePool>(pool("general", json!({}))).await;
    rig.wait(2).await;
    rig.pending_pod("web", "1", json!({})).await;
    rig.wait(30).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "Launched"), "True/Launched");
    assert_eq!(cloud.created.load(Ordering::SeqCst), 2);
}

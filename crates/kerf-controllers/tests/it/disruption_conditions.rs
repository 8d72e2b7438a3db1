//! The conditions `Drifted` and `Consolidatable` of claims (spec 03 §2). The rules are the engine's
//! and are tested there. These tests prove that claims get the conditions at the right time.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::{DriftError, InstanceError};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::cloud::{ScriptedCloud, ScriptedDrift};
use crate::launch::env_with_scripted_cloud;
use crate::test_env::{TestEnv, claim_condition, pool};

/// Creates a pool with this `consolidateAfter`, and a claim whose node is ready.
async fn env_with_initialized_claim(consolidate_after: &str) -> (TestEnv, Arc<ScriptedCloud>, String) {
    env_with_ready_claim(json!({"disruption": {"consolidateAfter": consolidate_after}})).await
}

async fn env_with_ready_claim(spec: Value) -> (TestEnv, Arc<ScriptedCloud>, String) {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.create::<NodePool>(pool("general", spec)).await;
    env.wait(2).await;
    env.create_claim("a", json!({})).await;
    env.wait(2).await;
    let node = env.only_node().await.metadata.name.unwrap();
    env.make_ready(&node).await;
    env.wait(2).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Initialized"), "True/Initialized");
    (env, cloud, node)
}

async fn only_claim_condition(env: &TestEnv, kind: &str) -> String {
    claim_condition(&env.only_claim().await, kind)
}

/// Sets a condition of the claim to Unknown.
async fn set_condition_unknown(env: &TestEnv, kind: &str) {
    let mut conditions = env.only_claim().await.status.unwrap().conditions;
    let condition = conditions.iter_mut().find(|c| c.condition_type == kind).unwrap();
    condition.status = kerf_api::conditions::ConditionStatus::Unknown;
    condition.last_transition_time.0 = env.clock.now();
    env.patch_status::<NodeClaim>("a", json!({ "conditions": conditions })).await;
}

// spec 03 #1
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_launched_has_not_drifted() {
    let (env, cloud, _) = env_with_initialized_claim("Never").await;
    *cloud.drift.lock().unwrap() = Some(|| Ok(Some("ImageDrift".into())));
    env.wait(301).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "True/ImageDrift");
    // Launches fail, so that the claim stays unlaunched long enough for the check below.
    *cloud.always_fails.lock().unwrap() = Some(|| kerf_cloud::CreateError::Other("throttled".into()));
    set_condition_unknown(&env, "Launched").await;
    env.wait(1).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "absent");
}

// spec 03 #2
#[tokio::test(start_paused = true)]
async fn without_its_pool_conditions_are_not_changed() {
    let (env, cloud, _) = env_with_initialized_claim("Never").await;
    *cloud.drift.lock().unwrap() = Some(|| Ok(Some("ImageDrift".into())));
    env.wait(301).await;
    // The claim names a pool that does not exist.
    env.patch::<NodeClaim>("a", json!({"metadata": {"labels": {"karpenter.sh/nodepool": "missing"}}})).await;
    *cloud.drift.lock().unwrap() = None;
    env.wait(1000).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "True/ImageDrift", "the condition is not updated any more");
}

// spec 03 #3
#[tokio::test(start_paused = true)]
async fn claims_of_other_providers_are_ignored() {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.create::<NodePool>(pool("general", json!({"disruption": {"consolidateAfter": "0s"}}))).await;
    *cloud.drift.lock().unwrap() = Some(|| Ok(Some("ImageDrift".into())));
    env.create_claim("theirs", json!({"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "OtherClass"}})).await;
    let at = "2026-01-01T00:00:00Z";
    let is_true =
        |kind| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at});
    let conditions: Vec<Value> = ["Launched", "Registered", "Initialized"].map(is_true).into();
    env.patch_status::<NodeClaim>("theirs", json!({"providerID": "other://1", "conditions": conditions})).await;
    env.wait(3600).await;
    assert_eq!(
        (only_claim_condition(&env, "Drifted").await, only_claim_condition(&env, "Consolidatable").await),
        ("absent".into(), "absent".into())
    );
}

// spec 03 #4, #6, #7, #8, #9: through the hash annotated on the pool.
#[tokio::test(start_paused = true)]
async fn a_changed_template_drifts_and_a_changed_policy_does_not() {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    env.wait(2).await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(5).await;
    let hash = env.api::<NodePool>().get("general").await.unwrap().metadata.annotations.unwrap();
    assert_eq!(
        env.only_claim().await.metadata.annotations.unwrap()["karpenter.sh/nodepool-hash"],
        hash["karpenter.sh/nodepool-hash"]
    );
    *cloud.drift.lock().unwrap() = Some(|| Ok(None));

    env.patch::<NodePool>("general", json!({"spec": {"weight": 5, "disruption": {"consolidateAfter": "1h"}}})).await;
    env.wait(2).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "absent");

    *cloud.drift.lock().unwrap() = Some(|| Ok(Some("ImageDrift".into())));
    env.patch::<NodePool>("general", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})).await;
    env.wait(2).await;
    assert_eq!(
        only_claim_condition(&env, "Drifted").await,
        "True/NodePoolDrifted",
        "the condition is set at once, with the pool's reason"
    );
    *cloud.drift.lock().unwrap() = Some(|| Ok(None));

    // A hash of another version, or without a version, cannot be compared.
    let name = env.only_claim().await.metadata.name.unwrap();
    let version =
        |text: Option<&str>| json!({"metadata": {"annotations": {"karpenter.sh/nodepool-hash-version": text}}});
    env.patch::<NodeClaim>(&name, version(Some("v1"))).await;
    env.wait(2).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "absent");
    env.patch::<NodeClaim>(&name, version(Some("v3"))).await;
    env.wait(2).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "True/NodePoolDrifted");
    env.patch::<NodeClaim>(&name, version(None)).await;
    env.wait(2).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "absent");
}

// spec 03 #5, #10: the condition's transition time is that of the drift, not of its latest reason.
#[tokio::test(start_paused = true)]
async fn requirement_drift_takes_precedence_over_the_providers_reason() {
    let (env, cloud, _) = env_with_initialized_claim("Never").await;
    *cloud.drift.lock().unwrap() = Some(|| Ok(Some("ImageDrift".into())));
    env.wait(301).await;
    let since = |claim: &NodeClaim| {
        let conditions = &claim.status.as_ref().unwrap().conditions;
        conditions.iter().find(|c| c.condition_type == "Drifted").unwrap().last_transition_time.clone()
    };
    let first = env.only_claim().await;
    let windows = json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]);
    env.patch::<NodePool>("general", json!({"spec": {"template": {"spec": {"requirements": windows}}}})).await;
    env.wait(60).await;
    let second = env.only_claim().await;
    assert_eq!(claim_condition(&second, "Drifted"), "True/RequirementsDrifted");
    assert_eq!(since(&first), since(&second));
}

// spec 03 #14: a missing instance type is checked once the claim is an hour old.
#[tokio::test(start_paused = true)]
async fn a_missing_instance_type_is_drift_after_an_hour() {
    let (env, cloud, _) = env_with_initialized_claim("Never").await;
    cloud.has_no_instance_types.store(true, std::sync::atomic::Ordering::SeqCst);
    env.wait(3500).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "absent");
    env.wait(400).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "True/InstanceTypeNotFound");
    cloud.has_no_instance_types.store(false, std::sync::atomic::Ordering::SeqCst);
    env.wait(301).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "absent");
    // Once found, the type is not checked again for half an hour.
    cloud.has_no_instance_types.store(true, std::sync::atomic::Ordering::SeqCst);
    env.wait(1200).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "absent");
    env.wait(900).await;
    assert_eq!(only_claim_condition(&env, "Drifted").await, "True/InstanceTypeNotFound");
}

// spec 03 #17
#[tokio::test(start_paused = true)]
async fn both_conditions_are_set_and_cleared_together() {
    let (env, cloud, _) = env_with_initialized_claim("Never").await;
    *cloud.drift.lock().unwrap() = Some(|| Ok(Some("ImageDrift".into())));
    env.patch::<NodePool>("general", json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    env.wait(2).await;
    let both = |claim: &NodeClaim| (claim_condition(claim, "Drifted"), claim_condition(claim, "Consolidatable"));
    assert_eq!(both(&env.only_claim().await), ("True/ImageDrift".into(), "True/Consolidatable".into()));
    *cloud.drift.lock().unwrap() = None;
    env.patch::<NodePool>("general", json!({"spec": {"disruption": {"consolidateAfter": "Never"}}})).await;
    env.wait(2).await;
    assert_eq!(both(&env.only_claim().await), ("absent".into(), "absent".into()));
}

/// If the provider fails, or the instance does not exist, the condition stays and the other
/// condition is still written.
#[tokio::test(start_paused = true)]
async fn a_provider_failure_does_not_affect_the_other_condition() {
    let (env, cloud, _) = env_with_initialized_claim("Never").await;
    *cloud.drift.lock().unwrap() = Some(|| Ok(Some("ImageDrift".into())));
    env.wait(301).await;
    for fails in [(|| Err(DriftError("throttled".into()))) as ScriptedDrift, || {
        Err(DriftError(Box::new(InstanceError::NotFound("i-1".into()))))
    }] {
        *cloud.drift.lock().unwrap() = Some(fails);
        env.patch::<NodePool>("general", json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
        env.wait(2).await;
        assert_eq!(only_claim_condition(&env, "Drifted").await, "True/ImageDrift");
        assert_eq!(only_claim_condition(&env, "Consolidatable").await, "True/Consolidatable");
        env.patch::<NodePool>("general", json!({"spec": {"disruption": {"consolidateAfter": "Never"}}})).await;
        env.wait(2).await;
        assert_eq!(only_claim_condition(&env, "Consolidatable").await, "absent");
    }
}

// spec 03 #18, spec 01 #71
#[tokio::test(start_paused = true)]
async fn never_and_not_initialized_are_not_consolidatable() {
    let (env, _, node) = env_with_initialized_claim("0s").await;
    assert_eq!(only_claim_condition(&env, "Consolidatable").await, "True/Consolidatable");
    env.patch::<NodePool>("general", json!({"spec": {"disruption": {"consolidateAfter": "Never"}}})).await;
    env.wait(1).await;
    assert_eq!(only_claim_condition(&env, "Consolidatable").await, "absent");
    env.patch::<NodePool>("general", json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    env.wait(1).await;
    assert_eq!(only_claim_condition(&env, "Consolidatable").await, "True/Consolidatable");
    // While the node is not ready, the Initialized condition stays Unknown.
    env.set_ready_condition(&node, "False").await;
    set_condition_unknown(&env, "Initialized").await;
    env.wait(1).await;
    assert_eq!(only_claim_condition(&env, "Consolidatable").await, "absent");
}

// spec 03 #19, #20, spec 01 #71
#[tokio::test(start_paused = true)]
async fn a_claim_is_consolidatable_as_soon_as_consolidate_after_has_passed() {
    let (env, _, node) = env_with_initialized_claim("30s").await;
    assert_eq!(only_claim_condition(&env, "Consolidatable").await, "absent", "the claim was initialized just now");
    env.wait(30).await;
    assert_eq!(only_claim_condition(&env, "Consolidatable").await, "True/Consolidatable");
    env.pending_pod("web", "100m", json!({})).await;
    env.bind("web", &node).await;
    env.wait(2).await;
    assert_eq!(only_claim_condition(&env, "Consolidatable").await, "absent");
    env.wait(27).await;
    assert_eq!(only_claim_condition(&env, "Consolidatable").await, "absent");
    env.wait(2).await;
    assert_eq!(only_claim_condition(&env, "Consolidatable").await, "True/Consolidatable");
}

// spec 03 #21
#[tokio::test(start_paused = true)]
async fn claims_of_static_pools_drift_and_are_never_consolidatable() {
    let (env, cloud, _) = env_with_ready_claim(json!({"replicas": 1, "disruption": {"consolidateAfter": "0s"}})).await;
    *cloud.drift.lock().unwrap() = Some(|| Ok(Some("ImageDrift".into())));
    env.wait(301).await;
    let claim = env.claims().await.into_iter().find(|c| c.metadata.name.as_deref() == Some("a")).unwrap();
    assert_eq!(claim_condition(&claim, "Drifted"), "True/ImageDrift");
    assert_eq!(claim_condition(&claim, "Consolidatable"), "absent");
}

// spec 03 #22: the removal of the last pod is no event; its deletion timestamp was.
#[tokio::test(start_paused = true)]
async fn a_removed_pod_counts_from_its_deletion_timestamp() {
    let (env, _, node) = env_with_initialized_claim("30s").await;
    let last_pod_event = async || env.only_claim().await.status.unwrap().last_pod_event_time.unwrap().0;
    env.pending_pod("web", "100m", json!({"terminationGracePeriodSeconds": 60})).await;
    env.bind("web", &node).await;
    env.wait(5).await;
    let bound = last_pod_event().await;
    env.wait(4).await;
    env.pods().delete("web", &DeleteParams::default()).await.unwrap();
    env.wait(1).await;
    assert_eq!(last_pod_event().await, bound, "less than ten seconds later");
    env.wait(15).await;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    env.pods().delete("web", &now).await.unwrap();
    env.wait(2).await;
    assert_eq!(last_pod_event().await, bound);
}

// spec 03 #23
#[tokio::test(start_paused = true)]
async fn pods_on_nodes_without_a_claim_are_no_pod_events() {
    let (env, _, node) = env_with_initialized_claim("30s").await;
    let mut other = env.only_node().await;
    other.metadata = serde_json::from_value(json!({"name": "theirs"})).unwrap();
    other.spec.as_mut().unwrap().provider_id = Some("other://1".into());
    env.create::<Node>(serde_json::to_value(other).unwrap()).await;
    env.pending_pod("web", "100m", json!({})).await;
    env.bind("web", "theirs").await;
    let daemon = json!({"metadata": {"name": "d", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    env.pods().create(&kube::api::PostParams::default(), &serde_json::from_value(daemon).unwrap()).await.unwrap();
    env.wait(5).await;
    assert_eq!(env.only_claim().await.status.unwrap().last_pod_event_time, None);
}

//! Deletion of claims (spec 04 §5.8).

use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodeclaim::NodeClaim;
use kerf_cloud::Instance;
use kerf_sandbox::{Fault, Verb};
use serde_json::json;

use crate::cloud::{ScriptedLaunch, ScriptedTermination};
use crate::launch::env_with_scripted_cloud;
use crate::test_env::claim_condition;

// spec 04 #71: nodes first, then the instance.
#[tokio::test(start_paused = true)]
async fn nodes_of_a_registered_claim_are_deleted_before_its_instance() {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.create_claim("a", json!({})).await;
    env.wait(3).await;
    let node = env.only_node().await.metadata.name.unwrap();
    // Another finalizer keeps the node, so that its deletion timestamp can be observed.
    env.patch::<Node>(&node, json!({"metadata": {"finalizers": ["karpenter.sh/termination", "test/hold"]}})).await;
    env.delete_claim("a").await;
    env.wait(30).await;
    assert!(env.only_node().await.metadata.deletion_timestamp.is_some());
    assert_eq!(
        claim_condition(&env.only_claim().await, "InstanceTerminating"),
        "absent",
        "the instance is not terminated yet"
    );
    env.patch::<Node>(&node, json!({"metadata": {"finalizers": null}})).await;
    env.wait(5).await;
    assert_eq!(env.claims().await, []);
    assert!(cloud.deleted.load(Ordering::SeqCst) > 0);
}

// spec 04 #72
#[tokio::test(start_paused = true)]
async fn the_instance_of_an_unregistered_claim_is_terminated_at_once() {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Returns(Instance { provider_id: "kwok://n1".into(), ..Instance::default() }));
    cloud.script_terminations(&[
        ScriptedTermination::InProgress,
        ScriptedTermination::InProgress,
        ScriptedTermination::Gone,
    ]);
    env.create_claim("a", json!({})).await;
    env.wait(3).await;
    // A node that joins when its claim is already deleting.
    env.delete_claim("a").await;
    env.create::<Node>(json!({"metadata": {"name": "n1"}, "spec": {"providerID": "kwok://n1"}})).await;
    env.wait(1).await;
    assert!(env.only_node().await.metadata.deletion_timestamp.is_none(), "the node is not drained");
    assert!(cloud.deleted.load(Ordering::SeqCst) > 0);
    env.wait(6).await;
    assert_eq!(env.claims().await, []);
}

// spec 04 §5.8: the instance is terminated before the finalizer is removed, also if the claim has
// not recorded it.
#[tokio::test(start_paused = true)]
async fn the_instance_of_a_claim_deleted_during_launch_is_terminated() {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.inject_fault(Fault::InternalError, Verb::Patch, "nodeclaims");
    let claim = json!({
        "metadata": {"name": "a", "finalizers": ["karpenter.sh/termination"]},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
        },
    });
    env.create::<NodeClaim>(claim).await;
    env.wait(5).await;
    assert_eq!(cloud.created.load(Ordering::SeqCst), 1);
    assert!(env.only_node().await.metadata.finalizers.is_some(), "the node is registered");
    assert_eq!(
        env.only_claim().await.status.and_then(|status| status.provider_id),
        None,
        "the claim does not have the provider ID"
    );
    env.delete_claim("a").await;
    env.server.set_faults(Vec::new(), 1);
    env.wait(30).await;
    assert_eq!(env.claims().await, []);
    assert_eq!(env.list::<Node>().await, []);
    assert!(cloud.deleted.load(Ordering::SeqCst) > 0);
}

// spec 01 §2.2: the pattern accepts durations that are too long to represent.
#[tokio::test(start_paused = true)]
async fn a_claim_with_an_unrepresentable_grace_period_can_be_deleted() {
    let (env, _) = env_with_scripted_cloud().await;
    env.create_claim("a", json!({"terminationGracePeriod": "9999999999h"})).await;
    env.wait(3).await;
    env.delete_claim("a").await;
    env.wait(30).await;
    assert_eq!(env.claims().await, []);
    assert_eq!(env.events("FailedValidation").len(), 1);
}

// spec 04 #73
#[tokio::test(start_paused = true)]
async fn a_claim_without_an_instance_is_deleted_at_once() {
    let (env, cloud) = env_with_scripted_cloud().await;
    *cloud.always_fails.lock().unwrap() = Some(|| kerf_cloud::CreateError::Other("boom".into()));
    env.create::<Node>(json!({"metadata": {"name": "bare"}})).await;
    env.create_claim("a", json!({})).await;
    env.wait(3).await;
    env.delete_claim("a").await;
    env.wait(3).await;
    assert_eq!(env.claims().await, []);
    assert_eq!(cloud.deleted.load(Ordering::SeqCst), 0);
    assert!(env.only_node().await.metadata.deletion_timestamp.is_none());
}

// spec 04 #74, #75
#[tokio::test(start_paused = true)]
async fn a_claim_stays_until_its_instance_is_terminated() {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Returns(Instance { provider_id: "kwok://m1".into(), ..Instance::default() }));
    // The status write causes one immediate reconcile more.
    cloud.script_terminations(&[
        ScriptedTermination::Fails,
        ScriptedTermination::InProgress,
        ScriptedTermination::InProgress,
        ScriptedTermination::InProgress,
        ScriptedTermination::Gone,
    ]);
    env.create_claim("a", json!({})).await;
    env.wait(3).await;
    env.delete_claim("a").await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(
        claim_condition(&env.only_claim().await, "InstanceTerminating"),
        "absent",
        "a failed call does not set the condition"
    );
    env.wait(4).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "InstanceTerminating"), "True/InstanceTerminating");
    assert_eq!(claim.metadata.finalizers.unwrap(), ["karpenter.sh/termination"]);
    assert_eq!(cloud.deleted.load(Ordering::SeqCst), 3);
    env.wait(5).await;
    assert_eq!(cloud.deleted.load(Ordering::SeqCst), 4, "the call is repeated every five seconds");
    env.wait(5).await;
    assert_eq!(env.claims().await, []);
}

// spec 04 #76, spec 01 #72, #73
#[tokio::test(start_paused = true)]
async fn the_termination_timestamp_is_annotated_once() {
    let (env, cloud) = env_with_scripted_cloud().await;
    let key = "karpenter.sh/nodeclaim-termination-timestamp";
    for (n, grace) in [("a", json!("300s")), ("b", json!("300s")), ("c", json!(null))] {
        cloud.script_launch(ScriptedLaunch::Returns(Instance {
            provider_id: format!("kwok://{n}"),
            ..Instance::default()
        }));
        cloud.script_terminations(&[ScriptedTermination::InProgress; 5]);
        env.create_claim(n, json!({"terminationGracePeriod": grace})).await;
    }
    env.wait(3).await;
    let earlier = "2026-01-01T00:00:09Z";
    env.patch::<NodeClaim>("b", json!({"metadata": {"annotations": {key: earlier}}})).await;
    for n in ["a", "b", "c"] {
        env.delete_claim(n).await;
    }
    env.wait(1).await;
    let claims = env.claims().await;
    let annotation =
        |n: usize| claims[n].metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let deleted = claims[0].metadata.deletion_timestamp.as_ref().unwrap().0;
    let expected = deleted.saturating_add(std::time::Duration::from_mins(5)).unwrap().to_string();
    assert_eq!(annotation(0), Some(expected.as_str()));
    assert_eq!(annotation(1), Some(earlier), "an existing annotation is kept");
    assert_eq!(annotation(2), None, "a drain without a time limit has no annotation");
    let events = env.events("TerminationGracePeriodExpiring");
    assert_eq!(events, [("a".into(), format!("All pods will be deleted by {expected}"))]);
}

// spec 04 #77
#[tokio::test(start_paused = true)]
async fn termination_does_not_change_ready() {
    let (env, cloud) = env_with_scripted_cloud().await;
    env.create_claim("a", json!({})).await;
    env.wait(3).await;
    let node = env.only_node().await.metadata.name.unwrap();
    env.make_ready(&node).await;
    env.wait(3).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Ready"), "True/Ready");
    cloud.script_terminations(&[ScriptedTermination::InProgress; 5]);
    env.delete_claim("a").await;
    env.wait(1).await;
    env.patch::<Node>(&node, json!({"metadata": {"finalizers": null}})).await;
    env.wait(1).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "InstanceTerminating"), "True/InstanceTerminating");
    assert_eq!(claim_condition(&claim, "Ready"), "True/Ready");
}

// spec 04 #78
#[tokio::test(start_paused = true)]
async fn equal_quantities_in_other_notation_do_not_block_deletion() {
    let (env, _cloud) = env_with_scripted_cloud().await;
    env.create_claim("a", json!({"resources": {"requests": {"cpu": "1000m", "memory": "50000", "pods": "1e1"}}})).await;
    env.wait(3).await;
    env.delete_claim("a").await;
    env.wait(10).await;
    assert_eq!(env.claims().await, []);
}

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
async fn a_registered_claims_nodes_go_before_its_machine() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    rig.create_claim("a", json!({})).await;
    rig.wait(3).await;
    let node = rig.only_node().await.metadata.name.unwrap();
    // Another finalizer keeps the node, so that its deletion timestamp can be observed.
    rig.patch::<Node>(&node, json!({"metadata": {"finalizers": ["karpenter.sh/termination", "test/hold"]}})).await;
    rig.delete_claim("a").await;
    rig.wait(30).await;
    assert!(rig.only_node().await.metadata.deletion_timestamp.is_some());
    assert_eq!(
        claim_condition(&rig.only_claim().await, "InstanceTerminating"),
        "absent",
        "the machine is not touched yet"
    );
    rig.patch::<Node>(&node, json!({"metadata": {"finalizers": null}})).await;
    rig.wait(5).await;
    assert_eq!(rig.claims().await, []);
    assert!(cloud.deleted.load(Ordering::SeqCst) > 0);
}

// spec 04 #72
#[tokio::test(start_paused = true)]
async fn an_unregistered_claims_machine_goes_at_once() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Returns(Instance { provider_id: "kwok://n1".into(), ..Instance::default() }));
    cloud.script_terminations(&[
        ScriptedTermination::InProgress,
        ScriptedTermination::InProgress,
        ScriptedTermination::Gone,
    ]);
    rig.create_claim("a", json!({})).await;
    rig.wait(3).await;
    // A node that joins when its claim is already deleting.
    rig.delete_claim("a").await;
    rig.create::<Node>(json!({"metadata": {"name": "n1"}, "spec": {"providerID": "kwok://n1"}})).await;
    rig.wait(1).await;
    assert!(rig.only_node().await.metadata.deletion_timestamp.is_none(), "its node is not drained");
    assert!(cloud.deleted.load(Ordering::SeqCst) > 0);
    rig.wait(6).await;
    assert_eq!(rig.claims().await, []);
}

// spec 04 §5.8: the instance is terminated before the finalizer is removed, also if the claim has
// not recorded it.
#[tokio::test(start_paused = true)]
async fn a_claim_deleted_while_it_is_launched_takes_its_machine_along() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    rig.inject_fault(Fault::InternalError, Verb::Patch, "nodeclaims");
    let claim = json!({
        "metadata": {"name": "a", "finalizers": ["karpenter.sh/termination"]},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
        },
    });
    rig.create::<NodeClaim>(claim).await;
    rig.wait(5).await;
    assert_eq!(cloud.created.load(Ordering::SeqCst), 1);
    assert!(rig.only_node().await.metadata.finalizers.is_some(), "the node has been registered");
    assert_eq!(
        rig.only_claim().await.status.and_then(|status| status.provider_id),
        None,
        "and the claim knows of nothing"
    );
    rig.delete_claim("a").await;
    rig.server.set_faults(Vec::new(), 1);
    rig.wait(30).await;
    assert_eq!(rig.claims().await, []);
    assert_eq!(rig.list::<Node>().await, []);
    assert!(cloud.deleted.load(Ordering::SeqCst) > 0);
}

// spec 01 §2.2: the pattern accepts durations that are too long to represent.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_grace_period_nobody_can_count_can_be_deleted() {
    let (rig, _) = env_with_scripted_cloud().await;
    rig.create_claim("a", json!({"terminationGracePeriod": "9999999999h"})).await;
    rig.wait(3).await;
    rig.delete_claim("a").await;
    rig.wait(30).await;
    assert_eq!(rig.claims().await, []);
    assert_eq!(rig.events("FailedValidation").len(), 1);
}

// spec 04 #73
#[tokio::test(start_paused = true)]
async fn a_claim_without_a_machine_just_goes() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    *cloud.always_fails.lock().unwrap() = Some(|| kerf_cloud::CreateError::Other("boom".into()));
    rig.create::<Node>(json!({"metadata": {"name": "bare"}})).await;
    rig.create_claim("a", json!({})).await;
    rig.wait(3).await;
    rig.delete_claim("a").await;
    rig.wait(3).await;
    assert_eq!(rig.claims().await, []);
    assert_eq!(cloud.deleted.load(Ordering::SeqCst), 0);
    assert!(rig.only_node().await.metadata.deletion_timestamp.is_none());
}

// spec 04 #74, #75
#[tokio::test(start_paused = true)]
async fn a_claim_stays_until_its_machine_is_gone() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(ScriptedLaunch::Returns(Instance { provider_id: "kwok://m1".into(), ..Instance::default() }));
    // The status write causes one immediate reconcile more.
    cloud.script_terminations(&[
        ScriptedTermination::Fails,
        ScriptedTermination::InProgress,
        ScriptedTermination::InProgress,
        ScriptedTermination::InProgress,
        ScriptedTermination::Gone,
    ]);
    rig.create_claim("a", json!({})).await;
    rig.wait(3).await;
    rig.delete_claim("a").await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "InstanceTerminating"), "absent", "a failure says nothing");
    rig.wait(4).await;
    let claim = rig.only_claim().await;
    assert_eq!(claim_condition(&claim, "InstanceTerminating"), "True/InstanceTerminating");
    assert_eq!(claim.metadata.finalizers.unwrap(), ["karpenter.sh/termination"]);
    assert_eq!(cloud.deleted.load(Ordering::SeqCst), 3);
    rig.wait(5).await;
    assert_eq!(cloud.deleted.load(Ordering::SeqCst), 4, "every five seconds");
    rig.wait(5).await;
    assert_eq!(rig.claims().await, []);
}

// spec 04 #76, spec 01 #72, #73
#[tokio::test(start_paused = true)]
async fn the_end_of_a_drain_is_written_down_once() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    let key = "karpenter.sh/nodeclaim-termination-timestamp";
    for (n, grace) in [("a", json!("300s")), ("b", json!("300s")), ("c", json!(null))] {
        cloud.script_launch(ScriptedLaunch::Returns(Instance {
            provider_id: format!("kwok://{n}"),
            ..Instance::default()
        }));
        cloud.script_terminations(&[ScriptedTermination::InProgress; 5]);
        rig.create_claim(n, json!({"terminationGracePeriod": grace})).await;
    }
    rig.wait(3).await;
    let earlier = "2026-01-01T00:00:09Z";
    rig.patch::<NodeClaim>("b", json!({"metadata": {"annotations": {key: earlier}}})).await;
    for n in ["a", "b", "c"] {
        rig.delete_claim(n).await;
    }
    rig.wait(1).await;
    let claims = rig.claims().await;
    let annotation =
        |n: usize| claims[n].metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let deleted = claims[0].metadata.deletion_timestamp.as_ref().unwrap().0;
    let expected = deleted.saturating_add(std::time::Duration::from_mins(5)).unwrap().to_string();
    assert_eq!(annotation(0), Some(expected.as_str()));
    assert_eq!(annotation(1), Some(earlier), "what is written stays");
    assert_eq!(annotation(2), None, "a drain without an end has none");
    let told = rig.events("TerminationGracePeriodExpiring");
    assert_eq!(told, [("a".into(), format!("All pods will be deleted by {expected}"))]);
}

// spec 04 #77
#[tokio::test(start_paused = true)]
async fn termination_leaves_ready_as_it_was() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    rig.create_claim("a", json!({})).await;
    rig.wait(3).await;
    let node = rig.only_node().await.metadata.name.unwrap();
    rig.make_ready(&node).await;
    rig.wait(3).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "Ready"), "True/Ready");
    cloud.script_terminations(&[ScriptedTermination::InProgress; 5]);
    rig.delete_claim("a").await;
    rig.wait(1).await;
    rig.patch::<Node>(&node, json!({"metadata": {"finalizers": null}})).await;
    rig.wait(1).await;
    let claim = rig.only_claim().await;
    assert_eq!(claim_condition(&claim, "InstanceTerminating"), "True/InstanceTerminating");
    assert_eq!(claim_condition(&claim, "Ready"), "True/Ready");
}

// spec 04 #78
#[tokio::test(start_paused = true)]
async fn quantities_in_other_words_do_not_hold_a_claim_up() {
    let (rig, _cloud) = env_with_scripted_cloud().await;
    rig.create_claim("a", json!({"resources": {"requests": {"cpu": "1000m", "memory": "50000", "pods": "1e1"}}})).await;
    rig.wait(3).await;
    rig.delete_claim("a").await;
    rig.wait(10).await;
    assert_eq!(rig.claims().await, []);
}

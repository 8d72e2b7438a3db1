//! Pods on deleting nodes take part in every decision: they get an instance before they are evicted
//! (spec 02 §2.3).

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::nodeclaim::NodeClaim;
use kerf_controllers::logs::Level;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::test_env::{CapturedLog, TestEnv};

/// Creates a cluster with one node and one running pod with the label `app: web`.
async fn env_with_running_pod() -> (TestEnv, String) {
    let rig = TestEnv::start().await;
    rig.pending_pod("web", "3", json!({})).await;
    let label = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
    rig.pods().patch("web", &PatchParams::default(), &label).await.unwrap();
    rig.wait(3).await;
    let node = rig.only_node().await.metadata.name.unwrap();
    rig.make_ready(&node).await;
    rig.bind("web", &node).await;
    // PodDisruptionBudgets count running pods.
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": rig.clock.now()});
    let runs = Patch::Merge(json!({"status": {"phase": "Running", "conditions": [ready]}}));
    rig.pods().patch_status("web", &PatchParams::default(), &runs).await.unwrap();
    rig.wait(3).await;
    let claim = rig.only_claim().await.metadata.name.unwrap();
    (rig, claim)
}

/// Creates a PodDisruptionBudget without a computed status, which allows no eviction.
async fn create_pdb(rig: &TestEnv, name: &str, spec: Value) {
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(rig.client.clone());
    let mut budget = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "web"}}}});
    crate::test_env::merge(&mut budget["spec"], spec);
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
}

fn count_remaining(claims: &[NodeClaim]) -> usize {
    claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()).count()
}

/// A budget that allows no eviction now may allow one later: the pod gets one instance, and moves
/// when it may.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_budget_is_not_known_yet_gets_its_machine() {
    let (rig, claim) = env_with_running_pod().await;
    create_pdb(&rig, "web", json!({"minAvailable": 1})).await;
    rig.wait(2).await;
    rig.delete_claim(&claim).await;
    rig.wait(3).await;
    let claims = rig.claims().await;
    assert_eq!((claims.len(), count_remaining(&claims)), (2, 1), "in the first decision after the node starts to go");
    rig.wait(120).await;
    let claims = rig.claims().await;
    assert_eq!((claims.len(), count_remaining(&claims)), (2, 1), "one is enough");
    assert!(rig.pods().get("web").await.unwrap().metadata.deletion_timestamp.is_none(), "its budget holds");
}

/// As above, with the new node ready before the pod may be evicted.
#[tokio::test(start_paused = true)]
async fn the_new_machine_is_kept_for_the_pod_that_may_not_leave_yet() {
    let (rig, claim) = env_with_running_pod().await;
    create_pdb(&rig, "web", json!({"minAvailable": 1})).await;
    rig.wait(2).await;
    rig.delete_claim(&claim).await;
    rig.wait(3).await;
    for node in rig.list::<Node>().await {
        rig.make_ready(&node.metadata.name.unwrap()).await;
    }
    rig.wait(300).await;
    let claims = rig.claims().await;
    assert_eq!((claims.len(), count_remaining(&claims)), (2, 1));
}

/// A budget that never allows an eviction: nothing is launched for a pod that cannot be evicted
/// (spec 03 §12.4).
#[tokio::test(start_paused = true)]
async fn a_pod_that_may_never_leave_gets_no_machine() {
    let (rig, claim) = env_with_running_pod().await;
    create_pdb(&rig, "web", json!({"maxUnavailable": 0})).await;
    rig.wait(2).await;
    rig.delete_claim(&claim).await;
    rig.wait(120).await;
    assert_eq!(count_remaining(&rig.claims().await), 0);
    // Then the budget is relaxed.
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(rig.client.clone());
    let softer = Patch::Merge(json!({"spec": {"maxUnavailable": 1}}));
    budgets.patch("web", &PatchParams::default(), &softer).await.unwrap();
    rig.wait(15).await;
    assert_eq!(count_remaining(&rig.claims().await), 1);
}

// spec 02 #5
#[tokio::test(start_paused = true)]
async fn nothing_is_decided_until_the_last_decision_has_its_machine() {
    let (rig, cloud) = crate::launch::env_with_scripted_cloud().await;
    rig.create::<kerf_api::nodepool::NodePool>(crate::test_env::pool("general", json!({}))).await;
    rig.wait(2).await;
    *cloud.always_fails.lock().unwrap() = Some(|| kerf_cloud::CreateError::Other("throttled".into()));
    rig.pending_pod("one", "1", json!({})).await;
    rig.wait(3).await;
    let first = rig.only_claim().await.metadata.name.unwrap();
    rig.pending_pod("two", "100", json!({})).await;
    rig.wait(120).await;
    assert_eq!(rig.only_claim().await.metadata.name.unwrap(), first, "nothing for the second pod");
    *cloud.always_fails.lock().unwrap() = None;
    rig.wait(60).await;
    assert_eq!(rig.claims().await.len(), 2);
}

// spec 02 #120
#[tokio::test(start_paused = true)]
async fn a_claim_carries_the_hash_that_it_was_planned_by() {
    let rig = TestEnv::start().await;
    let pools = || rig.api::<kerf_api::nodepool::NodePool>();
    let hash = |pool: &kerf_api::nodepool::NodePool| {
        pool.metadata.annotations.as_ref().unwrap()["karpenter.sh/nodepool-hash"].clone()
    };
    let before = pools().get("general").await.unwrap();
    // Creation is slow, so that the pool changes between the decision and the creation of the
    // claim.
    rig.inject_fault(
        kerf_sandbox::Fault::Slow { by: std::time::Duration::from_secs(5) },
        kerf_sandbox::Verb::Create,
        "nodeclaims",
    );
    rig.pending_pod("web", "1", json!({})).await;
    rig.wait(2).await;
    rig.patch::<kerf_api::nodepool::NodePool>(
        "general",
        json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}),
    )
    .await;
    rig.server.set_faults(Vec::new(), 1);
    rig.wait(15).await;
    let after = pools().get("general").await.unwrap();
    let claim = rig.only_claim().await;
    assert_ne!(hash(&after), hash(&before));
    assert_eq!(claim.metadata.annotations.unwrap()["karpenter.sh/nodepool-hash"], hash(&before));
    assert!(!claim.metadata.labels.unwrap().contains_key("team"));
    let owner = &claim.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.name.as_str(), Some(&owner.uid)), ("general", after.metadata.uid.as_ref()));
    assert_eq!(owner.block_owner_deletion, Some(true));
}

// spec 07 §7.2
#[tokio::test(start_paused = true)]
async fn pods_that_lose_their_node_are_counted_apart() {
    let (rig, claim) = env_with_running_pod().await;
    create_pdb(&rig, "web", json!({"minAvailable": 1})).await;
    rig.wait(2).await;
    let (lines, _log) = CapturedLog::capture(Level::Debug, rig.clock);
    rig.delete_claim(&claim).await;
    rig.wait(3).await;
    let computing = lines.with_message("computing scheduling decision for provisionable pod(s)");
    assert_eq!((&computing[0]["pending-pods"], &computing[0]["deleting-pods"]), (&json!(0), &json!(1)));
}

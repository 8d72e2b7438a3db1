//! Pods on deleting nodes take part in every decision: they get an instance before they are evicted
//! (spec 02 §2.3).

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::nodeclaim::NodeClaim;
use kerf_operator::logs::Level;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::test_env::{CapturedLog, TestEnv};

/// Creates a cluster with one node and one running pod with the label `app: web`.
async fn env_with_running_pod() -> (TestEnv, String) {
    let env = TestEnv::start().await;
    env.pending_pod("web", "3", json!({})).await;
    let label = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
    env.pods().patch("web", &PatchParams::default(), &label).await.unwrap();
    env.wait(3).await;
    let node = env.only_node().await.metadata.name.unwrap();
    env.make_ready(&node).await;
    env.bind("web", &node).await;
    // PodDisruptionBudgets count running pods.
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": env.clock.now()});
    let running = Patch::Merge(json!({"status": {"phase": "Running", "conditions": [ready]}}));
    env.pods().patch_status("web", &PatchParams::default(), &running).await.unwrap();
    env.wait(3).await;
    let claim = env.only_claim().await.metadata.name.unwrap();
    (env, claim)
}

/// Creates a PodDisruptionBudget without a computed status, which allows no eviction.
async fn create_pdb(env: &TestEnv, name: &str, spec: Value) {
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(env.client.clone());
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
async fn a_pod_whose_budget_allows_no_eviction_yet_gets_an_instance() {
    let (env, claim) = env_with_running_pod().await;
    create_pdb(&env, "web", json!({"minAvailable": 1})).await;
    env.wait(2).await;
    env.delete_claim(&claim).await;
    env.wait(3).await;
    let claims = env.claims().await;
    assert_eq!((claims.len(), count_remaining(&claims)), (2, 1), "in the first decision after the node is deleted");
    env.wait(120).await;
    let claims = env.claims().await;
    assert_eq!((claims.len(), count_remaining(&claims)), (2, 1), "one new claim is enough");
    assert!(
        env.pods().get("web").await.unwrap().metadata.deletion_timestamp.is_none(),
        "the budget allows no eviction"
    );
}

/// As above, with the new node ready before the pod may be evicted.
#[tokio::test(start_paused = true)]
async fn the_new_instance_is_kept_for_a_pod_that_cannot_be_evicted_yet() {
    let (env, claim) = env_with_running_pod().await;
    create_pdb(&env, "web", json!({"minAvailable": 1})).await;
    env.wait(2).await;
    env.delete_claim(&claim).await;
    env.wait(3).await;
    for node in env.list::<Node>().await {
        env.make_ready(&node.metadata.name.unwrap()).await;
    }
    env.wait(300).await;
    let claims = env.claims().await;
    assert_eq!((claims.len(), count_remaining(&claims)), (2, 1));
}

/// A budget that never allows an eviction: nothing is launched for a pod that cannot be evicted
/// (spec 03 §12.4).
#[tokio::test(start_paused = true)]
async fn a_pod_that_can_never_be_evicted_gets_no_instance() {
    let (env, claim) = env_with_running_pod().await;
    create_pdb(&env, "web", json!({"maxUnavailable": 0})).await;
    env.wait(2).await;
    env.delete_claim(&claim).await;
    env.wait(120).await;
    assert_eq!(count_remaining(&env.claims().await), 0);
    // Then the budget is relaxed.
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(env.client.clone());
    let softer = Patch::Merge(json!({"spec": {"maxUnavailable": 1}}));
    budgets.patch("web", &PatchParams::default(), &softer).await.unwrap();
    env.wait(15).await;
    assert_eq!(count_remaining(&env.claims().await), 1);
}

// spec 02 #5
#[tokio::test(start_paused = true)]
async fn a_decision_waits_some_seconds_for_the_claims_of_the_last_one() {
    let (env, cloud) = crate::launch::env_with_scripted_cloud().await;
    env.create::<kerf_api::nodepool::NodePool>(crate::test_env::pool("general", json!({}))).await;
    env.wait(2).await;
    *cloud.always_fails.lock().unwrap() = Some(|| kerf_cloud::CreateError::Other("throttled".into()));
    env.pending_pod("one", "1", json!({})).await;
    env.wait(3).await;
    let first = env.only_claim().await.metadata.name.unwrap();
    env.pending_pod("two", "100", json!({})).await;
    env.wait(5).await;
    assert_eq!(env.only_claim().await.metadata.name.unwrap(), first, "no claim for the second pod");
    *cloud.always_fails.lock().unwrap() = None;
    env.wait(60).await;
    assert_eq!(env.claims().await.len(), 2);
}

// spec 02 #120
#[tokio::test(start_paused = true)]
async fn a_claim_carries_the_pool_hash_of_its_decision() {
    let env = TestEnv::start().await;
    let pools = || env.api::<kerf_api::nodepool::NodePool>();
    let hash = |pool: &kerf_api::nodepool::NodePool| {
        pool.metadata.annotations.as_ref().unwrap()["karpenter.sh/nodepool-hash"].clone()
    };
    let before = pools().get("general").await.unwrap();
    // Creation is slow, so that the pool changes between the decision and the creation of the
    // claim.
    env.inject_fault(
        kerf_sandbox::Fault::Slow { by: std::time::Duration::from_secs(5) },
        kerf_sandbox::Verb::Create,
        "nodeclaims",
    );
    env.pending_pod("web", "1", json!({})).await;
    env.wait(2).await;
    env.patch::<kerf_api::nodepool::NodePool>(
        "general",
        json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}}),
    )
    .await;
    env.server.set_faults(Vec::new(), 1);
    env.wait(15).await;
    let after = pools().get("general").await.unwrap();
    let claim = env.only_claim().await;
    assert_ne!(hash(&after), hash(&before));
    assert_eq!(claim.metadata.annotations.unwrap()["karpenter.sh/nodepool-hash"], hash(&before));
    assert!(!claim.metadata.labels.unwrap().contains_key("team"));
    let owner = &claim.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.name.as_str(), Some(&owner.uid)), ("general", after.metadata.uid.as_ref()));
    assert_eq!(owner.block_owner_deletion, Some(true));
}

// spec 07 §7.2
#[tokio::test(start_paused = true)]
async fn pods_of_deleting_nodes_are_counted_separately() {
    let (env, claim) = env_with_running_pod().await;
    create_pdb(&env, "web", json!({"minAvailable": 1})).await;
    env.wait(2).await;
    let (lines, _log) = CapturedLog::capture(Level::Debug, env.clock);
    env.delete_claim(&claim).await;
    env.wait(3).await;
    let computing = lines.with_message("computing scheduling decision for provisionable pod(s)");
    assert_eq!((&computing[0]["pending-pods"], &computing[0]["deleting-pods"]), (&json!(0), &json!(1)));
}

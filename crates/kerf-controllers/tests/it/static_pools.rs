//! Static capacity: a pool with `replicas` has exactly that many nodes (spec 04 §9).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::Node;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::CreateError;
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_sandbox::{Fault, FaultRule, Verb};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cloud::ScriptedCloud;
use crate::test_env::{TestEnv, pool};

/// Starts the controllers with the feature gate on and a pool with this spec.
async fn env_with_static_pool(spec: Value) -> (TestEnv, Arc<ScriptedCloud>) {
    let mut env = TestEnv::without_controllers().await;
    env.settings.static_capacity = true;
    env.create::<NodePool>(pool("general", spec)).await;
    let cloud =
        Arc::new(ScriptedCloud::wrapping(Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue())));
    let env = env.start_controllers(cloud.clone()).await;
    env.wait(3).await;
    (env, cloud)
}

async fn scale(env: &TestEnv, replicas: usize) {
    env.patch::<NodePool>("general", json!({"spec": {"replicas": replicas}})).await;
}

/// Returns the names of claims that are not being deleted.
async fn remaining_claims(env: &TestEnv) -> Vec<String> {
    let claims = env.claims().await.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
    claims.map(|claim| claim.metadata.name.unwrap()).collect()
}

async fn node_of(env: &TestEnv, claim: &str) -> String {
    env.api::<NodeClaim>().get(claim).await.unwrap().status.unwrap().node_name.unwrap()
}

/// Creates a pod on a node. `metadata` is merged into its metadata.
async fn create_running_pod(env: &TestEnv, name: &str, node: &str, metadata: Value) {
    let mut pod =
        json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    crate::test_env::merge(&mut pod["metadata"], metadata);
    env.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

// spec 04 #113
#[tokio::test(start_paused = true)]
async fn a_static_pool_gets_its_nodes_from_its_template() {
    let requirements = json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
    let template = json!({"metadata": {"labels": {"team": "a"}}, "spec": {"requirements": requirements}});
    let (env, _) = env_with_static_pool(json!({"replicas": 2, "template": template})).await;
    let claims = env.claims().await;
    assert_eq!(claims.len(), 2);
    for claim in claims {
        assert_eq!(claim.spec.node_class_ref.name, "default");
        let labels = claim.metadata.labels.unwrap();
        assert_eq!((labels["team"].as_str(), labels["karpenter.sh/nodepool"].as_str()), ("a", "general"));
        assert_eq!(labels["kubernetes.io/arch"], "arm64", "the instance meets the requirements");
        let requirement_keys: Vec<&str> = claim.spec.requirements.iter().map(|r| r.key.as_str()).collect();
        assert!(
            requirement_keys.contains(&"kubernetes.io/arch") && requirement_keys.contains(&"team"),
            "{requirement_keys:?}"
        );
        assert!(
            !requirement_keys.contains(&"node.kubernetes.io/instance-type"),
            "the provider chooses the instance type"
        );
        assert!(claim.metadata.annotations.unwrap().contains_key("karpenter.sh/nodepool-hash"));
        assert_eq!(claim.metadata.owner_references.unwrap()[0].name, "general");
    }
    assert_eq!(env.metrics.nodeclaims_created.get(&["provisioned", "general", "false"]), 2.0);
    scale(&env, 5).await;
    env.wait(3).await;
    assert_eq!(env.list::<Node>().await.len(), 5);
    // A deleted claim is replaced.
    env.delete_claim(&remaining_claims(&env).await[0]).await;
    env.wait(3).await;
    assert_eq!(remaining_claims(&env).await.len(), 5);
}

// spec 04 #151
#[tokio::test(start_paused = true)]
async fn a_pool_that_is_being_deleted_gets_no_instance() {
    let (mut env, cloud) = env_with_static_pool(json!({"replicas": 3})).await;
    assert_eq!(remaining_claims(&env).await.len(), 3);
    // With foreground deletion the deletions of the claims arrive before that of the pool.
    let late = FaultRule::new(Fault::LateWatch { by: std::time::Duration::from_mins(1) }, 1_000_000);
    let rule = FaultRule { user_agent_prefix: "kerf".into(), resources: vec!["nodepools".into()], ..late };
    env.server.set_faults(vec![rule], 1);
    env.restart(cloud);
    env.wait(5).await;
    let finalizers = json!({"metadata": {"finalizers": ["example.com/foreground"]}});
    env.patch::<NodePool>("general", finalizers).await;
    env.api::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
    for claim in remaining_claims(&env).await {
        env.delete_claim(&claim).await;
        env.wait(1).await;
    }
    env.wait(20).await;
    assert_eq!(env.metrics.nodeclaims_created.get(&["provisioned", "general", "false"]), 3.0);
    assert_eq!(remaining_claims(&env).await, Vec::<String>::new());
}

// spec 04 #114
#[tokio::test(start_paused = true)]
async fn the_node_limit_holds() {
    let (env, _) = env_with_static_pool(json!({"replicas": 15, "limits": {"nodes": "10"}})).await;
    env.wait(100).await;
    assert_eq!(env.claims().await.len(), 10);

    let (env, _) = env_with_static_pool(json!({"replicas": 1, "limits": {"nodes": "1"}})).await;
    scale(&env, 3).await;
    env.wait(100).await;
    assert_eq!(env.claims().await.len(), 1);
    env.patch::<NodePool>("general", json!({"spec": {"limits": {"nodes": "2"}}})).await;
    env.wait(2).await;
    assert_eq!(env.claims().await.len(), 2);
}

// spec 04 #115
#[tokio::test(start_paused = true)]
async fn claims_that_are_not_registered_count() {
    let (env, cloud) = env_with_static_pool(json!({"replicas": 0})).await;
    env.patch::<KWOKNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "5m"}})).await;
    scale(&env, 2).await;
    env.wait(280).await;
    assert_eq!((env.claims().await.len(), env.list::<Node>().await.len()), (2, 0));
    // Claims that are not launched count as well.
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::Other("throttled".into()));
    scale(&env, 4).await;
    env.wait(120).await;
    assert_eq!(env.claims().await.len(), 4);
}

// spec 04 #116
#[tokio::test(start_paused = true)]
async fn unready_unmanaged_and_deleting_pools_get_no_nodes() {
    let (env, _) = env_with_static_pool(json!({})).await;
    let class = |name: &str| json!({"replicas": 2, "template": {"spec": {"nodeClassRef": {"name": name}}}});
    env.create::<NodePool>(pool("not-ready", class("missing"))).await;
    let other = json!({"replicas": 2, "template": {"spec": {"nodeClassRef": {"kind": "OtherClass"}}}});
    env.create::<NodePool>(pool("theirs", other)).await;
    let mut deleting = pool("going", json!({"replicas": 0}));
    deleting["metadata"]["finalizers"] = json!(["test/keep"]);
    env.create::<NodePool>(deleting).await;
    env.wait(3).await;
    env.api::<NodePool>().delete("going", &DeleteParams::default()).await.unwrap();
    env.patch::<NodePool>("going", json!({"spec": {"replicas": 2}})).await;
    env.wait(200).await;
    assert_eq!(env.claims().await, []);
    // Once its class exists, the pool is ready and gets its nodes.
    env.create::<KWOKNodeClass>(json!({"metadata": {"name": "missing"}, "spec": {}})).await;
    env.wait(3).await;
    assert_eq!(env.claims().await.len(), 2);
}

/// The feature gate is off by default: a pool with replicas then gets no nodes.
#[tokio::test(start_paused = true)]
async fn without_the_feature_gate_nothing_is_created() {
    let env = TestEnv::start().await;
    env.create::<NodePool>(pool("static", json!({"replicas": 2}))).await;
    env.wait(200).await;
    assert_eq!(env.claims().await, []);
}

// spec 04 #108
#[tokio::test(start_paused = true)]
async fn a_static_pool_reports_its_actual_nodes() {
    let (env, cloud) = env_with_static_pool(json!({"replicas": 2})).await;
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::InsufficientCapacity("none left".into()));
    scale(&env, 3).await;
    env.wait(60).await;
    let attempts = cloud.created.load(Ordering::SeqCst) - 2;
    assert!((3..10).contains(&attempts), "the third launch was retried, with back-off: {attempts}");
    let status = env.api::<NodePool>().get("general").await.unwrap().status.unwrap();
    assert_eq!(status.nodes, Some(2));
}

// spec 04 #117
#[tokio::test(start_paused = true)]
async fn claims_marked_for_deletion_do_not_count_as_surplus() {
    let (env, _) = env_with_static_pool(json!({"replicas": 4})).await;
    // An active command is about to delete three of them.
    let ids: Vec<String> = env.claims().await.into_iter().filter_map(|c| c.status.unwrap().provider_id).collect();
    for id in &ids[..3] {
        env.cluster.lock().mark_for_deletion(id);
    }
    scale(&env, 1).await;
    env.wait(200).await;
    assert_eq!(remaining_claims(&env).await.len(), 4);
    // The command is rolled back: now there are too many.
    for id in &ids[..3] {
        env.cluster.lock().unmark_for_deletion(id);
    }
    env.wait(61).await;
    assert_eq!(remaining_claims(&env).await.len(), 1);
}

// spec 04 #118
#[tokio::test(start_paused = true)]
async fn claims_with_the_lowest_disruption_cost_are_deleted_first() {
    let (env, cloud) = env_with_static_pool(json!({"replicas": 5})).await;
    let names = remaining_claims(&env).await;
    let daemon = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}]});
    // In the order from the claim that is deleted last to the one that is deleted first.
    let protected = json!({"annotations": {"karpenter.sh/do-not-disrupt": "true", "controller.kubernetes.io/pod-deletion-cost": "-2147483648"}});
    create_running_pod(&env, "kept", &node_of(&env, &names[0]).await, protected).await;
    let costly = json!({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "2147483647"}});
    create_running_pod(&env, "dear", &node_of(&env, &names[1]).await, costly).await;
    create_running_pod(&env, "plain", &node_of(&env, &names[2]).await, json!({})).await;
    create_running_pod(&env, "daemon", &node_of(&env, &names[3]).await, daemon).await;
    for name in &names {
        env.make_ready(&node_of(&env, name).await).await;
    }
    // The last one has no instance yet.
    env.delete_claim(&names[4]).await;
    *cloud.always_fails.lock().unwrap() = Some(|| CreateError::Other("throttled".into()));
    env.wait(5).await;
    let unlaunched = remaining_claims(&env).await.into_iter().find(|name| !names.contains(name)).unwrap();
    let mut remaining: Vec<&str> =
        [&unlaunched].into_iter().chain(names[..4].iter().rev()).map(String::as_str).collect();
    for replicas in (0..5).rev() {
        remaining.remove(0);
        scale(&env, replicas).await;
        env.wait(3).await;
        let mut expected = remaining.clone();
        expected.sort_unstable();
        assert_eq!(remaining_claims(&env).await, expected, "{replicas} replicas");
    }
}

// spec 04 #119
#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_retried() {
    let (env, _) = env_with_static_pool(json!({"replicas": 2})).await;
    env.inject_fault(Fault::InternalError, Verb::Delete, "nodeclaims");
    scale(&env, 1).await;
    env.wait(3).await;
    assert_eq!(remaining_claims(&env).await.len(), 2);
    assert!(env.metrics.controllers.reconcile_errors.get(&["static.deprovisioning"]) > 0.0);
    assert_eq!(env.cluster.lock().pool_claims("general").active, 2);
    env.server.set_faults(Vec::new(), 1);
    env.wait(60).await;
    assert_eq!(remaining_claims(&env).await.len(), 1);
}

/// Returns the claim that a claim replaces because that claim's node was never Ready.
fn replaces_never_ready(claim: &NodeClaim) -> Option<&String> {
    claim.metadata.annotations.as_ref()?.get("kerf.sh/replaces-never-ready")
}

// spec 04 #148: the deletion is tried several times, and a creation fails in between.
#[tokio::test(start_paused = true)]
async fn spec_04_148_one_claim_replaces_a_claim_whose_node_was_never_ready() {
    let (env, _) = env_with_static_pool(json!({"replicas": 1})).await;
    let first = env.only_claim().await.metadata.name.unwrap();
    env.wait(29 * 60).await;
    env.inject_fault(Fault::InternalError, Verb::Delete, "nodeclaims");
    env.wait(3 * 60).await;
    assert_eq!(remaining_claims(&env).await, std::slice::from_ref(&first));
    env.inject_fault(Fault::InternalError, Verb::Create, "nodeclaims");
    env.wait(5 * 60).await;
    assert_eq!(remaining_claims(&env).await, [""; 0]);
    env.server.set_faults(Vec::new(), 1);
    env.wait(10 * 60).await;
    let second = env.only_claim().await;
    assert_eq!(replaces_never_ready(&second), Some(&first), "the creations that failed replaced nothing");
    // Further claims of the NodePool are no replacements.
    scale(&env, 5).await;
    env.wait(2 * 60).await;
    let claims = env.claims().await;
    assert_eq!(claims.len(), 5);
    let replacements: Vec<&NodeClaim> = claims.iter().filter(|claim| replaces_never_ready(claim).is_some()).collect();
    assert_eq!(replacements.len(), 1, "{replacements:?}");
}

/// Pending pods lead to no more nodes, and a node without pods stays.
#[tokio::test(start_paused = true)]
async fn pods_do_not_change_the_number_of_nodes() {
    let (env, _) = env_with_static_pool(json!({"replicas": 1, "disruption": {"consolidateAfter": "0s"}})).await;
    env.make_ready(&env.only_node().await.metadata.name.unwrap()).await;
    env.pending_pod("huge", "1000", json!({})).await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    env.pods().patch("huge", &PatchParams::default(), &patch).await.unwrap();
    env.wait(600).await;
    assert_eq!(remaining_claims(&env).await.len(), 1);
}

//! Registration and initialization (spec 04 §5.4, §5.5).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kerf_api::nodeclaim::NodeClaim;
use kerf_cloud::{BoxError, HookResult, Instance, RegistrationHook};
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_operator::logs::Level;
use kerf_sandbox::{Fault, Verb};
use serde_json::{Value, json};

use crate::cloud::{ScriptedCloud, ScriptedLaunch};
use crate::launch::env_with_scripted_cloud;
use crate::test_env::{CapturedLog, TestEnv, claim_condition};

const PROVIDER_ID: &str = "kwok://m1";

fn scripted_launch() -> ScriptedLaunch {
    ScriptedLaunch::Returns(Instance {
        provider_id: PROVIDER_ID.into(),
        capacity: [("cpu".to_owned(), "4".into()), ("memory".to_owned(), "8Gi".into())].into(),
        allocatable: [("cpu".to_owned(), "4".into())].into(),
        ..Instance::default()
    })
}

/// Creates a node that joins the cluster by itself.
async fn create_node(env: &TestEnv, name: &str, node: Value) {
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"providerID": PROVIDER_ID, "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    crate::test_env::merge(&mut object, node);
    env.create::<Node>(object).await;
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    taints.into_iter().map(|taint| taint.key).filter(|key| key != "node.kubernetes.io/not-ready").collect()
}

/// Creates a launched claim whose node has joined.
async fn env_with_joined_node(claim: Value, node: Value) -> (TestEnv, Arc<ScriptedCloud>) {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(scripted_launch());
    env.create_claim("a", claim).await;
    env.wait(2).await;
    create_node(&env, "n1", node).await;
    env.wait(2).await;
    (env, cloud)
}

// spec 04 #46
#[tokio::test(start_paused = true)]
async fn registration_copies_the_claims_data_to_the_node() {
    let spec = json!({"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]});
    let (env, _cloud) = env_with_joined_node(spec, json!({})).await;
    let (claim, node) = (env.only_claim().await, env.only_node().await);
    assert_eq!(claim_condition(&claim, "Registered"), "True/Registered");
    assert_eq!(claim.status.unwrap().node_name.unwrap(), "n1");
    assert_eq!(taints(&node), ["team"]);
    assert_eq!(node.metadata.finalizers.unwrap(), ["karpenter.sh/termination"]);
    let labels = node.metadata.labels.unwrap();
    assert_eq!(labels["karpenter.sh/registered"], "true");
    assert_eq!(labels["karpenter.sh/nodepool"], "general");
    let owners = node.metadata.owner_references.unwrap();
    assert_eq!((owners[0].kind.as_str(), owners[0].name.as_str()), ("NodeClaim", "a"));
    assert_eq!(Some(&owners[0].uid), claim.metadata.uid.as_ref());
}

// spec 04 #47, spec 01 #62
#[tokio::test(start_paused = true)]
async fn a_node_without_the_taint_registers_with_a_warning() {
    let (env, _cloud) = env_with_joined_node(json!({}), json!({"spec": {"taints": []}})).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Registered"), "True/Registered");
    assert_eq!(env.events("UnregisteredTaintMissing").len(), 1);
}

/// A write that conflicts is repeated. The missing taint is reported only for the write that
/// succeeds.
#[tokio::test(start_paused = true)]
async fn a_missing_taint_is_logged_once_however_often_the_node_is_written() {
    let (env, cloud) = env_with_scripted_cloud().await;
    let (lines, _log) = CapturedLog::capture(Level::Info, env.clock);
    cloud.script_launch(scripted_launch());
    env.create_claim("a", json!({})).await;
    env.wait(2).await;
    env.inject_fault(Fault::Conflict, Verb::Patch, "nodes");
    create_node(&env, "n1", json!({"spec": {"taints": []}})).await;
    env.wait(5).await;
    assert_ne!(claim_condition(&env.only_claim().await, "Registered"), "True/Registered");
    env.server.set_faults(Vec::new(), 1);
    env.wait(5).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Registered"), "True/Registered");
    let logged = lines.take();
    assert_eq!(
        logged.iter().filter(|line| line["message"] == "node claim registration error").count(),
        1,
        "{logged:?}"
    );
}

/// Labels that a node sets itself do not replace registration.
// spec 04 §5.4 step 3
#[tokio::test(start_paused = true)]
async fn a_node_that_labels_itself_registered_still_gets_the_claims_data() {
    let spec = json!({"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]});
    let self_labelled = json!({"metadata": {"finalizers": ["karpenter.sh/termination"], "labels": {"karpenter.sh/registered": "true"}},
        "spec": {"taints": []}});
    let (env, _cloud) = env_with_joined_node(spec, self_labelled).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Registered"), "True/Registered");
    let node = env.only_node().await;
    assert_eq!(taints(&node), ["team"]);
    assert_eq!(node.metadata.labels.unwrap()["karpenter.sh/nodepool"], "general");
    assert_eq!(node.metadata.owner_references.unwrap()[0].name, "a");
}

// spec 04 #48, spec 01 #65
#[tokio::test(start_paused = true)]
async fn an_owner_reference_is_added_once() {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(scripted_launch());
    let claim = env.create_claim("a", json!({})).await;
    let owner = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "a", "uid": claim.metadata.uid}]);
    create_node(&env, "n1", json!({"metadata": {"ownerReferences": owner}})).await;
    env.wait(3).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Registered"), "True/Registered");
    assert_eq!(env.only_node().await.metadata.owner_references.unwrap().len(), 1);
}

// spec 04 #49, spec 01 #63
#[tokio::test(start_paused = true)]
async fn taints_are_not_synced_with_the_do_not_sync_taints_label() {
    let spec = || json!({"taints": [{"key": "team", "effect": "NoSchedule"}], "startupTaints": [{"key": "cni", "effect": "NoSchedule"}]});
    let label = |value: &str| json!({"metadata": {"labels": {"karpenter.sh/do-not-sync-taints": value}}});
    let (env, _cloud) = env_with_joined_node(spec(), label("true")).await;
    assert_eq!(taints(&env.only_node().await), [""; 0]);
    let (env, _cloud) = env_with_joined_node(spec(), label("false")).await;
    assert_eq!(taints(&env.only_node().await), ["team", "cni"]);
}

// spec 04 #50, #56, #58, spec 01 #64
#[tokio::test(start_paused = true)]
async fn a_node_is_initialized_once_startup_is_over() {
    let spec = json!({"startupTaints": [{"key": "cni", "value": "x", "effect": "NoSchedule"}]});
    let (env, _cloud) = env_with_joined_node(spec, json!({})).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Initialized"), "Unknown/NodeNotReady");
    env.make_ready("n1").await;
    env.wait(2).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "Initialized"), "Unknown/StartupTaintsExist");
    let message = |claim: &NodeClaim| {
        let conditions = &claim.status.as_ref().unwrap().conditions;
        conditions.iter().find(|c| c.condition_type == "Initialized").unwrap().message.clone()
    };
    assert_eq!(message(&claim), "StartupTaint \"cni=x:NoSchedule\" still exists");
    let gate = json!([{"key": "readiness.k8s.io/x", "effect": "NoSchedule"}]);
    env.patch::<Node>("n1", json!({"spec": {"taints": gate}})).await;
    env.wait(2).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "Initialized"), "Unknown/KnownEphemeralTaintsExist");
    assert_eq!(message(&claim), "KnownEphemeralTaint \"readiness.k8s.io/x:NoSchedule\" still exists");
    assert_eq!(taints(&env.only_node().await), ["readiness.k8s.io/x"], "startup taints are not added again");
    env.patch::<Node>("n1", json!({"spec": {"taints": null}})).await;
    env.wait(2).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Ready"), "True/Ready");
    assert_eq!(env.only_node().await.metadata.labels.unwrap()["karpenter.sh/initialized"], "true");
}

#[tokio::test(start_paused = true)]
async fn a_short_lived_reason_is_not_written() {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(scripted_launch());
    env.create_claim("a", json!({})).await;
    create_node(&env, "n1", json!({})).await;
    env.wait(1).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "Registered"), "True/Registered");
    assert_eq!(claim_condition(&claim, "Initialized"), "Unknown/NodeNotReady");
    let gate = json!([{"key": "readiness.k8s.io/x", "effect": "NoSchedule"}]);
    env.patch::<Node>("n1", json!({"spec": {"taints": gate}})).await;
    env.make_ready("n1").await;
    env.wait(1).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Initialized"), "Unknown/NodeNotReady");
    // A reason that persists is written.
    env.wait(2).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Initialized"), "Unknown/KnownEphemeralTaintsExist");
}

// spec 04 #51, spec 01 #61
#[tokio::test(start_paused = true)]
async fn two_nodes_with_one_provider_id_prevent_registration() {
    let (env, cloud) = env_with_scripted_cloud().await;
    cloud.script_launch(scripted_launch());
    create_node(&env, "n1", json!({})).await;
    create_node(&env, "n2", json!({})).await;
    env.create_claim("a", json!({})).await;
    env.wait(3).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "Registered"), "False/MultipleNodesFound");
    assert_eq!(claim_condition(&claim, "Initialized"), "Unknown/AwaitingReconciliation");
    env.wait(16 * 60).await;
    assert_eq!(env.claims().await, [], "liveness deletes the claim");
}

// spec 04 #57, spec 01 #67
#[tokio::test(start_paused = true)]
async fn a_node_without_a_requested_resource_is_not_initialized() {
    let gpu = json!({"resources": {"requests": {"nvidia.com/gpu": "1"}}});
    let (env, _cloud) = env_with_joined_node(gpu, json!({})).await;
    env.make_ready("n1").await;
    env.wait(2).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Initialized"), "Unknown/ResourceNotRegistered");
    env.patch_status::<Node>("n1", json!({"allocatable": {"nvidia.com/gpu": "0"}})).await;
    env.wait(2).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Initialized"), "Unknown/ResourceNotRegistered");
    env.patch_status::<Node>(
        "n1",
        json!({"capacity": {"nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/gpu": "1"}}),
    )
    .await;
    env.wait(2).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Initialized"), "True/Initialized");
}

struct ScriptedHook {
    name: &'static str,
    result: Mutex<Result<HookResult, &'static str>>,
    calls: AtomicUsize,
}

impl ScriptedHook {
    fn new(name: &'static str, result: Result<HookResult, &'static str>) -> Arc<Self> {
        Arc::new(Self { name, result: Mutex::new(result), calls: AtomicUsize::new(0) })
    }
}

impl RegistrationHook for ScriptedHook {
    fn name(&self) -> &str {
        self.name
    }

    fn check_registration<'a>(&'a self, _: &'a NodeClaim) -> BoxFuture<'a, Result<HookResult, BoxError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        futures::future::ready(self.result.lock().unwrap().clone().map_err(Into::into)).boxed()
    }
}

async fn env_with_hooks(hooks: Vec<Arc<ScriptedHook>>) -> TestEnv {
    let env = TestEnv::without_controllers().await;
    let mut cloud = ScriptedCloud::wrapping(Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue()));
    cloud.hooks = hooks.into_iter().map(|hook| hook as Arc<dyn RegistrationHook>).collect();
    cloud.script_launch(scripted_launch());
    let env = env.start_controllers(Arc::new(cloud)).await;
    env.create_claim("a", json!({})).await;
    create_node(&env, "n1", json!({})).await;
    env.wait(3).await;
    env
}

// spec 04 #52, #53, #55, spec 01 #70
#[tokio::test(start_paused = true)]
async fn pending_hooks_delay_registration() {
    let pending = HookResult { requeue_after: Duration::from_secs(7), ..HookResult::default() };
    let (dns, lb) = (ScriptedHook::new("dns", Ok(pending.clone())), ScriptedHook::new("lb", Ok(pending)));
    let env = env_with_hooks(vec![dns.clone(), lb.clone()]).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "Registered"), "Unknown/RegistrationHookPending");
    let status = claim.status.unwrap();
    assert_eq!(status.conditions.iter().find(|c| c.condition_type == "Registered").unwrap().message, "dns, lb");
    assert_eq!(status.node_name, None);
    assert_eq!(taints(&env.only_node().await), ["karpenter.sh/unregistered"]);
    assert!(env.only_node().await.metadata.finalizers.is_some(), "the finalizer is stored while hooks are pending");
    assert_eq!(dns.calls.load(Ordering::SeqCst), lb.calls.load(Ordering::SeqCst), "all hooks are called each time");
    let with_label = HookResult { labels: [("lb".to_owned(), "7".to_owned())].into(), ..HookResult::default() };
    *dns.result.lock().unwrap() = Ok(HookResult::satisfied());
    *lb.result.lock().unwrap() = Ok(with_label);
    env.wait(10).await;
    let (claim, node) = (env.only_claim().await, env.only_node().await);
    assert_eq!(claim_condition(&claim, "Registered"), "True/Registered");
    assert_eq!(taints(&node), [""; 0]);
    assert_eq!(claim.metadata.labels.unwrap()["lb"], "7");
    assert_eq!(node.metadata.labels.unwrap()["lb"], "7");
}

// spec 04 #54
#[tokio::test(start_paused = true)]
async fn a_failing_hook_is_called_again() {
    let dns = ScriptedHook::new("dns", Err("no response"));
    let env = env_with_hooks(vec![dns.clone()]).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Registered"), "Unknown/RegistrationHookPending");
    let calls = dns.calls.load(Ordering::SeqCst);
    env.wait(10).await;
    assert!(dns.calls.load(Ordering::SeqCst) > calls);
    *dns.result.lock().unwrap() = Ok(HookResult::satisfied());
    env.wait(60).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Registered"), "True/Registered");
}

// spec 04 #60
#[tokio::test(start_paused = true)]
async fn a_new_generation_does_not_make_a_ready_claim_unknown() {
    let (env, _cloud) = env_with_joined_node(json!({}), json!({})).await;
    env.make_ready("n1").await;
    env.wait(2).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Ready"), "True/Ready");
    // A claim's spec is immutable, so only a schema change leads to a new generation. Its
    // conditions then look outdated.
    let mut conditions = env.only_claim().await.status.unwrap().conditions;
    for condition in &mut conditions {
        condition.observed_generation = Some(0);
    }
    env.patch_status::<NodeClaim>("a", json!({"conditions": conditions})).await;
    env.wait(2).await;
    let claim = env.only_claim().await;
    assert_eq!(claim_condition(&claim, "Ready"), "True/Ready");
    let generation = claim.metadata.generation;
    assert!(claim.status.unwrap().conditions.iter().all(|condition| condition.observed_generation == generation));
}

//! The NodePool controllers (spec 04 §8).

use std::sync::Arc;

use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_operator::logs::Level;
use serde_json::json;

use crate::test_env::{CapturedLog, TestEnv, pool, pool_condition};

const HASH: &str = "karpenter.sh/nodepool-hash";
const VERSION: &str = "karpenter.sh/nodepool-hash-version";

async fn get(env: &TestEnv, name: &str) -> NodePool {
    env.api().get(name).await.unwrap()
}

// spec 04 #106, #107, spec 01 #74
#[tokio::test(start_paused = true)]
async fn a_pool_counts_its_nodes() {
    let env = TestEnv::start().await;
    env.wait(6).await;
    let status = get(&env, "general").await.status.unwrap();
    assert_eq!(status.nodes, Some(0));
    let resources = status.resources.unwrap();
    for name in ["cpu", "memory", "pods", "ephemeral-storage", "nodes"] {
        assert_eq!(resources[name].to_string(), "0", "{name}");
    }
    env.pending_pod("web", "3", json!({})).await;
    env.wait(8).await;
    let counted = get(&env, "general").await.status.unwrap().resources.unwrap();
    assert_eq!((counted["cpu"].to_string(), counted["nodes"].to_string()), ("4".into(), "1".into()));
    let node = env.only_node().await.metadata.name.unwrap();
    env.patch_status::<k8s_openapi::api::core::v1::Node>(&node, json!({"capacity": {"cpu": "3"}})).await;
    env.make_ready(&node).await;
    env.wait(8).await;
    let counted = get(&env, "general").await.status.unwrap().resources.unwrap();
    assert_eq!(counted["cpu"].to_string(), "3", "the capacity of an initialized Node counts");
}

// spec 04 #109
#[tokio::test(start_paused = true)]
async fn only_the_template_changes_the_hash() {
    let env = TestEnv::start().await;
    let hash = |pool: NodePool| pool.metadata.annotations.unwrap()[HASH].clone();
    let first = hash(get(&env, "general").await);
    let requirements = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
    env.patch::<NodePool>(
        "general",
        json!({"spec": {"weight": 3, "limits": {"cpu": "9"}, "disruption": {"consolidateAfter": "1h"},
            "template": {"spec": {"requirements": requirements}}}}),
    )
    .await;
    env.wait(3).await;
    assert_eq!(hash(get(&env, "general").await), first);
    env.patch::<NodePool>("general", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})).await;
    env.wait(3).await;
    let second = get(&env, "general").await;
    assert_eq!(second.metadata.annotations.as_ref().unwrap()[VERSION], "v3");
    assert_ne!(hash(second), first);
}

// spec 04 #110
#[tokio::test(start_paused = true)]
async fn claims_of_an_older_hash_version_are_migrated() {
    let mut env = TestEnv::start().await;
    for name in ["old", "drifted", "new"] {
        env.create_claim(name, json!({})).await;
    }
    env.wait(3).await;
    // State left by an older release.
    env.stop();
    for (name, hash, version) in [("old", "0", "v2"), ("drifted", "1", "v2"), ("new", "1", "v3")] {
        env.patch::<NodeClaim>(name, json!({"metadata": {"annotations": {HASH: hash, VERSION: version}}})).await;
    }
    let mut conditions = env.api::<NodeClaim>().get("drifted").await.unwrap().status.unwrap().conditions;
    let mut drifted = conditions[0].clone();
    drifted.condition_type = "Drifted".into();
    conditions.push(drifted);
    env.patch_status::<NodeClaim>("drifted", json!({"conditions": conditions})).await;
    env.patch::<NodePool>("general", json!({"metadata": {"annotations": {HASH: "0", VERSION: "v2"}}})).await;
    let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
    let env = env.start_controllers(Arc::new(cloud)).await;
    let pool = get(&env, "general").await;
    let hash = pool.metadata.annotations.unwrap()[HASH].clone();
    for (name, expected) in [("old", hash.as_str()), ("drifted", "1"), ("new", "1")] {
        let annotations = env.api::<NodeClaim>().get(name).await.unwrap().metadata.annotations.unwrap();
        assert_eq!((annotations[HASH].as_str(), annotations[VERSION].as_str()), (expected, "v3"), "{name}");
    }
}

// spec 04 #111, spec 01 #75
#[tokio::test(start_paused = true)]
async fn a_pool_is_ready_when_its_class_is() {
    let env = TestEnv::start().await;
    assert_eq!(pool_condition(&get(&env, "general").await, "NodeClassReady"), "True/NodeClassReady");
    let lost = json!({"template": {"spec": {"nodeClassRef": {"name": "later"}}}});
    env.create::<NodePool>(pool("lost", lost)).await;
    env.wait(3).await;
    let missing = get(&env, "lost").await;
    assert_eq!(pool_condition(&missing, "NodeClassReady"), "False/NodeClassNotFound");
    assert_eq!(pool_condition(&missing, "Ready"), "False/UnhealthyDependents");

    env.create::<KWOKNodeClass>(json!({"metadata": {"name": "later"}, "spec": {}})).await;
    env.wait(3).await;
    assert_eq!(pool_condition(&get(&env, "lost").await, "Ready"), "True/Ready");
    let ready = |status: &str| {
        json!({"conditions": [{"type": "Ready", "status": status, "reason": "NoQuota", "message": "request a higher quota",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    };
    env.patch_status::<KWOKNodeClass>("later", ready("False")).await;
    env.wait(3).await;
    assert_eq!(pool_condition(&get(&env, "lost").await, "NodeClassReady"), "False/NoQuota");
    env.patch_status::<KWOKNodeClass>("later", ready("Unknown")).await;
    env.wait(3).await;
    assert_eq!(pool_condition(&get(&env, "lost").await, "NodeClassReady"), "False/NodeClassReadinessUnknown");
    env.patch_status::<KWOKNodeClass>("later", ready("True")).await;
    env.wait(3).await;
    assert_eq!(pool_condition(&get(&env, "lost").await, "NodeClassReady"), "True/NodeClassReady");
    env.patch_status::<KWOKNodeClass>("later", json!({"conditions": []})).await;
    env.wait(3).await;
    assert_eq!(pool_condition(&get(&env, "lost").await, "NodeClassReady"), "False/NodeClassReadinessUnknown");
    env.patch::<KWOKNodeClass>("later", json!({"metadata": {"finalizers": ["test/hold"]}})).await;
    env.api::<KWOKNodeClass>().delete("later", &kube::api::DeleteParams::default()).await.unwrap();
    env.wait(3).await;
    assert_eq!(pool_condition(&get(&env, "lost").await, "NodeClassReady"), "False/NodeClassTerminating");
}

// spec 04 #112
#[tokio::test(start_paused = true)]
async fn an_invalid_pool_has_a_failed_validation_condition() {
    let env = TestEnv::start().await;
    let (lines, _log) = CapturedLog::capture(Level::Info, env.clock);
    let capacity = |values: serde_json::Value| json!({"template": {"spec": {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": values}]}}});
    env.create::<NodePool>(pool("wrong", capacity(json!(["xspot"])))).await;
    env.create::<NodePool>(pool("half", capacity(json!(["on-demand", "xspot"])))).await;
    env.wait(3).await;
    assert_eq!(pool_condition(&get(&env, "wrong").await, "ValidationSucceeded"), "False/NodePoolValidationFailed");
    assert_eq!(pool_condition(&get(&env, "wrong").await, "Ready"), "False/UnhealthyDependents");
    assert_eq!(pool_condition(&get(&env, "half").await, "ValidationSucceeded"), "True/ValidationSucceeded");

    // Ignored values are logged once, however often the pool is reconciled.
    let ignored = || {
        let logged = lines.take().into_iter();
        let logged = logged.filter(|line| line["message"].as_str().unwrap().contains("found invalid values"));
        logged
            .map(|line| json!([line["NodePool"]["name"], line["key"], line["valid-values"], line["invalid-values"]]))
            .collect::<Vec<_>>()
    };
    assert_eq!(ignored(), [json!(["half", "karpenter.sh/capacity-type", ["on-demand"], ["xspot"]])]);
    env.patch::<NodePool>("half", json!({"spec": {"weight": 3}})).await;
    env.wait(3).await;
    assert_eq!(ignored(), [json!(null); 0]);
    env.patch::<NodePool>("half", json!({"spec": capacity(json!(["on-demand", "xspot", "yspot"]))})).await;
    env.wait(3).await;
    assert_eq!(ignored(), [json!(["half", "karpenter.sh/capacity-type", ["on-demand"], ["xspot", "yspot"]])]);
}

fn condition_message(pool: &NodePool, kind: &str) -> String {
    let conditions = &pool.status.as_ref().unwrap().conditions;
    conditions.iter().find(|condition| condition.condition_type == kind).unwrap().message.clone()
}

// spec 04 §8.5: admission accepts the schedule, and no node of the pool would ever be disrupted.
#[tokio::test(start_paused = true)]
async fn a_pool_whose_budgets_cannot_be_read_has_a_condition_and_an_event() {
    let env = TestEnv::start().await;
    let budgets = |schedule: &str| {
        json!({"disruption": {"budgets": [{"nodes": "10%"}, {"nodes": "0", "schedule": schedule, "duration": "8h"}]}})
    };
    env.create::<NodePool>(pool("night", budgets("0 19-8 * * *"))).await;
    env.wait(3).await;
    let night = get(&env, "night").await;
    assert_eq!(pool_condition(&night, "DisruptionBudgetsValid"), "False/InvalidDisruptionBudget");
    let message = condition_message(&night, "DisruptionBudgetsValid");
    assert!(
        message.starts_with(
            "no node of the NodePool is disrupted until its budgets can be read: spec.disruption.budgets[1], invalid schedule \
             \"0 19-8 * * *\""
        ),
        "{message}"
    );
    assert_eq!(env.events("InvalidDisruptionBudget"), [("night".to_owned(), message)]);
    // The pool still launches nodes.
    assert_eq!(pool_condition(&night, "Ready"), "True/Ready");
    assert_eq!(pool_condition(&get(&env, "general").await, "DisruptionBudgetsValid"), "absent");

    env.patch::<NodePool>("night", json!({"spec": budgets("0 19 * * *")})).await;
    env.wait(3).await;
    assert_eq!(pool_condition(&get(&env, "night").await, "DisruptionBudgetsValid"), "absent");
    assert_eq!(env.events("InvalidDisruptionBudget").len(), 1);
}

// spec 04 §8.5
#[tokio::test(start_paused = true)]
async fn a_static_pool_without_the_feature_gate_has_a_condition_and_an_event() {
    let env = TestEnv::start().await;
    env.create::<NodePool>(pool("fixed", json!({"replicas": 2}))).await;
    env.wait(3).await;
    let fixed = get(&env, "fixed").await;
    assert_eq!(pool_condition(&fixed, "StaticCapacityEnabled"), "False/FeatureGateDisabled");
    let message = condition_message(&fixed, "StaticCapacityEnabled");
    assert!(message.contains("spec.replicas is 2") && message.contains("FEATURE_GATES=StaticCapacity=true"), "{message}");
    assert_eq!(env.events("StaticCapacityDisabled"), [("fixed".to_owned(), message)]);
    assert_eq!(pool_condition(&fixed, "Ready"), "True/Ready");

    let mut env = TestEnv::without_controllers().await;
    env.settings.static_capacity = true;
    env.create::<NodePool>(pool("fixed", json!({"replicas": 0}))).await;
    let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
    let env = env.start_controllers(Arc::new(cloud)).await;
    env.wait(3).await;
    assert_eq!(pool_condition(&get(&env, "fixed").await, "StaticCapacityEnabled"), "absent");
}

// spec 02 #130: AWS owns the NodePools of EKS Auto Mode, and their status.
#[tokio::test(start_paused = true)]
async fn spec_02_130_pools_of_other_providers_are_never_written() {
    let mut env = TestEnv::without_controllers().await;
    let (lines, _log) = CapturedLog::capture(Level::Info, env.clock);
    let auto = json!({"template": {"spec": {"nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass"}},
        "metadata": {"labels": {"mode": "auto"}}}});
    env.create::<NodePool>(pool("auto", auto)).await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    let before = get(&env, "auto").await;
    let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
    env = env.start_controllers(Arc::new(cloud)).await;
    env.wait(3).await;
    env.pending_pod("for-auto", "1", json!({"nodeSelector": {"mode": "auto"}})).await;
    env.pending_pod("too-large", "9999", json!({})).await;
    env.wait(600).await;
    assert_eq!(get(&env, "auto").await, before, "Kerf writes nothing to the pool");
    let ignored = lines.with_message("ignoring nodepool, its node class belongs to another provider");
    assert_eq!(ignored.len(), 1, "one line per pool: {ignored:?}");
    assert_eq!(ignored[0]["NodePool"]["name"], "auto");
    assert!(env.claims().await.is_empty());
    let events = env.events("FailedScheduling");
    for pod in ["for-auto", "too-large"] {
        let messages: Vec<&String> = events.iter().filter(|(name, _)| name == pod).map(|(_, text)| text).collect();
        assert!(!messages.is_empty(), "{pod}");
        for message in messages {
            assert!(message.ends_with("; not considered: 1 NodePool of eks.amazonaws.com"), "{pod}: {message}");
        }
    }
}

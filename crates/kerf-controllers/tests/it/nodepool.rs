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

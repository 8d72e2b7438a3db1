//! The NodePool controllers (spec 04 §8).

use std::sync::Arc;

use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_controllers::logs::Level;
use kerf_kwok::{Kwok, built_in_catalogue};
use serde_json::json;

use crate::test_env::{CapturedLog, TestEnv, pool, pool_condition};

const HASH: &str = "karpenter.sh/nodepool-hash";
const VERSION: &str = "karpenter.sh/nodepool-hash-version";

async fn get(rig: &TestEnv, name: &str) -> NodePool {
    rig.api().get(name).await.unwrap()
}

// spec 04 #106, #107, spec 01 #74
#[tokio::test(start_paused = true)]
async fn a_pool_counts_its_nodes() {
    let rig = TestEnv::start().await;
    rig.wait(6).await;
    let status = get(&rig, "general").await.status.unwrap();
    assert_eq!(status.nodes, Some(0));
    let resources = status.resources.unwrap();
    for name in ["cpu", "memory", "pods", "ephemeral-storage", "nodes"] {
        assert_eq!(resources[name].to_string(), "0", "{name}");
    }
    rig.pending_pod("web", "3", json!({})).await;
    rig.wait(8).await;
    let counted = get(&rig, "general").await.status.unwrap().resources.unwrap();
    assert_eq!((counted["cpu"].to_string(), counted["nodes"].to_string()), ("4".into(), "1".into()));
    let node = rig.only_node().await.metadata.name.unwrap();
    rig.patch_status::<k8s_openapi::api::core::v1::Node>(&node, json!({"capacity": {"cpu": "3"}})).await;
    rig.make_ready(&node).await;
    rig.wait(8).await;
    let counted = get(&rig, "general").await.status.unwrap().resources.unwrap();
    assert_eq!(counted["cpu"].to_string(), "3", "an initialized node speaks for itself");
}

// spec 04 #109
#[tokio::test(start_paused = true)]
async fn only_the_template_changes_the_hash() {
    let rig = TestEnv::start().await;
    let hash = |pool: NodePool| pool.metadata.annotations.unwrap()[HASH].clone();
    let first = hash(get(&rig, "general").await);
    let requirements = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
    rig.patch::<NodePool>(
        "general",
        json!({"spec": {"weight": 3, "limits": {"cpu": "9"}, "disruption": {"consolidateAfter": "1h"},
            "template": {"spec": {"requirements": requirements}}}}),
    )
    .await;
    rig.wait(3).await;
    assert_eq!(hash(get(&rig, "general").await), first);
    rig.patch::<NodePool>("general", json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})).await;
    rig.wait(3).await;
    let second = get(&rig, "general").await;
    assert_eq!(second.metadata.annotations.as_ref().unwrap()[VERSION], "v3");
    assert_ne!(hash(second), first);
}

// spec 04 #110
#[tokio::test(start_paused = true)]
async fn claims_of_an_older_hash_version_are_taken_along() {
    let mut rig = TestEnv::start().await;
    for name in ["old", "drifted", "new"] {
        rig.create_claim(name, json!({})).await;
    }
    rig.wait(3).await;
    // State left by an older release.
    rig.stop();
    for (name, hash, version) in [("old", "0", "v2"), ("drifted", "1", "v2"), ("new", "1", "v3")] {
        rig.patch::<NodeClaim>(name, json!({"metadata": {"annotations": {HASH: hash, VERSION: version}}})).await;
    }
    let mut conditions = rig.api::<NodeClaim>().get("drifted").await.unwrap().status.unwrap().conditions;
    let mut drifted = conditions[0].clone();
    drifted.condition_type = "Drifted".into();
    conditions.push(drifted);
    rig.patch_status::<NodeClaim>("drifted", json!({"conditions": conditions})).await;
    rig.patch::<NodePool>("general", json!({"metadata": {"annotations": {HASH: "0", VERSION: "v2"}}})).await;
    let cloud = Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue());
    let rig = rig.start_controllers(Arc::new(cloud)).await;
    let pool = get(&rig, "general").await;
    let hash = pool.metadata.annotations.unwrap()[HASH].clone();
    for (name, expected) in [("old", hash.as_str()), ("drifted", "1"), ("new", "1")] {
        let annotations = rig.api::<NodeClaim>().get(name).await.unwrap().metadata.annotations.unwrap();
        assert_eq!((annotations[HASH].as_str(), annotations[VERSION].as_str()), (expected, "v3"), "{name}");
    }
}

// spec 04 #111, spec 01 #75
#[tokio::test(start_paused = true)]
async fn a_pool_is_ready_when_its_class_is() {
    let rig = TestEnv::start().await;
    assert_eq!(pool_condition(&get(&rig, "general").await, "NodeClassReady"), "True/NodeClassReady");
    let lost = json!({"template": {"spec": {"nodeClassRef": {"name": "later"}}}});
    rig.create::<NodePool>(pool("lost", lost)).await;
    rig.wait(3).await;
    let missing = get(&rig, "lost").await;
    assert_eq!(pool_condition(&missing, "NodeClassReady"), "False/NodeClassNotFound");
    assert_eq!(pool_condition(&missing, "Ready"), "False/UnhealthyDependents");

    rig.create::<KWOKNodeClass>(json!({"metadata": {"name": "later"}, "spec": {}})).await;
    rig.wait(3).await;
    assert_eq!(pool_condition(&get(&rig, "lost").await, "Ready"), "True/Ready");
    let ready = |status: &str| {
        json!({"conditions": [{"type": "Ready", "status": status, "reason": "NoQuota", "message": "ask for more",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    };
    rig.patch_status::<KWOKNodeClass>("later", ready("False")).await;
    rig.wait(3).await;
    assert_eq!(pool_condition(&get(&rig, "lost").await, "NodeClassReady"), "False/NoQuota");
    rig.patch_status::<KWOKNodeClass>("later", ready("Unknown")).await;
    rig.wait(3).await;
    assert_eq!(pool_condition(&get(&rig, "lost").await, "NodeClassReady"), "False/NodeClassReadinessUnknown");
    rig.patch_status::<KWOKNodeClass>("later", ready("True")).await;
    rig.wait(3).await;
    assert_eq!(pool_condition(&get(&rig, "lost").await, "NodeClassReady"), "True/NodeClassReady");
    rig.patch_status::<KWOKNodeClass>("later", json!({"conditions": []})).await;
    rig.wait(3).await;
    assert_eq!(pool_condition(&get(&rig, "lost").await, "NodeClassReady"), "False/NodeClassReadinessUnknown");
    rig.patch::<KWOKNodeClass>("later", json!({"metadata": {"finalizers": ["test/hold"]}})).await;
    rig.api::<KWOKNodeClass>().delete("later", &kube::api::DeleteParams::default()).await.unwrap();
    rig.wait(3).await;
    assert_eq!(pool_condition(&get(&rig, "lost").await, "NodeClassReady"), "False/NodeClassTerminating");
}

// spec 04 #112
#[tokio::test(start_paused = true)]
async fn a_pool_that_makes_no_sense_says_so() {
    let rig = TestEnv::start().await;
    let (lines, _log) = CapturedLog::capture(Level::Info, rig.clock);
    let capacity = |values: serde_json::Value| json!({"template": {"spec": {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": values}]}}});
    rig.create::<NodePool>(pool("wrong", capacity(json!(["xspot"])))).await;
    rig.create::<NodePool>(pool("half", capacity(json!(["on-demand", "xspot"])))).await;
    rig.wait(3).await;
    assert_eq!(pool_condition(&get(&rig, "wrong").await, "ValidationSucceeded"), "False/NodePoolValidationFailed");
    assert_eq!(pool_condition(&get(&rig, "wrong").await, "Ready"), "False/UnhealthyDependents");
    assert_eq!(pool_condition(&get(&rig, "half").await, "ValidationSucceeded"), "True/ValidationSucceeded");

    // Ignored values are logged once, however often the pool is reconciled.
    let ignored = || {
        let told = lines.take().into_iter();
        let told = told.filter(|line| line["message"].as_str().unwrap().contains("found invalid values"));
        told.map(|line| json!([line["NodePool"]["name"], line["key"], line["valid-values"], line["invalid-values"]]))
            .collect::<Vec<_>>()
    };
    assert_eq!(ignored(), [json!(["half", "karpenter.sh/capacity-type", ["on-demand"], ["xspot"]])]);
    rig.patch::<NodePool>("half", json!({"spec": {"weight": 3}})).await;
    rig.wait(3).await;
    assert_eq!(ignored(), [json!(null); 0]);
    rig.patch::<NodePool>("half", json!({"spec": capacity(json!(["on-demand", "xspot", "yspot"]))})).await;
    rig.wait(3).await;
    assert_eq!(ignored(), [json!(["half", "karpenter.sh/capacity-type", ["on-demand"], ["xspot", "yspot"]])]);
}

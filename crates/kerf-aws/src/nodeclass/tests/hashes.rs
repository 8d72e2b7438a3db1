//! Hash annotations.

use kerf_api::hash::{HashAnnotations, ec2nodeclass_hash, ec2nodeclass_hash_v5, is_drifted};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::test_env::NodeClassEnv;

const HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
const VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";

async fn class_hash(env: &NodeClassEnv) -> String {
    env.class("default").await.metadata.annotations.unwrap()[HASH].clone()
}

// spec 06 #75, #76
#[tokio::test(start_paused = true)]
async fn a_class_gets_its_hash_and_version() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    env.reconcile_hash("default").await.unwrap();
    let class = env.class("default").await;
    assert_eq!(class.metadata.annotations.as_ref().unwrap()[VERSION], "v6");
    let first = class_hash(&env).await;
    env.reconcile_hash("default").await.unwrap();
    assert_eq!(env.class("default").await.metadata.resource_version, class.metadata.resource_version);
    env.patch_class("default", json!({"spec": {"kubelet": {"maxPods": 12}}})).await;
    env.reconcile_hash("default").await.unwrap();
    let second = class_hash(&env).await;
    env.context.discovery.facts().update(|facts| facts.ca_bundle = Some("Y2E=".to_owned()));
    env.reconcile_hash("default").await.unwrap();
    let third = class_hash(&env).await;
    assert!(first != second && second != third);
}

/// Returns the hash of the class `default` as Karpenter 1.14 writes it.
async fn hash_v5(env: &NodeClassEnv) -> String {
    let spec = env.class("default").await.spec.unwrap();
    let facts = env.context.discovery.facts().get();
    ec2nodeclass_hash_v5(&spec, facts.ca_bundle.as_deref().unwrap_or_default()).unwrap().to_string()
}

/// Returns hash and version of a claim.
async fn claim_hash(env: &NodeClassEnv, name: &str) -> (String, String) {
    let annotations = env.claims().get(name).await.unwrap().metadata.annotations.unwrap();
    (annotations[HASH].clone(), annotations[VERSION].clone())
}

/// Returns true if the claim drifts from the class by its hash.
async fn has_drifted(env: &NodeClassEnv, name: &str) -> bool {
    let class = env.class("default").await.metadata.annotations.unwrap_or_default();
    let (hash, version) = claim_hash(env, name).await;
    let class =
        HashAnnotations { hash: class.get(HASH).map(String::as_str), version: class.get(VERSION).map(String::as_str) };
    is_drifted(class, HashAnnotations { hash: Some(&hash), version: Some(&version) })
}

// spec 06 #77, spec 12 #42, #43
#[tokio::test(start_paused = true)]
async fn claims_of_another_version_are_migrated_without_drift() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    let v5 = hash_v5(&env).await;
    env.patch_class("default", json!({"metadata": {"annotations": {HASH: v5, VERSION: "v5"}}})).await;
    for (name, version) in [("old", "v5"), ("drifted", "v5"), ("current", "v6")] {
        env.create_claim(name, "default", json!({HASH: "1", VERSION: version})).await;
    }
    env.create_claim("without", "default", json!({})).await;
    env.create_claim("other", "other-class", json!({HASH: "1", VERSION: "v5"})).await;
    let drifted = json!({"status": {"conditions": [{"type": "Drifted", "status": "True", "reason": "NodeClassDrift",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    env.claims().patch_status("drifted", &PatchParams::default(), &Patch::Merge(drifted)).await.unwrap();
    env.reconcile_hash("default").await.unwrap();
    let hash = class_hash(&env).await;
    assert_eq!(claim_hash(&env, "old").await, (hash.clone(), "v6".to_owned()));
    assert_eq!(claim_hash(&env, "without").await, (hash, "v6".to_owned()));
    assert_eq!(claim_hash(&env, "drifted").await, ("1".to_owned(), "v6".to_owned()));
    assert_eq!(claim_hash(&env, "current").await, ("1".to_owned(), "v6".to_owned()));
    assert_eq!(claim_hash(&env, "other").await, ("1".to_owned(), "v5".to_owned()));
}

// spec 12 §7.3: a class that was edited in the last seconds under Karpenter 1.14
#[tokio::test(start_paused = true)]
async fn an_edit_just_before_the_migration_is_found_to_be_drift() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    let before = hash_v5(&env).await;
    env.patch_class("default", json!({"metadata": {"annotations": {HASH: before, VERSION: "v5"}}})).await;
    env.create_claim("before", "default", json!({HASH: before, VERSION: "v5"})).await;
    env.patch_class("default", json!({"spec": {"detailedMonitoring": true}})).await;
    let after = hash_v5(&env).await;
    env.create_claim("after", "default", json!({HASH: after, VERSION: "v5"})).await;
    env.create_claim("older", "default", json!({HASH: "1", VERSION: "v4"})).await;
    env.reconcile_hash("default").await.unwrap();
    assert_eq!(claim_hash(&env, "before").await, (before, "v6".to_owned()));
    assert!(has_drifted(&env, "before").await);
    assert!(!has_drifted(&env, "after").await && !has_drifted(&env, "older").await);
}

// spec 12 #44
#[tokio::test(start_paused = true)]
async fn a_migration_that_stops_half_way_causes_no_drift_and_is_finished() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    let v5 = hash_v5(&env).await;
    env.patch_class("default", json!({"metadata": {"annotations": {HASH: v5, VERSION: "v5"}}})).await;
    for name in ["a", "b"] {
        env.create_claim(name, "default", json!({HASH: v5, VERSION: "v5"})).await;
    }
    // The process has written claim `a` and then ended.
    let spec = env.class("default").await.spec.unwrap();
    let facts = env.context.discovery.facts().get();
    let v6 = ec2nodeclass_hash(&spec, facts.ca_bundle.as_deref().unwrap_or_default()).unwrap().to_string();
    let half = json!({"metadata": {"annotations": {HASH: v6, VERSION: "v6"}}});
    env.claims().patch("a", &PatchParams::default(), &Patch::Merge(half)).await.unwrap();
    assert!(!has_drifted(&env, "a").await && !has_drifted(&env, "b").await);
    env.reconcile_hash("default").await.unwrap();
    for name in ["a", "b"] {
        assert_eq!(claim_hash(&env, name).await, (v6.clone(), "v6".to_owned()));
        assert!(!has_drifted(&env, name).await);
    }
}

// spec 10 #112
#[tokio::test(start_paused = true)]
async fn enclave_options_are_part_of_the_hash() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({})).await;
    let mut hashes = Vec::new();
    for options in [json!(null), json!({"enabled": false}), json!({"enabled": true})] {
        env.patch_class("default", json!({"spec": {"enclaveOptions": options}})).await;
        env.reconcile_hash("default").await.unwrap();
        hashes.push(class_hash(&env).await);
    }
    assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2], "{hashes:?}");
}

//! Hash annotations.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::test_env::TestEnv;

const HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
const VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";

async fn class_hash(env: &TestEnv) -> String {
    env.class("default").await.metadata.annotations.unwrap()[HASH].clone()
}

// spec 06 #75, #76
#[tokio::test(start_paused = true)]
async fn a_class_gets_its_hash_and_version() {
    let env = TestEnv::new().await;
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

// spec 06 #77
#[tokio::test(start_paused = true)]
async fn claims_of_another_version_are_migrated_without_drift() {
    let env = TestEnv::new().await;
    env.create_class("default", json!({})).await;
    env.patch_class("default", json!({"metadata": {"annotations": {HASH: "1", VERSION: "v5"}}})).await;
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
    let annotations = async |name: &str| {
        let annotations = env.claims().get(name).await.unwrap().metadata.annotations.unwrap();
        (annotations[HASH].clone(), annotations[VERSION].clone())
    };
    assert_eq!(annotations("old").await, (hash.clone(), "v6".to_owned()));
    assert_eq!(annotations("without").await, (hash, "v6".to_owned()));
    assert_eq!(annotations("drifted").await, ("1".to_owned(), "v6".to_owned()));
    assert_eq!(annotations("current").await, ("1".to_owned(), "v6".to_owned()));
    assert_eq!(annotations("other").await, ("1".to_owned(), "v5".to_owned()));
}

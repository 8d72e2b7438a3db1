//! Mistakes of users and providers: each leads to a condition, an Event or a log line, and nothing
//! else stops working.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::Instance;
use kerf_kwok::{Kwok, built_in_catalogue};
use serde_json::json;

use crate::cloud::ScriptedLaunch;
use crate::launch::env_with_scripted_cloud;
use crate::test_env::{TestEnv, claim_condition, pool, pool_condition};

/// Asserts that a pod for another pool still gets its node.
async fn assert_other_pods_launch(env: &TestEnv) {
    if env.api::<NodePool>().get_opt("healthy").await.unwrap().is_none() {
        env.create::<NodePool>(pool("healthy", json!({}))).await;
    }
    env.wait(2).await;
    let before = env.claims().await.len();
    env.pending_pod("healthy", "1", json!({"nodeSelector": {"karpenter.sh/nodepool": "healthy"}})).await;
    env.wait(15).await;
    let claims = env.claims().await;
    let is_launched = |claim: &&NodeClaim| {
        let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get("karpenter.sh/nodepool"));
        pool.is_some_and(|pool| pool == "healthy") && claim_condition(claim, "Registered") == "True/Registered"
    };
    assert!(claims.iter().filter(is_launched).count() == 1 && claims.len() <= before + 1, "{claims:#?}");
}

#[tokio::test(start_paused = true)]
async fn unusable_pools_are_skipped() {
    let env = TestEnv::start().await;
    env.patch::<NodePool>("general", json!({"spec": {"limits": {"nodes": "0"}}})).await;
    let lost = json!({"weight": 100, "template": {"spec": {"nodeClassRef": {"name": "nowhere"}}}});
    env.create::<NodePool>(pool("lost", lost)).await;
    // Admission rejects the pool's own label in requirements, but accepts this label, which is
    // restricted at run time.
    let restricted = json!({"weight": 90, "template": {"spec": {"requirements":
        [{"key": "karpenter.kwok.sh/kwoknodeclass", "operator": "In", "values": ["default"]}]}}});
    env.create::<NodePool>(pool("restricted", restricted)).await;
    env.wait(2).await;
    for (name, reason) in [("lost", "UnhealthyDependents"), ("restricted", "UnhealthyDependents")] {
        let unready: NodePool = env.api().get(name).await.unwrap();
        assert_eq!(pool_condition(&unready, "Ready"), format!("False/{reason}"), "{name}");
    }
    assert_other_pods_launch(&env).await;
}

#[tokio::test(start_paused = true)]
async fn invalid_provider_data_blocks_only_one_claim() {
    let (env, cloud) = env_with_scripted_cloud().await;
    for _ in 0..3 {
        cloud.script_launch(ScriptedLaunch::Returns(Instance::default()));
    }
    env.create_claim("nameless", json!({})).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Launched"), "Unknown/LaunchFailed");
    env.wait(10).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Launched"), "True/Launched", "the launch is retried");

    let nonsense = [("cpu".to_owned(), "lots".into()), ("memory".to_owned(), "-1Gi".into())];
    cloud.script_launch(ScriptedLaunch::Returns(Instance {
        provider_id: "kwok://nonsense".into(),
        capacity: nonsense.clone().into(),
        allocatable: nonsense.into(),
        ..Instance::default()
    }));
    env.create_claim("nonsense", json!({})).await;
    env.wait(2).await;
    assert_other_pods_launch(&env).await;
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_provider_id_blocks_only_one_claim() {
    let env = TestEnv::start().await;
    env.create_claim("a", json!({})).await;
    env.wait(2).await;
    let id = env.only_claim().await.status.unwrap().provider_id.unwrap();
    env.create::<Node>(json!({"metadata": {"name": "twin"}, "spec": {"providerID": id}})).await;
    env.wait(2).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Initialized"), "Unknown/NodeNotFound");
    assert_other_pods_launch(&env).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_edited_by_hand_is_repaired() {
    let env = TestEnv::start().await;
    env.create_claim("a", json!({})).await;
    env.wait(2).await;
    let id = env.only_claim().await.status.unwrap().provider_id;
    env.patch::<NodeClaim>("a", json!({"metadata": {"finalizers": null, "labels": null}})).await;
    env.patch_status::<NodeClaim>("a", json!({"providerID": null, "capacity": null})).await;
    env.wait(5).await;
    let claim = env.only_claim().await;
    assert_eq!(claim.status.as_ref().unwrap().provider_id, id, "its instance is found again");
    assert_eq!(claim.metadata.finalizers.unwrap(), ["karpenter.sh/termination"]);
    assert_eq!(env.list::<Node>().await.len(), 1, "no second instance is launched");
    assert_other_pods_launch(&env).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_finalizer_was_removed_by_hand_leaves_no_instance() {
    let mut env = TestEnv::start().await;
    env.create_claim("a", json!({})).await;
    env.wait(2).await;
    // The controllers do not run while this happens.
    env.stop();
    let node = env.only_node().await.metadata.name.unwrap();
    env.patch::<Node>(&node, json!({"metadata": {"finalizers": null}})).await;
    env.patch::<NodeClaim>("a", json!({"metadata": {"finalizers": null}})).await;
    env.delete_claim("a").await;
    let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
    env.restart(Arc::new(cloud));
    env.wait(250).await;
    assert_eq!(env.claims().await, []);
    assert_eq!(env.list::<Node>().await, [], "the instance without a claim is terminated");
}

#[tokio::test(start_paused = true)]
async fn kerf_waits_until_its_crds_are_installed() {
    let env = TestEnv::without_crds();
    let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
    let env = env.start_controllers(Arc::new(cloud)).await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(60).await;
    env.install_crds().await;
    env.create::<KWOKNodeClass>(json!({"metadata": {"name": "default"}, "spec": {}})).await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    env.wait(30).await;
    assert_eq!(claim_condition(&env.only_claim().await, "Registered"), "True/Registered");
}

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
async fn assert_other_pods_launch(rig: &TestEnv) {
    if rig.api::<NodePool>().get_opt("healthy").await.unwrap().is_none() {
        rig.create::<NodePool>(pool("healthy", json!({}))).await;
    }
    rig.wait(2).await;
    let before = rig.claims().await.len();
    rig.pending_pod("healthy", "1", json!({"nodeSelector": {"karpenter.sh/nodepool": "healthy"}})).await;
    rig.wait(15).await;
    let claims = rig.claims().await;
    let launched = |claim: &&NodeClaim| {
        let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get("karpenter.sh/nodepool"));
        pool.is_some_and(|pool| pool == "healthy") && claim_condition(claim, "Registered") == "True/Registered"
    };
    assert!(claims.iter().filter(launched).count() == 1 && claims.len() <= before + 1, "{claims:#?}");
}

#[tokio::test(start_paused = true)]
async fn pools_that_cannot_be_used_are_passed_over() {
    let rig = TestEnv::start().await;
    rig.patch::<NodePool>("general", json!({"spec": {"limits": {"nodes": "0"}}})).await;
    let lost = json!({"weight": 100, "template": {"spec": {"nodeClassRef": {"name": "nowhere"}}}});
    rig.create::<NodePool>(pool("lost", lost)).await;
    // Admission rejects the pool's own label in requirements, but accepts this label, which is
    // restricted at run time.
    let restricted = json!({"weight": 90, "template": {"spec": {"requirements":
        [{"key": "karpenter.kwok.sh/kwoknodeclass", "operator": "In", "values": ["default"]}]}}});
    rig.create::<NodePool>(pool("restricted", restricted)).await;
    rig.wait(2).await;
    for (name, reason) in [("lost", "UnhealthyDependents"), ("restricted", "UnhealthyDependents")] {
        let unready: NodePool = rig.api().get(name).await.unwrap();
        assert_eq!(pool_condition(&unready, "Ready"), format!("False/{reason}"), "{name}");
    }
    assert_other_pods_launch(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_returns_garbage_holds_up_one_claim() {
    let (rig, cloud) = env_with_scripted_cloud().await;
    for _ in 0..3 {
        cloud.script_launch(ScriptedLaunch::Returns(Instance::default()));
    }
    rig.create_claim("nameless", json!({})).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "Launched"), "Unknown/LaunchFailed");
    rig.wait(10).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "Launched"), "True/Launched", "it is tried again");

    let nonsense = [("cpu".to_owned(), "lots".into()), ("memory".to_owned(), "-1Gi".into())];
    cloud.script_launch(ScriptedLaunch::Returns(Instance {
        provider_id: "kwok://nonsense".into(),
        capacity: nonsense.clone().into(),
        allocatable: nonsense.into(),
        ..Instance::default()
    }));
    rig.create_claim("nonsense", json!({})).await;
    rig.wait(2).await;
    assert_other_pods_launch(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_provider_id_holds_up_one_claim() {
    let rig = TestEnv::start().await;
    rig.create_claim("a", json!({})).await;
    rig.wait(2).await;
    let id = rig.only_claim().await.status.unwrap().provider_id.unwrap();
    rig.create::<Node>(json!({"metadata": {"name": "twin"}, "spec": {"providerID": id}})).await;
    rig.wait(2).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "Initialized"), "Unknown/NodeNotFound");
    assert_other_pods_launch(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_edited_by_hand_is_mended() {
    let rig = TestEnv::start().await;
    rig.create_claim("a", json!({})).await;
    rig.wait(2).await;
    let id = rig.only_claim().await.status.unwrap().provider_id;
    rig.patch::<NodeClaim>("a", json!({"metadata": {"finalizers": null, "labels": null}})).await;
    rig.patch_status::<NodeClaim>("a", json!({"providerID": null, "capacity": null})).await;
    rig.wait(5).await;
    let claim = rig.only_claim().await;
    assert_eq!(claim.status.as_ref().unwrap().provider_id, id, "its machine is found again");
    assert_eq!(claim.metadata.finalizers.unwrap(), ["karpenter.sh/termination"]);
    assert_eq!(rig.list::<Node>().await.len(), 1, "and no second one is launched");
    assert_other_pods_launch(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_finalizer_was_removed_by_hand_leaves_no_machine_behind() {
    let mut rig = TestEnv::start().await;
    rig.create_claim("a", json!({})).await;
    rig.wait(2).await;
    // The controllers do not run while this happens.
    rig.stop();
    let node = rig.only_node().await.metadata.name.unwrap();
    rig.patch::<Node>(&node, json!({"metadata": {"finalizers": null}})).await;
    rig.patch::<NodeClaim>("a", json!({"metadata": {"finalizers": null}})).await;
    rig.delete_claim("a").await;
    let cloud = Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue());
    rig.restart(Arc::new(cloud));
    rig.wait(250).await;
    assert_eq!(rig.claims().await, []);
    assert_eq!(rig.list::<Node>().await, [], "the machine without a claim is terminated");
}

#[tokio::test(start_paused = true)]
async fn without_its_definitions_kerf_waits_for_them() {
    let rig = TestEnv::without_crds();
    let cloud = Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue());
    let rig = rig.start_controllers(Arc::new(cloud)).await;
    rig.pending_pod("web", "1", json!({})).await;
    rig.wait(60).await;
    rig.install_crds().await;
    rig.create::<KWOKNodeClass>(json!({"metadata": {"name": "default"}, "spec": {}})).await;
    rig.create::<NodePool>(pool("general", json!({}))).await;
    rig.wait(30).await;
    assert_eq!(claim_condition(&rig.only_claim().await, "Registered"), "True/Registered");
}

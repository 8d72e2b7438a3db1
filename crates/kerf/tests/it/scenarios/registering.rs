//! From a NodeClaim to an initialized node.

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodeclaim::NodeClaim;
use kube::ResourceExt as _;
use serde_json::json;

use super::scenario_cluster::{claim_condition, run_scenario};

#[test]
fn a_claim_written_by_hand_becomes_a_node() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster
            .create::<NodeClaim>(
                json!({"metadata": {"name": "by-hand", "labels": {"karpenter.sh/nodepool": "general"}}, "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            "resources": {"requests": {"cpu": "3"}}}}),
            )
            .await;
        cluster.wait_until_initialized(1).await;
        let (claim, node) = (cluster.claims().await.remove(0), cluster.only_node().await);
        assert_eq!(claim.status.as_ref().and_then(|status| status.node_name.clone()), Some(node.name_any()));
        assert_eq!(
            claim.status.and_then(|status| status.provider_id),
            node.spec.as_ref().and_then(|spec| spec.provider_id.clone())
        );
    });
}

#[test]
fn node_and_claim_have_finalizers_and_owners() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster.create_deployment("web", 1, "1", json!({})).await;
        cluster.wait_until_running("web", 1).await;
        cluster.wait_until_initialized(1).await;
        let (claim, node) = (cluster.claims().await.remove(0), cluster.only_node().await);
        assert!(claim.finalizers().iter().any(|name| name == "karpenter.sh/termination"));
        assert!(node.finalizers().iter().any(|name| name == "karpenter.sh/termination"));
        let owners = node.owner_references();
        assert!(owners.iter().any(|owner| owner.kind == "NodeClaim" && owner.name == claim.name_any()), "{owners:?}");
        let owners = claim.owner_references();
        assert!(owners.iter().any(|owner| owner.kind == "NodePool" && owner.name == "general"), "{owners:?}");
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        assert!(!taints.iter().any(|taint| taint.key == "karpenter.sh/unregistered"), "{taints:?}");
    });
}

#[test]
fn a_startup_taint_keeps_a_node_from_being_initialized() {
    run_scenario(async |cluster| {
        cluster.create_pool(
            "general",
            json!({"template": {"spec": {"startupTaints": [{"key": "example.com/booting", "effect": "NoSchedule"}]}}}),
        )
        .await;
        cluster.start_kerf();
        cluster.create_deployment("web", 1, "1", json!({})).await;
        cluster
            .wait_until("the node is registered", async || {
                cluster.claims().await.iter().any(|claim| claim_condition(claim, "Registered") == "True")
            })
            .await;
        cluster.sleep_seconds(3).await;
        let claim = cluster.claims().await.remove(0);
        assert_ne!(claim_condition(&claim, "Initialized"), "True");
        assert_eq!(cluster.running_pods("web").await, 0);
        let node = cluster.only_node().await;
        let remaining_taints: Vec<_> = node
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten())
            .filter(|taint| taint.key != "example.com/booting")
            .collect();
        cluster
            .patch(cluster.cluster_scoped::<Node>(), &node.name_any(), json!({"spec": {"taints": remaining_taints}}))
            .await;
        cluster.wait_until_running("web", 1).await;
        cluster.wait_until_initialized(1).await;
        assert_eq!(cluster.claims().await.len(), 1);
    });
}

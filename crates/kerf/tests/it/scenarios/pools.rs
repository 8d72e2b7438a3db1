//! NodePools: weights, taints, labels, readiness, hash and printed columns.

use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodepool::NodePool;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use super::scenario_cluster::{node_label, pool_condition, run_scenario};

#[test]
fn the_pool_with_the_higher_weight_is_used_first() {
    run_scenario(async |cluster| {
        cluster.create_pool("light", json!({"weight": 1})).await;
        cluster.create_pool("heavy", json!({"weight": 50})).await;
        cluster.start_kerf();
        cluster.create_deployment("web", 2, "1", json!({})).await;
        cluster.wait_until_running("web", 2).await;
        assert!(cluster.nodes().await.iter().all(|node| node_label(node, "karpenter.sh/nodepool") == "heavy"));
    });
}

#[test]
fn a_tainted_pool_serves_only_pods_that_tolerate_its_taint() {
    run_scenario(async |cluster| {
        cluster
            .create_pool(
                "special",
                json!({"template": {"spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}}}),
            )
            .await;
        cluster.start_kerf();
        cluster.create_deployment("stranger", 1, "1", json!({})).await;
        cluster.wait_until_unschedulable().await;
        assert!(cluster.claims().await.is_empty());
        cluster
            .create_deployment("member", 1, "1", json!({"tolerations": [{"key": "team", "operator": "Exists"}]}))
            .await;
        cluster.wait_until_running("member", 1).await;
        assert_eq!(cluster.running_pods("stranger").await, 0);
        let taints = cluster.only_node().await.spec.and_then(|spec| spec.taints).unwrap_or_default();
        assert!(taints.iter().any(|taint| taint.key == "team"), "{taints:?}");
    });
}

#[test]
fn labels_and_annotations_of_the_template_reach_the_node() {
    run_scenario(async |cluster| {
        cluster.create_pool(
            "general",
            json!({"template": {"metadata": {"labels": {"team": "a"}, "annotations": {"example.com/note": "hello"}}}}),
        )
        .await;
        cluster.start_kerf();
        cluster.create_deployment("web", 1, "1", json!({"nodeSelector": {"team": "a"}})).await;
        cluster.wait_until_running("web", 1).await;
        let node = cluster.only_node().await;
        assert_eq!(node_label(&node, "team"), "a");
        assert_eq!(node.annotations()["example.com/note"], "hello");
    });
}

#[test]
fn a_pool_without_its_class_is_not_ready_until_the_class_is_created() {
    run_scenario(async |cluster| {
        cluster.cluster_scoped::<KWOKNodeClass>().delete("default", &DeleteParams::default()).await.unwrap();
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster
            .wait_until("the pool says that its class is missing", async || {
                let pool = cluster.cluster_scoped::<NodePool>().get("general").await.unwrap();
                pool_condition(&pool, "NodeClassReady") == "False/NodeClassNotFound"
            })
            .await;
        cluster.create_deployment("web", 1, "1", json!({})).await;
        cluster.sleep_seconds(5).await;
        assert!(cluster.claims().await.is_empty());
        cluster.create::<KWOKNodeClass>(json!({"metadata": {"name": "default"}, "spec": {}})).await;
        cluster.wait_until_running("web", 1).await;
        let pool = cluster.cluster_scoped::<NodePool>().get("general").await.unwrap();
        assert!(pool_condition(&pool, "Ready").starts_with("True"));
    });
}

#[test]
fn a_pool_has_its_hash_and_its_claims_inherit_it() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster.create_deployment("web", 1, "1", json!({})).await;
        cluster.wait_until_running("web", 1).await;
        let pool = cluster.cluster_scoped::<NodePool>().get("general").await.unwrap();
        let claim = cluster.claims().await.remove(0);
        for key in ["karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"] {
            assert_eq!(claim.annotations().get(key), pool.annotations().get(key), "{key}");
            assert!(pool.annotations().contains_key(key), "{key}");
        }
    });
}

// spec 01 section 1: `kubectl get nodepools,nodeclaims -o wide` shows these columns.
#[test]
fn tables_have_karpenters_columns() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster.create_deployment("web", 1, "1", json!({})).await;
        cluster.wait_until_running("web", 1).await;
        cluster.wait_until_initialized(1).await;
        for (plural, columns) in [
            ("nodepools", &["Name", "NodeClass", "Nodes", "Ready", "Age", "Weight", "CPU", "Memory"][..]),
            (
                "nodeclaims",
                &[
                    "Name",
                    "Type",
                    "Capacity",
                    "Zone",
                    "Node",
                    "Ready",
                    "Age",
                    "ImageID",
                    "ID",
                    "NodePool",
                    "NodeClass",
                    "Drifted",
                ],
            ),
        ] {
            let request = http::Request::get(format!("/apis/karpenter.sh/v1/{plural}"))
                .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
                .body(Vec::new())
                .unwrap();
            let table: serde_json::Value = cluster.client().request(request).await.unwrap();
            let shown: Vec<&str> = table["columnDefinitions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|column| column["name"].as_str().unwrap())
                .collect();
            assert_eq!(shown, columns);
            let row = table["rows"][0]["cells"].as_array().unwrap();
            let ready = columns.iter().position(|column| *column == "Ready").unwrap();
            assert_eq!(row[ready], "True", "{plural}: {row:?}");
        }
    });
}

//! Disruption: empty, underutilized and drifted nodes are removed or replaced, and their pods keep
//! running.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodepool::NodePool;
use serde_json::{Value, json};

use super::scenario_cluster::{ScenarioCluster, claim_condition, node_label, run_scenario};

/// Returns a pool that consolidates its nodes after one second.
fn consolidating_pool_spec() -> Value {
    json!({"disruption": {"consolidateAfter": "1s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}})
}

fn host_anti_affinity(name: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}]}}})
}

async fn node_names(cluster: &ScenarioCluster) -> Vec<String> {
    cluster.nodes().await.iter().map(kube::ResourceExt::name_any).collect()
}

// spec 07 section 13, D
#[test]
fn acceptance_d_scaling_down() {
    run_scenario(async |cluster| {
        cluster.create_pool("default", consolidating_pool_spec()).await;
        cluster.start_kerf();
        cluster.create_deployment("inflate", 5, "1", json!({})).await;
        cluster.wait_until_running("inflate", 5).await;
        cluster.wait_until_initialized(1).await;
        cluster.scale("inflate", 0).await;
        cluster
            .wait_until("the empty node is deleted", async || {
                cluster.nodes().await.is_empty() && cluster.claims().await.is_empty()
            })
            .await;
        cluster
            .wait_until("the Event is published", async || {
                cluster.event_messages("DisruptionTerminating").await.iter().any(|text| text.contains("Empty"))
            })
            .await;
    });
}

// spec 07 section 13, E
#[test]
fn acceptance_e_drift_by_node_class() {
    run_scenario(async |cluster| {
        cluster.create_pool("default", json!({})).await;
        cluster.start_kerf();
        cluster.create_deployment("inflate", 5, "1", json!({})).await;
        cluster.wait_until_running("inflate", 5).await;
        cluster.wait_until_initialized(1).await;
        let before = node_names(cluster).await;
        cluster.create::<KWOKNodeClass>(json!({"metadata": {"name": "newnode"}, "spec": {}})).await;
        let patch = json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "newnode"}}}}});
        cluster.patch(cluster.cluster_scoped::<NodePool>(), "default", patch).await;
        cluster
            .wait_until("the claim has drifted", async || {
                cluster.claims().await.iter().any(|claim| claim_condition(claim, "Drifted") == "True")
            })
            .await;
        cluster
            .wait_until("another node runs the pods", async || {
                let now = node_names(cluster).await;
                now.len() == 1 && now != before && cluster.running_pods("inflate").await == 5
            })
            .await;
        let claim = cluster.claims().await.remove(0);
        assert_eq!(claim.spec.node_class_ref.name, "newnode");
    });
}

// spec 07 section 13, G
#[test]
fn acceptance_g_consolidation() {
    run_scenario(async |cluster| {
        cluster.create_pool("default", consolidating_pool_spec()).await;
        cluster.start_kerf();
        cluster.create_deployment("spread", 3, "500m", host_anti_affinity("spread")).await;
        cluster.wait_until_running("spread", 3).await;
        cluster.wait_until_initialized(3).await;
        // No anti-affinity keeps the new pods apart; they run where there is free capacity.
        cluster.scale("spread", 0).await;
        cluster.create_deployment("small", 3, "200m", json!({})).await;
        cluster
            .wait_until("fewer nodes carry them", async || {
                cluster.running_pods("small").await == 3
                    && cluster.nodes().await.len() == 1
                    && cluster.claims().await.len() == 1
            })
            .await;
    });
}

#[test]
fn a_budget_of_zero_keeps_every_node() {
    run_scenario(async |cluster| {
        let mut spec = consolidating_pool_spec();
        spec["disruption"]["budgets"] = json!([{"nodes": "0"}]);
        cluster.create_pool("default", spec).await;
        cluster.start_kerf();
        cluster.create_deployment("web", 1, "1", json!({})).await;
        cluster.wait_until_running("web", 1).await;
        cluster.wait_until_initialized(1).await;
        cluster.scale("web", 0).await;
        cluster.sleep_seconds(25).await;
        assert_eq!(cluster.nodes().await.len(), 1);
        cluster
            .patch(
                cluster.cluster_scoped::<NodePool>(),
                "default",
                json!({"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}}),
            )
            .await;
        cluster.wait_until("the node is removed", async || cluster.nodes().await.is_empty()).await;
    });
}

#[test]
fn a_changed_template_replaces_nodes_and_pods_keep_running() {
    run_scenario(async |cluster| {
        cluster.create_pool("default", json!({})).await;
        cluster.start_kerf();
        cluster.create_deployment("web", 2, "1", host_anti_affinity("web")).await;
        cluster.wait_until_running("web", 2).await;
        cluster.wait_until_initialized(2).await;
        let budget = json!({"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
        cluster.create_namespaced::<PodDisruptionBudget>(budget).await;
        let before = node_names(cluster).await;
        let patch = json!({"spec": {"template": {"metadata": {"labels": {"generation": "two"}}}}});
        cluster.patch(cluster.cluster_scoped::<NodePool>(), "default", patch).await;
        cluster
            .wait_until("both nodes are new", async || {
                let now = node_names(cluster).await;
                now.len() == 2
                    && !now.iter().any(|name| before.contains(name))
                    && cluster.running_pods("web").await == 2
            })
            .await;
        assert!(cluster.nodes().await.iter().all(|node| node_label(node, "generation") == "two"));
    });
}

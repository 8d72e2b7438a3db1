//! Nodes that need not be there, or are not what they should be, go by themselves; and what runs on them keeps running.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodepool::NodePool;
use serde_json::{Value, json};

use super::scenario_cluster::{ScenarioCluster, condition, label, scenario};

/// A pool that lets its nodes go soon.
fn eager() -> Value {
    json!({"disruption": {"consolidateAfter": "1s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}})
}

fn apart(name: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}]}}})
}

async fn names(g: &ScenarioCluster) -> Vec<String> {
    g.nodes().await.iter().map(kube::ResourceExt::name_any).collect()
}

// spec 07 section 13, D
#[test]
fn acceptance_d_scaling_down() {
    scenario(async |g| {
        g.pool("default", eager()).await;
        g.start();
        g.deployment("inflate", 5, "1", json!({})).await;
        g.until_running("inflate", 5).await;
        g.until_initialized(1).await;
        g.scale("inflate", 0).await;
        g.until("the empty node is gone", async || g.nodes().await.is_empty() && g.claims().await.is_empty()).await;
        g.until("it was told", async || {
            g.events("DisruptionTerminating").await.iter().any(|text| text.contains("Empty"))
        })
        .await;
    });
}

// spec 07 section 13, E
#[test]
fn acceptance_e_drift_by_node_class() {
    scenario(async |g| {
        g.pool("default", json!({})).await;
        g.start();
        g.deployment("inflate", 5, "1", json!({})).await;
        g.until_running("inflate", 5).await;
        g.until_initialized(1).await;
        let before = names(g).await;
        g.create::<KWOKNodeClass>(json!({"metadata": {"name": "newnode"}, "spec": {}})).await;
        let other = json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "newnode"}}}}});
        g.change(g.all::<NodePool>(), "default", other).await;
        g.until("the claim has drifted", async || {
            g.claims().await.iter().any(|claim| condition(claim, "Drifted") == "True")
        })
        .await;
        g.until("another node has taken over", async || {
            let now = names(g).await;
            now.len() == 1 && now != before && g.running("inflate").await == 5
        })
        .await;
        let claim = g.claims().await.remove(0);
        assert_eq!(claim.spec.node_class_ref.name, "newnode");
    });
}

// spec 07 section 13, G
#[test]
fn acceptance_g_consolidation() {
    scenario(async |g| {
        g.pool("default", eager()).await;
        g.start();
        g.deployment("spread", 3, "500m", apart("spread")).await;
        g.until_running("spread", 3).await;
        g.until_initialized(3).await;
        // Nothing keeps them apart any more; the new pods go where there is room.
        g.scale("spread", 0).await;
        g.deployment("small", 3, "200m", json!({})).await;
        g.until("fewer nodes carry them", async || {
            g.running("small").await == 3 && g.nodes().await.len() == 1 && g.claims().await.len() == 1
        })
        .await;
    });
}

#[test]
fn a_budget_of_none_keeps_every_node() {
    scenario(async |g| {
        let mut spec = eager();
        spec["disruption"]["budgets"] = json!([{"nodes": "0"}]);
        g.pool("default", spec).await;
        g.start();
        g.deployment("web", 1, "1", json!({})).await;
        g.until_running("web", 1).await;
        g.until_initialized(1).await;
        g.scale("web", 0).await;
        g.wait(25).await;
        assert_eq!(g.nodes().await.len(), 1);
        g.change(g.all::<NodePool>(), "default", json!({"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}})).await;
        g.until("now it may go", async || g.nodes().await.is_empty()).await;
    });
}

#[test]
fn a_changed_template_replaces_nodes_and_pods_keep_running() {
    scenario(async |g| {
        g.pool("default", json!({})).await;
        g.start();
        g.deployment("web", 2, "1", apart("web")).await;
        g.until_running("web", 2).await;
        g.until_initialized(2).await;
        let budget = json!({"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
        g.place::<PodDisruptionBudget>(budget).await;
        let before = names(g).await;
        let label_more = json!({"spec": {"template": {"metadata": {"labels": {"generation": "two"}}}}});
        g.change(g.all::<NodePool>(), "default", label_more).await;
        g.until("both nodes are new", async || {
            let now = names(g).await;
            now.len() == 2 && !now.iter().any(|name| before.contains(name)) && g.running("web").await == 2
        })
        .await;
        assert!(g.nodes().await.iter().all(|node| label(node, "generation") == "two"));
    });
}

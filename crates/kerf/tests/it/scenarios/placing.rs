//! Provisioning: which instances are launched for pending pods, how many, and where.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kerf_api::nodepool::NodePool;
use kube::ResourceExt as _;
use serde_json::json;

use super::scenario_cluster::{claim_condition, node_label, node_of, run_scenario};

// spec 07 section 13, B, with the sizes of the simulated catalogue.
#[test]
fn acceptance_b_scaling_up() {
    run_scenario(async |g| {
        g.create_pool("default", json!({"limits": {"cpu": "10"}})).await;
        g.start_kerf();
        g.create_deployment("inflate", 0, "1", json!({})).await;
        g.scale("inflate", 5).await;
        g.wait_until_running("inflate", 5).await;
        g.wait_until_initialized(1).await;
        let node = g.only_node().await;
        assert!(g.pods("inflate").await.iter().all(|pod| node_of(pod) == node.name_any()), "one node for all");
        let claim = g.claims().await.remove(0);
        assert!(claim.name_any().starts_with("default-"), "{}", claim.name_any());
        assert_eq!(node_label(&node, "karpenter.sh/nodepool"), "default");
        assert_eq!(node_label(&node, "karpenter.sh/capacity-type"), "on-demand");
        assert_eq!(node_label(&node, "karpenter.sh/initialized"), "true");
        for kind in ["Launched", "Registered", "Initialized", "Ready"] {
            assert_eq!(claim_condition(&claim, kind), "True", "{kind}");
        }
        g.wait_until("every pod was told where it would go", async || {
            let told = g.event_messages("Nominated").await;
            told.len() >= 5 && told.iter().all(|text| text.contains("nodeclaim/default-"))
        })
        .await;
        g.wait_until("the pool counts its node", async || {
            let status = g.cluster_scoped::<NodePool>().get("default").await.unwrap().status.unwrap_or_default();
            status.nodes == Some(1)
                && status.resources.is_some_and(|all| serde_json::to_value(&all).unwrap()["cpu"] == "8")
        })
        .await;
    });
}

// spec 07 section 13, C, with the sizes of the simulated catalogue.
#[test]
fn acceptance_c_limits() {
    run_scenario(async |g| {
        g.create_pool("default", json!({"limits": {"cpu": "10"}})).await;
        g.start_kerf();
        g.create_deployment("inflate", 5, "1", json!({})).await;
        g.wait_until_running("inflate", 5).await;
        g.scale("inflate", 12).await;
        g.wait_until("who stays behind is told why", async || {
            let told = g.event_messages("FailedScheduling").await;
            told.iter().any(|text| text.contains("exceed limits for nodepool"))
        })
        .await;
        let cpus =
            g.nodes().await.iter().map(|node| node_label(node, "karpenter.kwok.sh/instance-cpu")).collect::<Vec<_>>();
        assert!(cpus.iter().map(|cpu| cpu.parse::<u32>().unwrap()).sum::<u32>() <= 10, "{cpus:?}");
        assert!(g.running_pods("inflate").await < 12);
        g.patch(g.cluster_scoped::<NodePool>(), "default", json!({"spec": {"limits": {"cpu": "100"}}})).await;
        g.wait_until_running("inflate", 12).await;
    });
}

#[test]
fn pods_that_appear_together_share_a_machine() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf();
        for name in ["a", "b", "c"] {
            g.create_deployment(name, 1, "500m", json!({})).await;
        }
        for name in ["a", "b", "c"] {
            g.wait_until_running(name, 1).await;
        }
        assert_eq!(g.claims().await.len(), 1);
    });
}

#[test]
fn room_that_is_there_is_used_first() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf();
        g.create_deployment("first", 1, "1100m", json!({})).await;
        g.wait_until_running("first", 1).await;
        g.wait_until_initialized(1).await;
        g.create_deployment("second", 1, "300m", json!({})).await;
        g.wait_until_running("second", 1).await;
        assert_eq!(g.claims().await.len(), 1, "the first machine has room");
    });
}

#[test]
fn a_node_selector_chooses_architecture_and_zone() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf();
        let wish =
            json!({"nodeSelector": {"kubernetes.io/arch": "arm64", "topology.kubernetes.io/zone": "test-zone-b"}});
        g.create_deployment("picky", 1, "1", wish).await;
        g.wait_until_running("picky", 1).await;
        let node = g.only_node().await;
        assert_eq!(
            (node_label(&node, "kubernetes.io/arch"), node_label(&node, "topology.kubernetes.io/zone")),
            ("arm64".into(), "test-zone-b".into())
        );
    });
}

#[test]
fn spreading_over_zones_makes_machines_in_each() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf();
        let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "wide"}}}]});
        g.create_deployment("wide", 4, "1", spread).await;
        g.wait_until_running("wide", 4).await;
        let zones: BTreeSet<String> =
            g.nodes().await.iter().map(|node| node_label(node, "topology.kubernetes.io/zone")).collect();
        assert_eq!(zones.len(), 4, "{zones:?}");
    });
}

#[test]
fn pods_that_avoid_each_other_get_a_machine_each() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf();
        let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "shy"}}}]}}});
        g.create_deployment("shy", 3, "100m", apart).await;
        g.wait_until_running("shy", 3).await;
        assert_eq!(g.nodes().await.len(), 3);
    });
}

#[test]
fn daemons_are_counted_before_they_run() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        let template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [
            {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "600m", "memory": "64Mi"}}}]}});
        let agent = json!({"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template}});
        g.create_namespaced::<DaemonSet>(agent).await;
        g.start_kerf();
        // Alone the pod would fit one CPU; with the daemon it does not.
        g.create_deployment("web", 1, "800m", json!({})).await;
        g.wait_until_running("web", 1).await;
        g.wait_until_running("agent", 1).await;
        let node = g.only_node().await;
        assert_eq!(node_label(&node, "karpenter.kwok.sh/instance-cpu"), "2");
    });
}

#[test]
fn what_no_machine_can_hold_is_told_and_costs_nothing() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf();
        g.create_deployment("giant", 1, "900", json!({})).await;
        g.wait_until_unschedulable().await;
        g.sleep_seconds(5).await;
        assert!(g.claims().await.is_empty());
    });
}

#[test]
fn a_gated_pod_waits_for_its_gate() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf();
        g.create_namespaced::<Pod>(json!({"metadata": {"name": "later", "labels": {"app": "later"}}, "spec": {
            "schedulingGates": [{"name": "example.com/quota"}],
            "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}]}}))
            .await;
        g.sleep_seconds(5).await;
        assert!(g.claims().await.is_empty(), "nobody may place it yet");
        g.patch(g.namespaced::<Pod>(), "later", json!({"spec": {"schedulingGates": null}})).await;
        g.wait_until_running("later", 1).await;
    });
}

#[test]
fn a_job_gets_its_machine_and_ends() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf();
        g.create_namespaced::<Job>(
            json!({"metadata": {"name": "sums"}, "spec": {"completions": 2, "parallelism": 2, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}]}}}}),
        )
        .await;
        g.wait_until("it is done", async || {
            let job = g.namespaced::<Job>().get("sums").await.unwrap();
            job.status.and_then(|status| status.succeeded) == Some(2)
        })
        .await;
    });
}

//! Provisioning: which instances are launched for pending pods, how many, and where.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{LimitRange, Pod};
use kerf_api::nodepool::NodePool;
use kube::ResourceExt as _;
use serde_json::json;

use super::scenario_cluster::{claim_condition, node_label, node_of, run_scenario};

// spec 07 section 13, B, with the sizes of the simulated catalogue.
#[test]
fn acceptance_b_scaling_up() {
    run_scenario(async |cluster| {
        cluster.create_pool("default", json!({"limits": {"cpu": "10"}})).await;
        cluster.start_kerf();
        cluster.create_deployment("inflate", 0, "1", json!({})).await;
        cluster.scale("inflate", 5).await;
        cluster.wait_until_running("inflate", 5).await;
        cluster.wait_until_initialized(1).await;
        let node = cluster.only_node().await;
        assert!(cluster.pods("inflate").await.iter().all(|pod| node_of(pod) == node.name_any()), "one node for all");
        let claim = cluster.claims().await.remove(0);
        assert!(claim.name_any().starts_with("default-"), "{}", claim.name_any());
        assert_eq!(node_label(&node, "karpenter.sh/nodepool"), "default");
        assert_eq!(node_label(&node, "karpenter.sh/capacity-type"), "on-demand");
        assert_eq!(node_label(&node, "karpenter.sh/initialized"), "true");
        for kind in ["Launched", "Registered", "Initialized", "Ready"] {
            assert_eq!(claim_condition(&claim, kind), "True", "{kind}");
        }
        cluster
            .wait_until("every pod has an Event that names its node", async || {
                let messages = cluster.event_messages("Nominated").await;
                messages.len() >= 5 && messages.iter().all(|text| text.contains("nodeclaim/default-"))
            })
            .await;
        cluster
            .wait_until("the pool counts its node", async || {
                let status =
                    cluster.cluster_scoped::<NodePool>().get("default").await.unwrap().status.unwrap_or_default();
                status.nodes == Some(1)
                    && status.resources.is_some_and(|all| serde_json::to_value(&all).unwrap()["cpu"] == "8")
            })
            .await;
    });
}

// spec 07 section 13, C, with the sizes of the simulated catalogue.
#[test]
fn acceptance_c_limits() {
    run_scenario(async |cluster| {
        cluster.create_pool("default", json!({"limits": {"cpu": "10"}})).await;
        cluster.start_kerf();
        cluster.create_deployment("inflate", 5, "1", json!({})).await;
        cluster.wait_until_running("inflate", 5).await;
        cluster.scale("inflate", 12).await;
        cluster
            .wait_until("the pending pod has an Event with the reason", async || {
                let messages = cluster.event_messages("FailedScheduling").await;
                messages.iter().any(|text| text.contains("exceed limits for nodepool"))
            })
            .await;
        let cpus = cluster
            .nodes()
            .await
            .iter()
            .map(|node| node_label(node, "karpenter.kwok.sh/instance-cpu"))
            .collect::<Vec<_>>();
        assert!(cpus.iter().map(|cpu| cpu.parse::<u32>().unwrap()).sum::<u32>() <= 10, "{cpus:?}");
        assert!(cluster.running_pods("inflate").await < 12);
        cluster
            .patch(cluster.cluster_scoped::<NodePool>(), "default", json!({"spec": {"limits": {"cpu": "100"}}}))
            .await;
        cluster.wait_until_running("inflate", 12).await;
    });
}

#[test]
fn pods_that_appear_together_share_a_node() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        for name in ["a", "b", "c"] {
            cluster.create_deployment(name, 1, "500m", json!({})).await;
        }
        for name in ["a", "b", "c"] {
            cluster.wait_until_running(name, 1).await;
        }
        assert_eq!(cluster.claims().await.len(), 1);
    });
}

#[test]
fn free_capacity_is_used_before_a_node_is_launched() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster.create_deployment("first", 1, "1100m", json!({})).await;
        cluster.wait_until_running("first", 1).await;
        cluster.wait_until_initialized(1).await;
        cluster.create_deployment("second", 1, "300m", json!({})).await;
        cluster.wait_until_running("second", 1).await;
        assert_eq!(cluster.claims().await.len(), 1, "the first node has free capacity");
    });
}

#[test]
fn a_node_selector_chooses_architecture_and_zone() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        let pod_spec =
            json!({"nodeSelector": {"kubernetes.io/arch": "arm64", "topology.kubernetes.io/zone": "test-zone-b"}});
        cluster.create_deployment("picky", 1, "1", pod_spec).await;
        cluster.wait_until_running("picky", 1).await;
        let node = cluster.only_node().await;
        assert_eq!(
            (node_label(&node, "kubernetes.io/arch"), node_label(&node, "topology.kubernetes.io/zone")),
            ("arm64".into(), "test-zone-b".into())
        );
    });
}

#[test]
fn a_zone_spread_launches_a_node_in_each_zone() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "wide"}}}]});
        cluster.create_deployment("wide", 4, "1", spread).await;
        cluster.wait_until_running("wide", 4).await;
        let zones: BTreeSet<String> =
            cluster.nodes().await.iter().map(|node| node_label(node, "topology.kubernetes.io/zone")).collect();
        assert_eq!(zones.len(), 4, "{zones:?}");
    });
}

#[test]
fn pods_with_anti_affinity_get_a_node_each() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        let anti_affinity = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "shy"}}}]}}});
        cluster.create_deployment("shy", 3, "100m", anti_affinity).await;
        cluster.wait_until_running("shy", 3).await;
        assert_eq!(cluster.nodes().await.len(), 3);
    });
}

#[test]
fn daemons_are_counted_before_they_run() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        let template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [
            {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "600m", "memory": "64Mi"}}}]}});
        let agent = json!({"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template}});
        cluster.create_namespaced::<DaemonSet>(agent).await;
        cluster.start_kerf();
        // Alone the pod would fit one CPU; with the daemon it does not.
        cluster.create_deployment("web", 1, "800m", json!({})).await;
        cluster.wait_until_running("web", 1).await;
        cluster.wait_until_running("agent", 1).await;
        let node = cluster.only_node().await;
        assert_eq!(node_label(&node, "karpenter.kwok.sh/instance-cpu"), "2");
    });
}

// spec 02 §1.5: a LimitRange gives daemon pods requests that their template does not have
#[test]
fn daemon_pods_with_defaults_of_a_limit_range_lead_to_no_endless_launches() {
    run_scenario(async |cluster| {
        let limits = json!({"limits": [{"type": "Container", "defaultRequest": {"cpu": "2", "memory": "64Mi"}}]});
        cluster.create_namespaced::<LimitRange>(json!({"metadata": {"name": "defaults"}, "spec": limits})).await;
        let requirements = json!([
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4", "8"]}]);
        cluster.create_pool("general", json!({"template": {"spec": {"requirements": requirements}}})).await;
        // The pods of the DaemonSet preempt those of the Deployment.
        let template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {
            "priorityClassName": "system-node-critical",
            "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"memory": "64Mi"}}}]}});
        let agent = json!({"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template}});
        cluster.create_namespaced::<DaemonSet>(agent).await;
        cluster.start_kerf();
        cluster.create_deployment("web", 4, "3", json!({})).await;
        cluster.wait_until_running("web", 4).await;
        cluster.sleep_seconds(20).await;
        cluster.wait_until_running("web", 4).await;
        let claims = cluster.claims().await.len();
        assert!(claims <= 12, "{claims} NodeClaims for four pods");
    });
}

#[test]
fn a_pod_that_fits_no_instance_type_is_reported_and_launches_nothing() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster.create_deployment("giant", 1, "900", json!({})).await;
        cluster.wait_until_unschedulable().await;
        cluster.sleep_seconds(5).await;
        assert!(cluster.claims().await.is_empty());
    });
}

#[test]
fn a_gated_pod_waits_for_its_gate() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster
            .create_namespaced::<Pod>(json!({"metadata": {"name": "later", "labels": {"app": "later"}}, "spec": {
            "schedulingGates": [{"name": "example.com/quota"}],
            "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}]}}))
            .await;
        cluster.sleep_seconds(5).await;
        assert!(cluster.claims().await.is_empty(), "the pod must not be scheduled yet");
        cluster.patch(cluster.namespaced::<Pod>(), "later", json!({"spec": {"schedulingGates": null}})).await;
        cluster.wait_until_running("later", 1).await;
    });
}

#[test]
fn a_job_gets_a_node_and_completes() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster
            .create_namespaced::<Job>(
                json!({"metadata": {"name": "sums"}, "spec": {"completions": 2, "parallelism": 2, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}]}}}}),
            )
            .await;
        cluster
            .wait_until("it is done", async || {
                let job = cluster.namespaced::<Job>().get("sums").await.unwrap();
                job.status.and_then(|status| status.succeeded) == Some(2)
            })
            .await;
    });
}

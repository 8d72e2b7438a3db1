//! Leader election, and processes that end in the middle of their work.

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use super::scenario_cluster::{ScenarioCluster, run_scenario};

async fn lease_holder(cluster: &ScenarioCluster) -> String {
    let lease = cluster.namespaced::<Lease>().get_opt("kerf").await.unwrap();
    lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity).unwrap_or_default()
}

async fn wait_until_led_by(cluster: &ScenarioCluster, identity: &str) {
    cluster.wait_until(&format!("{identity} leads"), async || lease_holder(cluster).await == identity).await;
}

// spec 07 section 13, R
#[test]
fn a_leader_that_stops_releases_its_lease_at_once() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf_with_lease("one");
        wait_until_led_by(cluster, "one").await;
        cluster.start_kerf_with_lease("two");
        cluster.create_deployment("web", 1, "1", json!({})).await;
        cluster.wait_until_running("web", 1).await;
        assert_eq!(lease_holder(cluster).await, "one");
        cluster.stop_kerf("one").await;
        wait_until_led_by(cluster, "two").await;
        cluster.create_deployment("more", 1, "3", json!({})).await;
        cluster.wait_until_running("more", 1).await;
        assert_eq!(cluster.claims().await.len(), 2, "one NodeClaim per node");
    });
}

// spec 07 section 13, R
#[test]
fn a_leader_that_crashes_is_replaced_when_its_lease_expires() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf_with_lease("one");
        wait_until_led_by(cluster, "one").await;
        cluster.start_kerf_with_lease("two");
        cluster.kill_kerf("one");
        cluster.create_deployment("web", 2, "1", json!({})).await;
        wait_until_led_by(cluster, "two").await;
        cluster.wait_until_running("web", 2).await;
        assert_eq!(cluster.claims().await.len(), 1);
    });
}

// spec 07 section 13, S
#[test]
fn a_restart_in_the_middle_of_a_launch_launches_no_second_instance() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster.create_deployment("web", 3, "1", json!({})).await;
        cluster.wait_until("a claim exists", async || !cluster.claims().await.is_empty()).await;
        cluster.kill_kerf("kerf");
        cluster.start_kerf();
        cluster.wait_until_running("web", 3).await;
        cluster.wait_until_initialized(1).await;
        assert_eq!(cluster.nodes().await.len(), 1);
    });
}

#[test]
fn pods_that_were_pending_before_kerf_started_are_served() {
    run_scenario(async |cluster| {
        cluster.create_deployment("web", 2, "1", json!({})).await;
        cluster.sleep_seconds(2).await;
        cluster.create_pool("general", json!({})).await;
        cluster.start_kerf();
        cluster.wait_until_running("web", 2).await;
    });
}

#[test]
fn without_kerf_nothing_happens() {
    run_scenario(async |cluster| {
        cluster.create_pool("general", json!({})).await;
        cluster.create_deployment("web", 1, "1", json!({})).await;
        cluster.sleep_seconds(if cluster.is_real() { 3 } else { 300 }).await;
        assert!(cluster.claims().await.is_empty() && cluster.nodes().await.is_empty());
    });
}

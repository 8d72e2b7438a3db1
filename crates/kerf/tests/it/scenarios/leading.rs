//! Leader election, and processes that end in the middle of their work.

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use super::scenario_cluster::{ScenarioCluster, run_scenario};

async fn lease_holder(g: &ScenarioCluster) -> String {
    let lease = g.namespaced::<Lease>().get_opt("kerf").await.unwrap();
    lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity).unwrap_or_default()
}

async fn wait_until_led_by(g: &ScenarioCluster, by: &str) {
    g.wait_until(&format!("{by} leads"), async || lease_holder(g).await == by).await;
}

// spec 07 section 13, R
#[test]
fn a_leader_that_leaves_hands_over_at_once() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf_with_lease("one");
        wait_until_led_by(g, "one").await;
        g.start_kerf_with_lease("two");
        g.create_deployment("web", 1, "1", json!({})).await;
        g.wait_until_running("web", 1).await;
        assert_eq!(lease_holder(g).await, "one");
        g.stop_kerf("one").await;
        wait_until_led_by(g, "two").await;
        g.create_deployment("more", 1, "3", json!({})).await;
        g.wait_until_running("more", 1).await;
        assert_eq!(g.claims().await.len(), 2, "no machine too many");
    });
}

// spec 07 section 13, R
#[test]
fn a_leader_that_dies_is_replaced_when_its_lease_runs_out() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf_with_lease("one");
        wait_until_led_by(g, "one").await;
        g.start_kerf_with_lease("two");
        g.kill_kerf("one");
        g.create_deployment("web", 2, "1", json!({})).await;
        wait_until_led_by(g, "two").await;
        g.wait_until_running("web", 2).await;
        assert_eq!(g.claims().await.len(), 1);
    });
}

// spec 07 section 13, S
#[test]
fn a_restart_in_the_middle_of_a_launch_launches_no_second_machine() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.start_kerf();
        g.create_deployment("web", 3, "1", json!({})).await;
        g.wait_until("a claim is there", async || !g.claims().await.is_empty()).await;
        g.kill_kerf("kerf");
        g.start_kerf();
        g.wait_until_running("web", 3).await;
        g.wait_until_initialized(1).await;
        assert_eq!(g.nodes().await.len(), 1);
    });
}

#[test]
fn what_waited_for_kerf_is_served_when_it_comes() {
    run_scenario(async |g| {
        g.create_deployment("web", 2, "1", json!({})).await;
        g.sleep_seconds(2).await;
        g.create_pool("general", json!({})).await;
        g.start_kerf();
        g.wait_until_running("web", 2).await;
    });
}

#[test]
fn without_kerf_nothing_happens() {
    run_scenario(async |g| {
        g.create_pool("general", json!({})).await;
        g.create_deployment("web", 1, "1", json!({})).await;
        g.sleep_seconds(if g.is_real() { 3 } else { 300 }).await;
        assert!(g.claims().await.is_empty() && g.nodes().await.is_empty());
    });
}

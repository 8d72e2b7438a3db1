//! Several processes, one leader; and processes that end in the middle of things.

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use super::scenario_cluster::{ScenarioCluster, scenario};

async fn holder(g: &ScenarioCluster) -> String {
    let lease = g.own::<Lease>().get_opt("kerf").await.unwrap();
    lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity).unwrap_or_default()
}

async fn until_led(g: &ScenarioCluster, by: &str) {
    g.until(&format!("{by} leads"), async || holder(g).await == by).await;
}

// spec 07 section 13, R
#[test]
fn a_leader_that_leaves_hands_over_at_once() {
    scenario(async |g| {
        g.pool("general", json!({})).await;
        g.start_elected("one");
        until_led(g, "one").await;
        g.start_elected("two");
        g.deployment("web", 1, "1", json!({})).await;
        g.until_running("web", 1).await;
        assert_eq!(holder(g).await, "one");
        g.stop("one").await;
        until_led(g, "two").await;
        g.deployment("more", 1, "3", json!({})).await;
        g.until_running("more", 1).await;
        assert_eq!(g.claims().await.len(), 2, "no machine too many");
    });
}

// spec 07 section 13, R
#[test]
fn a_leader_that_dies_is_replaced_when_its_lease_runs_out() {
    scenario(async |g| {
        g.pool("general", json!({})).await;
        g.start_elected("one");
        until_led(g, "one").await;
        g.start_elected("two");
        g.kill("one");
        g.deployment("web", 2, "1", json!({})).await;
        until_led(g, "two").await;
        g.until_running("web", 2).await;
        assert_eq!(g.claims().await.len(), 1);
    });
}

// spec 07 section 13, S
#[test]
fn a_restart_in_the_middle_of_a_launch_launches_no_second_machine() {
    scenario(async |g| {
        g.pool("general", json!({})).await;
        g.start();
        g.deployment("web", 3, "1", json!({})).await;
        g.until("a claim is there", async || !g.claims().await.is_empty()).await;
        g.kill("kerf");
        g.start();
        g.until_running("web", 3).await;
        g.until_initialized(1).await;
        assert_eq!(g.nodes().await.len(), 1);
    });
}

#[test]
fn what_waited_for_kerf_is_served_when_it_comes() {
    scenario(async |g| {
        g.deployment("web", 2, "1", json!({})).await;
        g.wait(2).await;
        g.pool("general", json!({})).await;
        g.start();
        g.until_running("web", 2).await;
    });
}

#[test]
fn without_kerf_nothing_happens() {
    scenario(async |g| {
        g.pool("general", json!({})).await;
        g.deployment("web", 1, "1", json!({})).await;
        g.wait(if g.is_real() { 3 } else { 300 }).await;
        assert!(g.claims().await.is_empty() && g.nodes().await.is_empty());
    });
}

//! What operators see of a running controller: gauges that come and go with their objects (spec 07 §6).

use kerf_api::nodepool::NodePool;
use kube::api::DeleteParams;
use serde_json::json;

use crate::rig::Rig;

/// A pool's cost is that of its machines, and ends with the pool.
#[tokio::test(start_paused = true)]
async fn a_pool_shows_what_its_machines_cost() {
    let rig = Rig::start().await;
    rig.wait(1).await;
    assert_eq!(rig.metrics.nodepools_cost.get(&["general"]), Some(0.0));
    rig.hand_made_claim("a", json!({})).await;
    rig.wait(12).await;
    let one = rig.metrics.nodepools_cost.get(&["general"]).unwrap();
    assert!(one > 0.0);
    rig.hand_made_claim("b", json!({})).await;
    rig.wait(12).await;
    let two = rig.metrics.nodepools_cost.get(&["general"]).unwrap();
    assert!((two - 2.0 * one).abs() < 1e-9, "{one} {two}");
    rig.all::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
    rig.wait(30).await;
    assert_eq!(rig.metrics.nodepools_cost.get(&["general"]), None);
}

/// Queues are shown by the names of their controllers.
#[tokio::test(start_paused = true)]
async fn queues_show_what_they_have_to_do() {
    let rig = Rig::start().await;
    rig.hand_made_claim("a", json!({})).await;
    rig.wait(5).await;
    let text = rig.metrics.text(rig.clock.now());
    let labels = "{name=\"nodeclaim.lifecycle\",controller=\"nodeclaim.lifecycle\"}";
    let value = |name: &str| {
        let head = format!("{name}{labels} ");
        text.lines().find_map(|line| line.strip_prefix(&head)).map(|value| value.parse::<f64>().unwrap())
    };
    assert!(value("workqueue_adds_total").unwrap() > 0.0, "{text}");
    assert!(value("workqueue_work_duration_seconds_count").unwrap() > 0.0);
    assert_eq!(value("workqueue_longest_running_processor_seconds"), Some(0.0));
    assert!(text.contains(
        "workqueue_depth{name=\"nodeclaim.lifecycle\",controller=\"nodeclaim.lifecycle\",priority=\"\"} 0\n"
    ));
}

// spec 04 #28
#[tokio::test(start_paused = true)]
async fn the_time_without_a_whole_picture_is_shown() {
    let (rig, cloud) = crate::launch::dictated().await;
    rig.create::<NodePool>(crate::rig::pool("general", json!({}))).await;
    *cloud.always_fails.lock().unwrap() = Some(|| kerf_cloud::CreateError::Other("throttled".into()));
    rig.hand_made_claim("a", json!({})).await;
    rig.wait(125).await;
    let metrics = &rig.metrics;
    assert_eq!(metrics.cluster_state_synced.get(&[]), Some(0.0));
    assert!(metrics.cluster_state_unsynced_time.get(&[]).unwrap() >= 120.0);
    *cloud.always_fails.lock().unwrap() = None;
    rig.wait(65).await;
    assert_eq!(
        (metrics.cluster_state_synced.get(&[]), metrics.cluster_state_unsynced_time.get(&[])),
        (Some(1.0), Some(0.0))
    );
}

// spec 07 #35, #36, #50
#[tokio::test(start_paused = true)]
async fn a_claims_life_is_told_from_its_first_change_to_its_end() {
    let rig = Rig::start().await;
    rig.hand_made_claim("a", json!({})).await;
    rig.wait(3).await;
    assert_eq!(rig.events("Initialized"), [], "that it is not known yet is no change");
    rig.make_ready(&rig.node().await.metadata.name.unwrap()).await;
    rig.wait(3).await;
    let expected = "Status condition transitioned, Type: Initialized, Status: Unknown -> True, Reason: Initialized";
    assert_eq!(rig.events("Initialized"), [("a".into(), expected.into())]);
    rig.delete_claim("a").await;
    rig.wait(30).await;
    assert_eq!(rig.claims().await, []);
    assert_eq!(rig.events("Finalized"), [("a".into(), "Finalized karpenter.sh/termination".into())]);
    let text = rig.metrics.text(rig.clock.now());
    let ended = text.lines().find(|line| line.starts_with("operator_nodeclaim_termination_duration_seconds_count"));
    assert!(ended.is_some_and(|line| line.ends_with(" 1")), "{ended:?}");
}

// spec 07 #13
#[tokio::test(start_paused = true)]
async fn controllers_are_as_wide_as_their_cores_allow() {
    for (cores, width) in [(1, 1000.0), (60, 5000.0), (100, 5000.0)] {
        let mut rig = Rig::bare().await;
        rig.settings.cores = cores;
        let cloud = kerf_kwok::Kwok::new(rig.server.client_as("kwok"), rig.clock, kerf_kwok::built_in());
        let rig = rig.with(std::sync::Arc::new(cloud)).await;
        assert_eq!(rig.metrics.max_concurrent_reconciles.get(&["nodeclaim.lifecycle"]), Some(width));
    }
}

//! Metrics of a running controller: gauges that appear and disappear with their objects (spec 07
//! §6).

use std::sync::Arc;
use std::time::Duration;

use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_sandbox::{Fault, FaultRule, Verb};
use kube::api::DeleteParams;
use serde_json::json;

use crate::test_env::{TestEnv, pool};

/// A pool's cost is the sum of its instances' prices. The series disappears with the pool.
#[tokio::test(start_paused = true)]
async fn a_pool_shows_what_its_machines_cost() {
    let rig = TestEnv::start().await;
    rig.wait(1).await;
    assert_eq!(rig.metrics.nodepools_cost.get(&["general"]), Some(0.0));
    rig.create_claim("a", json!({})).await;
    rig.wait(12).await;
    let one = rig.metrics.nodepools_cost.get(&["general"]).unwrap();
    assert!(one > 0.0);
    rig.create_claim("b", json!({})).await;
    rig.wait(12).await;
    let two = rig.metrics.nodepools_cost.get(&["general"]).unwrap();
    assert!((two - 2.0 * one).abs() < 1e-9, "{one} {two}");
    rig.api::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
    rig.wait(30).await;
    assert_eq!(rig.metrics.nodepools_cost.get(&["general"]), None);
}

/// Work queue metrics are labelled with the name of the controller.
#[tokio::test(start_paused = true)]
async fn queues_show_what_they_have_to_do() {
    let rig = TestEnv::start().await;
    rig.create_claim("a", json!({})).await;
    rig.wait(5).await;
    let text = rig.metrics.text(rig.clock.now());
    let labels = "{name=\"nodeclaim.lifecycle\",controller=\"nodeclaim.lifecycle\"}";
    let value = |name: &str| {
        let head = format!("{name}{labels} ");
        text.lines().find_map(|line| line.strip_prefix(&head)).map(|value| value.parse::<f64>().unwrap())
    };
    assert!(value("workqueue_adds_total").unwrap() > 0.0, "{text}");
    assert!(value("workqueue_work_duration_seconds_count").unwrap() > 0.0);
    assert!(value("workqueue_queue_duration_seconds_count").unwrap() > 0.0);
    assert_eq!(value("workqueue_longest_running_processor_seconds"), Some(0.0));
    for name in ["reconcile_errors", "terminal_reconcile_errors", "reconcile_panics", "reconcile_timeouts"] {
        let line = format!("controller_runtime_{name}_total{{controller=\"nodeclaim.lifecycle\"}} 0\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(text.contains(
        "workqueue_depth{name=\"nodeclaim.lifecycle\",controller=\"nodeclaim.lifecycle\",priority=\"\"} 0\n"
    ));
}

// spec 04 #28
#[tokio::test(start_paused = true)]
async fn the_time_without_a_whole_picture_is_shown() {
    let (rig, cloud) = crate::launch::env_with_scripted_cloud().await;
    rig.create::<NodePool>(pool("general", json!({}))).await;
    *cloud.always_fails.lock().unwrap() = Some(|| kerf_cloud::CreateError::Other("throttled".into()));
    rig.create_claim("a", json!({})).await;
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
    let rig = TestEnv::start().await;
    rig.create_claim("a", json!({})).await;
    rig.wait(3).await;
    assert_eq!(rig.events("Initialized"), [], "that it is not known yet is no change");
    for kind in ["Launched", "Registered"] {
        let expected = format!("Status condition transitioned, Type: {kind}, Status: Unknown -> True, Reason: {kind}");
        assert_eq!(rig.events(kind), [("a".into(), expected)], "its first status is a change");
    }
    let ready = "Status condition transitioned, Type: NodeClassReady, Status: Unknown -> True, Reason: NodeClassReady";
    assert_eq!(rig.events("NodeClassReady"), [("general".into(), ready.into())]);
    assert_eq!(rig.events("ConsistentStateFound"), [], "what it could be without is not known before");
    rig.make_ready(&rig.only_node().await.metadata.name.unwrap()).await;
    rig.wait(3).await;
    let expected = "Status condition transitioned, Type: Initialized, Status: Unknown -> True, Reason: Initialized";
    assert_eq!(rig.events("Initialized"), [("a".into(), expected.into())]);
    rig.delete_claim("a").await;
    rig.wait(30).await;
    assert_eq!(rig.claims().await, []);
    let finalized = rig.events("Finalized").into_iter().filter(|(about, _)| about == "a").collect::<Vec<_>>();
    assert_eq!(finalized, [("a".into(), "Finalized karpenter.sh/termination".into())]);
    let text = rig.metrics.text(rig.clock.now());
    let launched = text.lines().find(|line| {
        line.starts_with("operator_nodeclaim_status_condition_transition_seconds_count")
            && line.contains("type=\"Launched\"")
    });
    assert!(launched.is_some_and(|line| line.contains("status=\"Unknown\"") && line.ends_with(" 1")), "{launched:?}");
    let ended = text.lines().find(|line| line.starts_with("operator_nodeclaim_termination_duration_seconds_count"));
    assert!(ended.is_some_and(|line| line.ends_with(" 1")), "{ended:?}");
}

/// A claim with the name of a deleted claim is not a later state of it.
#[tokio::test(start_paused = true)]
async fn a_claims_namesake_has_a_life_of_its_own() {
    let rig = TestEnv::without_controllers().await;
    rig.create::<NodePool>(pool("general", json!({}))).await;
    // The watch of claims fails for a while, and then only a list shows the current claims.
    let to = |verb: Verb, fault: Fault, from: u64, until: u64| FaultRule {
        user_agent_prefix: "kerf".into(),
        resources: vec!["nodeclaims".into()],
        verbs: vec![verb],
        from: Duration::from_secs(from),
        until: Some(Duration::from_secs(until)),
        ..FaultRule::new(fault, 1_000_000)
    };
    let dropped = Fault::DroppedWatch { after: Duration::from_secs(10) };
    rig.server.set_faults(
        vec![
            to(Verb::Watch, dropped, 0, 5),
            to(Verb::Watch, Fault::InternalError, 5, 20),
            to(Verb::Watch, Fault::Gone, 20, 40),
            to(Verb::List, Fault::Slow { by: Duration::from_secs(20) }, 20, 40),
        ],
        1,
    );
    let cloud = Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue());
    let rig = rig.start_controllers(Arc::new(cloud)).await;
    rig.create_claim("a", json!({})).await;
    rig.wait(12).await;
    rig.patch::<NodeClaim>("a", json!({"metadata": {"finalizers": null}})).await;
    rig.delete_claim("a").await;
    rig.create_claim("a", json!({})).await;
    rig.wait(100).await;
    assert_eq!(rig.only_claim().await.metadata.deletion_timestamp, None);
    let launched = rig.events("Launched");
    assert_eq!(launched.len(), 2, "{launched:?}");
    assert!(launched.iter().all(|(_, message)| message.contains("Unknown -> True")), "{launched:?}");
    let finalized = rig.events("Finalized").into_iter().filter(|(about, _)| about == "a").count();
    assert_eq!(finalized, 1, "the first one's");
}

// spec 07 #13
#[tokio::test(start_paused = true)]
async fn controllers_are_as_wide_as_their_cores_allow() {
    for (cores, width) in [(1, 1000.0), (60, 5000.0), (100, 5000.0)] {
        let mut rig = TestEnv::without_controllers().await;
        rig.settings.cores = cores;
        let cloud = Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue());
        let rig = rig.start_controllers(Arc::new(cloud)).await;
        assert_eq!(rig.metrics.max_concurrent_reconciles.get(&["nodeclaim.lifecycle"]), Some(width));
    }
}

/// Transitions of a node's conditions are published and counted, and their series disappear with
/// the node. The metrics that all of Karpenter's kinds share do not include nodes.
// spec 07 §6.6
#[tokio::test(start_paused = true)]
async fn a_nodes_conditions_are_shown() {
    let rig = TestEnv::start().await;
    rig.create_claim("a", json!({})).await;
    rig.wait(3).await;
    let node = rig.only_node().await.metadata.name.unwrap();
    rig.set_ready_condition(&node, "False").await;
    rig.wait(3).await;
    rig.make_ready(&node).await;
    rig.wait(5).await;
    let told = rig.events("Ready");
    let expected = "Status condition transitioned, Type: Ready, Status: False -> True, Reason: ";
    assert!(told.contains(&(node.clone(), expected.to_owned())), "{told:?}");
    let text = rig.metrics_text();
    let has = |start: &str, end: &str| text.lines().any(|line| line.starts_with(start) && line.ends_with(end));
    let named = format!("namespace=\"\",name=\"{node}\",type=\"Ready\",status=\"True\",reason=\"\"");
    assert!(
        has(&format!("operator_node_status_condition_count{{{named},"), "karpenter_sh_initialized=\"true\"} 1"),
        "{text}"
    );
    assert!(has(&format!("operator_node_status_condition_current_status_seconds{{{named},"), "} 5"), "{text}");
    let left = "operator_node_status_condition_transition_seconds_sum{type=\"Ready\",status=\"False\",";
    assert!(has(left, "} 3"), "{text}");
    let shared =
        "operator_status_condition_transitions_total{type=\"Registered\",status=\"True\",reason=\"Registered\",";
    assert!(has(shared, "group=\"karpenter.sh\",kind=\"NodeClaim\"} 1"), "{text}");
    assert!(!text.contains("kind=\"Node\""), "{text}");
    rig.delete_claim("a").await;
    rig.wait(30).await;
    let text = rig.metrics_text();
    assert!(!text.contains(&node), "{text}");
    let ended = "operator_node_termination_duration_seconds_count";
    assert!(text.lines().any(|line| line.starts_with(ended) && line.ends_with(" 1")), "{text}");
    assert!(
        text.lines()
            .any(|line| line.starts_with("operator_termination_duration_seconds_count") && line.ends_with(" 1"))
    );
}

// spec 07 #14
#[tokio::test(start_paused = true)]
async fn single_objects_can_be_left_out() {
    for is_shown in [true, false] {
        let mut rig = TestEnv::without_controllers().await;
        rig.settings.cluster_state_observability = is_shown;
        rig.create::<NodePool>(pool("general", json!({"limits": {"cpu": "100"}}))).await;
        let cloud = Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue());
        let rig = rig.start_controllers(Arc::new(cloud)).await;
        rig.pending_pod("web", "1", json!({})).await;
        rig.wait(15).await;
        let text = rig.metrics_text();
        for name in [
            "karpenter_pods_state",
            "karpenter_pods_unstarted_time_seconds",
            "karpenter_nodes_allocatable",
            "karpenter_nodepools_limit",
            "karpenter_nodepools_cost_total",
            "operator_nodeclaim_status_condition_count",
            "operator_nodepool_status_condition_count",
            "operator_node_status_condition_count",
            "operator_nodeclaim_status_condition_transitions_total",
            "operator_status_condition_count",
        ] {
            // The simulated node has no conditions until the test sets one.
            let is_there = text.lines().any(|line| line.starts_with(&format!("{name}{{")));
            assert_eq!(is_there, is_shown && name != "operator_node_status_condition_count", "{name} in {text}");
        }
        assert_eq!(rig.events("Ready").is_empty(), !is_shown, "changes of conditions are told or not");
        for name in ["karpenter_nodeclaims_created_total{", "karpenter_cluster_state_node_count "] {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name} in {text}");
        }
    }
}

/// The gauges show the result of the last simulation, and that none is running.
// spec 02 §17.3
#[tokio::test(start_paused = true)]
async fn the_last_simulation_is_shown() {
    let rig = TestEnv::start().await;
    rig.pending_pod("web", "1", json!({})).await;
    rig.pending_pod("huge", "4000", json!({})).await;
    rig.wait(5).await;
    let depth = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("karpenter_scheduler_queue_depth{")).map(str::to_owned).collect()
    };
    let text = rig.metrics_text();
    let first = depth(&text);
    assert!(first.len() == 1 && first[0].ends_with(" 1"), "{first:?}");
    assert!(!text.contains("karpenter_scheduler_unfinished_work_seconds{"), "{text}");
    rig.wait(20).await;
    let second = depth(&rig.metrics_text());
    let text = rig.metrics_text();
    let zone =
        |name: &str| format!("pending_pods_by_effective_zone_count{{controller=\"provisioner\",zone=\"{name}\"}} ");
    assert!(text.contains(&(zone("flexible") + "2\n")), "{text}");
    rig.pending_pod("picky", "4000", json!({"nodeSelector": {"topology.kubernetes.io/zone": "test-zone-b"}})).await;
    rig.wait(5).await;
    assert!(rig.metrics_text().contains(&(zone("test-zone-b") + "1\n")));
    rig.pods().delete("picky", &DeleteParams::default()).await.unwrap();
    rig.wait(15).await;
    assert!(!rig.metrics_text().contains(&zone("test-zone-b")), "its last pod is gone");
    assert!(second.len() == 1 && second != first, "another simulation is another series: {first:?} {second:?}");
}

/// Event handlers and the provisioner have the series that dashboards expect of controllers, and
/// count their work.
// spec 07 §1.3 and §6.7
#[tokio::test(start_paused = true)]
async fn every_controller_that_there_is_has_its_series() {
    let rig = TestEnv::start().await;
    rig.pending_pod("web", "1", json!({})).await;
    rig.wait(5).await;
    let text = rig.metrics_text();
    let value = |series: &str| -> Option<f64> {
        let head = format!("{series} ");
        text.lines().find_map(|line| line.strip_prefix(&head)).map(|value| value.parse().unwrap())
    };
    let controllers = [
        "provisioner",
        "state.pod",
        "state.node",
        "state.nodeclaim",
        "state.nodepool",
        "state.daemonset",
        "metrics.pod",
    ];
    for name in controllers {
        let total = value(&format!("controller_runtime_reconcile_total{{controller=\"{name}\",result=\"success\"}}"));
        assert!(total.is_some_and(|total| total > 0.0), "{name} in {text}");
        let timed = value(&format!("controller_runtime_reconcile_time_seconds_count{{controller=\"{name}\"}}"));
        assert_eq!(timed, total, "{name}");
        assert_eq!(value(&format!("controller_runtime_max_concurrent_reconciles{{controller=\"{name}\"}}")), Some(1.0));
        for family in ["reconcile_errors", "terminal_reconcile_errors", "reconcile_panics", "reconcile_timeouts"] {
            let series = format!("controller_runtime_{family}_total{{controller=\"{name}\"}}");
            assert_eq!(value(&series), Some(0.0), "{series}");
        }
    }
    let of_queue = "name=\"provisioner\",controller=\"provisioner\"";
    for (name, wanted) in [
        ("workqueue_adds_total", 1.0),
        ("workqueue_retries_total", 0.0),
        ("workqueue_queue_duration_seconds_count", 1.0),
        ("workqueue_queue_duration_seconds_sum", 1.0),
        ("workqueue_work_duration_seconds_count", 1.0),
        ("workqueue_unfinished_work_seconds", 0.0),
        ("workqueue_longest_running_processor_seconds", 0.0),
    ] {
        assert_eq!(value(&format!("{name}{{{of_queue}}}")), Some(wanted), "{name} in {text}");
    }
    assert_eq!(value(&format!("workqueue_depth{{{of_queue},priority=\"\"}}")), Some(0.0));
}

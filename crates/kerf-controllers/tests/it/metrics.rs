//! Metrics of a running controller: gauges that appear and disappear with their objects (spec 07
//! §6).

use std::sync::Arc;
use std::time::Duration;

use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_sandbox::{Fault, FaultRule, Verb};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::cloud::ScriptedCloud;
use crate::test_env::{TestEnv, pool};

/// A pool's cost is the sum of its instances' prices. The series disappears with the pool.
#[tokio::test(start_paused = true)]
async fn a_pool_shows_the_cost_of_its_instances() {
    let env = TestEnv::start().await;
    env.wait(1).await;
    assert_eq!(env.metrics.nodepools_cost.get(&["general"]), Some(0.0));
    env.create_claim("a", json!({})).await;
    env.wait(12).await;
    let one = env.metrics.nodepools_cost.get(&["general"]).unwrap();
    assert!(one > 0.0);
    env.create_claim("b", json!({})).await;
    env.wait(12).await;
    let two = env.metrics.nodepools_cost.get(&["general"]).unwrap();
    assert!((two - 2.0 * one).abs() < 1e-9, "{one} {two}");
    env.api::<NodePool>().delete("general", &DeleteParams::default()).await.unwrap();
    env.wait(30).await;
    assert_eq!(env.metrics.nodepools_cost.get(&["general"]), None);
}

/// Work queue metrics are labelled with the name of the controller.
#[tokio::test(start_paused = true)]
async fn work_queue_metrics_are_served() {
    let env = TestEnv::start().await;
    env.create_claim("a", json!({})).await;
    env.wait(5).await;
    let text = env.metrics.text(env.clock.now());
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
async fn the_unsynced_time_of_cluster_state_is_shown() {
    let (env, cloud) = crate::launch::env_with_scripted_cloud().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    *cloud.always_fails.lock().unwrap() = Some(|| kerf_cloud::CreateError::Other("throttled".into()));
    env.create_claim("a", json!({})).await;
    env.wait(125).await;
    let metrics = &env.metrics;
    assert_eq!(metrics.cluster_state_synced.get(&[]), Some(0.0));
    assert!(metrics.cluster_state_unsynced_time.get(&[]).unwrap() >= 120.0);
    *cloud.always_fails.lock().unwrap() = None;
    env.wait(65).await;
    assert_eq!(
        (metrics.cluster_state_synced.get(&[]), metrics.cluster_state_unsynced_time.get(&[])),
        (Some(1.0), Some(0.0))
    );
}

// spec 07 #35, #36, #50
#[tokio::test(start_paused = true)]
async fn condition_transitions_of_a_claim_have_events_and_metrics() {
    let env = TestEnv::start().await;
    env.create_claim("a", json!({})).await;
    env.wait(3).await;
    assert_eq!(env.events("Initialized"), [], "the initial status Unknown is not a transition");
    for kind in ["Launched", "Registered"] {
        let expected = format!("Status condition transitioned, Type: {kind}, Status: Unknown -> True, Reason: {kind}");
        assert_eq!(env.events(kind), [("a".into(), expected)], "the change from Unknown is a transition");
    }
    let ready = "Status condition transitioned, Type: NodeClassReady, Status: Unknown -> True, Reason: NodeClassReady";
    assert_eq!(env.events("NodeClassReady"), [("general".into(), ready.into())]);
    assert_eq!(env.events("ConsistentStateFound"), [], "an independent condition has no earlier status");
    env.make_ready(&env.only_node().await.metadata.name.unwrap()).await;
    env.wait(3).await;
    let expected = "Status condition transitioned, Type: Initialized, Status: Unknown -> True, Reason: Initialized";
    assert_eq!(env.events("Initialized"), [("a".into(), expected.into())]);
    env.delete_claim("a").await;
    env.wait(30).await;
    assert_eq!(env.claims().await, []);
    let finalized = env.events("Finalized").into_iter().filter(|(object, _)| object == "a").collect::<Vec<_>>();
    assert_eq!(finalized, [("a".into(), "Finalized karpenter.sh/termination".into())]);
    let text = env.metrics.text(env.clock.now());
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
async fn a_claim_with_the_name_of_a_deleted_claim_is_another_object() {
    let env = TestEnv::without_controllers().await;
    env.create::<NodePool>(pool("general", json!({}))).await;
    // The watch of claims fails for a while, and then only a list shows the current claims.
    let rule = |verb: Verb, fault: Fault, from: u64, until: u64| FaultRule {
        user_agent_prefix: "kerf".into(),
        resources: vec!["nodeclaims".into()],
        verbs: vec![verb],
        from: Duration::from_secs(from),
        until: Some(Duration::from_secs(until)),
        ..FaultRule::new(fault, 1_000_000)
    };
    let dropped = Fault::DroppedWatch { after: Duration::from_secs(10) };
    env.server.set_faults(
        vec![
            rule(Verb::Watch, dropped, 0, 5),
            rule(Verb::Watch, Fault::InternalError, 5, 20),
            rule(Verb::Watch, Fault::Gone, 20, 40),
            rule(Verb::List, Fault::Slow { by: Duration::from_secs(20) }, 20, 40),
        ],
        1,
    );
    let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
    let env = env.start_controllers(Arc::new(cloud)).await;
    env.create_claim("a", json!({})).await;
    env.wait(12).await;
    env.patch::<NodeClaim>("a", json!({"metadata": {"finalizers": null}})).await;
    env.delete_claim("a").await;
    env.create_claim("a", json!({})).await;
    env.wait(100).await;
    assert_eq!(env.only_claim().await.metadata.deletion_timestamp, None);
    let launched = env.events("Launched");
    assert_eq!(launched.len(), 2, "{launched:?}");
    assert!(launched.iter().all(|(_, message)| message.contains("Unknown -> True")), "{launched:?}");
    let finalized = env.events("Finalized").into_iter().filter(|(object, _)| object == "a").count();
    assert_eq!(finalized, 1, "only the first claim was finalized");
}

// spec 07 #13
#[tokio::test(start_paused = true)]
async fn the_number_of_workers_depends_on_the_cores() {
    for (cores, width) in [(1, 1000.0), (60, 5000.0), (100, 5000.0)] {
        let mut env = TestEnv::without_controllers().await;
        env.settings.cores = cores;
        let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
        let env = env.start_controllers(Arc::new(cloud)).await;
        assert_eq!(env.metrics.controllers.max_concurrent_reconciles.get(&["nodeclaim.lifecycle"]), Some(width));
    }
}

/// Transitions of a node's conditions are published and counted, and their series disappear with
/// the node. The metrics that all of Karpenter's kinds share do not include nodes.
// spec 07 §6.6
#[tokio::test(start_paused = true)]
async fn conditions_of_nodes_are_shown() {
    let env = TestEnv::start().await;
    env.create_claim("a", json!({})).await;
    env.wait(3).await;
    let node = env.only_node().await.metadata.name.unwrap();
    env.set_ready_condition(&node, "False").await;
    env.wait(3).await;
    env.make_ready(&node).await;
    env.wait(5).await;
    let events = env.events("Ready");
    let expected = "Status condition transitioned, Type: Ready, Status: False -> True, Reason: ";
    assert!(events.contains(&(node.clone(), expected.to_owned())), "{events:?}");
    let text = env.metrics_text();
    let has = |start: &str, end: &str| text.lines().any(|line| line.starts_with(start) && line.ends_with(end));
    let labels = format!("namespace=\"\",name=\"{node}\",type=\"Ready\",status=\"True\",reason=\"\"");
    assert!(
        has(&format!("operator_node_status_condition_count{{{labels},"), "karpenter_sh_initialized=\"true\"} 1"),
        "{text}"
    );
    assert!(has(&format!("operator_node_status_condition_current_status_seconds{{{labels},"), "} 5"), "{text}");
    let previous = "operator_node_status_condition_transition_seconds_sum{type=\"Ready\",status=\"False\",";
    assert!(has(previous, "} 3"), "{text}");
    let shared =
        "operator_status_condition_transitions_total{type=\"Registered\",status=\"True\",reason=\"Registered\",";
    assert!(has(shared, "group=\"karpenter.sh\",kind=\"NodeClaim\"} 1"), "{text}");
    assert!(!text.contains("kind=\"Node\""), "{text}");
    env.delete_claim("a").await;
    env.wait(30).await;
    let text = env.metrics_text();
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
async fn object_gauges_can_be_disabled() {
    for is_shown in [true, false] {
        let mut env = TestEnv::without_controllers().await;
        env.settings.cluster_state_observability = is_shown;
        env.create::<NodePool>(pool("general", json!({"limits": {"cpu": "100"}}))).await;
        let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
        let env = env.start_controllers(Arc::new(cloud)).await;
        env.pending_pod("web", "1", json!({})).await;
        env.wait(15).await;
        let text = env.metrics_text();
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
            let is_served = text.lines().any(|line| line.starts_with(&format!("{name}{{")));
            assert_eq!(is_served, is_shown && name != "operator_node_status_condition_count", "{name} in {text}");
        }
        assert_eq!(env.events("Ready").is_empty(), !is_shown, "transitions are published if the metrics are shown");
        for name in ["karpenter_nodeclaims_created_total{", "karpenter_cluster_state_node_count "] {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name} in {text}");
        }
    }
}

/// The gauges show the result of the last simulation, and that none is running.
// spec 02 §17.3
#[tokio::test(start_paused = true)]
async fn the_last_simulation_is_shown() {
    let env = TestEnv::start().await;
    env.pending_pod("web", "1", json!({})).await;
    env.pending_pod("huge", "4000", json!({})).await;
    env.wait(5).await;
    let depth = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("karpenter_scheduler_queue_depth{")).map(str::to_owned).collect()
    };
    let text = env.metrics_text();
    let first = depth(&text);
    assert!(first.len() == 1 && first[0].ends_with(" 1"), "{first:?}");
    assert!(!text.contains("karpenter_scheduler_unfinished_work_seconds{"), "{text}");
    env.wait(20).await;
    let second = depth(&env.metrics_text());
    let text = env.metrics_text();
    let zone =
        |name: &str| format!("pending_pods_by_effective_zone_count{{controller=\"provisioner\",zone=\"{name}\"}} ");
    assert!(text.contains(&(zone("flexible") + "2\n")), "{text}");
    env.pending_pod("picky", "4000", json!({"nodeSelector": {"topology.kubernetes.io/zone": "test-zone-b"}})).await;
    env.wait(5).await;
    assert!(env.metrics_text().contains(&(zone("test-zone-b") + "1\n")));
    env.pods().delete("picky", &DeleteParams::default()).await.unwrap();
    env.wait(15).await;
    assert!(!env.metrics_text().contains(&zone("test-zone-b")), "the zone's last pod was deleted");
    assert!(second.len() == 1 && second != first, "another simulation is another series: {first:?} {second:?}");
}

/// Event handlers and the provisioner have the series that dashboards expect of controllers, and
/// count their work.
// spec 07 §1.3 and §6.7
#[tokio::test(start_paused = true)]
async fn every_controller_has_its_series() {
    let env = TestEnv::start().await;
    env.pending_pod("web", "1", json!({})).await;
    env.wait(5).await;
    let text = env.metrics_text();
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
    for (name, expected) in [
        ("workqueue_adds_total", 1.0),
        ("workqueue_retries_total", 0.0),
        ("workqueue_queue_duration_seconds_count", 1.0),
        ("workqueue_queue_duration_seconds_sum", 1.0),
        ("workqueue_work_duration_seconds_count", 1.0),
        ("workqueue_unfinished_work_seconds", 0.0),
        ("workqueue_longest_running_processor_seconds", 0.0),
    ] {
        assert_eq!(value(&format!("{name}{{{of_queue}}}")), Some(expected), "{name} in {text}");
    }
    assert_eq!(value(&format!("workqueue_depth{{{of_queue},priority=\"\"}}")), Some(0.0));
}

/// Transitions of a node class's conditions are published and counted, and their series disappear
/// with the class.
// spec 07 §6.6, §8.4
#[tokio::test(start_paused = true)]
async fn conditions_of_node_classes_are_shown_if_the_provider_reports_them() {
    let env = TestEnv::without_controllers().await;
    let kwok = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
    let kind = kerf_cloud::CloudProvider::node_classes(&kwok)[0];
    let report = kerf_cloud::NodeClassStatusReport {
        controller: "operatorpkg.kwoknodeclass.status",
        kind,
        dependents: &["SubnetsReady"],
    };
    let cloud = ScriptedCloud { class_status: Some(report), ..ScriptedCloud::wrapping(kwok) };
    let env = env.start_controllers(Arc::new(cloud)).await;
    let class = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": {"name": "other", "finalizers": ["example.com/f"]}});
    env.create::<KWOKNodeClass>(class).await;
    env.wait(3).await;
    let condition = |condition_type: &str| {
        json!({"type": condition_type, "status": "True", "reason": condition_type, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:03Z"})
    };
    let status = json!({"status": {"conditions": [condition("SubnetsReady"), condition("Ready")]}});
    let classes: Api<KWOKNodeClass> = Api::all(env.client.clone());
    classes.patch_status("other", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    env.wait(3).await;
    let expected = "Status condition transitioned, Type: SubnetsReady, Status: Unknown -> True, Reason: SubnetsReady";
    assert_eq!(env.events("SubnetsReady"), [("other".into(), expected.into())]);
    let text = env.metrics_text();
    let has = |start: &str| text.lines().any(|line| line.starts_with(start) && line.ends_with(" 1"));
    let labels = "namespace=\"\",name=\"other\",type=\"SubnetsReady\",status=\"True\",reason=\"SubnetsReady\"";
    assert!(has(&format!("operator_kwoknodeclass_status_condition_count{{{labels}}}")), "{text}");
    let transitions =
        "status_condition_transitions_total{type=\"SubnetsReady\",status=\"True\",reason=\"SubnetsReady\"";
    assert!(has(&format!("operator_kwoknodeclass_{transitions}}}")), "{text}");
    let shared = format!("operator_{transitions},group=\"karpenter.kwok.sh\",kind=\"KWOKNodeClass\"}}");
    assert!(has(&shared), "{text}");
    classes.delete("other", &DeleteParams::default()).await.unwrap();
    env.patch::<KWOKNodeClass>("other", json!({"metadata": {"finalizers": null}})).await;
    env.wait(3).await;
    let finalized = env.events("Finalized").into_iter().filter(|(object, _)| object == "other").collect::<Vec<_>>();
    assert_eq!(finalized, [("other".into(), "Finalized example.com/f".into())]);
    let text = env.metrics_text();
    assert!(!text.contains("name=\"other\""), "{text}");
    assert!(text.contains("operator_kwoknodeclass_termination_duration_seconds_count 1"), "{text}");
}

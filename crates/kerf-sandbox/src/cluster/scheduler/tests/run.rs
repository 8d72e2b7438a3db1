//! Runs of the scheduler on a paused clock: bindings, their order, conditions and Events.

use std::time::Duration;

use kerf_runtime::Clock;
use serde_json::{Value, json};

use crate::api::{ApiServer, ApiServerConfig};
use crate::cluster::in_process_client::InProcessClient;
use crate::cluster::scheduler::Scheduler;

/// An API server with a scheduler and nothing else.
pub(super) struct SchedulerTestEnv {
    pub(super) server: ApiServer,
    client: InProcessClient,
}

impl SchedulerTestEnv {
    pub(super) fn new() -> Self {
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        let server = ApiServer::new(ApiServerConfig::new(Clock::starting_at(start), 1));
        let client = InProcessClient::new(&server, "test");
        for value in [1, 2, 100] {
            let class = json!({"metadata": {"name": format!("p{value}")}, "value": value});
            client.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class).unwrap();
        }
        tokio::spawn(Scheduler::new(&server, 7).run());
        Self { server, client }
    }

    pub(super) fn create_node(&self, name: &str, cpu: &str) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
        });
        self.client.create("/api/v1/nodes", &node).unwrap();
        // New nodes are tainted until their kubelet reports them ready.
        self.client.merge_patch(&format!("/api/v1/nodes/{name}"), &json!({"spec": {"taints": null}})).unwrap();
    }

    pub(super) fn create_pod(&self, name: &str, cpu: &str, more: Value) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}]},
        });
        json_patch::merge(&mut pod, &more);
        self.client.create("/api/v1/namespaces/default/pods", &pod).unwrap();
    }

    pub(super) fn get(&self, plural: &str, name: &str) -> Option<Value> {
        let mut feed = self.client.feed("", plural);
        let change =
            feed.take_changes().into_iter().find(|change| change.key.as_str().rsplit('/').next() == Some(name))?;
        serde_json::from_slice(&change.object?).ok()
    }

    /// Returns the node of a pod; `None` if it has none.
    pub(super) fn node_of(&self, pod: &str) -> Option<String> {
        self.get("pods", pod)?["spec"]["nodeName"].as_str().map(str::to_owned)
    }

    /// Returns the Events about a pod, as reason and note.
    pub(super) fn events(&self, pod: &str) -> Vec<(String, String)> {
        let events = self.client.feed("", "events").take_changes();
        let events = events.into_iter().map(|change| serde_json::from_slice::<Value>(&change.object.unwrap()).unwrap());
        let mut matching: Vec<Value> = events.filter(|event| event["involvedObject"]["name"] == pod).collect();
        matching.sort_by_key(|event| event["metadata"]["name"].as_str().unwrap().to_owned());
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        matching.iter().map(|event| (text(event, "reason"), text(event, "message"))).collect()
    }
}

/// Lets all tasks run that are ready now.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_to_a_node_that_fits() {
    let env = SchedulerTestEnv::new();
    env.create_node("small", "1");
    env.create_node("large", "8");
    env.create_pod("web", "2", json!({}));
    settle().await;
    assert_eq!(env.node_of("web").as_deref(), Some("large"));
    let events = env.events("web");
    assert_eq!(events, [("Scheduled".to_owned(), "Successfully assigned default/web to large".to_owned())]);
    let conditions = env.get("pods", "web").unwrap()["status"]["conditions"].clone();
    assert_eq!(conditions[0]["type"], "PodScheduled");
    assert_eq!(conditions[0]["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_reports_its_reason_and_is_bound_once_a_node_is_added() {
    let env = SchedulerTestEnv::new();
    env.create_node("small", "1");
    env.create_pod("web", "2", json!({}));
    settle().await;
    assert_eq!(env.node_of("web"), None);
    let condition = env.get("pods", "web").unwrap()["status"]["conditions"][0].clone();
    let message = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(condition["reason"], "Unschedulable");
    assert_eq!(condition["message"], message);
    assert_eq!(env.events("web"), [("FailedScheduling".to_owned(), message.to_owned())]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    env.create_node("large", "8");
    settle().await;
    assert_eq!(env.node_of("web").as_deref(), Some("large"));
}

#[tokio::test(start_paused = true)]
async fn pods_of_higher_priority_are_scheduled_first() {
    let env = SchedulerTestEnv::new();
    for (name, class) in [("low", "p1"), ("high", "p100")] {
        env.create_pod(name, "1", json!({"spec": {"priorityClassName": class}}));
    }
    settle().await;
    env.create_node("only", "1");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((env.node_of("high").as_deref(), env.node_of("low")), (Some("only"), None));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_nodes_has_its_own_message() {
    let env = SchedulerTestEnv::new();
    env.create_pod("web", "1", json!({}));
    settle().await;
    let events = [("FailedScheduling".to_owned(), "no nodes available to schedule pods".to_owned())];
    assert_eq!(env.events("web"), events);
}

#[tokio::test(start_paused = true)]
async fn a_gated_pod_waits_until_its_gates_are_removed() {
    let env = SchedulerTestEnv::new();
    env.create_node("a", "4");
    env.create_pod("web", "1", json!({"spec": {"schedulingGates": [{"name": "example.com/wait"}]}}));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(env.node_of("web"), None);
    let condition = env.get("pods", "web").unwrap()["status"]["conditions"][0].clone();
    assert_eq!((condition["reason"].as_str(), condition["status"].as_str()), (Some("SchedulingGated"), Some("False")));
    assert_eq!(env.events("web"), []);
    env.client.merge_patch("/api/v1/namespaces/default/pods/web", &json!({"spec": {"schedulingGates": null}})).unwrap();
    settle().await;
    assert_eq!(env.node_of("web").as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn pods_of_other_schedulers_are_ignored() {
    let env = SchedulerTestEnv::new();
    env.create_node("a", "4");
    env.create_pod("web", "1", json!({"spec": {"schedulerName": "mine"}}));
    tokio::time::sleep(Duration::from_mins(6)).await;
    assert_eq!(env.node_of("web"), None);
    assert_eq!(env.events("web"), []);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_higher_priority_preempts_and_is_nominated() {
    let env = SchedulerTestEnv::new();
    env.create_node("a", "2");
    env.create_pod("low", "2", json!({}));
    settle().await;
    env.create_pod("high", "2", json!({"spec": {"priorityClassName": "p100"}}));
    settle().await;
    let high = env.get("pods", "high").unwrap();
    assert_eq!(high["status"]["nominatedNodeName"], "a");
    let uid = high["metadata"]["uid"].as_str().unwrap();
    assert_eq!(high["status"]["conditions"][0]["message"], "0/1 nodes are available: 1 Insufficient cpu.");
    let low = env.get("pods", "low").unwrap();
    assert!(low["metadata"]["deletionTimestamp"].is_string());
    let target =
        low["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!(target["reason"], "PreemptionByScheduler");
    assert_eq!(target["message"], "default-scheduler: preempting to accommodate a higher priority pod");
    let preempted = ("Preempted".to_owned(), format!("Preempted by pod {uid} on node a"));
    assert_eq!(env.events("low").last(), Some(&preempted));

    // While the victim terminates, no other pod gets its capacity and no other pod is preempted.
    env.create_pod("late", "2", json!({}));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!((env.node_of("high"), env.node_of("late")), (None, None));
    env.client.delete("/api/v1/namespaces/default/pods/low", &json!({"gracePeriodSeconds": 0})).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((env.node_of("high").as_deref(), env.node_of("late")), (Some("a"), None));
}

#[tokio::test(start_paused = true)]
async fn repeated_failures_are_one_event_with_a_count() {
    let env = SchedulerTestEnv::new();
    env.create_node("a", "1");
    env.create_pod("web", "2", json!({}));
    tokio::time::sleep(Duration::from_mins(16)).await;
    let events = env.events("web");
    // The first attempt read the pod before its condition was written, the later attempts after it.
    assert_eq!(events.len(), 2, "{events:?}");
    let events = env.client.feed("", "events").take_changes();
    let counts: Vec<Value> = events
        .iter()
        .map(|change| {
            serde_json::from_slice::<Value>(change.object.as_ref().unwrap()).unwrap()["series"]["count"].clone()
        })
        .collect();
    assert!(counts.contains(&json!(2)), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn replicas_of_a_service_are_spread() {
    let env = SchedulerTestEnv::new();
    for node in ["a", "b", "c", "d"] {
        env.create_node(node, "16");
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    env.client.create("/api/v1/namespaces/default/services", &service).unwrap();
    for pod in 0..8 {
        env.create_pod(&format!("web-{pod}"), "100m", json!({"metadata": {"labels": {"app": "web"}}}));
    }
    settle().await;
    let mut nodes: Vec<String> = (0..8).map(|pod| env.node_of(&format!("web-{pod}")).unwrap()).collect();
    nodes.sort();
    assert_eq!(nodes, ["a", "a", "b", "b", "c", "c", "d", "d"]);
}

/// Thirty pods of six kinds on five nodes, with failures, a preemption and a late node. Both runs
/// must write the same bytes.
#[tokio::test(start_paused = true)]
async fn two_runs_with_one_seed_write_the_same() {
    let mut fingerprints = Vec::new();
    for _ in 0..2 {
        let env = SchedulerTestEnv::new();
        for node in 0..5 {
            env.create_node(&format!("n{node}"), "4");
        }
        for pod in 0..30 {
            let class = ["p1", "p2", "p100"][pod % 3];
            let labels = json!({"metadata": {"labels": {"app": format!("app-{}", pod % 6)}}, "spec": {"priorityClassName": class}});
            env.create_pod(&format!("p{pod}"), "900m", labels);
        }
        tokio::time::sleep(Duration::from_mins(7)).await;
        env.create_node("late", "8");
        tokio::time::sleep(Duration::from_mins(1)).await;
        fingerprints.push(env.server.fingerprint());
    }
    assert_eq!(fingerprints[0], fingerprints[1]);
}

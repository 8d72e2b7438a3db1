//! The cluster around the server, in virtual time: the effects of its controllers.

mod deployments;
mod determinism;
mod heartbeats;
mod nodes;
mod ownership;
mod workloads;

use std::time::Duration;

use kerf_runtime::Clock;
use kerf_sandbox::{Cluster, ClusterConfig, Timing};
use serde_json::{Value, json};

use crate::raw::{call, get};

/// Starts a cluster on a clock that begins at the same instant in every run.
pub(crate) fn start(timing: Timing) -> Cluster {
    start_with_seed(timing, 1)
}

pub(crate) fn start_with_seed(timing: Timing, seed: u64) -> Cluster {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    Cluster::start(ClusterConfig { clock, seed, timing })
}

/// Lets the cluster run for this long in virtual time.
pub(crate) async fn advance_seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
pub(crate) const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
pub(crate) const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
pub(crate) const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
pub(crate) const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Creates an object. The server must accept it.
pub(crate) async fn create(cluster: &Cluster, path: &str, object: Value) -> Value {
    let (code, response) = call(cluster.api(), "POST", path, object).await;
    assert_eq!(code, 201, "{path}: {response}");
    response
}

/// Applies a merge patch to an object. The server must accept it.
pub(crate) async fn patch(cluster: &Cluster, path: &str, change: Value) -> Value {
    let (code, response) =
        crate::raw::call_as(cluster.api(), "PATCH", path, "application/merge-patch+json", change).await;
    assert_eq!(code, 200, "{path}: {response}");
    response
}

pub(crate) async fn delete(cluster: &Cluster, path: &str, options: Value) -> (u16, Value) {
    call(cluster.api(), "DELETE", path, options).await
}

/// Returns the objects of a collection.
pub(crate) async fn list(cluster: &Cluster, path: &str) -> Vec<Value> {
    let (code, list) = get(cluster.api(), path).await;
    assert_eq!(code, 200, "{path}: {list}");
    list["items"].as_array().cloned().unwrap_or_default()
}

pub(crate) async fn read(cluster: &Cluster, path: &str) -> Option<Value> {
    let (code, object) = get(cluster.api(), path).await;
    (code == 200).then_some(object)
}

/// Returns a Deployment with one container.
pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name),
        },
    })
}

pub(crate) fn stateful_set(name: &str, replicas: u32) -> Value {
    let mut set = deployment(name, replicas);
    set["spec"]["serviceName"] = name.into();
    set
}

pub(crate) fn daemon_set(name: &str) -> Value {
    let mut set = deployment(name, 0);
    set["spec"].as_object_mut().unwrap().remove("replicas");
    set
}

/// Returns a Job whose pods succeed.
pub(crate) fn job(name: &str, completions: u32, parallelism: u32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "completions": completions, "parallelism": parallelism,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "sum:1"}]}},
        },
    })
}

pub(crate) fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1", "resources": {"requests": {"cpu": "100m"}}}]},
    })
}

/// Returns the number of pods in each phase, as `Running=2 Pending=1`. Pods with a deletion
/// timestamp count as `Terminating`.
pub(crate) async fn phases(cluster: &Cluster) -> String {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for pod in list(cluster, PODS).await {
        let is_terminating = pod["metadata"]["deletionTimestamp"].is_string();
        let phase = if is_terminating { "Terminating" } else { pod["status"]["phase"].as_str().unwrap_or("none") };
        *counts.entry(phase.into()).or_default() += 1;
    }
    counts.iter().map(|(phase, count)| format!("{phase}={count}")).collect::<Vec<_>>().join(" ")
}

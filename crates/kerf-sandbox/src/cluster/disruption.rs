//! The PodDisruptionBudget controller: computes how many pods of each budget may be evicted now.
//! Evictions read and decrement exactly this number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use smol_str::SmolStr;

use super::control_plane::{ControlPlane, RunAgain};
use super::kind::ControlPlaneKind;
use super::objects::{Pod, PodDisruptionBudget, resolve_int_or_percent};
use super::pods::ignore_not_found_or_conflict;
use crate::api::object::rfc3339_seconds;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

/// Time for which an evicted pod counts as disrupted. A pod that still exists after it was not
/// deleted after all.
const EVICTED_POD_TIMEOUT: Duration = Duration::from_mins(2);

/// Counts the pods of a budget, and writes how many may be disrupted.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(budget) = plane.cache.pod_disruption_budgets.get(key) else { return Ok(RunAgain::WhenChanged) };
    let selector = budget.selector();
    let pods: Vec<Arc<Pod>> = plane
        .cache
        .pods
        .of_namespace(key.namespace())
        .map(|(_, pod)| pod)
        .filter(|pod| !pod.is_terminal())
        .filter(|pod| selector.as_ref().is_some_and(|selector| selector.matches(pod.metadata.labels.as_slice())))
        .cloned()
        .collect();
    let (expected, desired) = expected_and_desired_healthy(plane, &budget, &pods);
    let (disrupted, run_again) = still_disrupted(plane, &budget, &pods);
    let healthy = pods
        .iter()
        .filter(|pod| pod.is_ready() && !pod.metadata.is_deleting() && !disrupted.contains_key(&pod.metadata.name))
        .count() as i64;
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    write_status(plane, key, &budget, DisruptionCounts { expected, desired, healthy, allowed }, &disrupted)?;
    Ok(run_again)
}

struct DisruptionCounts {
    expected: i64,
    desired: i64,
    healthy: i64,
    allowed: i64,
}

/// Returns the expected number of pods, and how many of them must be healthy.
fn expected_and_desired_healthy(plane: &ControlPlane, budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> (i64, i64) {
    let count = pods.len() as i64;
    match (&budget.spec.max_unavailable, &budget.spec.min_available) {
        (Some(max_unavailable), _) => {
            let expected = replicas_of_owners(plane, pods);
            (expected, (expected - resolve_int_or_percent(max_unavailable, expected, true)).max(0))
        }
        (None, Some(min_available @ Value::String(_))) => {
            let expected = replicas_of_owners(plane, pods);
            (expected, resolve_int_or_percent(min_available, expected, true))
        }
        (None, Some(min_available)) => (count, resolve_int_or_percent(min_available, count, true)),
        (None, None) => (count, 0),
    }
}

/// Returns the sum of the replicas of the pods' controllers. Each controller counts once.
fn replicas_of_owners(plane: &ControlPlane, pods: &[Arc<Pod>]) -> i64 {
    let mut counted = BTreeSet::new();
    let mut sum = 0;
    for pod in pods {
        let Some(owner) = pod.metadata.controller() else { continue };
        let key = ObjectKey::new(Some(&pod.metadata.namespace), &owner.name);
        let cache = &plane.cache;
        let (uid, replicas) = match owner.kind.as_str() {
            "ReplicaSet" => {
                let Some(set) = cache.replica_sets.get(&key) else { continue };
                let deployment = set.metadata.controller().and_then(|owner| {
                    cache.deployments.get(&ObjectKey::new(Some(&pod.metadata.namespace), &owner.name))
                });
                deployment.map_or_else(
                    || (set.metadata.uid.clone(), set.replicas()),
                    |deployment| (deployment.metadata.uid.clone(), deployment.replicas()),
                )
            }
            "StatefulSet" => match cache.stateful_sets.get(&key) {
                Some(set) => (set.metadata.uid.clone(), set.replicas()),
                None => continue,
            },
            _ => continue,
        };
        if counted.insert(uid) {
            sum += replicas;
        }
    }
    sum
}

/// Returns the evicted pods that still exist and may yet be deleted, and when to check again.
fn still_disrupted(
    plane: &ControlPlane,
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
) -> (BTreeMap<SmolStr, String>, RunAgain) {
    let now = plane.now();
    let (mut disrupted, mut run_again) = (BTreeMap::new(), RunAgain::WhenChanged);
    for (name, at) in budget.disrupted_pods() {
        let exists = pods.iter().any(|pod| pod.metadata.name == name && !pod.metadata.is_deleting());
        let age = now.duration_since(at).unsigned_abs();
        if exists && age < EVICTED_POD_TIMEOUT {
            disrupted.insert(name, rfc3339_seconds(at));
            run_again = run_again.or_after(EVICTED_POD_TIMEOUT.saturating_sub(age));
        }
    }
    (disrupted, run_again)
}

fn write_status(
    plane: &ControlPlane,
    key: &ObjectKey,
    budget: &PodDisruptionBudget,
    counts: DisruptionCounts,
    disrupted: &BTreeMap<SmolStr, String>,
) -> ApiResult<()> {
    let (status, reason) = if counts.allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let status_count = |field: &str| budget.status.get(field).and_then(Value::as_i64);
    let condition = budget.status.pointer("/conditions/0");
    let is_unchanged = status_count("currentHealthy") == Some(counts.healthy)
        && status_count("desiredHealthy") == Some(counts.desired)
        && status_count("expectedPods") == Some(counts.expected)
        && status_count("disruptionsAllowed") == Some(counts.allowed)
        && status_count("observedGeneration") == Some(budget.metadata.generation)
        && budget.disrupted_pods().len() == disrupted.len()
        && condition.and_then(|condition| condition.get("status")).and_then(Value::as_str) == Some(status);
    if is_unchanged {
        return Ok(());
    }
    let since = condition
        .filter(|condition| condition.get("status").and_then(Value::as_str) == Some(status))
        .and_then(|condition| condition.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| rfc3339_seconds(plane.now()).into());
    // The patch names the resource version that was read, so that it cannot overwrite an eviction.
    let mut patch = json!({
        "metadata": {"resourceVersion": budget.metadata.resource_version},
        "status": {
            "currentHealthy": counts.healthy, "desiredHealthy": counts.desired, "expectedPods": counts.expected,
            "disruptionsAllowed": counts.allowed, "observedGeneration": budget.metadata.generation,
            "conditions": [{
                "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
                "observedGeneration": budget.metadata.generation, "lastTransitionTime": since,
            }],
        },
    });
    for name in budget.disrupted_pods().into_keys().filter(|name| !disrupted.contains_key(name)) {
        patch["status"]["disruptedPods"][name.as_str()] = Value::Null;
    }
    // A conflict is ignored: the other write enqueues the budget again.
    ignore_not_found_or_conflict(
        plane
            .controller_client
            .merge_patch(&format!("{}/status", ControlPlaneKind::PodDisruptionBudget.path(key)), &patch),
    )
}

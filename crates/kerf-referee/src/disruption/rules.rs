//! Rules on which nodes may be removed, from nodes, pods, pools and budgets (spec 03 §2, §5, §6).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kerf_api::duration::Duration;
use kerf_api::schedule::Schedule;
use serde_json::Value;

use crate::manifests::{decode, is_owned_by_kind};
use crate::placement::{is_terminal, is_terminating, pod_key};
use crate::plan::PlanCommand;
use crate::selectors::{pod_labels, satisfies, selects};
use crate::taints::tolerates;

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Returns the items of a List that have this kind, in the order of the List.
pub(super) fn objects_of_kind<'c>(cluster: &'c Value, kind: &'c str) -> impl Iterator<Item = &'c Value> {
    cluster["items"].as_array().into_iter().flatten().filter(move |object| object["kind"] == kind)
}

pub(super) fn object_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn find_node<'c>(cluster: &'c Value, node_name: &str) -> Option<&'c Value> {
    objects_of_kind(cluster, "Node").find(|node| object_name(node) == node_name)
}

/// Returns the NodeClaim of a node, by provider ID.
pub(super) fn node_claim_of<'c>(cluster: &'c Value, node: &Value) -> Option<&'c Value> {
    let provider_id = node["spec"]["providerID"].as_str().filter(|id| !id.is_empty())?;
    objects_of_kind(cluster, "NodeClaim").find(|claim| claim["status"]["providerID"] == provider_id)
}

/// Returns the pool of a node that has a NodeClaim.
pub(super) fn pool_name_of(cluster: &Value, node_name: &str) -> Option<String> {
    let node = find_node(cluster, node_name)?;
    node_claim_of(cluster, node)?;
    node["metadata"]["labels"]["karpenter.sh/nodepool"].as_str().map(str::to_owned)
}

fn find_pool<'c>(cluster: &'c Value, pool_name: &str) -> Option<&'c Value> {
    objects_of_kind(cluster, "NodePool").find(|pool| object_name(pool) == pool_name)
}

fn find_condition<'c>(object: &'c Value, kind: &str) -> Option<&'c Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn is_condition_true(object: &Value, kind: &str) -> bool {
    find_condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

fn parse_timestamp(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Returns the pods that are bound to a node.
fn pods_on_node(cluster: &Value, node: &str) -> Result<Vec<Pod>, String> {
    let bound = objects_of_kind(cluster, "Pod").filter(|pod| pod["spec"]["nodeName"] == node);
    bound.map(|pod| decode(pod).map_err(|error| error.to_string())).collect()
}

/// Returns true if the pod must run on another node once its node is removed.
fn is_reschedulable(pod: &Pod) -> bool {
    let active = !is_terminal(pod) && !is_terminating(pod);
    (active || (is_terminating(pod) && is_owned_by_kind(pod, "apps/v1", "StatefulSet")))
        && !is_owned_by_kind(pod, "apps/v1", "DaemonSet")
        && !is_owned_by_kind(pod, "v1", "Node")
}

/// Returns true if a simulation must find a target for the pod (spec 03 §5.3). It need not if the
/// time of the pod's eviction is unknown, because of its annotation, a PodDisruptionBudget that
/// never allows an eviction, or several budgets.
fn is_currently_reschedulable(cluster: &Value, pod: &Pod, at: Timestamp) -> Result<bool, String> {
    if has_active_do_not_disrupt(pod, at) {
        return Ok(false);
    }
    let budgets = pod_disruption_budgets(cluster, pod)?;
    let never = |budget: &PodDisruptionBudget| {
        let text = |value: &Option<IntOrString>| match value {
            Some(IntOrString::Int(number)) => number.to_string(),
            Some(IntOrString::String(text)) => text.clone(),
            None => String::new(),
        };
        let spec = budget.spec.as_ref();
        spec.is_some_and(|spec| {
            ["0", "0%"].contains(&text(&spec.max_unavailable).as_str()) || text(&spec.min_available) == "100%"
        }) && !allows_unready_eviction(budget, pod)
    };
    Ok(!is_evictable(pod, at) || !(budgets.len() > 1 || budgets.iter().any(never)))
}

/// Returns the pods of these nodes for which a simulation need not find a target, sorted. Drift may
/// remove their nodes nevertheless if the drain ends by `terminationGracePeriod`.
pub(super) fn pods_not_reschedulable_now(
    cluster: &Value,
    nodes: &[String],
    at: Timestamp,
) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for node in nodes {
        for pod in pods_on_node(cluster, node)?.iter().filter(|pod| is_reschedulable(pod)) {
            if !is_currently_reschedulable(cluster, pod, at)? {
                all.push(pod_key(pod));
            }
        }
    }
    all.sort();
    Ok(all)
}

/// Returns the pods that must move when these nodes are removed, sorted.
pub(super) fn reschedulable_pods(cluster: &Value, nodes: &[String]) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for node in nodes {
        all.extend(pods_on_node(cluster, node)?.iter().filter(|pod| is_reschedulable(pod)).map(pod_key));
    }
    all.sort();
    Ok(all)
}

/// Returns true if the pod's do-not-disrupt annotation protects its node now (spec 03 §5.5).
fn has_active_do_not_disrupt(pod: &Pod, at: Timestamp) -> bool {
    let value = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DO_NOT_DISRUPT));
    let Some(value) = value else { return false };
    if value == "true" {
        return true;
    }
    let Some(length) = value.parse::<Duration>().ok().filter(|length| length.nanos() > 0) else { return false };
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    started.is_none_or(|started| at < length.after(started.0))
}

/// Returns the reason why PodDisruptionBudgets forbid the pod's eviction, or `None` if they allow
/// it (spec 03 §5.3).
fn eviction_budget_violation(cluster: &Value, pod: &Pod, at: Timestamp) -> Result<Option<String>, String> {
    if !is_evictable(pod, at) {
        return Ok(None);
    }
    Ok(match pod_disruption_budgets(cluster, pod)?.as_slice() {
        [] => None,
        [budget] => {
            let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0);
            (allowed == 0 && !allows_unready_eviction(budget, pod))
                .then(|| format!("the PodDisruptionBudget of {} allows no eviction", pod_key(pod)))
        }
        [_, _, ..] => Some(format!("several PodDisruptionBudgets select {}", pod_key(pod))),
    })
}

/// Returns true if the termination controller would evict the pod.
fn is_evictable(pod: &Pod, at: Timestamp) -> bool {
    let disrupted =
        Taint { key: "karpenter.sh/disrupted".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    !is_terminal(pod)
        && !is_terminating(pod)
        && !tolerates(pod, &disrupted)
        && !is_owned_by_kind(pod, "v1", "Node")
        && !has_active_do_not_disrupt(pod, at)
}

/// Returns the PodDisruptionBudgets that select the pod.
fn pod_disruption_budgets(cluster: &Value, pod: &Pod) -> Result<Vec<PodDisruptionBudget>, String> {
    let all: Vec<PodDisruptionBudget> = objects_of_kind(cluster, "PodDisruptionBudget")
        .map(|budget| decode(budget).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let pod_namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let selects_pod = |budget: &PodDisruptionBudget| {
        budget.metadata.namespace.as_deref().unwrap_or("default") == pod_namespace
            && selects(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()), pod_labels(pod))
    };
    Ok(all.into_iter().filter(selects_pod).collect())
}

/// Returns true if the budget does not protect the pod because it is not ready.
fn allows_unready_eviction(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let policy = budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    policy == Some("AlwaysAllow") && conditions.any(|c| c.type_ == "Ready" && c.status == "False")
}

/// Returns the reasons why the command's nodes may not be removed.
pub(super) fn node_violations(cluster: &Value, command: &PlanCommand, at: Timestamp) -> Result<Vec<String>, String> {
    let mut violations = Vec::new();
    for node_name in &command.nodes {
        let Some(node) = find_node(cluster, node_name) else {
            violations.push(format!("node {node_name} does not exist"));
            continue;
        };
        let Some(claim) = node_claim_of(cluster, node) else {
            violations.push(format!("{node_name} is not a managed node"));
            continue;
        };
        let labels = &node["metadata"]["labels"];
        let Some(pool) = find_pool(cluster, labels["karpenter.sh/nodepool"].as_str().unwrap_or_default()) else {
            violations.push(format!("{node_name} has no NodePool"));
            continue;
        };
        if labels["karpenter.sh/initialized"] != "true" {
            violations.push(format!("{node_name} is not initialized"));
        }
        if !claim["metadata"]["deletionTimestamp"].is_null() {
            violations.push(format!("{node_name} is already being deleted"));
        }
        if node["metadata"]["annotations"][DO_NOT_DISRUPT] == "true" {
            violations.push(format!("{node_name} has the annotation do-not-disrupt"));
        }
        let drain_ends = !claim["spec"]["terminationGracePeriod"].is_null();
        if !(command.reason == "Drifted" && drain_ends) {
            for pod in pods_on_node(cluster, node_name)? {
                let active = !is_terminal(&pod) && !is_terminating(&pod);
                if active && has_active_do_not_disrupt(&pod, at) {
                    violations.push(format!("{} has the annotation do-not-disrupt", pod_key(&pod)));
                }
                violations.extend(eviction_budget_violation(cluster, &pod, at)?);
            }
        }
        violations.extend(reason_violation(cluster, command, node_name, claim, pool, at)?);
    }
    Ok(violations)
}

/// Checks that the command's reason is true for the node and that the pool's policy allows it.
fn reason_violation(
    cluster: &Value,
    command: &PlanCommand,
    node_name: &str,
    claim: &Value,
    pool: &Value,
    at: Timestamp,
) -> Result<Option<String>, String> {
    let disruption = &pool["spec"]["disruption"];
    let violation = match command.reason.as_str() {
        "Drifted" => (!has_drifted(claim, pool)).then(|| format!("{node_name} has not drifted")),
        "Empty" => {
            let empty = reschedulable_pods(cluster, &[node_name.to_owned()])?.is_empty();
            (!empty).then(|| format!("{node_name} is not empty"))
        }
        "Underutilized" => {
            let only_empty = disruption["consolidationPolicy"] == "WhenEmpty";
            only_empty.then(|| format!("{node_name} may only be removed when it is empty"))
        }
        other => Some(format!("unknown reason {other}")),
    };
    let not_consolidatable = command.reason != "Drifted" && !is_consolidatable(claim, pool, at);
    Ok(violation.or_else(|| not_consolidatable.then(|| format!("{node_name} is still in consolidateAfter"))))
}

/// Returns true if the claim's labels no longer satisfy the pool's requirements (spec 03 §2.1). The
/// generated clusters have no other kind of drift.
fn has_drifted(claim: &Value, pool: &Value) -> bool {
    let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array();
    requirements.into_iter().flatten().any(|requirement| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let values: Vec<String> = requirement["values"].as_array().into_iter().flatten().map(text).collect();
        let label = claim["metadata"]["labels"][text(&requirement["key"])].as_str();
        !satisfies(label, &text(&requirement["operator"]), &values)
    })
}

/// Returns true if the last pod event is longer ago than `consolidateAfter` (spec 03 §2.2).
fn is_consolidatable(claim: &Value, pool: &Value, at: Timestamp) -> bool {
    let after = pool["spec"]["disruption"]["consolidateAfter"].as_str().unwrap_or("0s");
    if after == "Never" || !is_condition_true(claim, "Initialized") {
        return false;
    }
    !is_in_consolidate_after(claim, pool, at)
}

fn is_in_consolidate_after(claim: &Value, pool: &Value, at: Timestamp) -> bool {
    let after = pool["spec"]["disruption"]["consolidateAfter"].as_str().unwrap_or("0s");
    let Ok(after) = after.parse::<Duration>() else { return false };
    let since = parse_timestamp(&claim["status"]["lastPodEventTime"])
        .or_else(|| parse_timestamp(&find_condition(claim, "Initialized")?["lastTransitionTime"]));
    after.nanos() > 0 && since.is_some_and(|since| at < after.after(since))
}

/// Checks the nodes that receive pods: they must be initialized, and for consolidation their
/// `consolidateAfter` must have passed (spec 03 §7).
pub(super) fn target_violations(cluster: &Value, command: &PlanCommand, at: Timestamp) -> Result<Vec<String>, String> {
    let moved = reschedulable_pods(cluster, &command.nodes)?;
    let mut violations = Vec::new();
    for placement in command.existing_nodes.iter().filter(|p| p.pods.iter().any(|pod| moved.contains(pod))) {
        let Some(node) = find_node(cluster, &placement.node) else {
            violations.push(format!("pods move to node {}, which does not exist", placement.node));
            continue;
        };
        if command.nodes.contains(&placement.node) {
            violations.push(format!("pods move to {}, which the command removes", placement.node));
        }
        let Some(claim) = node_claim_of(cluster, node) else { continue };
        if node["metadata"]["labels"]["karpenter.sh/initialized"] != "true" {
            violations.push(format!("pods move to {}, which is not initialized", placement.node));
        }
        let pool =
            node["metadata"]["labels"]["karpenter.sh/nodepool"].as_str().and_then(|name| find_pool(cluster, name));
        if command.reason == "Underutilized" && pool.is_some_and(|pool| is_in_consolidate_after(claim, pool, at)) {
            violations.push(format!("pods move to {}, which is still in consolidateAfter", placement.node));
        }
    }
    Ok(violations)
}

/// Number of nodes that the budgets of each pool allow to remove, before any command.
pub(super) struct RemainingBudgets {
    remaining_by_reason: BTreeMap<(String, String), i64>,
}

impl RemainingBudgets {
    pub(super) fn of(cluster: &Value, at: Timestamp) -> Result<Self, String> {
        let mut remaining_by_reason = BTreeMap::new();
        for pool in objects_of_kind(cluster, "NodePool") {
            let pool_nodes = objects_of_kind(cluster, "Node").filter_map(|node| {
                let labels = &node["metadata"]["labels"];
                let counts = labels["karpenter.sh/nodepool"] == object_name(pool)
                    && labels["karpenter.sh/initialized"] == "true";
                node_claim_of(cluster, node).filter(|_| counts).map(|claim| (node, claim))
            });
            let pool_nodes: Vec<(&Value, &Value)> = pool_nodes.collect();
            let is_disrupting = |(node, claim): &&(&Value, &Value)| {
                !is_condition_true(node, "Ready") || !claim["metadata"]["deletionTimestamp"].is_null()
            };
            let disrupting = pool_nodes.iter().filter(is_disrupting).count() as i64;
            for reason in ["Empty", "Drifted", "Underutilized"] {
                let allowed = allowed_disruptions(pool, reason, pool_nodes.len() as i64, at)?;
                remaining_by_reason
                    .insert((object_name(pool).to_owned(), reason.to_owned()), (allowed - disrupting).max(0));
            }
        }
        Ok(Self { remaining_by_reason })
    }

    /// Returns the number of nodes of the pool that may be removed for the reason.
    pub(super) fn remaining(&self, pool: &str, reason: &str) -> i64 {
        self.remaining_by_reason.get(&(pool.to_owned(), reason.to_owned())).copied().unwrap_or(0)
    }
}

/// Returns the number of nodes that the pool's active budgets allow for the reason (spec 03 §6.3).
fn allowed_disruptions(pool: &Value, reason: &str, nodes: i64, at: Timestamp) -> Result<i64, String> {
    let tenth = serde_json::json!([{"nodes": "10%"}]);
    let written = &pool["spec"]["disruption"]["budgets"];
    let budgets = if written.is_null() { &tenth } else { written };
    let mut minimum = i64::MAX / 2;
    for budget in budgets.as_array().into_iter().flatten() {
        let applies = budget["reasons"].as_array().is_none_or(|reasons| reasons.iter().any(|other| other == reason));
        let text = |key: &str| budget[key].as_str();
        let active = match (text("schedule"), text("duration")) {
            (Some(schedule), Some(duration)) => {
                let schedule: Schedule = schedule.parse().map_err(|_| format!("cannot read {schedule}"))?;
                let duration: Duration = duration.parse().map_err(|_| format!("cannot read {duration}"))?;
                schedule.is_active(duration, at)
            }
            _ => true,
        };
        let written = text("nodes").unwrap_or("10%");
        let number = match written.strip_suffix('%') {
            Some(percent) => percent.parse::<i64>().map(|percent| (nodes * percent + 99) / 100),
            None => written.parse::<i64>(),
        };
        if applies && active {
            minimum = minimum.min(number.map_err(|error| error.to_string())?);
        }
    }
    Ok(minimum)
}

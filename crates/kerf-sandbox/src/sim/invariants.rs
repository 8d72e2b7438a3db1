//! The invariants of a simulation: safety rules, checked at every change, and liveness rules,
//! checked when faults are off. They are defined on the stored objects and on the cloud's list of
//! instances, and know nothing about how the autoscaler decides.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::annotations::DO_NOT_DISRUPT;
use kerf_api::duration::{DoNotDisrupt, evaluate_do_not_disrupt};
use kerf_api::nodepool::DisruptionReason;
use kerf_api::schedule::allowed_disruptions;
use kerf_api::slim::{Pod, Str, TolerationOperator};
use kerf_api::taints::DISRUPTED;
use kerf_referee::selectors::selects;

use super::invariant_checker::{ClaimRecord, InvariantChecker};
use super::node_instances::NodeInstances;
use crate::api::ObjectKey;
use crate::simulated_cloud::{CloudInstance, InstanceList, SimulatedCloud};

const EVERY_INSTANCE_HAS_A_CLAIM: &str = "every instance has a claim";

/// Checks a new node: no two nodes may have the same provider ID.
pub(super) fn on_new_node(checker: &mut InvariantChecker, name: &str, now: Timestamp) {
    let Some(provider_id) = checker.nodes.get(name).map(|node| node.provider_id.clone()) else { return };
    let has_same_provider_id =
        |(other, node): (&Str, &super::invariant_checker::NodeRecord)| other != name && node.provider_id == provider_id;
    if !provider_id.is_empty() && checker.nodes.iter().any(has_same_provider_id) {
        checker.record_violation(
            now,
            "no two nodes have the same provider ID",
            format!("{name} and another node have {provider_id}"),
        );
    }
}

/// Checks a decision to disrupt a claim: the pool's budgets must allow it, and neither the node nor
/// a pod on it may forbid it.
pub(super) fn on_disruption_decision(checker: &mut InvariantChecker, name: &str, now: Timestamp) {
    let Some(claim) = checker.claims.get(name) else { return };
    let mut violations: Vec<(&'static str, String)> = Vec::new();
    let (node, reason) = (&claim.node, DisruptionReason::from(claim.reason.as_deref().unwrap_or_default()));
    if checker.nodes.get(node).is_some_and(|node| node.is_protected) {
        violations.push(("do-not-disrupt is respected", format!("node {node} (claim {name}) is disrupted")));
    }
    // A drifted node with a termination grace period may be disrupted whatever its pods forbid.
    let pods_can_block = reason != DisruptionReason::Drifted || !claim.has_termination_grace_period;
    for pod in checker.pods_on(node).map(|record| &record.pod).filter(|pod| pods_can_block && is_active(pod)) {
        if is_protected(pod, now) {
            violations.push((
                "do-not-disrupt is respected",
                format!("node {node} (claim {name}) of pod {} is disrupted", pod.namespaced_name()),
            ));
        } else if let Some(budget) = blocking_pod_disruption_budget(checker, pod) {
            let message = format!(
                "node {node} (claim {name}) is disrupted, but {budget} does not allow the eviction of {}",
                pod.namespaced_name()
            );
            violations.push(("PodDisruptionBudgets are respected", message));
        }
    }
    violations.extend(
        exceeded_budget(checker, &claim.pool, &reason, now)
            .map(|message| ("disruption budgets are respected", message)),
    );
    for (rule, message) in violations {
        checker.record_violation(now, rule, message);
    }
}

/// Returns a message if more nodes of a pool are disrupted than its budgets allow, counted as in
/// spec 03 §6.4.
fn exceeded_budget(
    checker: &InvariantChecker,
    pool: &str,
    reason: &DisruptionReason,
    now: Timestamp,
) -> Option<String> {
    let budgets = checker.pools.get(pool)?.spec.disruption.as_ref()?.budgets.as_deref()?;
    let nodes = checker.claims.values().filter(|claim| claim.pool == pool && !claim.is_terminating);
    let nodes = nodes.filter_map(|claim| Some((claim, checker.nodes.get(&claim.node)?)));
    let (mut total, mut disrupting) = (0_u32, 0_u32);
    for (claim, node) in nodes.filter(|(_, node)| node.is_initialized) {
        total += 1;
        disrupting += u32::from(!node.is_ready || claim.is_deleting || claim.reason.is_some());
    }
    let allowed = allowed_disruptions(budgets, reason, total, now).unwrap_or(0);
    (disrupting > allowed).then(|| {
        format!("{disrupting} of {total} nodes of pool {pool} are disrupted at once ({reason}), allowed are {allowed}")
    })
}

/// Checks the deletion of a disrupted claim: its replacements must be initialized, and no pod may
/// have been added to its node since the decision.
pub(super) fn on_claim_deletion(checker: &mut InvariantChecker, name: &str, now: Timestamp) {
    let Some(claim) = checker.claims.get(name) else { return };
    let Some(mark) = claim.disruption_mark.as_ref().filter(|_| !is_deleted_regardless(checker, claim, now)) else {
        return;
    };
    let mut violations: Vec<(&'static str, String)> = Vec::new();
    let is_replacement = |other: &&ClaimRecord| {
        other.created_at_change > mark.at_change && other.replaces.iter().any(|replaced| replaced == name)
    };
    if checker.claims.values().filter(is_replacement).any(|other| !other.is_initialized) {
        violations.push((
            "replacements are initialized first",
            format!("claim {name} is deleted before its replacement is initialized"),
        ));
    }
    // Drift does not promise that pods have another node.
    if claim.reason.as_deref() != Some("Drifted") {
        let is_new = |pod: &&Pod| is_reschedulable(pod) && !mark.pods.contains(&pod.metadata.uid);
        for pod in checker.pods_on(&claim.node).map(|record| &record.pod).filter(is_new) {
            let message = format!(
                "pod {} was bound to node {} after the decision, and claim {name} is deleted",
                pod.namespaced_name(),
                claim.node
            );
            violations.push(("a node that receives a pod is not removed", message));
        }
    }
    for (rule, message) in violations {
        checker.record_violation(now, rule, message);
    }
}

/// Returns true if a claim is deleted independently of the decision: its pool or its node is
/// deleted, or it has expired.
fn is_deleted_regardless(checker: &InvariantChecker, claim: &ClaimRecord, now: Timestamp) -> bool {
    checker.pools.get(&claim.pool).is_none_or(|pool| pool.metadata.deletion_timestamp.is_some())
        || !checker.nodes.contains_key(&claim.node)
        || claim.expires.is_some_and(|at| at <= now)
}

/// Checks an eviction: the NodeClaim of the pod's node must be marked for deletion, and the pod
/// must not have a do-not-disrupt annotation.
pub(super) fn on_eviction(checker: &mut InvariantChecker, key: &ObjectKey, now: Timestamp) {
    let Some(pod) = checker.pods.get(key).map(|record| record.pod.clone()) else { return };
    let node = pod.spec.node_name.clone().unwrap_or_default();
    let claim = checker.claims.values().find(|claim| claim.node == node && !node.is_empty());
    if claim.is_some_and(|claim| !claim.is_deleting) {
        checker.record_violation(
            now,
            "no pod is evicted from a node that stays",
            format!("{} is evicted from {node}", key.as_str()),
        );
    }
    if is_protected(&pod, now) {
        checker.record_violation(
            now,
            "do-not-disrupt is respected",
            format!("{} is evicted from {node}", key.as_str()),
        );
    }
    // Pods of DaemonSets are deleted with their nodes and do not count.
    let saves_enough = checker.consolidation_saves_enough(&node);
    if !pod.is_owned_by_daemonset() && checker.steady_check.record_eviction(&pod, saves_enough, now) {
        checker.record_violation(
            now,
            "pods of unchanged workloads are not evicted",
            format!("{} is evicted from {node}", key.as_str()),
        );
    }
}

fn is_active(pod: &Pod) -> bool {
    !pod.is_terminal() && !pod.is_terminating()
}

fn is_reschedulable(pod: &Pod) -> bool {
    is_active(pod) && !pod.is_owned_by_daemonset() && !pod.is_mirror()
}

fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    let value = pod.metadata.annotations.get(DO_NOT_DISRUPT);
    value.is_some_and(|value| {
        matches!(evaluate_do_not_disrupt(value, pod.status.start_time, now), DoNotDisrupt::Protected { .. })
    })
}

/// Returns the PodDisruptionBudget that blocks the eviction of a pod (spec 03 §5.3).
fn blocking_pod_disruption_budget(checker: &InvariantChecker, pod: &Pod) -> Option<String> {
    let tolerates_disruption = |pod: &Pod| {
        pod.spec.tolerations.iter().any(|toleration| {
            toleration.operator == TolerationOperator::Exists
                && (toleration.key.is_empty() || toleration.key == DISRUPTED)
        })
    };
    if pod.is_mirror() || tolerates_disruption(pod) {
        return None;
    }
    let labels: BTreeMap<String, String> =
        pod.metadata.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let matching = checker.budgets.iter().filter(|(key, budget)| {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        key.namespace() == pod.metadata.namespace && selects(selector, &labels)
    });
    let blocks = |budget: &PodDisruptionBudget| {
        let policy = budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
        let is_unhealthy = pod.condition("Ready").is_some_and(|ready| ready.status == "False");
        let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0);
        allowed == 0 && !(policy == Some("AlwaysAllow") && is_unhealthy)
    };
    matching.filter(|(_, budget)| blocks(budget)).map(|(key, _)| key.as_str().to_owned()).next()
}

/// Returns the live instances of the attached cloud, or of the Nodes if there is none.
pub(super) fn live_instances(checker: &InvariantChecker, cloud: Option<&dyn SimulatedCloud>) -> Vec<CloudInstance> {
    if let Some(cloud) = cloud {
        return cloud.live_instances();
    }
    let mut instances = NodeInstances::default();
    for node in checker.nodes.values() {
        instances.add_node(&node.provider_id, &node.capacity_type, node.created);
    }
    instances.live_instances()
}

/// Provider IDs of all claims, and names of the claims that have none yet.
struct ClaimIndex<'c> {
    provider_ids: BTreeSet<&'c str>,
    launching: BTreeSet<&'c str>,
}

impl<'c> ClaimIndex<'c> {
    fn new(checker: &'c InvariantChecker) -> Self {
        let claims = || checker.claims.iter();
        Self {
            provider_ids: claims().map(|(_, claim)| claim.provider_id.as_str()).collect(),
            launching: claims().filter(|(_, c)| c.provider_id.is_empty()).map(|(name, _)| name.as_str()).collect(),
        }
    }

    /// Returns true if a claim names the instance, or if the instance names a claim whose launch
    /// has not ended.
    fn has_claim_of(&self, instance: &CloudInstance) -> bool {
        self.provider_ids.contains(instance.provider_id.as_str())
            || instance.claim.as_deref().is_some_and(|claim| self.launching.contains(claim))
    }
}

/// Checks the list of the attached cloud: no claim has two live instances, and a live instance
/// without a claim is younger than the cloud's bound. Returns the time at which the next instance
/// reaches the bound, or `None` if every live instance has a claim.
pub(super) fn check_cloud(
    checker: &mut InvariantChecker,
    cloud: &dyn SimulatedCloud,
    now: Timestamp,
) -> Option<Timestamp> {
    let instances = cloud.live_instances();
    checker.record_instance_prices(&instances, now);
    let max_age = cloud.max_orphan_age().map(|age| SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX));
    let mut violations: Vec<(&'static str, String)> = Vec::new();
    let mut by_claim: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for instance in &instances {
        if let Some(claim) = &instance.claim {
            by_claim.entry(claim).or_default().push(&instance.provider_id);
        }
    }
    for (claim, provider_ids) in by_claim.iter().filter(|(_, provider_ids)| provider_ids.len() > 1) {
        let message = format!("claim {claim} has the instances {}", provider_ids.join(", "));
        violations.push(("no claim has two instances", message));
    }
    let claims = ClaimIndex::new(checker);
    let mut next_due: Option<Timestamp> = None;
    for instance in instances.iter().filter(|instance| !claims.has_claim_of(instance)) {
        let Some(max_age) = max_age else { continue };
        let due = instance.launched_at.saturating_add(max_age).unwrap_or(Timestamp::MAX);
        if due <= now {
            let claim = instance.claim.as_deref().unwrap_or("an unknown claim");
            let CloudInstance { provider_id, launched_at, .. } = instance;
            let message = format!("instance {provider_id}, launched at {launched_at} for {claim}, has no claim");
            violations.push((EVERY_INSTANCE_HAS_A_CLAIM, message));
        } else {
            next_due = Some(next_due.map_or(due, |other| other.min(due)));
        }
    }
    for (rule, message) in violations {
        if checker.instance_violations.insert(message.clone()) {
            checker.record_violation(now, rule, message);
        }
    }
    next_due
}

/// Returns the liveness rules that do not hold yet: rule and message. Empty if the cluster has
/// reached the desired state. `may_pend` is the number of pods that may stay pending. `cloud` is
/// the attached cloud.
pub(super) fn liveness_violations(
    checker: &InvariantChecker,
    cloud: Option<&dyn SimulatedCloud>,
    may_pend: usize,
) -> Vec<(&'static str, String)> {
    let mut violations = Vec::new();
    let pending: Vec<String> = checker.pending_pods().map(|pod| pod.namespaced_name().to_string()).collect();
    if pending.len() > may_pend {
        let first: Vec<&str> = pending.iter().take(3).map(String::as_str).collect();
        let pods = if pending.len() == 1 { "pod" } else { "pods" };
        let message = format!("{} pending {pods}, for example {}", pending.len(), first.join(", "));
        violations.push(("every pod runs", message));
    }
    let (instances, claims) = (live_instances(checker, cloud), ClaimIndex::new(checker));
    for instance in instances.iter().filter(|instance| !claims.has_claim_of(instance)) {
        let node = checker.nodes.iter().find(|(_, node)| node.provider_id == instance.provider_id.as_str());
        let message = match node {
            Some((name, _)) => format!("node {name} has no claim"),
            None => format!("instance {} has neither claim nor node", instance.provider_id),
        };
        violations.push((EVERY_INSTANCE_HAS_A_CLAIM, message));
    }
    let has_node = |provider_id: &str| checker.nodes.values().any(|node| node.provider_id == provider_id);
    let is_live = |provider_id: &str| instances.iter().any(|instance| instance.provider_id == provider_id);
    for (name, claim) in &checker.claims {
        if !has_node(&claim.provider_id) {
            violations.push(("every claim has a node", format!("claim {name} has no node")));
        } else if !is_live(&claim.provider_id) {
            violations.push(("every claim has an instance", format!("claim {name} has no instance")));
        }
    }
    violations
}

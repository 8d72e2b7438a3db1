//! Selects the pods that a scheduling pass places (spec 02 §2): pending pods that a new node could
//! help, and pods on nodes that are marked for deletion.

use jiff::Timestamp;
use kerf_api::duration::evaluate_do_not_disrupt;
use kerf_api::labels::LabelRules;
use kerf_api::slim::{IntOrPercent, Pod, PodDisruptionBudget, Str, Taint, TaintEffect};
use kerf_api::{annotations, labels, taints};

use super::Settings;
use crate::pod::requirements::{Preferences, pod_requirements};
use crate::pod::selector;
use crate::pod::tolerations::tolerates;
use crate::requirement::EffectiveOperator;

/// Returns true if a new node could help this pending pod (spec 02 §2.1).
pub fn is_provisionable(pod: &Pod, settings: &Settings) -> bool {
    let mut scheduled = pod.status.conditions.iter().filter(|c| c.condition_type == "PodScheduled").peekable();
    // In files the condition may be missing. If it is present, its reason decides: a scheduler that
    // reports another reason does not need a node.
    let lacks_condition = scheduled.peek().is_none() && !settings.require_unschedulable;
    (lacks_condition || scheduled.any(|c| c.reason == "Unschedulable"))
        && pod.spec.node_name.is_none()
        && pod.status.nominated_node_name.is_none()
        && !pod.is_owned_by_daemonset()
        && !pod.is_mirror()
        && !pod.spec.is_gated
        && !pod.is_terminal()
        && !pod.is_terminating()
}

/// Returns true if the pod requires a node that belongs to no NodePool.
pub(crate) fn excludes_managed_nodes(pod: &Pod, rules: &LabelRules) -> bool {
    if pod.spec.node_selector.is_empty() && pod.spec.affinity.is_none() {
        return false;
    }
    let requirements = pod_requirements(&pod.spec, Preferences::Included, rules);
    requirements.labels.get(labels::NODEPOOL).is_some_and(|r| r.operator() == EffectiveOperator::DoesNotExist)
}

/// Returns true if a pod on a node that is marked for deletion must be placed elsewhere now (spec
/// 02 §2.3).
pub(crate) fn is_currently_reschedulable(pod: &Pod, budgets: &[PodDisruptionBudget], at: Timestamp) -> bool {
    let active = !pod.is_terminal() && !pod.is_terminating();
    let is_present = active || (pod.is_terminating() && pod.is_owned_by_statefulset());
    let may_move = !active || !has_do_not_disrupt(pod, at);
    is_present && may_move && !pod.is_owned_by_daemonset() && !pod.is_mirror() && !is_fully_blocked(pod, budgets, at)
}

fn has_do_not_disrupt(pod: &Pod, at: Timestamp) -> bool {
    pod.metadata
        .annotations
        .get(annotations::DO_NOT_DISRUPT)
        .is_some_and(|value| evaluate_do_not_disrupt(value, pod.status.start_time, at).is_protected())
}

/// Returns true if the pod can never be evicted: several budgets select it, or one that never
/// allows a disruption (spec 02 §2.3).
fn is_fully_blocked(pod: &Pod, budgets: &[PodDisruptionBudget], at: Timestamp) -> bool {
    let evictable = !pod.is_terminal()
        && !pod.is_terminating()
        && !pod.is_mirror()
        && !tolerates(&pod.spec.tolerations, &disrupted_taint())
        && !has_do_not_disrupt(pod, at);
    if !evictable {
        return false;
    }
    let mut selecting = budgets.iter().filter(|b| {
        b.metadata.namespace == pod.metadata.namespace
            && b.selector.as_ref().is_some_and(|s| selector::selects(s, &pod.metadata.labels))
    });
    let Some(budget) = selecting.next() else { return false };
    if selecting.next().is_some() {
        return true;
    }
    let unready = pod.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "False");
    if budget.always_allow_unhealthy && unready {
        return false;
    }
    matches!(budget.max_unavailable, Some(IntOrPercent::Int(0) | IntOrPercent::Percent(0)))
        || matches!(budget.min_available, Some(IntOrPercent::Percent(100)))
}

/// Returns the taint of nodes that are being disrupted.
pub(crate) fn disrupted_taint() -> Taint {
    Taint { key: Str::new_static(taints::DISRUPTED), value: Str::default(), effect: TaintEffect::NoSchedule }
}

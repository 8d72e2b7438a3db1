//! Checks that every pending pod is placed once or explained, and that no other pod is placed.

use std::collections::{BTreeMap, BTreeSet};

use super::{PlanRule, Violation};
use crate::manifests::{ClusterManifests, NotPlannableReason};
use crate::placement::pod_key;
use crate::plan::Plan;

pub(super) fn check(cluster: &ClusterManifests, plan: &Plan) -> Vec<Violation> {
    let pending: BTreeMap<String, _> = cluster
        .pending_pods()
        .into_iter()
        .map(|pending| (pod_key(pending.pod), cluster.not_plannable_reason(pending)))
        .collect();
    let mut violations = Vec::new();
    let mut add_violation = |rule, pod: &str, detail: String| {
        violations.push(Violation { rule, pod: Some(pod.to_owned()), node: None, detail });
    };
    let mut placed = BTreeSet::new();
    for pod in plan.placed_pods() {
        if !placed.insert(pod) {
            add_violation(PlanRule::Accounting, pod, "is placed more than once".to_owned());
        }
        match pending.get(pod) {
            None => add_violation(PlanRule::Accounting, pod, "is placed, but is not pending".to_owned()),
            Some(None) => {}
            Some(Some(NotPlannableReason::ExcludesManagedNodes)) => {
                add_violation(PlanRule::NotPlannable, pod, "must not run on a managed node".to_owned());
            }
            Some(Some(NotPlannableReason::Invalid(reason))) => {
                add_violation(PlanRule::NotPlannable, pod, reason.clone());
            }
        }
    }
    let mut explained = BTreeSet::new();
    for unschedulable in &plan.provisioning.unschedulable {
        let pod = unschedulable.pod.as_str();
        if !explained.insert(pod) {
            add_violation(PlanRule::Accounting, pod, "is listed as unschedulable more than once".to_owned());
        }
        if placed.contains(pod) {
            add_violation(PlanRule::Accounting, pod, "is both placed and unschedulable".to_owned());
        }
        if !pending.contains_key(pod) {
            add_violation(PlanRule::Accounting, pod, "is listed as unschedulable, but is not pending".to_owned());
        }
    }
    for (pod, not_plannable_reason) in &pending {
        let is_mentioned = placed.contains(pod.as_str()) || explained.contains(pod.as_str());
        if !is_mentioned && *not_plannable_reason != Some(NotPlannableReason::ExcludesManagedNodes) {
            add_violation(
                PlanRule::Accounting,
                pod,
                "is pending, but neither placed nor listed as unschedulable".to_owned(),
            );
        }
    }
    violations
}

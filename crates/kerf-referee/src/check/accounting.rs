//! Checks that every pending pod is placed once or explained, and that no other pod is placed.

use std::collections::{BTreeMap, BTreeSet};

use super::{PlanRule, Violation};
use crate::manifests::{ClusterManifests, NotPlannableReason};
use crate::placement::pod_key;
use crate::plan::Plan;

pub(super) fn check(world: &ClusterManifests, plan: &Plan) -> Vec<Violation> {
    let pending: BTreeMap<String, _> = world
        .pending_pods()
        .into_iter()
        .map(|pending| (pod_key(pending.pod), world.not_plannable_reason(pending)))
        .collect();
    let mut violations = Vec::new();
    let mut broken = |rule, pod: &str, detail: String| {
        violations.push(Violation { rule, pod: Some(pod.to_owned()), node: None, detail });
    };
    let mut placed = BTreeSet::new();
    for pod in plan.placed_pods() {
        if !placed.insert(pod) {
            broken(PlanRule::Accounting, pod, "is placed more than once".to_owned());
        }
        match pending.get(pod) {
            None => broken(PlanRule::Accounting, pod, "is placed, but not pending".to_owned()),
            Some(None) => {}
            Some(Some(NotPlannableReason::ExcludesManagedNodes)) => {
                broken(PlanRule::NotPlannable, pod, "asks not to run on a node of ours".to_owned());
            }
            Some(Some(NotPlannableReason::Invalid(why))) => broken(PlanRule::NotPlannable, pod, why.clone()),
        }
    }
    let mut explained = BTreeSet::new();
    for unschedulable in &plan.provisioning.unschedulable {
        let pod = unschedulable.pod.as_str();
        if !explained.insert(pod) {
            broken(PlanRule::Accounting, pod, "is explained more than once".to_owned());
        }
        if placed.contains(pod) {
            broken(PlanRule::Accounting, pod, "is both placed and unschedulable".to_owned());
        }
        if !pending.contains_key(pod) {
            broken(PlanRule::Accounting, pod, "is called unschedulable, but not pending".to_owned());
        }
    }
    for (pod, refusal) in &pending {
        let known = placed.contains(pod.as_str()) || explained.contains(pod.as_str());
        if !known && *refusal != Some(NotPlannableReason::ExcludesManagedNodes) {
            broken(PlanRule::Accounting, pod, "is pending, but neither placed nor explained".to_owned());
        }
    }
    violations
}

//! Preemption: when no node accepts a pod, selects a node and the pods of lower priority that must
//! be deleted there.
//!
//! The rules are kube-scheduler's. On each node where it could help, all pods of lower priority are
//! removed hypothetically. If the pod then fits, as many pods as possible are added back: first
//! pods whose deletion would violate a PodDisruptionBudget, and among these the more important
//! first. The chosen node has the fewest violated budgets; ties are broken by the lowest priority
//! of the most important victim, the lowest sum of priorities, the fewest victims, and the latest
//! start of the most important victims.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kerf_referee::selectors::selects;
use kerf_runtime::Rng;
use smol_str::SmolStr;

use super::attempt::fits;
use super::filter::FilterRejection;
use super::message::{Diagnosis, ReasonCounts, message_prefix};
use super::pod::PodInfo;
use super::view::{NodeIx, View};

/// Bounds of the number of candidate nodes that are enough to choose from, as a percentage and as
/// an absolute number.
const MIN_CANDIDATES_PERCENT: usize = 10;
const MIN_CANDIDATES: usize = 100;

/// The result of preemption for a pod that no node accepts.
#[derive(Debug)]
pub(super) enum Preemption {
    /// The pod fits on this node after these pods are deleted.
    Victims { node: SmolStr, victims: Vec<Arc<PodInfo>> },
    /// The pod must not preempt, or an earlier preemption for it is still in progress.
    NotEligible(&'static str),
    /// Preemption helps on no node. The text lists the reasons.
    NoCandidates(String),
    /// A pre-filter rejected the pod, so no node was checked.
    NotAttempted,
}

impl Preemption {
    /// Returns the text that follows the reasons of the filters; `None` if there are victims.
    ///
    /// Kube-scheduler runs the plug-in for dynamic resources before preemption. That plug-in
    /// reports `no new claims to deallocate`, because the sandbox has no devices. If no node was
    /// checked it fails with `not found`.
    pub(super) fn message_suffix(&self) -> Option<String> {
        match self {
            Self::Victims { .. } => None,
            Self::NotEligible(reason) => Some(format!("no new claims to deallocate, preemption: {reason}")),
            Self::NoCandidates(reason) => Some(format!("no new claims to deallocate, preemption: {reason}")),
            Self::NotAttempted => Some("not found".to_owned()),
        }
    }
}

struct PreemptionCandidate {
    node: NodeIx,
    /// Victims, most important first.
    victims: Vec<Arc<PodInfo>>,
    violations: usize,
}

/// Selects the pods that must be deleted so that `pod` fits.
pub(super) fn preempt(
    view: &mut View,
    pod: &Pod,
    info: &Arc<PodInfo>,
    diagnosis: &Diagnosis,
    rng: &mut Rng,
) -> Preemption {
    if diagnosis.pre_filter_rejection.is_some() {
        return Preemption::NotAttempted;
    }
    if let Some(reason) = ineligible_reason(view, pod, info, diagnosis) {
        return Preemption::NotEligible(reason);
    }
    let resolvable_nodes: Vec<NodeIx> =
        diagnosis.rejections.iter().filter(|(_, rejection)| rejection.is_resolvable).map(|(node, _)| *node).collect();
    let mut candidates = Vec::new();
    let mut reasons = ReasonCounts::default();
    let mut rejected = 0;
    let offset = rng.below(resolvable_nodes.len() as u64) as usize;
    let candidates_to_find =
        (resolvable_nodes.len() * MIN_CANDIDATES_PERCENT / 100).max(MIN_CANDIDATES).min(resolvable_nodes.len());
    for step in 0..resolvable_nodes.len() {
        let node = resolvable_nodes[(offset + step) % resolvable_nodes.len()];
        match select_victims_on(view, pod, info, node) {
            Ok(candidate) => candidates.push(candidate),
            Err(rejection) => {
                rejected += 1;
                for reason in rejection {
                    reasons.add(reason, 1);
                }
            }
        }
        if candidates.len() >= candidates_to_find && candidates.iter().any(|candidate| candidate.violations == 0) {
            break;
        }
    }
    match least_disruptive(candidates) {
        Some(candidate) => {
            Preemption::Victims { node: view.node(candidate.node).name.clone(), victims: candidate.victims }
        }
        None => {
            reasons.add("Preemption is not helpful for scheduling".into(), diagnosis.nodes - rejected);
            Preemption::NoCandidates(format!("{}{}", message_prefix(diagnosis.nodes), reasons.sentence()))
        }
    }
}

/// Returns the reason why the pod must not preempt others now; `None` if it may.
fn ineligible_reason(view: &View, pod: &Pod, info: &PodInfo, diagnosis: &Diagnosis) -> Option<&'static str> {
    if pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let node = view.find_node(info.nominated_node.as_ref()?)?;
    let is_unresolvable =
        |(rejected, rejection): &(NodeIx, FilterRejection)| *rejected == node && !rejection.is_resolvable;
    if diagnosis.rejections.iter().any(is_unresolvable) {
        return None;
    }
    let is_being_preempted =
        |other: &Arc<PodInfo>| other.priority < info.priority && other.is_deleting && other.is_preempted;
    let must_wait = view.node(node).pods.values().any(is_being_preempted);
    must_wait.then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Selects the fewest pods that must be deleted on the node. The error holds the reasons why
/// preemption does not help there.
fn select_victims_on(
    view: &mut View,
    pod: &Pod,
    info: &Arc<PodInfo>,
    node: NodeIx,
) -> Result<PreemptionCandidate, Vec<std::borrow::Cow<'static, str>>> {
    if !view.node(node).has_pod_below(info.priority) {
        return Err(vec!["No preemption victims found for incoming pod".into()]);
    }
    let mut lower_priority: Vec<Arc<PodInfo>> =
        view.node(node).pods.values().filter(|other| other.priority < info.priority).cloned().collect();
    for other in &lower_priority {
        view.remove_hypothetically(other, node);
    }
    if let Err(rejection) = fits(view, pod, info, node) {
        for other in &lower_priority {
            view.add_hypothetically(other, node);
        }
        return Err(rejection.reasons);
    }
    lower_priority.sort_by_key(|other| Reverse(other.importance()));
    let (violating, others) = split_by_budget_violation(view, &lower_priority);
    let mut victims = Vec::new();
    let mut violations = 0;
    for (reprieved, violates) in violating.iter().map(|p| (p, true)).chain(others.iter().map(|p| (p, false))) {
        view.add_hypothetically(reprieved, node);
        if fits(view, pod, info, node).is_err() {
            view.remove_hypothetically(reprieved, node);
            victims.push(reprieved.clone());
            violations += usize::from(violates);
        }
    }
    for victim in &victims {
        view.add_hypothetically(victim, node);
    }
    victims.sort_by_key(|victim| Reverse(victim.importance()));
    Ok(PreemptionCandidate { node, victims, violations })
}

/// Splits pods into those whose deletion would violate a PodDisruptionBudget and the others. It
/// assumes that all are deleted in this order.
fn split_by_budget_violation(view: &View, pods: &[Arc<PodInfo>]) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let mut remaining: Vec<i32> = view
        .budgets
        .values()
        .map(|budget| budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or_default())
        .collect();
    let mut violates = |pod: &PodInfo| {
        let Some(class) = view.classes.get(pod.class).filter(|class| !class.labels.is_empty()) else { return false };
        let mut violated = false;
        for (budget, remaining) in view.budgets.values().zip(&mut remaining) {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let is_selective = selector.is_some_and(|selector| {
                selector.match_labels.iter().flatten().next().is_some()
                    || selector.match_expressions.iter().flatten().next().is_some()
            });
            let is_same_namespace = budget.metadata.namespace.as_deref() == Some(pod.namespace());
            if !is_same_namespace || !is_selective || !selects(selector, &class.labels) {
                continue;
            }
            let disrupted = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
            if disrupted.is_some_and(|pods| pods.contains_key(pod.name())) {
                continue;
            }
            *remaining -= 1;
            violated |= *remaining < 0;
        }
        violated
    };
    let mut groups = (Vec::new(), Vec::new());
    for pod in pods {
        if violates(pod) { groups.0.push(pod.clone()) } else { groups.1.push(pod.clone()) }
    }
    groups
}

/// Returns the candidate whose victims matter least; the first of equals.
fn least_disruptive(candidates: Vec<PreemptionCandidate>) -> Option<PreemptionCandidate> {
    let disruption = |candidate: &PreemptionCandidate| {
        let victims = &candidate.victims;
        let highest = victims.first().map(|victim| victim.priority).unwrap_or_default();
        // Shifted so that no priority is negative: otherwise more victims would give a smaller sum.
        let sum: i64 = victims.iter().map(|victim| i64::from(victim.priority) - i64::from(i32::MIN)).sum();
        let started = victims.iter().filter(|victim| victim.priority == highest);
        let earliest = started.map(|victim| victim.started.unwrap_or(Timestamp::MAX)).min();
        (candidate.violations, highest, sum, victims.len(), Reverse(earliest))
    };
    // `min_by_key` keeps the first of equals.
    candidates.into_iter().filter(|candidate| !candidate.victims.is_empty()).min_by_key(disruption)
}

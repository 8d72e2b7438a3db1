//! Making room: when no node takes a pod, which less important pods would have to leave which node, and which node is the least harm.
//!
//! The rules are kube-scheduler's. On each node that could help, all pods of lower priority are thought away; if the pod then fits, as
//! many as possible are let stay, those first whose budget would be violated, the more important before the less. Of the nodes
//! the one is taken that violates fewest budgets, then whose most important victim is least important, then by the sum of their
//! priorities, their number, and how late the most important ones started.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kerf_referee::selectors::selects;
use smol_str::SmolStr;

use super::attempt::fits;
use super::filter::FilterRejection;
use super::message::{Diagnosis, ReasonCounts, message_prefix};
use super::pod::PodInfo;
use super::view::{NodeIx, View};
use crate::rng::Rng;

/// Enough nodes to choose from: so many of a hundred, and at least so many.
const MIN_CANDIDATES_PERCENT: usize = 10;
const MIN_CANDIDATES: usize = 100;

/// What can be done for a pod that no node takes.
#[derive(Debug)]
pub(super) enum Preemption {
    /// These must leave this node.
    Victims { node: SmolStr, victims: Vec<Arc<PodInfo>> },
    /// Nothing, and nothing more than before: the pod may not, or others are leaving for it already.
    NotEligible(&'static str),
    /// Nothing on any node.
    NoCandidates(String),
    /// Nobody was asked, since no node was.
    NotAttempted,
}

impl Preemption {
    /// What is added to the reasons of the filters; nothing if others leave. Before preemption, devices are asked whether they can be given
    /// back; there are none, and if no node was looked at kube-scheduler stumbles there, with these two words.
    pub(super) fn message_suffix(&self) -> Option<String> {
        match self {
            Self::Victims { .. } => None,
            Self::NotEligible(why) => Some(format!("no new claims to deallocate, preemption: {why}")),
            Self::NoCandidates(why) => Some(format!("no new claims to deallocate, preemption: {why}")),
            Self::NotAttempted => Some("not found".to_owned()),
        }
    }
}

struct PreemptionCandidate {
    node: NodeIx,
    /// The most important first.
    victims: Vec<Arc<PodInfo>>,
    violations: usize,
}

/// Finds the pods that must leave for `pod`.
pub(super) fn preempt(
    view: &mut View,
    pod: &Pod,
    info: &Arc<PodInfo>,
    diagnosis: &Diagnosis,
    chance: &mut Rng,
) -> Preemption {
    if diagnosis.pre_filter_rejection.is_some() {
        return Preemption::NotAttempted;
    }
    if let Some(why) = ineligible_reason(view, pod, info, diagnosis) {
        return Preemption::NotEligible(why);
    }
    let promising: Vec<NodeIx> =
        diagnosis.rejections.iter().filter(|(_, refusal)| refusal.is_resolvable).map(|(node, _)| *node).collect();
    let mut candidates = Vec::new();
    let mut reasons = ReasonCounts::default();
    let mut refused = 0;
    let offset = chance.below(promising.len() as u64) as usize;
    let enough = (promising.len() * MIN_CANDIDATES_PERCENT / 100).max(MIN_CANDIDATES).min(promising.len());
    for turn in 0..promising.len() {
        let node = promising[(offset + turn) % promising.len()];
        match select_victims_on(view, pod, info, node) {
            Ok(candidate) => candidates.push(candidate),
            Err(rejection) => {
                refused += 1;
                for reason in rejection {
                    reasons.add(reason, 1);
                }
            }
        }
        if candidates.len() >= enough && candidates.iter().any(|candidate| candidate.violations == 0) {
            break;
        }
    }
    match least_disruptive(candidates) {
        Some(candidate) => {
            Preemption::Victims { node: view.node(candidate.node).name.clone(), victims: candidate.victims }
        }
        None => {
            reasons.add("Preemption is not helpful for scheduling".into(), diagnosis.nodes - refused);
            Preemption::NoCandidates(format!("{}{}", message_prefix(diagnosis.nodes), reasons.sentence()))
        }
    }
}

/// Why the pod may not make others leave.
fn ineligible_reason(view: &View, pod: &Pod, info: &PodInfo, diagnosis: &Diagnosis) -> Option<&'static str> {
    if pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let node = view.find_node(info.nominated_node.as_ref()?)?;
    let hopeless = |(refused, refusal): &(NodeIx, FilterRejection)| *refused == node && !refusal.is_resolvable;
    if diagnosis.rejections.iter().any(hopeless) {
        return None;
    }
    let leaving = |other: &Arc<PodInfo>| other.priority < info.priority && other.is_deleting && other.is_preempted;
    let waits = view.node(node).pods.values().any(leaving);
    waits.then_some("not eligible due to a terminating pod on the nominated node.")
}

/// The fewest pods that must leave the node; else what stands in the way.
fn select_victims_on(
    view: &mut View,
    pod: &Pod,
    info: &Arc<PodInfo>,
    node: NodeIx,
) -> Result<PreemptionCandidate, Vec<std::borrow::Cow<'static, str>>> {
    if !view.node(node).has_pod_below(info.priority) {
        return Err(vec!["No preemption victims found for incoming pod".into()]);
    }
    let mut lesser: Vec<Arc<PodInfo>> =
        view.node(node).pods.values().filter(|other| other.priority < info.priority).cloned().collect();
    for other in &lesser {
        view.remove_hypothetically(other, node);
    }
    if let Err(rejection) = fits(view, pod, info, node) {
        for other in &lesser {
            view.add_hypothetically(other, node);
        }
        return Err(rejection.reasons);
    }
    lesser.sort_by_key(|other| Reverse(other.importance()));
    let (violating, others) = split_by_budget_violation(view, &lesser);
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

/// Those whose leaving would violate a budget, if all of them left in this order, and the others.
fn split_by_budget_violation(view: &View, pods: &[Arc<PodInfo>]) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let mut left: Vec<i32> = view
        .budgets
        .values()
        .map(|budget| budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or_default())
        .collect();
    let mut violates = |pod: &PodInfo| {
        let Some(class) = view.classes.get(pod.class).filter(|class| !class.labels.is_empty()) else { return false };
        let mut violated = false;
        for (budget, left) in view.budgets.values().zip(&mut left) {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let says_something = selector.is_some_and(|selector| {
                selector.match_labels.iter().flatten().next().is_some()
                    || selector.match_expressions.iter().flatten().next().is_some()
            });
            let same = budget.metadata.namespace.as_deref() == Some(pod.namespace());
            if !same || !says_something || !selects(selector, &class.labels) {
                continue;
            }
            let disrupted = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
            if disrupted.is_some_and(|pods| pods.contains_key(pod.name())) {
                continue;
            }
            *left -= 1;
            violated |= *left < 0;
        }
        violated
    };
    let mut groups = (Vec::new(), Vec::new());
    for pod in pods {
        if violates(pod) { groups.0.push(pod.clone()) } else { groups.1.push(pod.clone()) }
    }
    groups
}

/// The candidate whose victims are missed least; the first of those that are alike.
fn least_disruptive(candidates: Vec<PreemptionCandidate>) -> Option<PreemptionCandidate> {
    let harm = |candidate: &PreemptionCandidate| {
        let victims = &candidate.victims;
        let highest = victims.first().map(|victim| victim.priority).unwrap_or_default();
        // Shifted so that no priority is negative: else more victims would look like less harm.
        let sum: i64 = victims.iter().map(|victim| i64::from(victim.priority) - i64::from(i32::MIN)).sum();
        let started = victims.iter().filter(|victim| victim.priority == highest);
        let earliest = started.map(|victim| victim.started.unwrap_or(Timestamp::MAX)).min();
        (candidate.violations, highest, sum, victims.len(), Reverse(earliest))
    };
    // `min_by_key` keeps the first of equals.
    candidates.into_iter().filter(|candidate| !candidate.victims.is_empty()).min_by_key(harm)
}

//! The influence of pods on the disruption of their node (spec 03 §5.3 to §5.5): which pods must be
//! rescheduled, which pods block disruption, and how much an eviction costs.

use jiff::Timestamp;
use kerf_api::annotations;
use kerf_api::duration::{DoNotDisrupt, evaluate_do_not_disrupt};
use kerf_api::slim::{Labels, Pod, PodDisruptionBudget, Str};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::block_reason::BlockReason;
use crate::cluster::selection::disrupted_taint;
use crate::pod::selector;
use crate::pod::tolerations::tolerates;

const POD_DELETION_COST_ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

fn is_active(pod: &Pod) -> bool {
    !pod.is_terminal() && !pod.is_terminating()
}

/// Evaluates the pod's `karpenter.sh/do-not-disrupt` annotation at a time. Returns `None` if the
/// pod does not have it.
pub(crate) fn protection(pod: &Pod, at: Timestamp) -> Option<DoNotDisrupt> {
    let value = pod.metadata.annotations.get(annotations::DO_NOT_DISRUPT)?;
    Some(evaluate_do_not_disrupt(value, pod.status.start_time, at))
}

fn is_protected(pod: &Pod, at: Timestamp) -> bool {
    protection(pod, at).is_some_and(|p| p.is_protected())
}

/// Returns true if the pod must run on another node when its node is removed. DaemonSet, mirror and
/// finished pods need not; terminating pods only if they belong to a StatefulSet.
pub(crate) fn is_reschedulable(pod: &Pod) -> bool {
    let is_running = is_active(pod) || (pod.is_owned_by_statefulset() && pod.is_terminating());
    is_running && !pod.is_owned_by_daemonset() && !pod.is_mirror()
}

fn is_evictable(pod: &Pod, at: Timestamp) -> bool {
    is_active(pod)
        && !tolerates(&pod.spec.tolerations, &disrupted_taint())
        && !pod.is_mirror()
        && !is_protected(pod, at)
}

/// Returns the cost of evicting the pod (spec 03 §5.4), between -10 and 10. It is 1.0 plus a share
/// for the pod's deletion cost and priority. A deletion cost that is not a finite number is
/// ignored.
pub fn eviction_cost(pod: &Pod) -> f64 {
    let mut cost = 1.0;
    let annotation_cost =
        pod.metadata.annotations.get(POD_DELETION_COST_ANNOTATION).and_then(|text| text.parse::<f64>().ok());
    if let Some(deletion_cost) = annotation_cost.filter(|cost| cost.is_finite()) {
        cost += deletion_cost / f64::from(1_u32 << 27);
    }
    if let Some(priority) = pod.spec.priority {
        cost += f64::from(priority) / f64::from(1_u32 << 25);
    }
    cost.clamp(-10.0, 10.0)
}

/// Returns the disruption cost of a node: 1.0 for the node itself plus the eviction cost of each
/// pod.
pub(crate) fn disruption_cost<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> f64 {
    pods.into_iter().fold(1.0, |cost, pod| cost + eviction_cost(pod).max(0.0))
}

/// PodDisruptionBudgets by namespace, with a cache: pods with equal namespace and labels are
/// selected by the same budgets.
#[derive(Debug)]
pub(crate) struct PdbIndex<'i> {
    by_namespace: FxHashMap<&'i str, Vec<&'i PodDisruptionBudget>>,
    by_pod_labels: FxHashMap<(&'i Str, &'i Labels), SelectingBudgets<'i>>,
}

type SelectingBudgets<'i> = SmallVec<[&'i PodDisruptionBudget; 1]>;

impl<'i> PdbIndex<'i> {
    pub(crate) fn new(budgets: &'i [PodDisruptionBudget]) -> Self {
        let mut by_namespace: FxHashMap<&str, Vec<&PodDisruptionBudget>> = FxHashMap::default();
        for budget in budgets {
            by_namespace.entry(budget.metadata.namespace.as_str()).or_default().push(budget);
        }
        for budgets in by_namespace.values_mut() {
            budgets.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        }
        Self { by_namespace, by_pod_labels: FxHashMap::default() }
    }

    /// Returns everything about the pod that blocks the disruption of its node.
    pub(crate) fn blocks(&mut self, pod: &'i Pod, at: Timestamp) -> Vec<BlockReason> {
        let mut blocks = Vec::new();
        if is_active(pod) && is_protected(pod, at) {
            blocks.push(BlockReason::PodDoNotDisrupt(pod.namespaced_name()));
        }
        blocks.extend(self.budget_block(pod, at));
        blocks
    }

    fn budget_block(&mut self, pod: &'i Pod, at: Timestamp) -> Option<BlockReason> {
        if self.by_namespace.is_empty() || !is_evictable(pod, at) {
            return None;
        }
        let selecting = self.budgets_selecting(pod);
        if let Some(invalid) = selecting.iter().find(|b| !has_valid_selector(b)) {
            return Some(BlockReason::InvalidPodDisruptionBudget(invalid.metadata.namespaced_name()));
        }
        match selecting.as_slice() {
            [] => None,
            [budget] => {
                let unready = pod.condition("Ready").is_some_and(|c| c.status == "False");
                let ignores_budget = budget.always_allow_unhealthy && unready;
                // A budget without a status allows no disruption.
                let allowed = budget.disruptions_allowed.unwrap_or(0);
                (!ignores_budget && allowed == 0).then(|| BlockReason::PodDisruptionBudget {
                    budget: budget.metadata.namespaced_name(),
                    pod: pod.namespaced_name(),
                })
            }
            several => Some(BlockReason::MultiplePodDisruptionBudgets(
                several.iter().map(|b| b.metadata.namespaced_name()).collect(),
            )),
        }
    }

    fn budgets_selecting(&mut self, pod: &'i Pod) -> &SelectingBudgets<'i> {
        let by_namespace = &self.by_namespace;
        self.by_pod_labels.entry((&pod.metadata.namespace, &pod.metadata.labels)).or_insert_with(|| {
            let in_namespace = by_namespace.get(pod.metadata.namespace.as_str()).into_iter().flatten();
            in_namespace
                .filter(|b| {
                    b.selector
                        .as_ref()
                        .is_some_and(|s| !selector::is_valid(s) || selector::selects(s, &pod.metadata.labels))
                })
                .copied()
                .collect()
        })
    }
}

/// Returns true if the budget has no selector or a valid one.
pub(crate) fn has_valid_selector(budget: &PodDisruptionBudget) -> bool {
    budget.selector.as_ref().is_none_or(selector::is_valid)
}

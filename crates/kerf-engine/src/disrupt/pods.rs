//! The influence of pods on the disruption of their node (spec 03 §5.3 to §5.5): which pods must be
//! rescheduled, which pods block disruption, and how much an eviction costs.
//!
//! Each pod is judged by itself: the check of a PodDisruptionBudget does not count how many pods
//! of one command the budget selects. Nothing here evicts a pod or reads the clock.
//! `kerf-controllers` has the same rules for the drain, in `node::termination::pods`.

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

/// Returns true if the pod is neither finished nor terminating. It may be pending.
fn is_active(pod: &Pod) -> bool {
    !pod.is_terminal() && !pod.is_terminating()
}

/// Evaluates the pod's `karpenter.sh/do-not-disrupt` annotation at a time. Returns `None` if the
/// pod does not have it.
pub(crate) fn do_not_disrupt_of(pod: &Pod, at: Timestamp) -> Option<DoNotDisrupt> {
    let value = pod.metadata.annotations.get(annotations::DO_NOT_DISRUPT)?;
    Some(evaluate_do_not_disrupt(value, pod.status.start_time, at))
}

/// Returns true if a do-not-disrupt annotation protects the pod at this time.
fn is_protected(pod: &Pod, at: Timestamp) -> bool {
    do_not_disrupt_of(pod, at).is_some_and(|annotation| annotation.is_protected())
}

/// Returns true if the pod must run on another node when its node is removed. This excludes
/// DaemonSet, mirror and finished pods, and terminating pods that do not belong to a StatefulSet.
pub(crate) fn is_reschedulable(pod: &Pod) -> bool {
    let is_recreated = pod.is_owned_by_statefulset() && pod.is_terminating();
    (is_active(pod) || is_recreated) && !pod.is_owned_by_daemonset() && !pod.is_mirror()
}

/// Returns true if the drain of the node would evict the pod. PodDisruptionBudgets are not checked
/// here.
fn is_evictable(pod: &Pod, at: Timestamp) -> bool {
    is_active(pod)
        && !tolerates(&pod.spec.tolerations, &disrupted_taint())
        && !pod.is_mirror()
        && !is_protected(pod, at)
}

/// Returns the cost of evicting the pod (spec 03 §5.4): 1 + pod-deletion-cost / 2^27 + priority /
/// 2^25, at least -10 and at most 10. A deletion cost that is not a finite number is ignored.
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

/// Returns the disruption cost of a node: 1 for the node itself plus the eviction cost of each
/// given pod. A negative eviction cost counts as 0.
pub(crate) fn disruption_cost<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> f64 {
    pods.into_iter().fold(1.0, |cost, pod| cost + eviction_cost(pod).max(0.0))
}

/// Finds the reasons for which pods block the disruption of their node. Holds the
/// PodDisruptionBudgets by namespace and caches those of each pod: pods with equal namespace and
/// labels have the same ones.
#[derive(Debug)]
pub(crate) struct PdbIndex<'i> {
    by_namespace: FxHashMap<&'i str, Vec<&'i PodDisruptionBudget>>,
    by_pod_labels: FxHashMap<(&'i Str, &'i Labels), PdbsOfPod<'i>>,
}

/// The budgets that [`PdbIndex::pdbs_of`] returns.
type PdbsOfPod<'i> = SmallVec<[&'i PodDisruptionBudget; 1]>;

impl<'i> PdbIndex<'i> {
    pub(crate) fn new(pdbs: &'i [PodDisruptionBudget]) -> Self {
        let mut by_namespace: FxHashMap<&str, Vec<&PodDisruptionBudget>> = FxHashMap::default();
        for pdb in pdbs {
            by_namespace.entry(pdb.metadata.namespace.as_str()).or_default().push(pdb);
        }
        for in_namespace in by_namespace.values_mut() {
            in_namespace.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        }
        Self { by_namespace, by_pod_labels: FxHashMap::default() }
    }

    /// Returns the reasons for which the pod blocks the disruption of its node: its do-not-disrupt
    /// annotation and its PodDisruptionBudgets.
    pub(crate) fn block_reasons(&mut self, pod: &'i Pod, at: Timestamp) -> Vec<BlockReason> {
        let mut reasons = Vec::new();
        if is_active(pod) && is_protected(pod, at) {
            reasons.push(BlockReason::PodDoNotDisrupt(pod.namespaced_name()));
        }
        reasons.extend(self.pdb_block_reason(pod, at));
        reasons
    }

    fn pdb_block_reason(&mut self, pod: &'i Pod, at: Timestamp) -> Option<BlockReason> {
        if self.by_namespace.is_empty() || !is_evictable(pod, at) {
            return None;
        }
        let pdbs = self.pdbs_of(pod);
        if let Some(invalid) = pdbs.iter().find(|pdb| !has_valid_selector(pdb)) {
            return Some(BlockReason::InvalidPodDisruptionBudget(invalid.metadata.namespaced_name()));
        }
        match pdbs.as_slice() {
            [] => None,
            [pdb] => {
                let is_unready = pod.condition("Ready").is_some_and(|c| c.status == "False");
                let is_exempt = pdb.always_allow_unhealthy && is_unready;
                // A budget whose status has no `disruptionsAllowed` allows no disruption.
                let allowed = pdb.disruptions_allowed.unwrap_or(0);
                (!is_exempt && allowed == 0).then(|| BlockReason::PodDisruptionBudget {
                    budget: pdb.metadata.namespaced_name(),
                    pod: pod.namespaced_name(),
                })
            }
            several => Some(BlockReason::MultiplePodDisruptionBudgets(
                several.iter().map(|pdb| pdb.metadata.namespaced_name()).collect(),
            )),
        }
    }

    /// Returns the budgets that select the pod, and the budgets of its namespace with an invalid
    /// selector: they might be meant to select it, so they block every pod of the namespace.
    fn pdbs_of(&mut self, pod: &'i Pod) -> &PdbsOfPod<'i> {
        let by_namespace = &self.by_namespace;
        self.by_pod_labels.entry((&pod.metadata.namespace, &pod.metadata.labels)).or_insert_with(|| {
            let in_namespace = by_namespace.get(pod.metadata.namespace.as_str()).into_iter().flatten();
            in_namespace
                .filter(|pdb| {
                    pdb.selector
                        .as_ref()
                        .is_some_and(|s| !selector::is_valid(s) || selector::selects(s, &pod.metadata.labels))
                })
                .copied()
                .collect()
        })
    }
}

/// Returns the reason if a PodDisruptionBudget forbids the eviction of one of these pods now.
pub fn blocked_by_budget<'p>(
    pods: impl IntoIterator<Item = &'p Pod>,
    budgets: &'p [PodDisruptionBudget],
    at: Timestamp,
) -> Option<BlockReason> {
    let mut index = PdbIndex::new(budgets);
    pods.into_iter().find_map(|pod| index.pdb_block_reason(pod, at))
}

/// Returns true if the budget selects pods of this namespace with these labels.
pub fn budget_selects(pdb: &PodDisruptionBudget, namespace: &str, labels: &Labels) -> bool {
    let selector = pdb.selector.as_ref().filter(|selector| selector::is_valid(selector));
    pdb.metadata.namespace == namespace && selector.is_some_and(|selector| selector::selects(selector, labels))
}

/// Returns true if the budget has no selector or a valid one.
pub(crate) fn has_valid_selector(pdb: &PodDisruptionBudget) -> bool {
    pdb.selector.as_ref().is_none_or(selector::is_valid)
}

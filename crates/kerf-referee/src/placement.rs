//! Rules between pods: which pods an affinity term or a spread constraint selects, and which nodes
//! a spread constraint counts.
//!
//! These are the parts on which kube-scheduler and Karpenter's specification agree. The rules that
//! use the counts are in `filters` (kube-scheduler) and `check` (the specification).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, Taint, TopologySpreadConstraint};

use crate::selectors::{Labels, labels_or_empty, node_affinity_matches, pod_labels, selects};
use crate::taints::tolerates;

/// Labels of the namespaces of a cluster, by namespace name.
pub type Namespaces = BTreeMap<String, Labels>;

/// Returns the pod's namespace, `default` if it has none.
pub fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().filter(|name| !name.is_empty()).unwrap_or("default")
}

/// Returns `namespace/name` of the pod.
pub fn pod_key(pod: &Pod) -> String {
    format!("{}/{}", namespace(pod), pod.metadata.name.as_deref().unwrap_or_default())
}

/// Returns true if the pod's phase is `Succeeded` or `Failed`.
pub fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// Returns true if the pod is being deleted.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Returns the required pod affinity terms.
pub fn affinity_terms(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let terms = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    terms.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

/// Returns the required pod anti-affinity terms.
pub fn anti_affinity_terms(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let terms = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    terms.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

/// Returns the required spread constraints (`DoNotSchedule`).
pub fn spread_constraints(pod: &Pod) -> impl Iterator<Item = &TopologySpreadConstraint> {
    let constraints = pod.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.as_deref());
    constraints.unwrap_or_default().iter().filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule")
}

/// Returns true if an affinity or anti-affinity term of `owner` selects `pod`. The pod must match
/// the label selector and be in one of the term's namespaces: those that the term lists and those
/// that its namespace selector selects. A term with neither selects pods of the owner's namespace.
pub fn term_selects(term: &PodAffinityTerm, owner: &Pod, pod: &Pod, namespaces: &Namespaces) -> bool {
    let listed_namespaces = term.namespaces.as_deref().unwrap_or_default();
    let pod_namespace = namespace(pod);
    let in_namespace = if listed_namespaces.is_empty() && term.namespace_selector.is_none() {
        pod_namespace == namespace(owner)
    } else {
        listed_namespaces.iter().any(|name| name == pod_namespace)
            || selects(term.namespace_selector.as_ref(), labels_or_empty(namespaces.get(pod_namespace)))
    };
    in_namespace && selects(term.label_selector.as_ref(), pod_labels(pod)) && label_keys_match(term, owner, pod)
}

/// Returns true if the pods agree on `matchLabelKeys` and differ in `mismatchLabelKeys`. The API
/// server merges these keys into the selector; manifests that never passed an API server still have
/// them.
fn label_keys_match(term: &PodAffinityTerm, owner: &Pod, pod: &Pod) -> bool {
    let label_of = |pod, key: &String| pod_labels(pod).get(key).cloned();
    let has_owner_key = |key: &&String| pod_labels(owner).contains_key(*key);
    let mut equal = term.match_label_keys.iter().flatten().filter(has_owner_key);
    let mut unequal = term.mismatch_label_keys.iter().flatten().filter(has_owner_key);
    equal.all(|key| label_of(pod, key) == label_of(owner, key))
        && unequal.all(|key| label_of(pod, key) != label_of(owner, key))
}

/// Returns true if a spread constraint of `owner` counts `pod`: the pod is in the owner's
/// namespace, the selector selects it, and every label of `matchLabelKeys` that the owner has is
/// equal. A constraint without a selector counts no pod.
pub fn spread_selects(constraint: &TopologySpreadConstraint, owner: &Pod, pod: &Pod) -> bool {
    let owner_labels = pod_labels(owner);
    let mut keys = constraint.match_label_keys.iter().flatten().filter(|key| owner_labels.contains_key(*key));
    namespace(pod) == namespace(owner)
        && selects(constraint.label_selector.as_ref(), pod_labels(pod))
        && keys.all(|key| pod_labels(pod).get(key) == owner_labels.get(key))
}

/// Returns true if a spread constraint of `owner` includes a node. The owner's node affinity must
/// match unless `nodeAffinityPolicy` is `Ignore`. If `nodeTaintsPolicy` is `Honor`, the owner must
/// tolerate the node's taints for which `matters` returns true.
pub fn spread_includes_node(
    constraint: &TopologySpreadConstraint,
    owner: &Pod,
    node: &str,
    labels: &Labels,
    taints: &[Taint],
    matters: impl Fn(&Taint) -> bool,
) -> bool {
    (constraint.node_affinity_policy.as_deref() == Some("Ignore") || node_affinity_matches(owner, node, labels))
        && (constraint.node_taints_policy.as_deref() != Some("Honor")
            || taints.iter().all(|taint| !matters(taint) || tolerates(owner, taint)))
}

#[cfg(test)]
mod tests;

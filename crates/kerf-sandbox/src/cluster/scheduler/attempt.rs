//! One attempt to find a node for one pod: filter, then score.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kerf_runtime::Rng;

use super::filter::{FilterRejection, PodFilter, PreFilterResult, VolumeBindings};
use super::message::Diagnosis;
use super::pod::PodInfo;
use super::score;
use super::view::{NodeIx, View};

/// With fewer nodes than this, all nodes are checked.
const MIN_FEASIBLE_NODES: usize = 100;
/// Lower bound of the percentage of nodes to find, for very large clusters.
const MIN_FEASIBLE_NODES_PERCENT: usize = 5;

/// The result of one attempt.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    /// The pod can be bound to this node once these volume bindings are done.
    Node(NodeIx, VolumeBindings),
    /// No node accepts the pod.
    Unschedulable(Diagnosis),
    /// The cluster has no nodes.
    NoNodes,
}

/// Index of the node at which the next search starts, so that all nodes of a large cluster are
/// used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rotation(usize);

/// Finds a node for a pod. The search ends once there are enough feasible nodes to score.
pub(super) fn attempt(
    view: &mut View,
    pod: &Pod,
    info: &Arc<PodInfo>,
    rotation: &mut Rotation,
    rng: &mut Rng,
) -> AttemptOutcome {
    if view.node_count() == 0 {
        return AttemptOutcome::NoNodes;
    }
    let order = view.node_order().to_vec();
    let results_with_nominated = check_with_nominated_pods(view, pod, info);
    let filter = PodFilter::new(view, pod, info);
    let mut diagnosis = Diagnosis { nodes: order.len(), ..Diagnosis::default() };
    let candidates = match filter.pre_filter() {
        PreFilterResult::None(rejection) => {
            diagnosis.pre_filter_rejection = Some(rejection);
            return AttemptOutcome::Unschedulable(diagnosis);
        }
        PreFilterResult::Named(names) => {
            diagnosis.is_limited_to_named_nodes = true;
            names.iter().filter_map(|name| view.find_node(name)).collect()
        }
        PreFilterResult::AllNodes => order,
    };
    let check = |node: NodeIx| match results_with_nominated.get(&node) {
        Some(Err(rejection)) => Err(rejection.clone()),
        Some(Ok(())) | None => filter.check(node),
    };
    // A node that was cleared by preemption is probably the only one that accepts the pod.
    let nominated = info.nominated_node.as_ref().and_then(|name| view.find_node(name));
    if let Some(node) = nominated.filter(|node| check(*node).is_ok()) {
        return AttemptOutcome::Node(node, filter.bindings(node));
    }
    let nodes_to_find = feasible_nodes_to_find(candidates.len());
    let mut feasible = Vec::new();
    let mut checked = 0;
    for offset in 0..candidates.len() {
        let node = candidates[(rotation.0 + offset) % candidates.len()];
        checked += 1;
        match check(node) {
            Ok(()) => feasible.push(node),
            Err(rejection) => diagnosis.rejections.push((node, rejection)),
        }
        if feasible.len() == nodes_to_find {
            break;
        }
    }
    rotation.0 = (rotation.0 + checked) % diagnosis.nodes;
    match score::pick_best_node(view, pod, info, &feasible, rng) {
        Some(node) => AttemptOutcome::Node(node, filter.bindings(node)),
        None => AttemptOutcome::Unschedulable(diagnosis),
    }
}

/// Checks that the pod fits on a node, also together with the pods that are nominated to the node
/// and have at least the same priority.
pub(super) fn fits(view: &mut View, pod: &Pod, info: &Arc<PodInfo>, node: NodeIx) -> Result<(), FilterRejection> {
    check_node_with_nominated_pods(view, pod, info, node).unwrap_or(Ok(()))?;
    PodFilter::new(view, pod, info).check(node)
}

/// Returns each node to which pods of at least the same priority are nominated, with the result of
/// the filters as if these pods were on the node.
fn check_with_nominated_pods(
    view: &mut View,
    pod: &Pod,
    info: &Arc<PodInfo>,
) -> BTreeMap<NodeIx, Result<(), FilterRejection>> {
    if !view.has_nominations() {
        return BTreeMap::new();
    }
    let nodes: Vec<NodeIx> = view.existing_nodes().collect();
    nodes.into_iter().filter_map(|node| Some((node, check_node_with_nominated_pods(view, pod, info, node)?))).collect()
}

/// Runs the filters for one node as if the nominated pods of at least the same priority were on it.
/// Returns `None` if there are no such pods.
fn check_node_with_nominated_pods(
    view: &mut View,
    pod: &Pod,
    info: &Arc<PodInfo>,
    node: NodeIx,
) -> Option<Result<(), FilterRejection>> {
    let takes_precedence = |other: &&Arc<PodInfo>| other.priority >= info.priority && other.key != info.key;
    let name = view.node(node).name.clone();
    let nominated_pods: Vec<Arc<PodInfo>> = view.nominated_to(&name).filter(takes_precedence).cloned().collect();
    if nominated_pods.is_empty() {
        return None;
    }
    // An assumed pod is on the node already.
    let nominated_pods: Vec<Arc<PodInfo>> = nominated_pods
        .into_iter()
        .filter(|nominated_pod| !view.node(node).pods.contains_key(&nominated_pod.key))
        .collect();
    for nominated_pod in &nominated_pods {
        view.add_hypothetically(nominated_pod, node);
    }
    let result = PodFilter::new(view, pod, info).check(node);
    for nominated_pod in &nominated_pods {
        view.remove_hypothetically(nominated_pod, node);
    }
    Some(result)
}

/// Returns the number of feasible nodes that are enough for scoring (kube-scheduler's formula).
fn feasible_nodes_to_find(nodes: usize) -> usize {
    if nodes < MIN_FEASIBLE_NODES {
        return nodes.max(1);
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(MIN_FEASIBLE_NODES_PERCENT);
    (nodes * percent / 100).max(MIN_FEASIBLE_NODES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_large_clusters_a_part_of_the_nodes_is_enough() {
        let cases = [(1, 1), (99, 99), (100, 100), (250, 120), (1000, 420), (5000, 500), (6000, 300)];
        for (nodes, expected) in cases {
            assert_eq!(feasible_nodes_to_find(nodes), expected, "{nodes}");
        }
    }
}

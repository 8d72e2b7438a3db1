//! Applies pod and node events to problem and state. The cost depends on the pods concerned only.
//!
//! Must be called between solves, when the undo log is empty; changes are permanent. New nodes are
//! appended, and removed nodes keep their index. [`reindex_nodes`] restores the scheduling order
//! once, before the next solve.

use kerf_api::slim::Str;

use super::problem::{PodIx, SchedulingProblem};
use super::state::SolverState;
use super::{compile, limits};
use crate::cluster::NodeState;

/// Records that a pod runs on a node.
pub(crate) fn bind(problem: &mut SchedulingProblem, state: &mut SolverState, pod: PodIx, node: usize) {
    problem.pods[pod.0 as usize].node = Some(node as u32);
    problem.pods_on[node].push(pod);
    let entry = &problem.pods[pod.0 as usize];
    let class = &problem.classes[entry.class.0 as usize];
    let node_state = &mut problem.cluster.nodes[node];
    node_state.used.add(&class.requests);
    if entry.is_daemon {
        node_state.daemons_used.add(&class.requests);
    }
    node_state.ports.extend(class.ports.iter().cloned());
    node_state.attached.extend(entry.attachments.iter().cloned());
    state.set_remaining(node, node_state.remaining());
    if node_state.is_marked_for_deletion && entry.is_currently_reschedulable {
        if !problem.unplaceable_pods.contains_key(&pod) {
            problem.pods_to_place.push(pod);
        }
    } else {
        count_running_pod(problem, state, pod, node, 1);
    }
}

/// Records that a pod no longer runs on its node.
pub(crate) fn unbind(problem: &mut SchedulingProblem, state: &mut SolverState, pod: PodIx) {
    let Some(node) = problem.pods[pod.0 as usize].node.take().map(|node| node as usize) else { return };
    problem.pods_on[node].retain(|other| *other != pod);
    let entry = &problem.pods[pod.0 as usize];
    let class = &problem.classes[entry.class.0 as usize];
    let node_state = &mut problem.cluster.nodes[node];
    node_state.used.sub(&class.requests);
    if entry.is_daemon {
        node_state.daemons_used.sub(&class.requests);
    }
    remove_each(&mut node_state.ports, &class.ports);
    remove_each(&mut node_state.attached, &entry.attachments);
    state.set_remaining(node, node_state.remaining());
    if node_state.is_marked_for_deletion && entry.is_currently_reschedulable {
        problem.pods_to_place.retain(|other| *other != pod);
    } else {
        count_running_pod(problem, state, pod, node, -1);
    }
}

/// Removes one occurrence for each listed element.
fn remove_each<T: PartialEq>(from: &mut Vec<T>, removed: &[T]) {
    for element in removed {
        if let Some(at) = from.iter().position(|other| other == element) {
            from.swap_remove(at);
        }
    }
}

/// Adds a running pod to its groups, or removes it if `by` is -1. The anti-affinity of a
/// terminating pod holds until the pod is deleted, but no other group counts it.
fn count_running_pod(problem: &mut SchedulingProblem, state: &mut SolverState, pod: PodIx, node: usize, by: i32) {
    let entry = &problem.pods[pod.0 as usize];
    let class = &problem.classes[entry.class.0 as usize];
    for group in &class.inverse_groups {
        state.count_on_node(problem, *group, node, by);
    }
    if entry.is_counted {
        for group in &class.counted_by {
            if state.filter_node(problem, problem.groups[group.0].filter, node).counts_running {
                state.count_on_node(problem, *group, node, by);
            }
        }
        problem.cluster.count_running(&class.namespace, &class.labels, node, by);
    }
    state.clear_undo_log();
}

/// Adds a node without pods. Returns its index.
pub(crate) fn add_node(problem: &mut SchedulingProblem, state: &mut SolverState, mut node: NodeState) -> usize {
    problem.cluster.complete_node(&mut node, &mut state.table);
    let ix = problem.cluster.nodes.len();
    if let Some(name) = &node.node_name {
        problem.cluster.node_index.insert(name.clone(), ix);
    }
    for key in state.keys.iter() {
        let value = node.labels.get(state.keys.text(key)).map(Str::from);
        problem.node_domains[key.0].push(value.map(|value| state.keys.add_node_domain(key, &value)));
    }
    problem.pods_on.push(Vec::new());
    problem.cluster.nodes.push(node);
    state.remaining.push(problem.cluster.nodes[ix].remaining());
    state.free_capacity.set(ix, &state.remaining[ix]);
    state.resize_for(problem);
    count_node(problem, state, ix, 1);
    problem.is_node_order_current = false;
    ix
}

/// Removes a node. Returns its pods, which now run on no node.
pub(crate) fn remove_node(problem: &mut SchedulingProblem, state: &mut SolverState, node: usize) -> Vec<PodIx> {
    let pods = problem.pods_on[node].clone();
    for pod in &pods {
        unbind(problem, state, *pod);
    }
    count_node(problem, state, node, -1);
    for (key, domains) in state.keys.iter().zip(&mut problem.node_domains) {
        if let Some(domain) = domains[node].take() {
            state.keys.remove_node_domain(key, domain);
        }
    }
    let removed = &mut problem.cluster.nodes[node];
    removed.is_marked_for_deletion = true;
    removed.is_removed = true;
    if let Some(name) = &removed.node_name {
        problem.cluster.node_index.remove(name);
    }
    problem.is_node_order_current = false;
    pods
}

/// Adds a node to the domains that exist and subtracts it from its pool's limits, or the reverse if
/// `by` is -1. Nodes marked for deletion count in neither.
fn count_node(problem: &SchedulingProblem, state: &mut SolverState, node: usize, by: i32) {
    let node_state = &problem.cluster.nodes[node];
    if node_state.is_marked_for_deletion {
        return;
    }
    for (ix, (key, filter)) in problem.node_count_keys.iter().enumerate() {
        if let Some(domain) = problem.node_domains[key.0][node]
            && state.filter_node(problem, *filter, node).counts_running
        {
            state.count_nodes_in_domain(ix, domain as usize, by);
        }
    }
    for (ix, template) in problem.templates.iter().enumerate() {
        if node_state.pool.as_ref() == Some(&template.name) {
            limits::add_capacity(state.limits_mut(ix), &node_state.capacity, -i128::from(by));
        }
    }
    state.clear_undo_log();
}

/// Renumbers the nodes in the order in which they are offered to pods, and drops removed nodes.
pub(crate) fn reindex_nodes(problem: &mut SchedulingProblem, state: &mut SolverState) {
    if problem.is_node_order_current {
        return;
    }
    let nodes = std::mem::take(&mut problem.cluster.nodes);
    let mut order: Vec<usize> = (0..nodes.len()).filter(|ix| !nodes[*ix].is_removed).collect();
    order.sort_by(|a, b| nodes[*a].cmp_scheduling_order(&nodes[*b]));
    let mut new_indices: Vec<Option<u32>> = vec![None; nodes.len()];
    for (new, old) in order.iter().enumerate() {
        new_indices[*old] = Some(new as u32);
    }
    let new_index = |old: usize| new_indices.get(old).copied().flatten();
    let mut slots: Vec<Option<NodeState>> = nodes.into_iter().map(Some).collect();
    problem.cluster.nodes = order.iter().filter_map(|old| slots[*old].take()).collect();
    problem.cluster.renumber_nodes(&new_index);
    for domains in &mut problem.node_domains {
        *domains = order.iter().map(|old| domains[*old]).collect();
    }
    problem.pods_on = order.iter().map(|old| std::mem::take(&mut problem.pods_on[*old])).collect();
    for pod in &mut problem.pods {
        pod.node = pod.node.and_then(|old| new_index(old as usize));
    }
    for (group, counts) in problem.groups.iter().zip(&mut state.group_counts) {
        counts.renumber_nodes(&new_index, group.identity.kind);
    }
    state.renumber_nodes(&problem.cluster);
    problem.node_profiles.clear();
    problem.is_node_order_current = true;
    compile::index_additions(problem, state);
}

//! Pods come to nodes and leave them, nodes come and go: the books follow, at the cost of the pods that are concerned.
//!
//! Only clean books may be changed here (no question is open), and what is changed is kept. Nodes get the first free number; the
//! order in which pods are offered to them is put right, once, before the next question.

use kerf_api::slim::Str;

use super::problem::{PodIx, SchedulingProblem};
use super::state::SolverState;
use super::{compile, limits};
use crate::cluster::NodeState;

/// A pod runs on a node from now on.
pub(crate) fn bind(problem: &mut SchedulingProblem, state: &mut SolverState, pod: PodIx, node: usize) {
    problem.pods[pod.0 as usize].on = Some(node as u32);
    problem.pods_on[node].push(pod);
    let entry = &problem.pods[pod.0 as usize];
    let class = &problem.classes[entry.class.0 as usize];
    let host = &mut problem.world.nodes[node];
    host.used.add(&class.requests);
    if entry.is_daemon {
        host.daemons_used.add(&class.requests);
    }
    host.ports.extend(class.ports.iter().cloned());
    host.attached.extend(entry.attachments.iter().cloned());
    state.set_room(node, host.remaining());
    if host.is_leaving && entry.may_move {
        if !problem.stuck.contains_key(&pod) {
            problem.waiting.push(pod);
        }
    } else {
        tally(problem, state, pod, node, 1);
    }
}

/// A pod no longer runs on its node.
pub(crate) fn unbind(problem: &mut SchedulingProblem, state: &mut SolverState, pod: PodIx) {
    let Some(node) = problem.pods[pod.0 as usize].on.take().map(|node| node as usize) else { return };
    problem.pods_on[node].retain(|other| *other != pod);
    let entry = &problem.pods[pod.0 as usize];
    let class = &problem.classes[entry.class.0 as usize];
    let host = &mut problem.world.nodes[node];
    host.used.sub(&class.requests);
    if entry.is_daemon {
        host.daemons_used.sub(&class.requests);
    }
    remove_each(&mut host.ports, &class.ports);
    remove_each(&mut host.attached, &entry.attachments);
    state.set_room(node, host.remaining());
    if host.is_leaving && entry.may_move {
        problem.waiting.retain(|other| *other != pod);
    } else {
        tally(problem, state, pod, node, -1);
    }
}

/// Removes as many of each as are listed.
fn remove_each<T: PartialEq>(from: &mut Vec<T>, gone: &[T]) {
    for one in gone {
        if let Some(at) = from.iter().position(|other| other == one) {
            from.swap_remove(at);
        }
    }
}

/// Counts a pod where it runs. A pod that is on its way out keeps others away until it is gone, but is counted no more.
fn tally(problem: &mut SchedulingProblem, state: &mut SolverState, pod: PodIx, node: usize, by: i32) {
    let entry = &problem.pods[pod.0 as usize];
    let class = &problem.classes[entry.class.0 as usize];
    for group in &class.repels {
        state.count_at(problem, *group, node, by);
    }
    if entry.is_counted {
        for group in &class.counted_by {
            if state.accepted(problem, problem.groups[group.0].filter, node).running {
                state.count_at(problem, *group, node, by);
            }
        }
        problem.world.count_running(&class.namespace, &class.labels, node, by);
    }
    state.keep();
}

/// A node is there from now on, without pods; its number.
pub(crate) fn add_node(problem: &mut SchedulingProblem, state: &mut SolverState, mut node: NodeState) -> usize {
    problem.world.complete(&mut node, &mut state.table);
    let ix = problem.world.nodes.len();
    if let Some(name) = &node.node_name {
        problem.world.node_index.insert(name.clone(), ix);
    }
    for key in state.keys.iter() {
        let value = node.labels.get(state.keys.text(key)).map(Str::from);
        problem.node_domains[key.0].push(value.map(|value| state.keys.add_node(key, &value)));
    }
    problem.pods_on.push(Vec::new());
    problem.world.nodes.push(node);
    state.remaining.push(problem.world.nodes[ix].remaining());
    state.room.set(ix, &state.remaining[ix]);
    state.fit_to(problem);
    make_present(problem, state, ix, 1);
    problem.is_in_order = false;
    ix
}

/// A node is gone; its pods are nowhere.
pub(crate) fn remove_node(problem: &mut SchedulingProblem, state: &mut SolverState, node: usize) -> Vec<PodIx> {
    let pods = problem.pods_on[node].clone();
    for pod in &pods {
        unbind(problem, state, *pod);
    }
    make_present(problem, state, node, -1);
    for (key, domains) in state.keys.iter().zip(&mut problem.node_domains) {
        if let Some(domain) = domains[node].take() {
            state.keys.remove_node(key, domain);
        }
    }
    let gone = &mut problem.world.nodes[node];
    gone.is_leaving = true;
    gone.is_vacant = true;
    if let Some(name) = &gone.node_name {
        problem.world.node_index.remove(name);
    }
    problem.is_in_order = false;
    pods
}

/// What a node adds to the domains that exist and takes from its pool's limits. One that is leaving does neither.
fn make_present(problem: &SchedulingProblem, state: &mut SolverState, node: usize, by: i32) {
    let host = &problem.world.nodes[node];
    if host.is_leaving {
        return;
    }
    for (ix, (key, filter)) in problem.presences.iter().enumerate() {
        if let Some(domain) = problem.node_domains[key.0][node]
            && state.accepted(problem, *filter, node).running
        {
            state.make_present(ix, domain as usize, by);
        }
    }
    for (ix, template) in problem.templates.iter().enumerate() {
        if host.pool.as_ref() == Some(&template.name) {
            limits::shift(state.limits_of(ix), &host.capacity, -i128::from(by));
        }
    }
    state.keep();
}

/// Numbers the nodes anew, in the order in which pods are offered to them; those that are gone lose their number.
pub(crate) fn put_in_order(problem: &mut SchedulingProblem, state: &mut SolverState) {
    if problem.is_in_order {
        return;
    }
    let nodes = std::mem::take(&mut problem.world.nodes);
    let mut order: Vec<usize> = (0..nodes.len()).filter(|ix| !nodes[*ix].is_vacant).collect();
    order.sort_by(|a, b| nodes[*a].goes_before(&nodes[*b]));
    let mut moved: Vec<Option<u32>> = vec![None; nodes.len()];
    for (new, old) in order.iter().enumerate() {
        moved[*old] = Some(new as u32);
    }
    let now = |old: usize| moved.get(old).copied().flatten();
    let mut slots: Vec<Option<NodeState>> = nodes.into_iter().map(Some).collect();
    problem.world.nodes = order.iter().filter_map(|old| slots[*old].take()).collect();
    problem.world.renumber_nodes(&now);
    for domains in &mut problem.node_domains {
        *domains = order.iter().map(|old| domains[*old]).collect();
    }
    problem.pods_on = order.iter().map(|old| std::mem::take(&mut problem.pods_on[*old])).collect();
    for pod in &mut problem.pods {
        pod.on = pod.on.and_then(|old| now(old as usize));
    }
    for (group, counts) in problem.groups.iter().zip(&mut state.counts) {
        counts.renumber_nodes(&now, group.identity.kind);
    }
    state.renumber_nodes(&problem.world);
    problem.shapes.clear();
    problem.is_in_order = true;
    compile::settle(problem, state);
}

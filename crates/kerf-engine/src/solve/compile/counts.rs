//! Counts running pods for topology groups (spec 02 §8.3). Pods with equal labels on one node are
//! counted together.

use super::groups::GroupFinder;
use crate::pod::tolerations::tolerates_all;
use crate::solve::problem::SchedulingProblem;
use crate::solve::state::SolverState;
use crate::topology::{GroupIx, GroupKey, GroupKind};

/// Counts running pods for the groups from `first_group` on, and nodes for the node counts from
/// `first_node_counts` on. The domains of their keys must be known.
pub(super) fn count_groups(
    problem: &mut SchedulingProblem,
    state: &mut SolverState,
    first_group: usize,
    first_node_counts: usize,
) {
    if first_group == problem.groups.len() && problem.group_table.uncounted_inverse_pods.is_empty() {
        return;
    }
    let mut finder = GroupFinder::default();
    for (ix, group) in problem.groups.iter().enumerate().skip(first_group) {
        finder.add(GroupIx(ix), group);
        if let GroupKey::Label(_) = group.identity.key {
            add_offered_domains(problem, state, GroupIx(ix), 0);
        }
    }
    for (ix, (key, filter)) in problem.node_count_keys.iter().enumerate().skip(first_node_counts) {
        state.node_counts[ix].resize_domains(state.keys.domain_count(*key));
        for (node, domain) in problem.node_domains[key.0].iter().enumerate() {
            if let Some(domain) = domain
                && !problem.cluster.nodes[node].is_marked_for_deletion
                && state.filter_node(problem, *filter, node).counts_running
            {
                state.node_counts[ix].add_nodes(*domain as usize, 1);
            }
        }
    }
    for class in &problem.cluster.running {
        for group in finder.selecting(&problem.groups, &class.namespace, &class.labels) {
            if problem.groups[group.0].identity.kind == GroupKind::InverseAntiAffinity {
                continue;
            }
            let filter = problem.groups[group.0].filter;
            for (node, pods) in &class.pods_by_node {
                if state.filter_node(problem, filter, *node as usize).counts_running {
                    state.count_on_node(problem, group, *node as usize, *pods);
                }
            }
        }
    }
    for (group, node) in std::mem::take(&mut problem.group_table.uncounted_inverse_pods) {
        state.count_on_node(problem, group, node, 1);
    }
    state.clear_undo_log();
}

/// Adds the domains from `first_domain` on that pools offer to the group.
pub(super) fn add_offered_domains(
    problem: &SchedulingProblem,
    state: &mut SolverState,
    group: GroupIx,
    first_domain: usize,
) {
    let identity = &problem.groups[group.0].identity;
    let GroupKey::Label(key) = identity.key else { return };
    let domains = state.keys.domain_count(key);
    state.group_counts[group.0].resize_domains(domains);
    for domain in first_domain..domains {
        let pools = state.keys.offered_by(key, domain);
        let is_offered = match &identity.pool_tolerations {
            Some(tolerations) => {
                pools.iter().any(|pool| tolerates_all(tolerations, &problem.cluster.pools[*pool].taints))
            }
            None => !pools.is_empty(),
        };
        if is_offered {
            state.group_counts[group.0].add_offered_domain(domain);
        }
    }
}

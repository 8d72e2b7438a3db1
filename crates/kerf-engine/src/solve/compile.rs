//! Builds a [`SchedulingProblem`] and its initial state from a cluster and its pods: classes,
//! topology groups with their counts, and node profiles.
//!
//! Pods can be added at any time. [`index_additions`] then processes everything that the new pods
//! need: it links and counts new groups, finds the domains of new topology keys, and regroups nodes
//! if a new label is required. It costs only what is new.

mod classes;
mod counts;
mod groups;
mod placement_targets;

pub(crate) use classes::{ClassTable, add_pending_pod, add_running_pod, next_relaxation};
pub(crate) use groups::{GroupTable, add_running_anti_affinity};
pub(crate) use placement_targets::{collect_reservations, rows_of_pool};

use super::problem::SchedulingProblem;
use super::state::SolverState;

/// Processes everything that was added to the problem since the last call.
pub(crate) fn index_additions(problem: &mut SchedulingProblem, state: &mut SolverState) {
    let (first_group, first_node_counts) = (state.group_counts.len(), state.node_counts.len());
    groups::link_classes_to_groups(problem, state, first_group);
    placement_targets::add_domains(problem, state);
    state.resize_for(problem);
    counts::count_groups(problem, state, first_group, first_node_counts);
    placement_targets::group_nodes_by_profile(problem, state);
}

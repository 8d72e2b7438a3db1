//! Turns a world and its pods into a [`Problem`] and the books to start with: classes, groups and their counts, nodes by shape.
//!
//! Pods may come at any time. [`settle`] then brings in what they brought along: groups are tied and counted, new topology keys
//! get their domains, nodes are told apart by the labels that are newly asked about. Its cost is that of what is new.

mod classes;
mod counts;
mod groups;
mod placement_targets;

pub(crate) use classes::{ClassTable, add_pending_pod, add_running_pod, next_relaxation};
pub(crate) use groups::{GroupTable, add_running_anti_affinity};
pub(crate) use placement_targets::{collect_reservations, pre_filter};

use super::problem::SchedulingProblem;
use super::state::SolverState;

/// Brings in whatever was added to the problem since the last time.
pub(crate) fn index_additions(problem: &mut SchedulingProblem, state: &mut SolverState) {
    let (first_group, first_presence) = (state.group_counts.len(), state.node_counts.len());
    groups::link_classes_to_groups(problem, state, first_group);
    placement_targets::add_domains(problem, state);
    state.resize_for(problem);
    counts::count_groups(problem, state, first_group, first_presence);
    placement_targets::group_nodes_by_profile(problem, state);
}

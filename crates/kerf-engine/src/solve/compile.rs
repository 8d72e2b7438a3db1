//! Turns a world and its pods into a [`Problem`] and the books to start with: classes, groups and their counts, nodes by shape.
//!
//! Pods may come at any time. [`settle`] then brings in what they brought along: groups are tied and counted, new topology keys
//! get their domains, nodes are told apart by the labels that are newly asked about. Its cost is that of what is new.

mod classes;
mod counts;
mod groups;
mod placement_targets;

pub(crate) use classes::{ClassTable, next_step, pending_pod, running_pod};
pub(crate) use groups::{GroupTable, running_rules};
pub(crate) use placement_targets::{pre_filter, reservations};

use super::problem::SchedulingProblem;
use super::state::SolverState;

/// Brings in whatever was added to the problem since the last time.
pub(crate) fn settle(problem: &mut SchedulingProblem, state: &mut SolverState) {
    let (first_group, first_presence) = (state.counts.len(), state.presences.len());
    groups::tie(problem, state, first_group);
    placement_targets::domains(problem, state);
    state.fit_to(problem);
    counts::count(problem, state, first_group, first_presence);
    placement_targets::shapes(problem, state);
}

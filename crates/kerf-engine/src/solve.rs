//! From pods to machines: which pods go on which existing nodes, which new machines to launch, and why the rest must wait
//! (spec 02 §5 to §11).
//!
//! [`Problem`] is what is fixed: templates, classes of pods, groups; [`State`] is what changes, and can be rolled back. [`Pass`] is one attempt
//! to place every pod, in some order and with some taste in claims; the first is Karpenter's. `search` runs further passes and keeps the
//! cheapest answer that gives up no more. [`Prepared`] keeps problem and state for the next question and follows the cluster by events.

mod claim;
mod class;
mod cluster_updates;
mod colocated;
mod commit_claim;
mod compile;
mod diagnostics;
mod free_capacity;
mod host_affinity;
mod incremental;
pub(crate) mod limits;
pub(crate) mod min_values;
mod node_removal;
mod pass;
mod pin;
mod place_claim;
mod place_node;
mod price_bound;
mod problem;
mod recount;
mod search;
mod solution;
mod spread_violations;
mod state;
mod template;
mod zones;

pub(crate) use class::{ClassIx, PodClass};
pub use diagnostics::{PoolWithoutTypes, RelaxedPod, TypesBeyondLimits};
pub use incremental::IncrementalSolver;
pub(crate) use pass::{PlacementPass, PlacementTarget, UnplacedReason};
pub(crate) use price_bound::lower_bound_price;
pub(crate) use problem::{PodIx, SchedulingProblem};
pub(crate) use search::search_cheaper as look_for_cheaper;
pub(crate) use solution::{LaunchCache, node_placements, planned_claims};
pub use solution::{LaunchEstimate, LaunchOptions, NodePlacement, PlannedClaim, Solution, SolveStats, UnplacedPod};
pub(crate) use state::SolverState;
pub(crate) use template::Template;
pub use zones::EffectiveZone;

use crate::bits::Bits;
use crate::cluster::{Input, Settings};

/// Decides where the pods of a cluster go.
pub fn solve(input: &Input, settings: &Settings) -> Solution {
    let (problem, state) = SchedulingProblem::new(input, settings);
    let mut pass = PlacementPass::new(&problem, state);
    let mut solution = search::solve_with_search(&mut pass, &problem.queue());
    solution.add_excluded_pods(problem.excluded_pods_without(&Bits::new()));
    solution
}

/// Stands for the name of a machine that has none yet. No node can be called this, so only demands that accept any name but
/// some accept it.
pub(crate) const UNNAMED_HOST: &str = "\u{0}unnamed";

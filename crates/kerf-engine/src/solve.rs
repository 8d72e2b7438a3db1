//! Decides where each pod runs: on an existing node or on a new NodeClaim. Explains why the other
//! pods stay pending (spec 02 §5 to §11).
//!
//! The algorithm, from the input to a [`Solution`]:
//!
//! 1. `compile` turns the input into a [`SchedulingProblem`], which does not change while pods are
//!    placed, and a [`SolverState`], which does. Pods that no scheduling rule can tell apart form
//!    one [`PodClass`]. Each distinct spread, affinity or anti-affinity rule becomes one topology
//!    group, which counts pods per domain (zone, host, …).
//! 2. A [`PlacementPass`] takes the pods in one order and places each on the first target that
//!    accepts it: an existing node, an open claim, or a new claim of the first pool that accepts
//!    the pod. An open claim is a NodeClaim under construction: the pods on it and the instance
//!    types that still fit all of them. Each pod can only narrow these types. A pod that no target
//!    accepts gives up its preferences one at a time (relaxation). Failed pods are tried again as
//!    long as other pods are placed.
//! 3. The first pass is Karpenter's first fit, except for pool limits (`claim_limits`). `search`
//!    then runs further passes with other pod orders and other choices, and keeps the best result. A result replaces that of first fit only
//!    if it places every pod that first fit places and is better by the rules in `search`.
//! 4. `solution` turns each open claim of the best pass into a NodeClaim to create, and explains
//!    each pod that stays pending.
//!
//! [`IncrementalSolver`] keeps problem and state between solves and updates both from pod, node and
//! claim events. Solving again, or solving a what-if without some nodes, then costs only what
//! changed.
//!
//! Files, in reading order:
//!
//! - `problem`, `class`, `template`, `compile`: the fixed part and how it is built.
//! - `state`, `free_capacity`, `limits`: the part that changes, with its undo log.
//! - `pass`, `place_node`, `place_claim`, `narrow_claim`, `claim`, `commit_claim`, `min_values`:
//!   one pass.
//! - `claim_limits`, `shrink_claims`: what open claims take from the limits of their pools.
//! - `recount`, `colocated`, `pin`: corrections within a pass that Karpenter does not make.
//! - `search`, `price_bound`, `spread_violations`, `host_affinity`: further passes and their
//!   ranking.
//! - `incremental`, `cluster_updates`, `node_removal`: updates by events, and what-ifs.
//! - `solution`, `diagnostics`, `zones`: the result and reports about it.
//!
//! Equal input gives an equal solution on any machine and with any number of threads.

mod claim;
mod claim_limits;
mod class;
mod cluster_updates;
mod colocated;
mod commit_claim;
mod compile;
mod diagnostics;
mod free_capacity;
mod host_affinity;
mod incremental;
mod launch_facts;
pub(crate) mod limits;
pub(crate) mod min_values;
mod narrow_claim;
mod node_removal;
mod pass;
mod pin;
mod place_claim;
mod place_node;
mod price_bound;
mod price_share;
mod problem;
mod recount;
mod search;
mod shrink_claims;
mod solution;
mod spread_violations;
mod state;
mod template;
mod zones;

pub(crate) use class::{ClassIx, PodClass};
pub use diagnostics::{PoolWithoutTypes, RelaxedPod, TypesBeyondLimits};
pub use incremental::IncrementalSolver;
pub use launch_facts::{LaunchFacts, LaunchWait};
pub(crate) use pass::{PlacementPass, PlacementTarget, UnplacedReason};
pub(crate) use price_bound::lower_bound_price;
pub(crate) use problem::{PodIx, SchedulingProblem};
pub(crate) use search::{run_first_fit, search_cheaper};
pub(crate) use solution::launch_rank;
pub(crate) use solution::{LaunchCache, node_placements, planned_claims};
pub use solution::{LaunchEstimate, LaunchOptions, NodePlacement, PlannedClaim, Solution, SolveStats, UnplacedPod};
pub(crate) use state::SolverState;
pub(crate) use template::Template;
pub use zones::EffectiveZone;

use crate::bits::Bits;
use crate::cluster::{Input, Settings};

/// Decides where the pods of a cluster run.
///
/// Builds the problem from scratch. A caller that solves the same cluster repeatedly uses
/// [`IncrementalSolver`], which returns the same solutions. Problems in the input do not fail the
/// call: each is the reason of a pod in [`Solution::unplaced`].
pub fn solve(input: &Input, settings: &Settings) -> Solution {
    let (problem, state) = SchedulingProblem::new(input, settings);
    let mut pass = PlacementPass::new(&problem, state);
    let mut solution = search::solve_with_search(&mut pass, &problem.queue());
    solution.add_excluded_pods(problem.excluded_pods_without(&Bits::new()));
    solution
}

/// Hostname that stands for the unknown name of a new node. No real node can have this name, so
/// only requirements that accept any hostname except listed ones accept it.
pub(crate) const UNNAMED_HOST: &str = "\u{0}unnamed";

//! Simulations (spec 03 §7): schedules the pods of removed nodes together with all pending pods, on
//! the remaining nodes and on new ones. A simulation changes nothing.
//!
//! Nodes that are already being deleted count as removed in every simulation. Pods are placed by
//! Karpenter's first fit, so a result is never worse than Karpenter's. Reserved capacity is used as
//! far as it is available; no pod waits for it.
//!
//! The cost of a simulation depends on the pods that move and the pending pods, never on the size
//! of the cluster: all changes of the solver state are logged and rolled back
//! (`solve::node_removal`, `benches/disrupting.rs`). Only [`Simulator::new`], once per pass,
//! depends on the size of the cluster.

use std::fmt;

use kerf_api::slim::Str;
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::cluster::{Input, ReservedMode, Settings};
use crate::explain::{self, Reason};
use crate::price::Price;
use crate::resources::ResourceIx;
use crate::solve::{
    LaunchCache, NodePlacement, PlacementPass, PlacementTarget, PlannedClaim, PodIx, SchedulingProblem, SolverState,
    lower_bound_price, node_placements, planned_claims, run_first_fit, search_cheaper,
};

/// Maximum number of further passes, in other orders of pods, in a search for cheaper nodes.
const CHEAPER_SEARCH_MAX_PASSES: usize = 6;
/// Maximum number of entries in the cache of launch options.
const LAUNCH_CACHE_MAX: usize = 1_000;

/// Index of a node, or of a launched claim without a node, in the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeIx(pub(crate) usize);

/// The kind of method that asks for a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Nodes in their pool's `consolidateAfter` receive no pods of removed nodes.
    Consolidation,
    /// Nodes in `consolidateAfter` are treated like all others.
    Drift,
}

/// Runs simulations on one cluster at one time.
#[derive(Debug)]
pub(crate) struct Simulator {
    problem: SchedulingProblem,
    state: SolverState,
    by_name: FxHashMap<Str, NodeIx>,
    in_consolidate_after: Bits,
    launches: LaunchCache,
}

/// The outcome of scheduling all pods without the removed nodes.
#[derive(Debug, Clone)]
pub(crate) struct SimulationResult {
    /// NodeClaims that would have to be launched.
    pub(crate) claims: Vec<PlannedClaim>,
    /// Pods that fit on remaining nodes.
    pub(crate) nodes: Vec<NodePlacement>,
    /// Pods that would not run, sorted by name. Includes pending pods that stay pending.
    pub(crate) failures: Vec<SimulationFailure>,
}

/// The outcome of first fit, without the details of the claims to launch.
#[derive(Debug)]
pub(crate) struct SimulationEstimate {
    /// Price per hour of all claims that would be launched.
    pub(crate) price: Price,
    /// Usage of each node in thousandths of the scarcer one of CPU and memory, by [`NodeIx`].
    pub(crate) node_usage_permille: Vec<i128>,
}

/// A pod that would not run, or only on a node that may never become ready.
#[derive(Debug, Clone)]
pub(crate) struct SimulationFailure {
    /// The pod as `namespace/name`.
    pub(crate) pod: Str,
    /// Origin of the pod.
    pub(crate) origin: PodOrigin,
    /// The reason why the pod would not run.
    pub(crate) cause: FailureCause,
}

/// Origin of a pod in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodOrigin {
    /// The pod was pending before. It may stay so.
    Pending,
    /// The pod runs on a node that is being deleted anyway.
    OnDeletingNode,
    /// The pod runs on a node that the simulation removes.
    OnRemovedNode,
}

/// The reason why a pod would not run.
#[derive(Debug, Clone)]
pub(crate) enum FailureCause {
    /// The pod was pending, and still no node accepts it.
    StaysPending,
    /// No existing or new node accepts the pod.
    Unplaced(Reason),
    /// The pod would have to wait for a node that may never be initialized.
    Uninitialized {
        /// Name of the NodeClaim.
        claim: Option<Str>,
        /// Name of the Node. `None` if it is not registered yet.
        node: Option<Str>,
    },
}

impl Simulator {
    /// Prepares a cluster for simulations. `in_consolidate_after` names the nodes that are in their
    /// pool's `consolidateAfter`.
    pub(crate) fn new(input: &Input, settings: &Settings, in_consolidate_after: impl IntoIterator<Item = Str>) -> Self {
        let settings = Settings { reserved_mode: ReservedMode::Fallback, ..settings.clone() };
        let (mut problem, state) = SchedulingProblem::with_running_pods(input, &settings);
        // Every simulation sorts the pending pods together with the moved ones. Sorting the pending
        // pods here, once, makes that sort cheap.
        let mut pending = std::mem::take(&mut problem.pods_to_place);
        problem.sort_for_queue(&mut pending);
        problem.pods_to_place = pending;
        let by_name: FxHashMap<Str, NodeIx> =
            problem.cluster.nodes.iter().enumerate().map(|(ix, node)| (node.name.clone(), NodeIx(ix))).collect();
        let in_consolidate_after =
            in_consolidate_after.into_iter().filter_map(|name| by_name.get(&name)).map(|node| node.0).collect();
        Self { problem, state, by_name, in_consolidate_after, launches: LaunchCache::default() }
    }

    /// Returns the node with this name: the Node's name if it is registered, otherwise the claim's.
    pub(crate) fn node(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied()
    }

    /// Returns the usage of a node in thousandths of the scarcer one of CPU and memory.
    pub(crate) fn usage_permille(&self, node: NodeIx) -> i128 {
        node_usage_permille(&self.problem, &self.state, node.0)
    }

    /// Simulates the removal of these nodes.
    pub(crate) fn simulate_removal(&mut self, removed: &[NodeIx], purpose: Purpose) -> SimulationResult {
        let avoided = if purpose == Purpose::Consolidation { self.in_consolidate_after.clone() } else { Bits::new() };
        self.run_removal(removed, purpose, avoided)
    }

    /// Simulates the removal of drifted nodes whose pods may not move to any of the nodes in
    /// `others`.
    pub(crate) fn simulate_removal_avoiding(&mut self, removed: &[NodeIx], others: &Bits) -> SimulationResult {
        self.run_removal(removed, Purpose::Drift, others.clone())
    }

    fn run_removal(&mut self, removed: &[NodeIx], purpose: Purpose, avoided: Bits) -> SimulationResult {
        let (mut pass, queue) = begin_pass_without(&self.problem, &mut self.state, removed, avoided, purpose);
        run_first_fit(&mut pass, &queue);
        let result = collect_result(&mut pass, &mut self.launches);
        pass.state.roll_back();
        self.state = pass.state;
        result
    }

    /// Estimates the removal of these nodes for consolidation. Returns `None` if some running pod
    /// would not run again.
    pub(crate) fn estimate_removal(&mut self, removed: &[NodeIx]) -> Option<SimulationEstimate> {
        let (avoided, purpose) = (self.in_consolidate_after.clone(), Purpose::Consolidation);
        let (mut pass, queue) = begin_pass_without(&self.problem, &mut self.state, removed, avoided, purpose);
        run_first_fit(&mut pass, &queue);
        let would_run = |pod: &PodIx| match pass.state.placements[pod.0 as usize] {
            None => pass.problem.pods[pod.0 as usize].node.is_none(),
            Some(PlacementTarget::Node(node)) => pass.problem.cluster.nodes[node].is_initialized,
            Some(PlacementTarget::Claim(_)) => true,
        };
        let all_run = queue.iter().all(would_run) && unplaceable_failures(&pass).is_empty();
        let nodes = 0..pass.problem.cluster.nodes.len();
        let result = all_run.then(|| SimulationEstimate {
            price: pass.total_price(),
            node_usage_permille: nodes.map(|node| node_usage_permille(pass.problem, &pass.state, node)).collect(),
        });
        pass.state.roll_back();
        self.state = pass.state;
        result
    }

    /// Simulates the removal of these nodes for consolidation, and searches for new nodes that cost
    /// less in total than those of first fit. Returns `None` if no new nodes could cost less than
    /// `max_price`.
    pub(crate) fn simulate_cheapest_removal(
        &mut self,
        removed: &[NodeIx],
        max_price: Price,
    ) -> Option<SimulationResult> {
        let (avoided, purpose) = (self.in_consolidate_after.clone(), Purpose::Consolidation);
        let (mut pass, queue) = begin_pass_without(&self.problem, &mut self.state, removed, avoided, purpose);
        run_first_fit(&mut pass, &queue);
        let result = if lower_bound_price(&mut pass) < max_price {
            pass.state.undo_pass();
            search_cheaper(&mut pass, &queue, CHEAPER_SEARCH_MAX_PASSES * queue.len());
            Some(collect_result(&mut pass, &mut self.launches))
        } else {
            None
        };
        pass.state.roll_back();
        self.state = pass.state;
        result
    }
}

fn node_usage_permille(problem: &SchedulingProblem, state: &SolverState, node: usize) -> i128 {
    let (total, free) = (&problem.cluster.nodes[node].allocatable, &state.remaining[node]);
    let usage = |resource: ResourceIx| {
        let (total, free) = (total.get(resource), free.get(resource));
        if total > 0 { (total - free) * 1000 / total } else { 0 }
    };
    usage(ResourceIx::CPU).max(usage(ResourceIx::MEMORY))
}

/// Starts a placement pass without the removed nodes. Returns the pass and the pods to place.
fn begin_pass_without<'p>(
    problem: &'p SchedulingProblem,
    state: &mut SolverState,
    removed: &[NodeIx],
    avoided: Bits,
    purpose: Purpose,
) -> (PlacementPass<'p>, Vec<PodIx>) {
    let mut pass = PlacementPass::new(problem, std::mem::take(state));
    let (mut queue, mut moved) = (problem.pods_to_place.clone(), Vec::new());
    for node in removed {
        pass.simulate_node_removal(node.0, &mut moved);
    }
    pass.state.avoided_nodes = avoided;
    pass.state.mark_pass_start();
    match purpose {
        Purpose::Consolidation => {
            queue.append(&mut moved);
            problem.sort_for_queue(&mut queue);
        }
        // NodeClaims that are being launched were created for the pending pods, so these come
        // first.
        Purpose::Drift => {
            problem.sort_for_queue(&mut queue);
            problem.sort_for_queue(&mut moved);
            queue.append(&mut moved);
        }
    }
    (pass, queue)
}

/// Collects the outcome of the pass.
fn collect_result(pass: &mut PlacementPass<'_>, launches: &mut LaunchCache) -> SimulationResult {
    if launches.len() > LAUNCH_CACHE_MAX {
        launches.clear();
    }
    let (claims, unlaunched) = planned_claims(pass, launches);
    let nodes = node_placements(pass);
    let mut failures = failures(pass, unlaunched);
    failures.extend(unplaceable_failures(pass));
    failures.sort_by(|a, b| a.pod.cmp(&b.pod));
    SimulationResult { claims, nodes, failures }
}

/// Returns the pods that have to move and cannot be placed on any node, whatever the others do.
fn unplaceable_failures(pass: &PlacementPass<'_>) -> Vec<SimulationFailure> {
    let problem = pass.problem;
    let unplaceable = problem.unplaceable_pods.iter().filter_map(|(pod, reason)| {
        let entry = &problem.pods[pod.0 as usize];
        let origin = match entry.node? as usize {
            node if pass.state.removed_nodes.contains(node) => PodOrigin::OnRemovedNode,
            node if problem.cluster.nodes[node].is_marked_for_deletion => PodOrigin::OnDeletingNode,
            _ => return None,
        };
        Some(SimulationFailure { pod: entry.name.clone(), origin, cause: FailureCause::Unplaced(reason.clone()) })
    });
    unplaceable.collect()
}

/// Returns the pods of the queue that would not run.
fn failures(pass: &mut PlacementPass<'_>, unlaunched: Vec<(PodIx, Reason)>) -> Vec<SimulationFailure> {
    let problem = pass.problem;
    let removed = pass.state.removed_nodes.clone();
    let origin = |pod: PodIx| match problem.pods[pod.0 as usize].node {
        None => PodOrigin::Pending,
        Some(node) if removed.contains(node as usize) => PodOrigin::OnRemovedNode,
        Some(_) => PodOrigin::OnDeletingNode,
    };
    let mut causes: Vec<(PodIx, FailureCause)> = Vec::new();
    for pod in &pass.state.queue {
        match pass.state.placements[pod.0 as usize] {
            None if origin(*pod) == PodOrigin::Pending => causes.push((*pod, FailureCause::StaysPending)),
            Some(PlacementTarget::Node(node))
                if !problem.cluster.nodes[node].is_initialized && origin(*pod) == PodOrigin::OnRemovedNode =>
            {
                let node = &problem.cluster.nodes[node];
                let cause =
                    FailureCause::Uninitialized { claim: node.claim_name.clone(), node: node.node_name.clone() };
                causes.push((*pod, cause));
            }
            None | Some(PlacementTarget::Node(_) | PlacementTarget::Claim(_)) => {}
        }
    }
    let unplaced = explain::explain_unplaced(pass, |pod| origin(pod) != PodOrigin::Pending);
    causes.extend(unlaunched.into_iter().chain(unplaced).map(|(pod, reason)| (pod, FailureCause::Unplaced(reason))));
    let name = |pod: PodIx| problem.pods[pod.0 as usize].name.clone();
    causes.into_iter().map(|(pod, cause)| SimulationFailure { pod: name(pod), origin: origin(pod), cause }).collect()
}

impl SimulationResult {
    /// Returns true if every running pod would run again. Pending pods may stay pending.
    pub(crate) fn all_scheduled(&self) -> bool {
        self.failures.iter().all(|f| f.origin == PodOrigin::Pending)
    }
}

impl fmt::Display for SimulationResult {
    /// Writes the summary of spec 03 §7: at most five pods, then the number of further ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        let all: Vec<&SimulationFailure> = self.failures.iter().filter(|f| f.origin != PodOrigin::Pending).collect();
        if all.is_empty() {
            return f.write_str("No Pod Scheduling Errors");
        }
        f.write_str("not all pods would schedule, ")?;
        for failure in all.iter().take(SHOWN) {
            write!(f, "{} => {} ", failure.pod, failure.cause)?;
        }
        if all.len() > SHOWN {
            write!(f, " and {} other(s)", all.len() - SHOWN)?;
        }
        Ok(())
    }
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaysPending => f.write_str("stays pending"),
            Self::Unplaced(reason) => reason.fmt(f),
            Self::Uninitialized { claim, node } => {
                f.write_str("would schedule against uninitialized ")?;
                if let Some(claim) = claim {
                    write!(f, "nodeclaim/{claim}")?;
                }
                if let Some(node) = node {
                    write!(f, "{}node/{node}", if claim.is_some() { ", " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;

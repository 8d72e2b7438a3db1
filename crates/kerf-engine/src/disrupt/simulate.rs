//! What if these nodes were gone? Their pods look for a place together with those that are pending anyway (spec 03 §7), on the
//! nodes that stay and on machines yet to be launched, and nothing is changed by the question.
//!
//! Nodes that are leaving already are gone in every answer. The order of work is Karpenter's first fit, so that an answer is never
//! worse than Karpenter's; reserved capacity is used as far as it goes, without waiting for it.
//!
//! A question costs the pods that have to move and those that wait, never the cluster: everything that it changes goes through a log
//! and is rolled back (`solve::fork`, `benches/disrupting.rs`). Only preparing the cluster, once per pass, costs what there is.

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
    look_for_cheaper, lower_bound_price, node_placements, planned_claims,
};

/// How often the pods are placed again, in other orders, when something cheaper is looked for.
const CHEAPER_SEARCH_MAX_PASSES: usize = 6;
/// So many worked-out launches are kept between questions.
const LAUNCH_CACHE_MAX: usize = 1_000;

/// A node or a launched claim, among those that the simulator knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeIx(pub(crate) usize);

/// What the question is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Nodes that rest (they are under their pool's `consolidateAfter`) take no pod that could stay where it is.
    Consolidation,
    /// Resting nodes are nodes like any other.
    Drift,
}

/// Answers what-if questions about one cluster at one instant.
#[derive(Debug)]
pub(crate) struct Simulator {
    problem: SchedulingProblem,
    state: SolverState,
    by_name: FxHashMap<Str, NodeIx>,
    in_consolidate_after: Bits,
    launches: LaunchCache,
}

/// What would become of everything if the nodes were gone.
#[derive(Debug, Clone)]
pub(crate) struct SimulationResult {
    /// Machines that would have to be launched.
    pub(crate) claims: Vec<PlannedClaim>,
    /// Pods that fit on what stays.
    pub(crate) nodes: Vec<NodePlacement>,
    /// Pods without a place that counts, by name; those that were pending before are among them if they have none at all.
    pub(crate) failures: Vec<SimulationFailure>,
}

/// The same, roughly: what first fit makes of it, before machines are worked out.
#[derive(Debug)]
pub(crate) struct SimulationEstimate {
    /// What the machines would cost.
    pub(crate) price: Price,
    /// How much of each node would be taken, in thousandths of the resource of which it has least left.
    pub(crate) node_usage_permille: Vec<i128>,
}

/// A pod that has no place, or none that counts.
#[derive(Debug, Clone)]
pub(crate) struct SimulationFailure {
    /// `namespace/name`
    pub(crate) pod: Str,
    /// Where the pod comes from.
    pub(crate) origin: PodOrigin,
    /// Why.
    pub(crate) cause: FailureCause,
}

/// Where a pod of a simulation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodOrigin {
    /// It was pending before, and may stay so.
    Pending,
    /// It runs on a node that is leaving whatever the answer.
    OnDeletingNode,
    /// It runs on a node of the question.
    OnRemovedNode,
}

/// Why a pod has no place that counts.
#[derive(Debug, Clone)]
pub(crate) enum FailureCause {
    /// It was pending, and nothing accepts it still.
    StaysPending,
    /// Nothing accepts it.
    Unplaced(Reason),
    /// It would have to wait for a machine that may never come up.
    Uninitialized {
        /// The machine's claim.
        claim: Option<Str>,
        /// The machine's node, if it has come that far.
        node: Option<Str>,
    },
}

impl Simulator {
    /// Prepares a cluster for questions; `resting` names the nodes that are under their pool's `consolidateAfter`.
    pub(crate) fn new(input: &Input, settings: &Settings, resting: impl IntoIterator<Item = Str>) -> Self {
        let settings = Settings { reserved_mode: ReservedMode::Fallback, ..settings.clone() };
        let (mut problem, state) = SchedulingProblem::with_running_pods(input, &settings);
        // Every question sorts those who wait together with those who move: most of the order is found here, once.
        let mut waiting = std::mem::take(&mut problem.pods_to_place);
        problem.sort_for_queue(&mut waiting);
        problem.pods_to_place = waiting;
        let by_name: FxHashMap<Str, NodeIx> =
            problem.cluster.nodes.iter().enumerate().map(|(ix, node)| (node.name.clone(), NodeIx(ix))).collect();
        let resting = resting.into_iter().filter_map(|name| by_name.get(&name)).map(|node| node.0).collect();
        Self { problem, state, by_name, in_consolidate_after: resting, launches: LaunchCache::default() }
    }

    /// The node of that name: a Node's once it is registered, else its claim's.
    pub(crate) fn node(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied()
    }

    /// How much of a node is taken, in thousandths of the resource of which it has least left.
    pub(crate) fn usage_permille(&self, node: NodeIx) -> i128 {
        node_usage_permille(&self.problem, &self.state, node.0)
    }

    /// What happens when these nodes go.
    pub(crate) fn simulate_removal(&mut self, removed: &[NodeIx], purpose: Purpose) -> SimulationResult {
        let resting = if purpose == Purpose::Consolidation { self.in_consolidate_after.clone() } else { Bits::new() };
        self.run_removal(removed, purpose, resting)
    }

    /// What happens when these nodes go because they have drifted, and their pods do not go to any of the others.
    pub(crate) fn simulate_removal_avoiding(&mut self, removed: &[NodeIx], others: &Bits) -> SimulationResult {
        self.run_removal(removed, Purpose::Drift, others.clone())
    }

    fn run_removal(&mut self, removed: &[NodeIx], purpose: Purpose, resting: Bits) -> SimulationResult {
        let (mut pass, queue) = begin_pass_without(&self.problem, &mut self.state, removed, resting, purpose);
        pass.run(&queue);
        let answer = collect_result(&mut pass, &mut self.launches);
        pass.state.roll_back();
        self.state = pass.state;
        answer
    }

    /// The same for consolidation, roughly; nothing if some pod has no place that counts.
    pub(crate) fn estimate_removal(&mut self, removed: &[NodeIx]) -> Option<SimulationEstimate> {
        let (resting, purpose) = (self.in_consolidate_after.clone(), Purpose::Consolidation);
        let (mut pass, queue) = begin_pass_without(&self.problem, &mut self.state, removed, resting, purpose);
        pass.run(&queue);
        let counts = |pod: &PodIx| match pass.state.placements[pod.0 as usize] {
            None => pass.problem.pods[pod.0 as usize].node.is_none(),
            Some(PlacementTarget::Node(node)) => pass.problem.cluster.nodes[node].is_initialized,
            Some(PlacementTarget::Claim(_)) => true,
        };
        let all_count = queue.iter().all(counts) && unplaceable_failures(&pass).is_empty();
        let nodes = 0..pass.problem.cluster.nodes.len();
        let answer = all_count.then(|| SimulationEstimate {
            price: pass.total_price(),
            node_usage_permille: nodes.map(|node| node_usage_permille(pass.problem, &pass.state, node)).collect(),
        });
        pass.state.roll_back();
        self.state = pass.state;
        answer
    }

    /// The same for consolidation, with a look for machines that cost less in all than those of first fit. Nothing, if no machines could
    /// cost less than `most`.
    pub(crate) fn simulate_cheapest_removal(&mut self, removed: &[NodeIx], most: Price) -> Option<SimulationResult> {
        let (resting, purpose) = (self.in_consolidate_after.clone(), Purpose::Consolidation);
        let (mut pass, queue) = begin_pass_without(&self.problem, &mut self.state, removed, resting, purpose);
        pass.run(&queue);
        let answer = if lower_bound_price(&mut pass) < most {
            pass.state.undo_pass();
            look_for_cheaper(&mut pass, &queue, CHEAPER_SEARCH_MAX_PASSES * queue.len());
            Some(collect_result(&mut pass, &mut self.launches))
        } else {
            None
        };
        pass.state.roll_back();
        self.state = pass.state;
        answer
    }
}

fn node_usage_permille(problem: &SchedulingProblem, state: &SolverState, node: usize) -> i128 {
    let (all, left) = (&problem.cluster.nodes[node].allocatable, &state.remaining[node]);
    let taken = |resource: ResourceIx| {
        let (all, left) = (all.get(resource), left.get(resource));
        if all > 0 { (all - left) * 1000 / all } else { 0 }
    };
    taken(ResourceIx::CPU).max(taken(ResourceIx::MEMORY))
}

/// A pass over a world without the nodes, and the pods that look for a place in it.
fn begin_pass_without<'p>(
    problem: &'p SchedulingProblem,
    state: &mut SolverState,
    removed: &[NodeIx],
    resting: Bits,
    purpose: Purpose,
) -> (PlacementPass<'p>, Vec<PodIx>) {
    let mut pass = PlacementPass::new(problem, std::mem::take(state));
    let (mut queue, mut moved) = (problem.pods_to_place.clone(), Vec::new());
    for node in removed {
        pass.simulate_node_removal(node.0, &mut moved);
    }
    pass.state.avoided_nodes = resting;
    pass.state.mark_pass_start();
    match purpose {
        Purpose::Consolidation => {
            queue.append(&mut moved);
            problem.sort_for_queue(&mut queue);
        }
        // Machines that are on their way were launched for those who wait.
        Purpose::Drift => {
            problem.sort_for_queue(&mut queue);
            problem.sort_for_queue(&mut moved);
            queue.append(&mut moved);
        }
    }
    (pass, queue)
}

/// The answer that the pass has come to.
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

/// Pods that have to move and could not be placed whatever is tried.
fn unplaceable_failures(pass: &PlacementPass<'_>) -> Vec<SimulationFailure> {
    let problem = pass.problem;
    let stuck = problem.unplaceable_pods.iter().filter_map(|(pod, reason)| {
        let entry = &problem.pods[pod.0 as usize];
        let origin = match entry.node? as usize {
            node if pass.state.removed_nodes.contains(node) => PodOrigin::OnRemovedNode,
            node if problem.cluster.nodes[node].is_marked_for_deletion => PodOrigin::OnDeletingNode,
            _ => return None,
        };
        Some(SimulationFailure { pod: entry.name.clone(), origin, cause: FailureCause::Unplaced(reason.clone()) })
    });
    stuck.collect()
}

/// Pods without a place that counts.
fn failures(pass: &mut PlacementPass<'_>, unlaunched: Vec<(PodIx, Reason)>) -> Vec<SimulationFailure> {
    let problem = pass.problem;
    let gone = pass.state.removed_nodes.clone();
    let origin = |pod: PodIx| match problem.pods[pod.0 as usize].node {
        None => PodOrigin::Pending,
        Some(node) if gone.contains(node as usize) => PodOrigin::OnRemovedNode,
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
    /// Whether every pod that runs now would run again; those that were pending may stay so.
    pub(crate) fn all_scheduled(&self) -> bool {
        self.failures.iter().all(|f| f.origin == PodOrigin::Pending)
    }
}

impl fmt::Display for SimulationResult {
    /// The summary of spec 03 §7: at most five pods, then how many more.
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

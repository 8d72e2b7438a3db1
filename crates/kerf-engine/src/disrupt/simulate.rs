//! What if these nodes were gone? Their pods look for a place together with those that are pending anyway (spec 03 §7), on the
//! nodes that stay and on machines yet to be launched, and nothing is changed by the question.
//!
//! Nodes that are leaving already are gone in every answer. The order of work is Karpenter's first fit, so that an answer is never
//! worse than Karpenter's; reserved capacity is used as far as it goes, without waiting for it.

use std::fmt;

use kerf_api::slim::{Pod, PodPhase, Str};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::explain::Reason;
use crate::solve::{NodePlacement, PlannedClaim, Problem, first_fit};
use crate::world::{Input, NodeState, ReservedMode, Settings, join_nodes};

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
    input: Input,
    settings: Settings,
    nodes: Vec<NodeState>,
    resting: FxHashSet<Str>,
}

/// What would become of everything if the nodes were gone.
#[derive(Debug, Clone)]
pub(crate) struct WhatIf {
    /// Machines that would have to be launched.
    pub(crate) claims: Vec<PlannedClaim>,
    /// Pods that fit on what stays.
    pub(crate) nodes: Vec<NodePlacement>,
    /// Pods without a place that counts, by name; pods that were pending before are among them.
    pub(crate) failures: Vec<Failure>,
}

/// A pod that has no place, or none that counts.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// `namespace/name`
    pub(crate) pod: Str,
    /// Where the pod comes from.
    pub(crate) origin: Origin,
    /// Why.
    pub(crate) cause: Cause,
}

/// Where a pod of a simulation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was pending before, and may stay so.
    Pending,
    /// It runs on a node that is leaving whatever the answer.
    Leaving,
    /// It runs on a node of the question.
    Moved,
}

/// Why a pod has no place that counts.
#[derive(Debug, Clone)]
pub(crate) enum Cause {
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
        Self {
            nodes: join_nodes(input),
            input: input.clone(),
            settings: Settings { reserved_mode: ReservedMode::Fallback, ..settings.clone() },
            resting: resting.into_iter().collect(),
        }
    }

    /// The node of that name: a Node's once it is registered, else its claim's.
    pub(crate) fn node(&self, name: &str) -> Option<NodeIx> {
        self.nodes.iter().position(|n| n.name == name).map(NodeIx)
    }

    /// What happens when these nodes go.
    pub(crate) fn without(&mut self, removed: &[NodeIx], purpose: Purpose) -> WhatIf {
        let gone: FxHashSet<&Str> = removed.iter().filter_map(|n| self.nodes[n.0].node_name.as_ref()).collect();
        let leaving: FxHashSet<&Str> =
            self.nodes.iter().filter(|n| n.is_leaving).filter_map(|n| n.node_name.as_ref()).collect();
        let origins: FxHashMap<Str, (Origin, bool)> = self
            .input
            .pods
            .iter()
            .map(|pod| (pod.namespaced_name(), (origin(pod, &gone, &leaving), pod.status.phase == PodPhase::Pending)))
            .collect();
        let mut input = self.input.clone();
        for node in removed.iter().map(|n| &self.nodes[n.0]) {
            mark(&mut input, node);
        }
        let mut problem = Problem::new(&input, &self.settings);
        if purpose == Purpose::Consolidation {
            let nodes = problem.world.nodes.iter().enumerate();
            problem.resting = nodes.filter(|(_, n)| self.resting.contains(&n.name)).map(|(ix, _)| ix).collect();
            for pod in &mut problem.pods {
                pod.lets_rest = origins.get(&pod.name) == Some(&(Origin::Moved, false));
            }
        }
        let solution = first_fit(&problem);
        let origin = |pod: &Str| origins.get(pod).map_or(Origin::Pending, |(origin, _)| *origin);
        let unplaced = solution.unplaced.into_iter().map(|u| Failure {
            origin: origin(&u.pod),
            pod: u.pod,
            cause: Cause::Unplaced(u.reason),
        });
        let early = self.nodes.iter().filter(|n| !n.is_initialized).flat_map(|node| {
            let pods = solution.nodes.iter().filter(|p| p.node == node.name).flat_map(|p| &p.pods);
            pods.filter(|pod| origin(pod) != Origin::Leaving).map(|pod| Failure {
                pod: pod.clone(),
                origin: origin(pod),
                cause: Cause::Uninitialized { claim: node.claim_name.clone(), node: node.node_name.clone() },
            })
        });
        let mut failures: Vec<Failure> = unplaced.chain(early).collect();
        failures.sort_by(|a, b| a.pod.cmp(&b.pod));
        WhatIf { claims: solution.claims, nodes: solution.nodes, failures }
    }
}

fn origin(pod: &Pod, gone: &FxHashSet<&Str>, leaving: &FxHashSet<&Str>) -> Origin {
    match &pod.spec.node_name {
        Some(node) if leaving.contains(node) => Origin::Leaving,
        Some(node) if gone.contains(node) => Origin::Moved,
        Some(_) | None => Origin::Pending,
    }
}

/// A node that goes is a node that is leaving.
fn mark(input: &mut Input, node: &NodeState) {
    match &node.claim_name {
        Some(name) => {
            input.node_claims.iter_mut().filter(|c| c.name == *name).for_each(|claim| claim.is_marked = true);
        }
        None => {
            let at = input.at;
            let nodes = input.nodes.iter_mut().filter(|n| n.metadata.name == node.name);
            nodes.for_each(|n| n.metadata.deletion_timestamp = Some(at));
        }
    }
}

impl WhatIf {
    /// Whether every pod that runs now would run again; those that were pending may stay so.
    pub(crate) fn all_scheduled(&self) -> bool {
        self.failures.iter().all(|f| f.origin == Origin::Pending)
    }
}

impl fmt::Display for WhatIf {
    /// The summary of spec 03 §7: at most five pods, then how many more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        let all: Vec<&Failure> = self.failures.iter().filter(|f| f.origin != Origin::Pending).collect();
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

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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

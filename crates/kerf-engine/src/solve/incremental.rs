//! A cluster that is prepared once, kept up to date by events, and asked often. Every question is put to the same books and leaves
//! them as they were, so that it costs what it is about and not what there is: one more pod, or the pods of the nodes that it
//! takes away.
//!
//! Events bring pods, nodes and node claims, in any order: a pod may come before its node. After any events the answers are those of a
//! cluster prepared from scratch. What changes seldom (pools, instance types, daemon sets, storage, budgets, services) is not
//! followed: then, and when [`Prepared::is_stale`] says so, the cluster is prepared again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::slim::{Node, Pod, PodDisruptionBudget, ReplicaOwner, Service, Str};
use rustc_hash::FxHashMap;

use super::class::ClassIx;
use super::pass::PlacementPass;
use super::problem::{PodIx, SchedulingProblem};
use super::solution::Solution;
use super::state::SolverState;
use super::zones::{self, EffectiveZone};
use super::{cluster_updates, compile, diagnostics, search};
use crate::cluster::{Input, NodeClaimInput, Settings, selection, state_of};
use crate::pod::default_spread::DefaultSpread;

/// A cluster, prepared for questions.
#[derive(Debug)]
pub struct IncrementalSolver {
    pub(super) problem: SchedulingProblem,
    pub(super) state: SolverState,
    at: Timestamp,
    pods: FxHashMap<Str, KnownPod>,
    /// Pods by the name of a node that is not there.
    homeless: FxHashMap<Str, Vec<PodIx>>,
    nodes: FxHashMap<Str, Arc<Node>>,
    claims: FxHashMap<Str, NodeClaimInput>,
    budgets: Vec<PodDisruptionBudget>,
    services: Vec<Service>,
    replica_owners: Vec<ReplicaOwner>,
    /// Pods whose protection ends with time.
    timed: FxHashMap<Str, Arc<Pod>>,
    classes_at_first: usize,
    is_stale: bool,
    /// The pods that gave in to get the last answer, or in vain, and what they became.
    pub(super) relaxed: Vec<(PodIx, ClassIx)>,
}

/// How a pod is known.
#[derive(Debug, Clone, Copy)]
enum KnownPod {
    /// It has a place in the books.
    Indexed(PodIx),
    /// It waits and is refused.
    Excluded,
}

impl IncrementalSolver {
    /// Prepares a cluster.
    pub fn new(input: &Input, settings: &Settings) -> Self {
        let (problem, state) = SchedulingProblem::prepared(input, settings);
        let entries =
            problem.pods.iter().enumerate().map(|(ix, pod)| (pod.name.clone(), KnownPod::Indexed(PodIx(ix as u32))));
        let refused = problem.refused.iter().map(|(name, _)| (name.clone(), KnownPod::Excluded));
        let mut prepared = Self {
            pods: entries.chain(refused).collect(),
            homeless: FxHashMap::default(),
            nodes: input.nodes.iter().map(|n| (n.metadata.name.clone(), n.clone())).collect(),
            claims: input.node_claims.iter().map(|c| (c.name.clone(), c.clone())).collect(),
            at: input.at,
            budgets: input.disruption_budgets.clone(),
            services: input.services.clone(),
            replica_owners: input.replica_owners.clone(),
            timed: input.pods.iter().filter(|p| is_timed(p)).map(|p| (p.namespaced_name(), p.clone())).collect(),
            classes_at_first: problem.classes.len(),
            is_stale: false,
            relaxed: Vec::new(),
            problem,
            state,
        };
        let is_homeless = |pod: &&Arc<Pod>| {
            let on = pod.spec.node_name.as_ref();
            !pod.is_terminal() && on.is_some_and(|node| !prepared.problem.world.node_index.contains_key(node))
        };
        let homeless: Vec<&Arc<Pod>> = input.pods.iter().filter(is_homeless).collect();
        for pod in homeless {
            prepared.pod_changed(pod);
        }
        prepared
    }

    /// Whether it is time to prepare the cluster again: something came that is not followed by events, or so many kinds of pods have come
    /// and gone that the books are mostly about the past.
    pub fn is_stale(&self) -> bool {
        self.is_stale || self.problem.classes.len() > 2 * self.classes_at_first + 10_000
    }

    /// Time goes on.
    pub fn set_time(&mut self, at: Timestamp) {
        self.at = at;
        for pod in self.timed.values().cloned().collect::<Vec<_>>() {
            self.pod_changed(&pod);
        }
    }

    /// A pod is new, or anything about it has changed.
    pub fn pod_changed(&mut self, pod: &Pod) {
        let name = pod.namespaced_name();
        self.pod_gone(&name);
        if is_timed(pod) {
            self.timed.insert(name.clone(), Arc::new(pod.clone()));
        }
        self.is_stale |= !self.problem.world.namespaces.iter().any(|(known, _)| *known == pod.metadata.namespace);
        let constraints = self.problem.world.settings.default_spread.clone();
        let mut defaults = DefaultSpread::new(&constraints, &self.services, &self.replica_owners);
        let (problem, state) = (&mut self.problem, &mut self.state);
        if selection::is_provisionable(pod, &problem.world.settings) {
            let waiting = problem.waiting.len();
            compile::pending_pod(problem, state, pod, defaults.of(pod));
            let known = match problem.waiting.get(waiting) {
                Some(ix) => KnownPod::Indexed(*ix),
                None => KnownPod::Excluded,
            };
            compile::settle(problem, state);
            self.pods.insert(name, known);
        } else if let Some(node) = pod.spec.node_name.as_ref().filter(|_| !pod.is_terminal()) {
            let may_move = selection::is_leaving(pod, &self.budgets, self.at);
            let ix = compile::running_pod(problem, state, pod, may_move, defaults.of(pod));
            // What the pod brings along is counted over what runs, and only then the pod itself.
            compile::settle(problem, state);
            match problem.world.node_index.get(node).copied() {
                Some(node) => cluster_updates::bind(problem, state, ix, node),
                None => self.homeless.entry(node.clone()).or_default().push(ix),
            }
            self.pods.insert(name, KnownPod::Indexed(ix));
        }
    }

    /// A pod, named as `namespace/name`, is no longer there.
    pub fn pod_gone(&mut self, name: &str) {
        self.timed.remove(name);
        match self.pods.remove(name) {
            Some(KnownPod::Indexed(ix)) => {
                cluster_updates::unbind(&mut self.problem, &mut self.state, ix);
                self.problem.waiting.retain(|other| *other != ix);
                self.problem.stuck.remove(&ix);
                self.homeless.retain(|_, pods| {
                    pods.retain(|other| *other != ix);
                    !pods.is_empty()
                });
                self.problem.free.push(ix);
            }
            Some(KnownPod::Excluded) => self.problem.refused.retain(|(other, _)| other != name),
            None => {}
        }
    }

    /// A Node is new, or anything about it has changed.
    pub fn node_changed(&mut self, node: &Arc<Node>) {
        let before = self.nodes.insert(node.metadata.name.clone(), node.clone());
        if before.as_ref() == Some(node) {
            return;
        }
        let machine = node.spec.provider_id.clone();
        if let Some(old) = before.map(|n| n.spec.provider_id.clone()).filter(|old| *old != machine) {
            self.machine_changed(&old, Some(&node.metadata.name));
        }
        self.machine_changed(&machine, Some(&node.metadata.name));
    }

    /// A Node is no longer there.
    pub fn node_gone(&mut self, name: &str) {
        if let Some(node) = self.nodes.remove(name) {
            self.machine_changed(&node.spec.provider_id, Some(&node.metadata.name));
        }
    }

    /// A node claim is new, or anything about it has changed.
    pub fn claim_changed(&mut self, claim: &NodeClaimInput) {
        let before = self.claims.insert(claim.name.clone(), claim.clone());
        if before.as_ref() == Some(claim) {
            return;
        }
        if let Some(old) = before.map(|c| c.provider_id).filter(|old| *old != claim.provider_id) {
            self.machine_changed(&old, None);
        }
        self.machine_changed(&claim.provider_id, None);
    }

    /// A node claim is no longer there.
    pub fn claim_gone(&mut self, name: &str) {
        if let Some(claim) = self.claims.remove(name) {
            self.machine_changed(&claim.provider_id, None);
        }
    }

    /// Where the pods go that wait: the answer of [`solve()`](super::solve()).
    pub fn solve(&mut self) -> Solution {
        self.ask(&[], &BTreeMap::new())
    }

    /// The same, where machines are on their way for some of the pods (by provider id). Each is offered its own first: the packing that the
    /// machines were launched for may be one that first fit does not find again.
    pub fn solve_expecting(&mut self, machines: &BTreeMap<Str, Str>) -> Solution {
        self.ask(&[], machines)
    }

    /// The same with further pods that wait. They are forgotten afterwards, but what their kind asks for is not.
    pub fn solve_with(&mut self, pending: &[Pod]) -> Solution {
        for pod in pending {
            self.pod_changed(pod);
        }
        let solution = self.ask(&[], &BTreeMap::new());
        for pod in pending {
            self.pod_gone(&pod.namespaced_name());
        }
        solution
    }

    /// How many of the pods that wait can use which zone, before anything is placed.
    pub fn pending_by_zone(&mut self) -> BTreeMap<EffectiveZone, usize> {
        let (problem, state) = (&mut self.problem, &mut self.state);
        cluster_updates::put_in_order(problem, state);
        let mut pass = PlacementPass::new(problem, std::mem::take(state));
        let counts = zones::count(&mut pass, &problem.waiting);
        self.state = pass.state;
        counts
    }

    /// What would become of all pods if these nodes were leaving.
    pub fn without(&mut self, nodes: &[Str]) -> Solution {
        self.ask(nodes, &BTreeMap::new())
    }

    fn ask(&mut self, nodes: &[Str], machines: &BTreeMap<Str, Str>) -> Solution {
        cluster_updates::put_in_order(&mut self.problem, &mut self.state);
        let expected = Arc::new(self.expected(machines));
        let (problem, state) = (&self.problem, &mut self.state);
        let mut pass = PlacementPass::new(problem, std::mem::take(state));
        pass.expected = expected;
        let mut queue: Vec<PodIx> = problem.waiting.clone();
        for node in nodes.iter().filter_map(|name| problem.world.find(name)) {
            pass.take_away(node, &mut queue);
        }
        pass.state.begin();
        problem.sort(&mut queue);
        let mut solution = search::best(&mut pass, &queue);
        solution.add_refused(problem.left_out(&pass.state.gone));
        self.relaxed = diagnostics::relaxed(&pass);
        pass.state.roll_back();
        self.state = pass.state;
        solution
    }

    /// Pods and the nodes that were launched for them, as far as both are known.
    fn expected(&self, machines: &BTreeMap<Str, Str>) -> FxHashMap<PodIx, usize> {
        if machines.is_empty() {
            return FxHashMap::default();
        }
        let nodes = self.problem.world.nodes.iter().enumerate();
        let nodes: FxHashMap<&str, usize> =
            nodes.filter(|(_, node)| !node.is_vacant).map(|(ix, node)| (node.provider_id.as_str(), ix)).collect();
        let known = |(pod, machine): (&Str, &Str)| match self.pods.get(pod)? {
            KnownPod::Indexed(pod) => Some((*pod, *nodes.get(machine.as_str())?)),
            KnownPod::Excluded => None,
        };
        machines.iter().filter_map(known).collect()
    }

    /// Joins a Node and a claim again, by the machine or, without one, by the Node's name.
    fn machine_changed(&mut self, machine: &Str, node_name: Option<&Str>) {
        let is_it = |id: &Str| !machine.is_empty() && id == machine;
        let claim = self.claims.values().filter(|c| is_it(&c.provider_id)).min_by(|a, b| a.name.cmp(&b.name));
        let node = match node_name.and_then(|name| self.nodes.get(name)) {
            Some(node) if node.spec.provider_id == *machine => Some(node),
            _ => self.nodes.values().filter(|n| is_it(&n.spec.provider_id)).min_by_key(|n| &n.metadata.name),
        };
        let (problem, state) = (&mut self.problem, &mut self.state);
        let joined = state_of(node.map(Arc::as_ref), claim, &mut problem.world.names);
        let is_old = |old: &crate::cluster::NodeState| {
            !old.is_vacant && (old.node_name.as_ref().is_some_and(|n| Some(n) == node_name) || old.is_of(machine))
        };
        let old: Vec<usize> = (0..problem.world.nodes.len()).filter(|ix| is_old(&problem.world.nodes[*ix])).collect();
        for ix in old {
            let name = problem.world.nodes[ix].node_name.clone();
            let pods = cluster_updates::remove_node(problem, state, ix);
            if let Some(name) = name.filter(|_| !pods.is_empty()) {
                self.homeless.entry(name).or_default().extend(pods);
            }
        }
        let Some(joined) = joined else { return };
        let name = joined.node_name.clone();
        let ix = cluster_updates::add_node(problem, state, joined);
        for pod in name.and_then(|name| self.homeless.remove(&name)).into_iter().flatten() {
            cluster_updates::bind(problem, state, pod, ix);
        }
    }
}

/// Whether time decides if the pod may be moved.
fn is_timed(pod: &Pod) -> bool {
    let value = pod.metadata.annotations.get(kerf_api::annotations::DO_NOT_DISRUPT);
    value.is_some_and(|value| value != "true")
}

#[cfg(test)]
mod tests;

//! A solver that keeps a cluster up to date by events and can be called often.
//!
//! Every call works on the same problem and state and rolls its changes back. So a call costs only
//! what it is about: the pods to place, or the pods of the nodes that a what-if removes.
//!
//! Events deliver pods, nodes and claims in any order; a pod may arrive before its node. After
//! any events, solutions equal those of a solver built from scratch. Inputs that rarely change
//! (pools, instance types, daemon sets, storage, budgets, services) have no events. When they
//! change, and when [`IncrementalSolver::is_stale`] returns true, the caller must build a new
//! solver.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::slim::{Node, Pod, PodDisruptionBudget, ReplicaOwner, Service, Str};
use rustc_hash::FxHashMap;

use super::class::ClassIx;
use super::launch_facts::{LaunchFacts, LaunchWait};
use super::pass::PlacementPass;
use super::problem::{PodIx, SchedulingProblem};
use super::solution::Solution;
use super::state::SolverState;
use super::zones::{self, EffectiveZone};
use super::{cluster_updates, compile, diagnostics, search};
use crate::cluster::{DaemonPods, Input, NodeClaimInput, Settings, join_node_and_claim, selection};
use crate::pod::default_spread::DefaultSpread;

/// A scheduling problem that is updated by events and solved repeatedly.
#[derive(Debug)]
pub struct IncrementalSolver {
    pub(super) problem: SchedulingProblem,
    pub(super) state: SolverState,
    at: Timestamp,
    pods: FxHashMap<Str, KnownPod>,
    /// Pods bound to a node that is not known (yet), by node name.
    pods_on_unknown_nodes: FxHashMap<Str, Vec<PodIx>>,
    nodes: FxHashMap<Str, Arc<Node>>,
    claims: FxHashMap<Str, NodeClaimInput>,
    budgets: Vec<PodDisruptionBudget>,
    services: Vec<Service>,
    replica_owners: Vec<ReplicaOwner>,
    /// Pods whose do-not-disrupt annotation holds for a limited time, by `namespace/name`.
    pods_with_timed_protection: FxHashMap<Str, Arc<Pod>>,
    daemon_pods: DaemonPods,
    initial_class_count: usize,
    initial_requirement_bytes: usize,
    is_stale: bool,
    /// Pods that were relaxed in the last solve, placed or not, with the class that they ended
    /// with.
    pub(super) relaxed_pods: Vec<(PodIx, ClassIx)>,
}

/// How the solver stores a pod.
#[derive(Debug, Clone, Copy)]
enum KnownPod {
    /// The pod has an entry in the problem.
    Indexed(PodIx),
    /// The pod is pending and left out of placing.
    Excluded,
}

impl IncrementalSolver {
    /// Builds the solver from a complete input. This is the expensive step; later calls cost only
    /// what changed.
    pub fn new(input: &Input, settings: &Settings) -> Self {
        let (problem, state) = SchedulingProblem::with_running_pods(input, settings);
        let entries =
            problem.pods.iter().enumerate().map(|(ix, pod)| (pod.name.clone(), KnownPod::Indexed(PodIx(ix as u32))));
        let excluded = problem.excluded_pods.iter().map(|(name, _)| (name.clone(), KnownPod::Excluded));
        let mut solver = Self {
            pods: entries.chain(excluded).collect(),
            pods_on_unknown_nodes: FxHashMap::default(),
            nodes: input.nodes.iter().map(|n| (n.metadata.name.clone(), n.clone())).collect(),
            claims: input.node_claims.iter().map(|c| (c.name.clone(), c.clone())).collect(),
            at: input.at,
            budgets: input.disruption_budgets.clone(),
            services: input.services.clone(),
            replica_owners: input.replica_owners.clone(),
            pods_with_timed_protection: input
                .pods
                .iter()
                .filter(|p| has_timed_protection(p))
                .map(|p| (p.namespaced_name(), p.clone()))
                .collect(),
            daemon_pods: DaemonPods::new(&input.daemon_sets, input.pods.iter().map(Arc::as_ref)),
            initial_class_count: problem.classes.len(),
            initial_requirement_bytes: state.table.lasting_bytes(),
            is_stale: false,
            relaxed_pods: Vec::new(),
            problem,
            state,
        };
        let is_on_unknown_node = |pod: &&Arc<Pod>| {
            let node_name = pod.spec.node_name.as_ref();
            !pod.is_terminal() && node_name.is_some_and(|node| !solver.problem.cluster.node_index.contains_key(node))
        };
        let on_unknown_nodes: Vec<&Arc<Pod>> = input.pods.iter().filter(is_on_unknown_node).collect();
        for pod in on_unknown_nodes {
            solver.update_pod(pod);
        }
        solver
    }

    /// Returns true if the caller must build a new solver. This is so if a pod arrived in an
    /// unknown namespace, if the newest pod of a DaemonSet requests something else than the solver
    /// uses for its DaemonSet, if there are more than twice as many pod classes as at the start
    /// plus 10,000, so that most of them belong to deleted pods, or if the requirements of deleted
    /// pods and nodes take more than 32 MiB.
    pub fn is_stale(&self) -> bool {
        self.is_stale
            || self.daemon_pods.has_changed()
            || self.problem.classes.len() > 2 * self.initial_class_count + 10_000
            || self.state.table.lasting_bytes() > 2 * self.initial_requirement_bytes + (32 << 20)
    }

    /// Sets the current time and re-evaluates pods whose protection is limited in time.
    pub fn set_time(&mut self, at: Timestamp) {
        self.at = at;
        for pod in self.pods_with_timed_protection.values().cloned().collect::<Vec<_>>() {
            self.update_pod(&pod);
        }
    }

    /// Adds a pod, or replaces the pod with this namespace and name.
    pub fn update_pod(&mut self, pod: &Pod) {
        let name = pod.namespaced_name();
        self.remove_pod(&name);
        self.daemon_pods.update(pod);
        if has_timed_protection(pod) {
            self.pods_with_timed_protection.insert(name.clone(), Arc::new(pod.clone()));
        }
        self.is_stale |=
            !self.problem.cluster.namespaces.iter().any(|(known_pod, _)| *known_pod == pod.metadata.namespace);
        let constraints = self.problem.cluster.settings.default_spread.clone();
        let mut defaults = DefaultSpread::new(&constraints, &self.services, &self.replica_owners);
        let (problem, state) = (&mut self.problem, &mut self.state);
        if selection::is_provisionable(pod, &problem.cluster.settings) {
            let pending_before = problem.pods_to_place.len();
            compile::add_pending_pod(problem, state, pod, defaults.constraints_for(pod));
            let known_pod = match problem.pods_to_place.get(pending_before) {
                Some(ix) => KnownPod::Indexed(*ix),
                None => KnownPod::Excluded,
            };
            compile::index_additions(problem, state);
            self.pods.insert(name, known_pod);
        } else if let Some(node) = pod.spec.node_name.as_ref().filter(|_| !pod.is_terminal()) {
            let is_reschedulable = selection::is_currently_reschedulable(pod, &self.budgets, self.at);
            let ix = compile::add_running_pod(problem, state, pod, is_reschedulable, defaults.constraints_for(pod));
            // Count running pods in the pod's new groups first, and only then the pod itself.
            compile::index_additions(problem, state);
            match problem.cluster.node_index.get(node).copied() {
                Some(node) => cluster_updates::bind(problem, state, ix, node),
                None => self.pods_on_unknown_nodes.entry(node.clone()).or_default().push(ix),
            }
            self.pods.insert(name, KnownPod::Indexed(ix));
        }
    }

    /// Removes a pod, given as `namespace/name`. Does nothing if it is not known.
    pub fn remove_pod(&mut self, name: &str) {
        self.pods_with_timed_protection.remove(name);
        self.daemon_pods.remove(name);
        match self.pods.remove(name) {
            Some(KnownPod::Indexed(ix)) => {
                cluster_updates::unbind(&mut self.problem, &mut self.state, ix);
                self.problem.pods_to_place.retain(|other| *other != ix);
                self.problem.unplaceable_pods.remove(&ix);
                self.pods_on_unknown_nodes.retain(|_, pods| {
                    pods.retain(|other| *other != ix);
                    !pods.is_empty()
                });
                self.problem.free_pod_slots.push(ix);
            }
            Some(KnownPod::Excluded) => self.problem.excluded_pods.retain(|(other, _)| other != name),
            None => {}
        }
    }

    /// Adds a Node, or replaces the Node with this name.
    pub fn update_node(&mut self, node: &Arc<Node>) {
        let previous = self.nodes.insert(node.metadata.name.clone(), node.clone());
        if previous.as_ref() == Some(node) {
            return;
        }
        let provider_id = node.spec.provider_id.clone();
        if let Some(old) = previous.map(|n| n.spec.provider_id.clone()).filter(|old| *old != provider_id) {
            self.rejoin_node(&old, Some(&node.metadata.name));
        }
        self.rejoin_node(&provider_id, Some(&node.metadata.name));
    }

    /// Removes a Node by name. Its pods stay known until they are removed.
    pub fn remove_node(&mut self, name: &str) {
        if let Some(node) = self.nodes.remove(name) {
            self.rejoin_node(&node.spec.provider_id, Some(&node.metadata.name));
        }
    }

    /// Adds a NodeClaim, or replaces the NodeClaim with this name.
    pub fn update_claim(&mut self, claim: &NodeClaimInput) {
        let previous = self.claims.insert(claim.name.clone(), claim.clone());
        if previous.as_ref() == Some(claim) {
            return;
        }
        if let Some(old) = previous.map(|c| c.provider_id).filter(|old| *old != claim.provider_id) {
            self.rejoin_node(&old, None);
        }
        self.rejoin_node(&claim.provider_id, None);
    }

    /// Removes a NodeClaim by name.
    pub fn remove_claim(&mut self, name: &str) {
        if let Some(claim) = self.claims.remove(name) {
            self.rejoin_node(&claim.provider_id, None);
        }
    }

    /// Places pending pods and pods of nodes marked for deletion. Returns the solution that
    /// [`solve()`](super::solve()) returns for this cluster.
    pub fn solve(&mut self) -> Solution {
        self.solve_inner(&[], &LaunchFacts::default())
    }

    /// Like [`solve`](Self::solve), with what the caller remembers about earlier launches.
    pub fn solve_with_launches(&mut self, launches: &LaunchFacts) -> Solution {
        self.solve_inner(&[], launches)
    }

    /// Returns the number of pending pods by the zones that they can use, before any pod is placed.
    pub fn pending_by_zone(&mut self) -> BTreeMap<EffectiveZone, usize> {
        let (problem, state) = (&mut self.problem, &mut self.state);
        cluster_updates::reindex_nodes(problem, state);
        let mut pass = PlacementPass::new(problem, std::mem::take(state));
        let counts = zones::count_by_zone(&mut pass, &problem.pods_to_place);
        self.state = pass.state;
        counts
    }

    /// Returns the solution for the cluster without these nodes, given by name. Pods of the removed
    /// nodes are placed together with the pending pods.
    pub fn solve_without_nodes(&mut self, nodes: &[Str]) -> Solution {
        self.solve_inner(nodes, &LaunchFacts::default())
    }

    fn solve_inner(&mut self, nodes: &[Str], launches: &LaunchFacts) -> Solution {
        cluster_updates::reindex_nodes(&mut self.problem, &mut self.state);
        let launched_nodes = Arc::new(self.launched_nodes(&launches.provider_ids));
        let launch_waits = launches.waits.iter().filter(|(_, wait)| wait.holds_at(self.at));
        let launch_waits: FxHashMap<PodIx, LaunchWait> =
            launch_waits.filter_map(|(pod, wait)| Some((self.indexed_pod(pod)?, *wait))).collect();
        let (problem, state) = (&self.problem, &mut self.state);
        let mut pass = PlacementPass::new(problem, std::mem::take(state));
        pass.launched_nodes = launched_nodes;
        pass.launch_waits = Arc::new(launch_waits);
        let is_assigned = |pod: &PodIx| launches.on_unlaunched_claims.contains(&problem.pods[pod.0 as usize].name);
        let mut queue: Vec<PodIx> = problem.pods_to_place.iter().filter(|pod| !is_assigned(pod)).copied().collect();
        for node in nodes.iter().filter_map(|name| problem.cluster.find(name)) {
            pass.simulate_node_removal(node, &mut queue);
        }
        pass.state.mark_pass_start();
        problem.sort_for_queue(&mut queue);
        let mut solution = search::solve_with_search(&mut pass, &queue);
        solution.add_excluded_pods(problem.excluded_pods_without(&pass.state.removed_nodes));
        self.relaxed_pods = diagnostics::collect_relaxed_pods(&pass);
        pass.state.roll_back();
        pass.state.shrink_caches();
        self.state = pass.state;
        solution
    }

    /// Returns the index of the launched node for each pod, where both are known.
    fn launched_nodes(&self, provider_ids: &BTreeMap<Str, Str>) -> FxHashMap<PodIx, usize> {
        if provider_ids.is_empty() {
            return FxHashMap::default();
        }
        let nodes = self.problem.cluster.nodes.iter().enumerate();
        let nodes: FxHashMap<&str, usize> =
            nodes.filter(|(_, node)| !node.is_removed).map(|(ix, node)| (node.provider_id.as_str(), ix)).collect();
        let launched_node =
            |(pod, provider_id): (&Str, &Str)| Some((self.indexed_pod(pod)?, *nodes.get(provider_id.as_str())?));
        provider_ids.iter().filter_map(launched_node).collect()
    }

    /// Returns the index of a pod, given as `namespace/name`. `None` if the pod is not known or is
    /// left out of placing.
    fn indexed_pod(&self, name: &str) -> Option<PodIx> {
        match self.pods.get(name)? {
            KnownPod::Indexed(pod) => Some(*pod),
            KnownPod::Excluded => None,
        }
    }

    /// Joins a Node and a NodeClaim again after one of them changed: by provider id or, if that is
    /// empty, by the Node's name.
    fn rejoin_node(&mut self, provider_id: &Str, node_name: Option<&Str>) {
        let is_same_instance = |id: &Str| !provider_id.is_empty() && id == provider_id;
        let claim =
            self.claims.values().filter(|c| is_same_instance(&c.provider_id)).min_by(|a, b| a.name.cmp(&b.name));
        let node = match node_name.and_then(|name| self.nodes.get(name)) {
            Some(node) if node.spec.provider_id == *provider_id => Some(node),
            _ => self.nodes.values().filter(|n| is_same_instance(&n.spec.provider_id)).min_by_key(|n| &n.metadata.name),
        };
        let (problem, state) = (&mut self.problem, &mut self.state);
        let joined = join_node_and_claim(node.map(Arc::as_ref), claim, &mut problem.cluster.resource_names);
        let is_affected = |node_state: &crate::cluster::NodeState| {
            !node_state.is_removed
                && (node_state.node_name.as_ref().is_some_and(|n| Some(n) == node_name)
                    || node_state.has_provider_id(provider_id))
        };
        let affected: Vec<usize> =
            (0..problem.cluster.nodes.len()).filter(|ix| is_affected(&problem.cluster.nodes[*ix])).collect();
        for ix in affected {
            let name = problem.cluster.nodes[ix].node_name.clone();
            let pods = cluster_updates::remove_node(problem, state, ix);
            if let Some(name) = name.filter(|_| !pods.is_empty()) {
                self.pods_on_unknown_nodes.entry(name).or_default().extend(pods);
            }
        }
        let Some(joined) = joined else { return };
        let name = joined.node_name.clone();
        let ix = cluster_updates::add_node(problem, state, joined);
        for pod in name.and_then(|name| self.pods_on_unknown_nodes.remove(&name)).into_iter().flatten() {
            cluster_updates::bind(problem, state, pod, ix);
        }
    }
}

/// Returns true if the pod has a do-not-disrupt annotation that may expire.
fn has_timed_protection(pod: &Pod) -> bool {
    let value = pod.metadata.annotations.get(kerf_api::annotations::DO_NOT_DISRUPT);
    value.is_some_and(|value| value != "true")
}

#[cfg(test)]
mod tests;

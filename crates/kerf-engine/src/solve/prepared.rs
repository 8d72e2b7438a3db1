//! A cluster that is prepared once and asked often. Every question is put to the same books and leaves them as they were, so that
//! it costs what it is about and not what there is: one more pod, or the pods of the nodes that it takes away.

use kerf_api::slim::{Pod, ReplicaOwner, Service, Str};
use rustc_hash::FxHashMap;

use super::answer::{Solution, Unplaced};
use super::pass::Pass;
use super::problem::{PodIx, Problem};
use super::state::State;
use super::{compile, search};
use crate::explain::Reason;
use crate::pod::default_spread::DefaultSpread;
use crate::world::{Input, Settings, selection};

/// A cluster, prepared for questions.
#[derive(Debug)]
pub struct Prepared {
    problem: Problem,
    state: State,
    by_name: FxHashMap<Str, usize>,
    services: Vec<Service>,
    replica_owners: Vec<ReplicaOwner>,
}

impl Prepared {
    /// Prepares a cluster.
    pub fn new(input: &Input, settings: &Settings) -> Self {
        let (problem, state) = Problem::prepared(input, settings);
        let has_defaults = !settings.default_spread.is_empty();
        let (services, replica_owners) =
            if has_defaults { (input.services.clone(), input.replica_owners.clone()) } else { Default::default() };
        let by_name = problem.world.nodes.iter().enumerate().map(|(ix, node)| (node.name.clone(), ix)).collect();
        Self { problem, state, by_name, services, replica_owners }
    }

    /// Where the pods go that wait: the answer of [`solve()`](super::solve()).
    pub fn solve(&mut self) -> Solution {
        self.ask(&[], &[])
    }

    /// The same with further pods that wait. They are forgotten afterwards, but what their kind asks for is not.
    pub fn solve_with(&mut self, pending: &[Pod]) -> Solution {
        let (pods, waiting, refused) =
            (self.problem.pods.len(), self.problem.waiting.len(), self.problem.refused.len());
        let constraints = self.problem.world.settings.default_spread.clone();
        let mut defaults = DefaultSpread::new(&constraints, &self.services, &self.replica_owners);
        for pod in pending {
            if !selection::is_provisionable(pod, &self.problem.world.settings) {
                continue;
            }
            compile::pending_pod(&mut self.problem, &mut self.state, pod, defaults.of(pod));
        }
        compile::settle(&mut self.problem, &mut self.state);
        let solution = self.ask(&[], &[]);
        self.problem.pods.truncate(pods);
        self.problem.waiting.truncate(waiting);
        self.problem.refused.truncate(refused);
        solution
    }

    /// What would become of all pods if these nodes were leaving.
    pub fn without(&mut self, nodes: &[Str]) -> Solution {
        let removed: Vec<usize> = nodes.iter().filter_map(|name| self.by_name.get(name)).copied().collect();
        let stuck: Vec<(Str, Reason)> =
            removed.iter().filter_map(|node| self.problem.stuck_on.get(node)).flatten().cloned().collect();
        self.ask(&removed, &stuck)
    }

    fn ask(&mut self, removed: &[usize], stuck: &[(Str, Reason)]) -> Solution {
        let mut pass = Pass::new(&self.problem, std::mem::take(&mut self.state));
        let mut queue: Vec<PodIx> = self.problem.waiting.clone();
        for node in removed {
            pass.take_away(*node, &mut queue);
        }
        pass.state.begin();
        self.problem.sort(&mut queue);
        let mut solution = search::best(&mut pass, &queue);
        let refused = self.problem.refused.iter().chain(stuck);
        solution.add_refused(refused.map(|(pod, reason)| Unplaced { pod: pod.clone(), reason: reason.clone() }));
        pass.state.roll_back();
        self.state = pass.state;
        solution
    }
}

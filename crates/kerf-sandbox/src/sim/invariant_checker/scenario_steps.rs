//! The parts of the records that steps of a scenario need: objects of NodePools, expected counts,
//! and jumps of the clock.

use jiff::{SignedDuration, Timestamp};
use kerf_api::slim::{Pod, PodPhase};

use super::InvariantChecker;
use crate::sim::invariants;
use crate::sim::scenario::ExpectStep;
use crate::simulated_cloud::SimulatedCloud;

/// The Nodes and NodeClaims that steps of a scenario can select, ordered by name.
#[derive(Debug, Default)]
pub(in crate::sim) struct ObjectsOfPools {
    pub(in crate::sim) nodes: Vec<PoolNode>,
    /// Names and NodePools of the NodeClaims that are not being deleted.
    claims: Vec<(String, String)>,
}

/// A Node with its NodePool; empty if it has none.
#[derive(Debug)]
pub(in crate::sim) struct PoolNode {
    pub(in crate::sim) name: String,
    pub(in crate::sim) pool: String,
    pub(in crate::sim) capacity_type: String,
}

impl ObjectsOfPools {
    /// Returns the names of the objects of a kind in a pool.
    pub(in crate::sim) fn names<'o>(&'o self, kind: &'o str, pool: &'o str) -> impl Iterator<Item = &'o str> {
        let nodes = self.nodes.iter().filter(move |node| kind == "Node" && node.pool == pool);
        let claims = self.claims.iter().filter(move |(_, of)| kind == "NodeClaim" && of == pool);
        nodes.map(|node| node.name.as_str()).chain(claims.map(|(name, _)| name.as_str()))
    }
}

impl InvariantChecker {
    /// Returns all Nodes and NodeClaims with their NodePools, ordered by name.
    pub(in crate::sim) fn objects_of_pools(&self) -> ObjectsOfPools {
        let nodes = self.nodes.iter().map(|(name, node)| PoolNode {
            name: name.to_string(),
            pool: node.pool.clone(),
            capacity_type: node.capacity_type.clone(),
        });
        let claims = self.claims.iter().filter(|(_, claim)| !claim.is_deleting);
        ObjectsOfPools {
            nodes: nodes.collect(),
            claims: claims.map(|(name, claim)| (name.clone(), claim.pool.clone())).collect(),
        }
    }

    /// Returns the counts that differ from the expected ones, as messages.
    pub(in crate::sim) fn unexpected_counts(
        &self,
        expected: &ExpectStep,
        cloud: Option<&dyn SimulatedCloud>,
    ) -> Vec<String> {
        let runs =
            |pod: &Pod| pod.status.phase == PodPhase::Running && !pod.is_terminating() && !pod.is_owned_by_daemonset();
        let running = self.pods.values().filter(|record| runs(&record.pod)).count();
        let ExpectStep { pods_running, pods_pending, nodes, node_claims, instances, .. } = expected;
        let live_instances = instances.map_or(0, |_| invariants::live_instances(self, cloud).len());
        let counts = [
            ("podsRunning", *pods_running, running),
            ("podsPending", *pods_pending, self.pending_pods().count()),
            ("nodes", *nodes, self.nodes.len()),
            ("nodeClaims", *node_claims, self.claims.len()),
            ("instances", *instances, live_instances),
        ];
        let message = |(name, expected, actual): (&str, Option<usize>, usize)| {
            let expected = expected.filter(|expected| *expected != actual)?;
            Some(format!("{name} is {actual}, expected is {expected}"))
        };
        counts.into_iter().filter_map(message).collect()
    }

    /// Records that the wall clock has jumped ahead, so that the jump counts neither as time of the
    /// run nor as cost.
    pub(in crate::sim) fn record_clock_jump(&mut self, by: SignedDuration) {
        let later = |at: Timestamp| at.saturating_add(by).unwrap_or(Timestamp::MAX);
        self.started = later(self.started);
        self.cost_meter.shift(by);
        self.steady_check.shift(by);
        for record in self.pods.values_mut() {
            record.created = later(record.created);
        }
    }
}

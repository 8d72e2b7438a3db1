//! Plans provisioning pass after pass, as a controller carries it out (spec 09 §2.2): each pass
//! works on the cluster in which the nodes of the earlier passes run as estimated, until a pass
//! places no pod.
//!
//! Some pods cannot be placed in the first pass by rule: pods that wait for a reservation (spec 02
//! §10), and pods whose affinity or anti-affinity depends on the zone in which another pod of the
//! same pass will run (spec 02 #101 and #102).

use std::sync::Arc;

use kerf_api::slim::{Pod, PodPhase, Str};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cluster::{Input, Settings};
use crate::disrupt::add_planned_node;
use crate::explain::{PlacementRule, Reason};
use crate::pod::requests::effective_requests;
use crate::resources::{Amounts, ResourceNames};
use crate::solve::{NodePlacement, PlannedClaim, Solution, UnplacedPod, solve};

/// All provisioning passes of a plan as one solution.
#[derive(Debug, Clone)]
pub struct ProvisioningPlan {
    /// The claims and placements of all passes. A pod that a later pass places on a node of an
    /// earlier one is listed with the claim of that node. Unplaced pods have the reasons of the last
    /// pass.
    pub solution: Solution,
    /// Number of passes that placed a pod, at least 1.
    pub passes: usize,
    /// False if the last pass that was allowed still placed a pod, so that a further pass might
    /// place more.
    pub is_complete: bool,
}

/// Places the pods of a cluster in as many passes as needed, at most `max_passes`.
///
/// The first pass equals [`solve`]. It is the only one if it places all pods or none, or if all pods
/// that it leaves out have a reason that no further node can change. Every further pass costs as
/// much as a call of [`solve`].
pub fn solve_passes(input: &Input, settings: &Settings, max_passes: usize) -> ProvisioningPlan {
    let mut plan = ProvisioningPlan { solution: solve(input, settings), passes: 1, is_complete: true };
    if !places_pods(&plan.solution) || !may_change(&plan.solution.unplaced, input, settings) {
        return plan;
    }
    let mut launched = LaunchedNodes { input: input.clone(), claim_by_node: FxHashMap::default() };
    let mut last = plan.solution.clone();
    let mut first_claim = 0;
    while plan.passes < max_passes {
        launched.carry_out(&last, first_claim);
        first_claim = plan.solution.claims.len();
        last = solve(&launched.input, settings);
        if !places_pods(&last) {
            plan.solution.unplaced = last.unplaced;
            plan.solution.sort_claims();
            return plan;
        }
        plan.passes += 1;
        launched.merge(&mut plan.solution, &last);
        if !may_change(&last.unplaced, input, settings) {
            plan.solution.sort_claims();
            return plan;
        }
    }
    plan.is_complete = false;
    plan.solution.sort_claims();
    plan
}

fn places_pods(solution: &Solution) -> bool {
    !solution.claims.is_empty() || !solution.nodes.is_empty()
}

/// Returns true if some of the pods might be placed once further nodes run.
fn may_change(unplaced: &[UnplacedPod], input: &Input, settings: &Settings) -> bool {
    let has_limits = input.pools.iter().any(|pool| !pool.limits.is_empty());
    let depends_on_others = |pod: &&Arc<Pod>| !settings.default_spread.is_empty() || has_constraints_on_others(pod);
    let dependent_pods: FxHashSet<Str> =
        input.pods.iter().filter(depends_on_others).map(|pod| pod.namespaced_name()).collect();
    unplaced.iter().any(|unplaced| match &unplaced.reason {
        Reason::OptedOut { .. }
        | Reason::Invalid(_)
        | Reason::Volume(_)
        | Reason::NoPools
        | Reason::NoTypes
        | Reason::DynamicResources
        | Reason::LaunchBackoff { .. }
        | Reason::OtherProvider(_) => false,
        Reason::ReservedCapacityDeferred | Reason::MinValuesAfterTruncation { .. } => true,
        Reason::RejectedByAllPools(rejections) => rejections.iter().any(|rejection| match rejection.rule {
            PlacementRule::Taint | PlacementRule::Requirements | PlacementRule::VolumeTopology => false,
            PlacementRule::Limits | PlacementRule::Topology => true,
            PlacementRule::InstanceTypes | PlacementRule::MinValues | PlacementRule::HostPorts => {
                has_limits || dependent_pods.contains(&unplaced.pod)
            }
        }),
    })
}

fn has_constraints_on_others(pod: &Pod) -> bool {
    let has_affinity = pod.spec.affinity.as_ref().is_some_and(|affinity| {
        !affinity.pod_affinity.required.is_empty() || !affinity.pod_anti_affinity.required.is_empty()
    });
    has_affinity || !pod.spec.topology_spread_constraints.is_empty()
}

/// The cluster in which the planned nodes run.
struct LaunchedNodes {
    input: Input,
    /// The index of the planned claim of each launched node, by node name.
    claim_by_node: FxHashMap<Str, usize>,
}

impl LaunchedNodes {
    /// Launches the claims of a pass as estimated and binds all pods that the pass places.
    /// `first_claim` is the index of the pass's first claim among the claims of all passes.
    fn carry_out(&mut self, solution: &Solution, first_claim: usize) {
        let mut targets: FxHashMap<&Str, Str> = FxHashMap::default();
        let mut without_node: FxHashSet<&Str> = FxHashSet::default();
        let existing: FxHashSet<Str> = self.input.nodes.iter().map(|node| node.metadata.name.clone()).collect();
        for (ix, claim) in solution.claims.iter().enumerate() {
            let mut name = Str::from(format!("{}-planned-{}", claim.pool, first_claim + ix + 1));
            while existing.contains(&name) {
                name = Str::from(format!("{name}-new"));
            }
            if add_planned_node(&mut self.input, claim, &name).is_some() {
                targets.extend(claim.pods.iter().map(|pod| (pod, name.clone())));
                self.claim_by_node.insert(name, first_claim + ix);
            } else {
                // The claim is planned all the same: later passes do not place its pods again.
                without_node.extend(&claim.pods);
            }
        }
        for placement in &solution.nodes {
            targets.extend(placement.pods.iter().map(|pod| (pod, placement.node.clone())));
        }
        let at = self.input.at;
        if !without_node.is_empty() {
            self.input.pods.retain(|pod| !without_node.contains(&pod.namespaced_name()));
        }
        for pod in &mut self.input.pods {
            if let Some(node) = targets.get(&pod.namespaced_name()) {
                let pod = Arc::make_mut(pod);
                pod.spec.node_name = Some(node.clone());
                pod.status.phase = PodPhase::Running;
                pod.status.start_time = Some(at);
                pod.metadata.deletion_timestamp = None;
            }
        }
    }

    /// Adds a later pass to the solution of the passes before it.
    fn merge(&self, solution: &mut Solution, later: &Solution) {
        for placement in &later.nodes {
            match self.claim_by_node.get(&placement.node) {
                Some(claim) => self.add_pods_to_claim(&mut solution.claims[*claim], &placement.pods),
                None => add_pods_to_node(&mut solution.nodes, placement),
            }
        }
        solution.claims.extend(later.claims.iter().cloned());
        solution.nodes.sort_by(|a, b| a.node.cmp(&b.node));
        solution.unplaced.clone_from(&later.unplaced);
        solution.stats.attempts += later.stats.attempts;
        solution.stats.steps += later.stats.steps;
    }

    fn add_pods_to_claim(&self, claim: &mut PlannedClaim, added: &[Str]) {
        let added_names: FxHashSet<&Str> = added.iter().collect();
        let mut names = ResourceNames::default();
        let mut requests: Amounts = names.amounts(&claim.requests);
        let pods = self.input.pods.iter().filter(|pod| added_names.contains(&pod.namespaced_name()));
        for pod in pods.map(|pod| -> &Pod { pod }) {
            requests.add(&effective_requests(pod, &mut names));
        }
        claim.requests = names.to_resource_list(&requests);
        claim.pods.extend(added.iter().cloned());
        claim.pods.sort_unstable();
    }
}

fn add_pods_to_node(nodes: &mut Vec<NodePlacement>, placement: &NodePlacement) {
    match nodes.iter_mut().find(|known| known.node == placement.node) {
        Some(known) => {
            known.pods.extend(placement.pods.iter().cloned());
            known.pods.sort_unstable();
        }
        None => nodes.push(placement.clone()),
    }
}

//! Checks the rules between pods for every combination of the launches that claims allow.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::bind_order::MAX_RANDOM_ORDERS;
use super::{PlacementTarget, PodTargets, Topology};
use crate::catalogue::Catalogue;
use crate::check::claims::claim_name;
use crate::check::launch::{PossibleLaunch, possible_launches};
use crate::check::{PoolDomains, Violation};
use crate::manifests::ClusterManifests;
use crate::placement::pod_key;
use crate::plan::{Plan, PlanClaim};
use crate::random::Random;
use crate::storage::HOSTNAME;

/// Up to this number, all combinations are tried. Beyond it, the estimates and a random sample of a
/// quarter of this number.
pub const MAX_COMBINATIONS: usize = 256;

pub(in crate::check) fn check(world: &ClusterManifests, catalogue: &Catalogue, plan: &Plan) -> Vec<Violation> {
    let broken = find_in_combinations(
        world,
        catalogue,
        plan,
        |ClaimCombination { topology, planned, places, describe_choices: open }| {
            let stuck = topology.unbindable_pods(planned, places, MAX_RANDOM_ORDERS);
            let told = stuck.into_iter().map(|(mover, broken)| Violation {
                rule: broken.rule,
                pod: Some(pod_key(topology.pods_to_place[mover])),
                node: planned[mover].map(|place| places[place].name.clone()),
                detail: format!("{}{}", broken.detail, open()),
            });
            Some(told.collect::<Vec<_>>()).filter(|all| !all.is_empty())
        },
    );
    broken.unwrap_or_default()
}

/// Returns true if the pod can be bound after all others, in every combination.
pub(in crate::check) fn can_be_bound_last(
    world: &ClusterManifests,
    catalogue: &Catalogue,
    plan: &Plan,
    pod: &str,
) -> bool {
    let refused =
        find_in_combinations(world, catalogue, plan, |ClaimCombination { topology, planned, places, .. }| {
            let mover = topology.pods_to_place.iter().position(|mover| pod_key(mover) == pod)?;
            topology.cannot_be_bound_last(mover, planned, places).then_some(())
        });
    refused.is_none()
}

/// One combination of launches: a target for each claim.
struct ClaimCombination<'o, 'w> {
    topology: &'o Topology<'w>,
    planned: &'o PodTargets,
    places: &'o [PlacementTarget],
    /// Describes the choice for each claim that had several.
    describe_choices: &'o dyn Fn() -> String,
}

/// Returns the first result of `look` over the combinations, or `None` if it returns none.
fn find_in_combinations<T>(
    world: &ClusterManifests,
    catalogue: &Catalogue,
    plan: &Plan,
    look: impl Fn(ClaimCombination<'_, '_>) -> Option<T>,
) -> Option<T> {
    let universe = PoolDomains::of(world, catalogue);
    let movers: Vec<&Pod> = world.pending_pods().iter().map(|pending| pending.pod).collect();
    let topology = Topology::new(world, &universe, movers);
    let claims = &plan.provisioning.node_claims;
    let planned = planned_targets(&topology, plan);
    let first_new = topology.existing_targets.len();
    let choices: Vec<Vec<PlacementTarget>> = claims
        .iter()
        .enumerate()
        .map(|(index, claim)| {
            let on = |mover: usize| planned[mover] == Some(first_new + index);
            claim_variants(&topology, world, catalogue, index, claim, on)
        })
        .collect();
    combinations(&choices).iter().find_map(|combination| {
        let chosen = choices.iter().zip(combination).map(|(variants, choice)| variants[*choice].clone());
        let places: Vec<PlacementTarget> = topology.existing_targets.iter().cloned().chain(chosen).collect();
        let open = || describe_open_choices(&choices, combination, &topology);
        look(ClaimCombination { topology: &topology, planned: &planned, places: &places, describe_choices: &open })
    })
}

/// Returns the target of each pod to place according to the plan.
fn planned_targets(topology: &Topology<'_>, plan: &Plan) -> PodTargets {
    let movers: BTreeMap<String, usize> =
        topology.pods_to_place.iter().enumerate().map(|(index, pod)| (pod_key(pod), index)).collect();
    let mut planned = vec![None; topology.pods_to_place.len()];
    let first_new = topology.existing_targets.len();
    for placement in &plan.provisioning.existing_nodes {
        let place = topology.existing_targets.iter().position(|place| place.name == placement.node);
        for mover in placement.pods.iter().filter_map(|pod| movers.get(pod)) {
            planned[*mover] = place;
        }
    }
    for (index, claim) in plan.provisioning.node_claims.iter().enumerate() {
        for mover in claim.pods.iter().filter_map(|pod| movers.get(pod)) {
            planned[*mover] = Some(first_new + index);
        }
    }
    planned
}

/// Returns the targets that the claim may become, one for each difference that rules between pods
/// can detect; the estimate first.
fn claim_variants(
    topology: &Topology<'_>,
    world: &ClusterManifests,
    catalogue: &Catalogue,
    index: usize,
    claim: &PlanClaim,
    on: impl Fn(usize) -> bool + Copy,
) -> Vec<PlacementTarget> {
    let name = claim_name(index, claim);
    let Some(pool) = world.pool(&claim.node_pool) else {
        return vec![PlacementTarget::planned_node(name, BTreeMap::new(), Vec::new())];
    };
    let place = |launch: Option<&PossibleLaunch<'_>>| {
        let mut labels = launch.map_or_else(|| pool.labels.clone(), |launch| launch.labels.clone());
        labels.insert(HOSTNAME.to_owned(), name.clone());
        PlacementTarget::planned_node(name.clone(), labels, pool.taints.clone())
    };
    let keys = topology.topology_keys_for(on);
    let mut all = possible_launches(pool, &claim.requirements, &claim.instance_types, catalogue);
    let said = &claim.estimate;
    all.sort_by_key(|launch| {
        let offering = launch.offering;
        !(launch.instance_type.name == said.instance_type
            && offering.zone() == said.zone
            && offering.capacity_type() == said.capacity_type)
    });
    let mut seen = Vec::new();
    let mut variants = Vec::new();
    for launch in &all {
        let place = place(Some(launch));
        let values: Vec<Option<String>> = keys.iter().map(|key| place.labels.get(*key).cloned()).collect();
        let signature = (values, topology.spread_inclusions(&place, on));
        if !seen.contains(&signature) {
            seen.push(signature);
            variants.push(place);
        }
    }
    if variants.is_empty() { vec![place(None)] } else { variants }
}

/// Returns the combinations to try: all, or the first and a sample.
pub(crate) fn combinations(choices: &[Vec<PlacementTarget>]) -> Vec<Vec<usize>> {
    let number = choices.iter().try_fold(1_usize, |product, variants| product.checked_mul(variants.len()));
    if number.is_some_and(|number| number <= MAX_COMBINATIONS) {
        return cartesian_product(choices.iter().map(|variants| (0..variants.len()).collect()));
    }
    let mut random = Random::new(choices.len() as u64);
    let sample =
        (0..MAX_COMBINATIONS / 4).map(|_| choices.iter().map(|variants| random.below(variants.len())).collect());
    std::iter::once(vec![0; choices.len()]).chain(sample.collect::<Vec<_>>()).collect()
}

/// Returns every choice of one item from each list; the first list varies slowest.
pub(crate) fn cartesian_product<T: Clone>(lists: impl IntoIterator<Item = Vec<T>>) -> Vec<Vec<T>> {
    lists.into_iter().fold(vec![Vec::new()], |chosen, list| {
        let longer = |choice: &Vec<T>, one: &T| choice.iter().cloned().chain([one.clone()]).collect();
        chosen.iter().flat_map(|choice| list.iter().map(|one| longer(choice, one)).collect::<Vec<_>>()).collect()
    })
}

/// Describes the choices of claims that had several, for the text of a violation.
fn describe_open_choices(choices: &[Vec<PlacementTarget>], combination: &[usize], topology: &Topology<'_>) -> String {
    let keys = topology.topology_keys_for(|_| true);
    let open = choices.iter().zip(combination).filter(|(variants, _)| variants.len() > 1);
    let told: Vec<String> = open
        .map(|(variants, choice)| {
            let place = &variants[*choice];
            let values: Vec<&str> = keys
                .iter()
                .filter(|key| **key != HOSTNAME)
                .filter_map(|key| place.labels.get(*key).map(String::as_str))
                .collect();
            format!("{} in {}", place.name, values.join(" "))
        })
        .collect();
    if told.is_empty() { String::new() } else { format!(", when {}", told.join(", ")) }
}

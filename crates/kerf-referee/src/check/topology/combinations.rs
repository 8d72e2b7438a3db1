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

/// Up to this number, all combinations are tried. If there are more, the combination of the
/// estimates and a random sample of a quarter of this number are tried.
pub const MAX_COMBINATIONS: usize = 256;

pub(in crate::check) fn check(cluster: &ClusterManifests, catalogue: &Catalogue, plan: &Plan) -> Vec<Violation> {
    let violations = find_in_combinations(
        cluster,
        catalogue,
        plan,
        |ClaimCombination { topology, planned, targets, describe_choices }| {
            let unbindable = topology.unbindable_pods(planned, targets, MAX_RANDOM_ORDERS);
            let violations = unbindable.into_iter().map(|(pod_index, broken)| Violation {
                rule: broken.rule,
                pod: Some(pod_key(topology.pods_to_place[pod_index])),
                node: planned[pod_index].map(|target| targets[target].name.clone()),
                detail: format!("{}{}", broken.detail, describe_choices()),
            });
            Some(violations.collect::<Vec<_>>()).filter(|all| !all.is_empty())
        },
    );
    violations.unwrap_or_default()
}

/// Returns true if the pod can be bound after all others, in every combination.
pub(in crate::check) fn can_be_bound_last(
    cluster: &ClusterManifests,
    catalogue: &Catalogue,
    plan: &Plan,
    pod: &str,
) -> bool {
    let violation =
        find_in_combinations(cluster, catalogue, plan, |ClaimCombination { topology, planned, targets, .. }| {
            let pod_index = topology.pods_to_place.iter().position(|candidate| pod_key(candidate) == pod)?;
            topology.cannot_be_bound_last(pod_index, planned, targets).then_some(())
        });
    violation.is_none()
}

/// One combination of launches: a target for each claim.
struct ClaimCombination<'o, 'w> {
    topology: &'o Topology<'w>,
    planned: &'o PodTargets,
    targets: &'o [PlacementTarget],
    /// Describes the choice for each claim that had several.
    describe_choices: &'o dyn Fn() -> String,
}

/// Returns the first result of `find` over the combinations, or `None` if it returns none.
fn find_in_combinations<T>(
    cluster: &ClusterManifests,
    catalogue: &Catalogue,
    plan: &Plan,
    find: impl Fn(ClaimCombination<'_, '_>) -> Option<T>,
) -> Option<T> {
    let pool_domains = PoolDomains::of(cluster, catalogue);
    let pods_to_place: Vec<&Pod> = cluster.pending_pods().iter().map(|pending| pending.pod).collect();
    let topology = Topology::new(cluster, &pool_domains, pods_to_place);
    let claims = &plan.provisioning.node_claims;
    let planned = planned_targets(&topology, plan);
    let first_new = topology.existing_targets.len();
    let choices: Vec<Vec<PlacementTarget>> = claims
        .iter()
        .enumerate()
        .map(|(index, claim)| {
            let is_on_claim = |pod_index: usize| planned[pod_index] == Some(first_new + index);
            claim_variants(&topology, cluster, catalogue, index, claim, is_on_claim)
        })
        .collect();
    combinations(&choices).iter().find_map(|combination| {
        let chosen = choices.iter().zip(combination).map(|(variants, choice)| variants[*choice].clone());
        let targets: Vec<PlacementTarget> = topology.existing_targets.iter().cloned().chain(chosen).collect();
        let describe_choices = || describe_open_choices(&choices, combination, &topology);
        find(ClaimCombination {
            topology: &topology,
            planned: &planned,
            targets: &targets,
            describe_choices: &describe_choices,
        })
    })
}

/// Returns the target of each pod to place according to the plan.
fn planned_targets(topology: &Topology<'_>, plan: &Plan) -> PodTargets {
    let pod_indices: BTreeMap<String, usize> =
        topology.pods_to_place.iter().enumerate().map(|(index, pod)| (pod_key(pod), index)).collect();
    let mut planned = vec![None; topology.pods_to_place.len()];
    let first_new = topology.existing_targets.len();
    for placement in &plan.provisioning.existing_nodes {
        let target = topology.existing_targets.iter().position(|target| target.name == placement.node);
        for pod_index in placement.pods.iter().filter_map(|pod| pod_indices.get(pod)) {
            planned[*pod_index] = target;
        }
    }
    for (index, claim) in plan.provisioning.node_claims.iter().enumerate() {
        for pod_index in claim.pods.iter().filter_map(|pod| pod_indices.get(pod)) {
            planned[*pod_index] = Some(first_new + index);
        }
    }
    planned
}

/// Returns the targets that the claim may become, one for each difference that rules between pods
/// can detect; the estimate first.
fn claim_variants(
    topology: &Topology<'_>,
    cluster: &ClusterManifests,
    catalogue: &Catalogue,
    index: usize,
    claim: &PlanClaim,
    is_on_claim: impl Fn(usize) -> bool + Copy,
) -> Vec<PlacementTarget> {
    let name = claim_name(index, claim);
    let Some(pool) = cluster.pool(&claim.node_pool) else {
        return vec![PlacementTarget::planned_node(name, BTreeMap::new(), Vec::new())];
    };
    let target = |launch: Option<&PossibleLaunch<'_>>| {
        let mut labels = launch.map_or_else(|| pool.labels.clone(), |launch| launch.labels.clone());
        labels.insert(HOSTNAME.to_owned(), name.clone());
        PlacementTarget::planned_node(name.clone(), labels, pool.taints.clone())
    };
    let keys = topology.topology_keys_for(is_on_claim);
    let mut launches = possible_launches(pool, &claim.requirements, &claim.instance_types, catalogue);
    let estimate = &claim.estimate;
    launches.sort_by_key(|launch| {
        let offering = launch.offering;
        !(launch.instance_type.name == estimate.instance_type
            && offering.zone() == estimate.zone
            && offering.capacity_type() == estimate.capacity_type)
    });
    let mut seen = Vec::new();
    let mut variants = Vec::new();
    for launch in &launches {
        let target = target(Some(launch));
        let values: Vec<Option<String>> = keys.iter().map(|key| target.labels.get(*key).cloned()).collect();
        let signature = (values, topology.spread_inclusions(&target, is_on_claim));
        if !seen.contains(&signature) {
            seen.push(signature);
            variants.push(target);
        }
    }
    if variants.is_empty() { vec![target(None)] } else { variants }
}

/// Returns the combinations to try: all, or the first and a sample.
pub(crate) fn combinations(choices: &[Vec<PlacementTarget>]) -> Vec<Vec<usize>> {
    let total = choices.iter().try_fold(1_usize, |product, variants| product.checked_mul(variants.len()));
    if total.is_some_and(|total| total <= MAX_COMBINATIONS) {
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
        let extend = |choice: &Vec<T>, item: &T| choice.iter().cloned().chain([item.clone()]).collect();
        chosen.iter().flat_map(|choice| list.iter().map(|item| extend(choice, item)).collect::<Vec<_>>()).collect()
    })
}

/// Describes the choices of claims that had several, for the text of a violation.
fn describe_open_choices(choices: &[Vec<PlacementTarget>], combination: &[usize], topology: &Topology<'_>) -> String {
    let keys = topology.topology_keys_for(|_| true);
    let undecided = choices.iter().zip(combination).filter(|(variants, _)| variants.len() > 1);
    let descriptions: Vec<String> = undecided
        .map(|(variants, choice)| {
            let target = &variants[*choice];
            let values: Vec<&str> = keys
                .iter()
                .filter(|key| **key != HOSTNAME)
                .filter_map(|key| target.labels.get(*key).map(String::as_str))
                .collect();
            format!("{} in {}", target.name, values.join(" "))
        })
        .collect();
    if descriptions.is_empty() { String::new() } else { format!(", when {}", descriptions.join(", ")) }
}

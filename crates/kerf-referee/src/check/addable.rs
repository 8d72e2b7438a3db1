//! Finds pods that the plan leaves out although they could be added to it without any other change.
//!
//! Tries each such pod on every existing node, on every claim (restricted to launches that suit the
//! pod), and on a claim of its own. The pod counts as addable if the plan has no new violation and
//! the pod can be bound after all others. Unlike the exhaustive search this works for clusters of
//! any size. Unlike a comparison of counts it never requires better packing: a planner that leaves
//! out an addable pod has stopped too early.
//!
//! Some placements are not required of a plan:
//!
//! - affinity to a pod whose zone is not decided (spec 02 §8.8, #101);
//! - a node without the topology key of a rule between pods: kube-scheduler accepts such a node for
//!   anti-affinity, spec 02 §8.5 requires a domain;
//! - a domain that no pool and no node has, but only a claim because of another pod;
//! - being the first match of its own affinity term in the domains of one node affinity term while
//!   matches exist in the domains of another: spec 02 #98 allows it, but kube-scheduler would never
//!   bind the pod.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use super::claims::unusable_volume_claim;
use super::launch::{PossibleLaunch, possible_launches};
use super::pool_domains::TaintPolicy;
use super::topology::can_be_bound_last;
use super::{DaemonPods, PoolDomains, check};
use crate::catalogue::{CAPACITY_TYPE, Catalogue, INSTANCE_TYPE, ZONE};
use crate::manifests::{ClusterManifests, ExistingNode, Pool};
use crate::placement::{affinity_terms, anti_affinity_terms, pod_key, spread_constraints, term_selects};
use crate::plan::{Estimate, ExistingPlacement, NodeRequirement, Plan, PlanClaim};
use crate::resources::sum_of_requests;
use crate::search::pod_equivalence_key;
use crate::selectors::{node_affinity_matches, required_node_affinity_terms, term_matches};
use crate::storage::HOSTNAME;

/// Returns the pods that the plan leaves unschedulable although they could be added:
/// `namespace/name` and the node or claim. Only the first of equivalent pods is tried: where it
/// cannot be placed, the others cannot either.
pub fn addable_pods(cluster: &ClusterManifests, catalogue: &Catalogue, plan: &Plan) -> Vec<(String, String)> {
    let daemons = DaemonPods::of(cluster);
    let violation_count = check(cluster, catalogue, plan).len();
    let pods: BTreeMap<String, &Pod> = cluster.pods.iter().map(|pod| (pod_key(pod), pod)).collect();
    let plannable: BTreeSet<String> = cluster
        .pending_pods()
        .into_iter()
        .filter(|pending| cluster.not_plannable_reason(*pending).is_none())
        .map(|pending| pod_key(pending.pod))
        .collect();
    let left_out = plan.provisioning.unschedulable.iter().map(|unschedulable| &unschedulable.pod);
    let candidates = left_out.filter(|key| plannable.contains(*key)).filter_map(|key| pods.get(key).copied());
    let mut tried_kinds: BTreeSet<String> = BTreeSet::new();
    candidates
        .filter(|pod| tried_kinds.insert(pod_equivalence_key(pod)))
        .filter(|pod| {
            !needs_undecided_domain(pod, cluster, plan, &pods)
                && !has_affinity_match_elsewhere(pod, cluster, plan, &pods)
        })
        .filter_map(|pod| {
            let mut plans = plans_with_pod(cluster, catalogue, plan, &daemons, &pods, pod).into_iter();
            let (target, _) = plans.find(|(_, plan_with_pod)| {
                check(cluster, catalogue, plan_with_pod).len() <= violation_count
                    && can_be_bound_last(cluster, catalogue, plan_with_pod, &pod_key(pod))
            })?;
            Some((pod_key(pod), target))
        })
        .collect()
}

/// Returns true if an affinity term of the pod selects a pod on a claim, whose domain is undecided,
/// and not the pod itself. Terms on hostnames do not count.
fn needs_undecided_domain(pod: &Pod, cluster: &ClusterManifests, plan: &Plan, pods: &BTreeMap<String, &Pod>) -> bool {
    let on_claims = plan.provisioning.node_claims.iter().flat_map(|claim| &claim.pods);
    let claimed_pods: Vec<&Pod> = on_claims.filter_map(|key| pods.get(key).copied()).collect();
    affinity_terms(pod).iter().filter(|term| term.topology_key != HOSTNAME).any(|term| {
        let selects = |other: &Pod| term_selects(term, pod, other, &cluster.namespaces);
        !selects(pod) && claimed_pods.iter().any(|other| selects(other))
    })
}

/// Returns true if the pod has several node affinity terms and an affinity term that selects both
/// itself and a pod that is already placed.
fn has_affinity_match_elsewhere(
    pod: &Pod,
    cluster: &ClusterManifests,
    plan: &Plan,
    pods: &BTreeMap<String, &Pod>,
) -> bool {
    let has_alternatives = required_node_affinity_terms(pod).is_some_and(|terms| terms.len() > 1);
    let planned = plan.placed_pods().filter_map(|key| pods.get(key).copied());
    let placed_pods: Vec<&Pod> =
        planned.chain(cluster.existing_nodes().iter().flat_map(|node| node.pods.clone())).collect();
    has_alternatives
        && affinity_terms(pod).iter().any(|term| {
            let selects = |other: &Pod| term_selects(term, pod, other, &cluster.namespaces);
            selects(pod) && placed_pods.iter().any(|other| selects(other))
        })
}

/// Returns one plan for each node or claim on which the pod could be placed, with its name.
fn plans_with_pod(
    cluster: &ClusterManifests,
    catalogue: &Catalogue,
    plan: &Plan,
    daemons: &DaemonPods,
    pods: &BTreeMap<String, &Pod>,
    pod: &Pod,
) -> Vec<(String, Plan)> {
    let key = pod_key(pod);
    let mut base_plan = plan.clone();
    base_plan.provisioning.unschedulable.retain(|unschedulable| unschedulable.pod != key);
    let mut plans = Vec::new();
    let own_keys = anti_affinity_terms(pod).iter().chain(affinity_terms(pod)).map(|term| &term.topology_key);
    let others_terms =
        cluster.pods.iter().flat_map(|other| anti_affinity_terms(other).iter().map(move |term| (other, term)));
    let excluding_terms = others_terms.filter(|(other, term)| term_selects(term, other, pod, &cluster.namespaces));
    let spread_keys = spread_constraints(pod).map(|spread| &spread.topology_key);
    let keys: Vec<&String> =
        own_keys.chain(excluding_terms.map(|(_, term)| &term.topology_key)).chain(spread_keys).collect();
    let has_domains = |node: &&ExistingNode| keys.iter().all(|key| *key == HOSTNAME || node.labels.contains_key(*key));
    for node in cluster.existing_nodes().iter().filter(|node| !node.is_deleting).filter(has_domains) {
        let mut next_plan = base_plan.clone();
        let placements = &mut next_plan.provisioning.existing_nodes;
        match placements.iter_mut().find(|placement| placement.node == node.name) {
            Some(placement) => placement.pods.push(key.clone()),
            None => placements.push(ExistingPlacement { node: node.name.clone(), pods: vec![key.clone()] }),
        }
        plans.push((node.name.clone(), next_plan));
    }
    let pool_domains = PoolDomains::of(cluster, catalogue);
    let is_known = |key: &str, value: &String| {
        let on_node = |node: &ExistingNode| node.labels.get(key) == Some(value);
        pool_domains.domains(key, pod, TaintPolicy::Ignore).contains(value)
            || cluster.existing_nodes().iter().any(on_node)
    };
    let is_in_known_domains = |claim: &&PlanClaim| {
        let mut domain_requirements = claim.requirements.iter().filter(|r| keys.contains(&&r.key));
        domain_requirements.all(|r| match r.operator.as_str() {
            "In" => r.values.iter().any(|value| is_known(&r.key, value)),
            _ => !pool_domains.domains(&r.key, pod, TaintPolicy::Ignore).is_empty(),
        })
    };
    let pods_of_claim =
        |claim: &PlanClaim| -> Vec<&Pod> { claim.pods.iter().filter_map(|key| pods.get(key).copied()).collect() };
    let claims = base_plan.provisioning.node_claims.iter().enumerate();
    for (index, claim) in claims.filter(|(_, claim)| is_in_known_domains(claim)) {
        let Some(pool) = cluster.pool(&claim.node_pool) else { continue };
        let claim_pods: Vec<&Pod> = pods_of_claim(claim).into_iter().chain([pod]).collect();
        for claim in
            claims_for(cluster, catalogue, daemons, pool, &claim.requirements, &claim.instance_types, &claim_pods)
        {
            let mut next_plan = base_plan.clone();
            next_plan.provisioning.node_claims[index] = claim;
            plans.push((super::claims::claim_name(index, &next_plan.provisioning.node_claims[index]), next_plan));
        }
    }
    let names: Vec<String> = catalogue.keys().cloned().collect();
    for pool in cluster.pools.iter().filter(|pool| pool.is_usable) {
        for claim in claims_for(cluster, catalogue, daemons, pool, &[], &names, &[pod]) {
            let mut next_plan = base_plan.clone();
            next_plan.provisioning.node_claims.push(claim);
            plans.push((format!("a new node of pool {}", pool.name), next_plan));
        }
    }
    plans
}

/// Returns claims for these pods, of which the last is the pod to add. There are separate claims
/// for each of its node affinity terms, because a claim cannot require one term or another.
fn claims_for(
    cluster: &ClusterManifests,
    catalogue: &Catalogue,
    daemons: &DaemonPods,
    pool: &Pool,
    requirements: &[NodeRequirement],
    types: &[String],
    pods: &[&Pod],
) -> Vec<PlanClaim> {
    let terms = pods.last().and_then(|added_pod| required_node_affinity_terms(added_pod)).unwrap_or_default();
    let launches = possible_launches(pool, requirements, types, catalogue);
    let claims =
        |launches: &[&PossibleLaunch<'_>]| claims_from_launches(cluster, daemons, pool, requirements, launches, pods);
    if terms.is_empty() {
        return claims(&launches.iter().collect::<Vec<_>>());
    }
    let by_term = terms.iter().map(|term| {
        let matching_launches = launches.iter().filter(|launch| term_matches(term, "", &launch.labels));
        claims(&matching_launches.collect::<Vec<_>>())
    });
    by_term.flatten().collect()
}

/// Returns claims for these pods: one that allows all suitable launches, and one for each zone and
/// capacity type. Each exists twice: with all suitable types, and with the smallest type alone in
/// case a pool limit applies.
fn claims_from_launches(
    cluster: &ClusterManifests,
    daemons: &DaemonPods,
    pool: &Pool,
    requirements: &[NodeRequirement],
    launches: &[&PossibleLaunch<'_>],
    pods: &[&Pod],
) -> Vec<PlanClaim> {
    let storage = cluster.storage();
    let requests = sum_of_requests(pods.iter().copied());
    let is_suitable = |launch: &PossibleLaunch<'_>| {
        let instance_type = launch.instance_type;
        requests.plus(&daemons.overhead(pool, instance_type)).fits_into(&instance_type.allocatable)
            && pods.iter().all(|pod| {
                node_affinity_matches(pod, "", &launch.labels)
                    && unusable_volume_claim(pod, &launch.labels, &storage).is_none()
            })
    };
    let suitable: Vec<&PossibleLaunch<'_>> = launches.iter().copied().filter(|launch| is_suitable(launch)).collect();
    let offering_key =
        |launch: &PossibleLaunch<'_>| (launch.offering.zone().to_owned(), launch.offering.capacity_type().to_owned());
    let offering_keys: BTreeSet<(String, String)> = suitable.iter().map(|launch| offering_key(launch)).collect();
    let mut groups: Vec<Vec<&PossibleLaunch<'_>>> = vec![suitable.clone()];
    groups.extend(
        offering_keys
            .iter()
            .map(|key| suitable.iter().copied().filter(|launch| offering_key(launch) == *key).collect()),
    );
    groups.retain(|group| pods.last().is_none_or(|added_pod| has_single_spread_domains(added_pod, group)));
    let single_type_groups: Vec<Vec<&PossibleLaunch<'_>>> =
        groups.iter().filter_map(|group| smallest_type_only(group)).collect();
    groups.extend(single_type_groups);
    groups.iter().filter_map(|group| claim_for_launches(pool, requirements, daemons, group, pods)).collect()
}

/// Returns true if the launches leave one domain to each spread constraint of the pod, as spec 02
/// §8.5 requires.
fn has_single_spread_domains(pod: &Pod, launches: &[&PossibleLaunch<'_>]) -> bool {
    spread_constraints(pod).filter(|spread| spread.topology_key != HOSTNAME).all(|spread| {
        let domains: BTreeSet<_> = launches.iter().map(|launch| launch.labels.get(&spread.topology_key)).collect();
        domains.len() <= 1
    })
}

/// Returns the launches of the type with the least CPU.
fn smallest_type_only<'l, 'c>(group: &[&'l PossibleLaunch<'c>]) -> Option<Vec<&'l PossibleLaunch<'c>>> {
    let smallest = group.iter().min_by_key(|launch| launch.instance_type.capacity.get("cpu"))?.instance_type;
    Some(group.iter().filter(|launch| launch.instance_type.name == smallest.name).copied().collect())
}

/// Returns the claim that allows these launches, or `None` if there are none.
fn claim_for_launches(
    pool: &Pool,
    requirements: &[NodeRequirement],
    daemons: &DaemonPods,
    launches: &[&PossibleLaunch<'_>],
    pods: &[&Pod],
) -> Option<PlanClaim> {
    let mut sorted = launches.to_vec();
    sorted.sort_by_key(|launch| launch.price());
    let cheapest = sorted.first()?;
    let mut types: Vec<String> = Vec::new();
    for launch in &sorted {
        if !types.contains(&launch.instance_type.name) {
            types.push(launch.instance_type.name.clone());
        }
    }
    let one_of = |key: &str| {
        let values: BTreeSet<&String> = launches.iter().filter_map(|launch| launch.labels.get(key)).collect();
        let values = values.into_iter().cloned().collect();
        NodeRequirement { key: key.to_owned(), operator: "In".to_owned(), values, min_values: None }
    };
    // Labels that only the pool defines are also restricted to suitable values.
    let custom =
        pool.requirements.iter().filter(|r| r.operator == "In" && r.key != INSTANCE_TYPE).map(|r| one_of(&r.key));
    let narrowed = [one_of(ZONE), one_of(CAPACITY_TYPE)].into_iter().chain(custom);
    let overhead = daemons.overhead(pool, cheapest.instance_type);
    Some(PlanClaim {
        name: String::new(),
        node_pool: pool.name.clone(),
        pods: pods.iter().map(|pod| pod_key(pod)).collect(),
        instance_types: types,
        requirements: requirements.iter().cloned().chain(narrowed).collect(),
        requests: sum_of_requests(pods.iter().copied())
            .plus(&overhead)
            .iter()
            .map(|(name, amount)| (name.to_owned(), amount.to_string()))
            .collect(),
        estimate: Estimate {
            instance_type: cheapest.instance_type.name.clone(),
            zone: cheapest.offering.zone().to_owned(),
            capacity_type: cheapest.offering.capacity_type().to_owned(),
            price_per_hour: cheapest.price(),
        },
    })
}

#[cfg(test)]
mod tests;

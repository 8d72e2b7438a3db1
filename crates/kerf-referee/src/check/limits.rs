//! Checks pool limits and reservations: existing nodes plus the largest possible launch of each
//! claim.

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::quantity::Quantity;

use super::launch::possible_launches;
use super::{PlanRule, Violation};
use crate::catalogue::Catalogue;
use crate::manifests::{ClusterManifests, Pool};
use crate::plan::{Plan, PlanClaim};
use crate::resources::Resources;

pub(super) fn check(cluster: &ClusterManifests, catalogue: &Catalogue, plan: &Plan) -> Vec<Violation> {
    let mut violations = Vec::new();
    for pool in &cluster.pools {
        let claims = plan.provisioning.node_claims.iter().filter(|claim| claim.node_pool == pool.name);
        let capacities: Vec<Resources> = claims.map(|claim| max_capacity(claim, catalogue)).collect();
        if capacities.is_empty() {
            continue;
        }
        let total = capacities.iter().fold(pool_usage(cluster, pool), |sum, claim| sum.plus(claim));
        for (name, limit) in pool.limits.iter().filter(|(name, limit)| total.get(name) > *limit) {
            violations.push(Violation {
                rule: PlanRule::Limits,
                pod: None,
                node: None,
                detail: format!("pool {}, {name}: {} used or claimed, {limit} allowed", pool.name, total.get(name)),
            });
        }
    }
    violations.extend(check_reservations(cluster, catalogue, plan));
    violations
}

/// Returns the capacity of the pool's nodes, without those that are being deleted.
pub(crate) fn pool_usage(cluster: &ClusterManifests, pool: &Pool) -> Resources {
    let nodes = cluster.existing_nodes();
    let pool_nodes = nodes.iter().filter(|node| !node.is_deleting && node.pool() == Some(&pool.name));
    pool_nodes.fold(Resources::new(), |sum, node| sum.plus(&node.capacity))
}

/// Returns the greatest capacity among the claim's types, for each resource separately.
fn max_capacity(claim: &PlanClaim, catalogue: &Catalogue) -> Resources {
    let types = claim.instance_types.iter().filter_map(|name| catalogue.get(name));
    let mut most = types.fold(Resources::new(), |most, t| most.max(&t.capacity));
    most.set("nodes", Quantity::from_units(1));
    most
}

/// Checks that no reservation has more claims than free instances.
fn check_reservations(cluster: &ClusterManifests, catalogue: &Catalogue, plan: &Plan) -> Vec<Violation> {
    let mut free_instances: BTreeMap<&str, i64> = BTreeMap::new();
    for offering in catalogue.values().flat_map(|t| &t.offerings) {
        if let Some(id) = offering.reservation_id() {
            let least = free_instances.entry(id).or_insert(offering.reservation_capacity);
            *least = (*least).min(offering.reservation_capacity);
        }
    }
    let mut claim_counts: BTreeMap<&str, i64> = BTreeMap::new();
    for claim in &plan.provisioning.node_claims {
        let Some(pool) = cluster.pool(&claim.node_pool) else { continue };
        let launches = possible_launches(pool, &claim.requirements, &claim.instance_types, catalogue);
        let ids: BTreeSet<&str> = launches.iter().filter_map(|launch| launch.offering.reservation_id()).collect();
        for id in ids {
            *claim_counts.entry(id).or_default() += 1;
        }
    }
    let short = claim_counts.into_iter().filter(|(id, count)| *count > free_instances.get(id).copied().unwrap_or(0));
    short
        .map(|(id, count)| Violation {
            rule: PlanRule::Reservation,
            pod: None,
            node: None,
            detail: format!("{id}: {count} claims, {} left", free_instances.get(id).copied().unwrap_or(0)),
        })
        .collect()
}

//! Prepares what pods can be placed on: the rows of each pool, the topology domains, the nodes
//! grouped by profile (equal taints and equal values of all required labels), and the slots of
//! reservations. It places no pod and opens no claim.

use kerf_api::slim::Str;
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::cluster::{ClusterModel, MinValuesPolicy, PoolInput};
use crate::requirement::EffectiveOperator;
use crate::requirement_table::{RequirementSetIx, RequirementTable};
use crate::solve::problem::{NodeProfile, SchedulingProblem};
use crate::solve::state::SolverState;
use crate::solve::template::pool_requirement_set;

/// Returns the rows that satisfy a pool's own requirements (the pre-filter of spec 02 §5.4).
/// Returns no row if the rows together do not meet the pool's `minValues`. Under the policy
/// `BestEffort` they are returned all the same, and opening a claim lowers `minValues`.
pub(crate) fn rows_of_pool(
    cluster: &ClusterModel,
    pool: &PoolInput,
    requirements: RequirementSetIx,
    table: &mut RequirementTable,
) -> Bits {
    let Some(catalogue) = pool.catalogue.map(|c| &cluster.catalogues[c]) else { return Bits::new() };
    let rows = catalogue.view(requirements, table).rows;
    if !table.has_min_values(requirements) {
        return rows;
    }
    // `None`: the number of capacity types is not checked here but when a claim is opened, because
    // `minValues` of the capacity type does not apply to a claim that holds a reservation.
    let shortfalls = crate::solve::min_values::shortfalls(catalogue, &rows, requirements, None, table);
    if shortfalls.is_empty() || cluster.settings.min_values_policy == MinValuesPolicy::BestEffort {
        rows
    } else {
        Bits::new()
    }
}

/// Adds the domains of the topology keys that are new since the last call: label values of the
/// nodes that pools can launch, and of existing nodes (spec 02 §8.2). Also records the domain of
/// each node.
pub(super) fn add_domains(problem: &mut SchedulingProblem, state: &mut SolverState) {
    let SchedulingProblem { cluster, pools, node_domains, .. } = problem;
    let SolverState { table, keys, .. } = state;
    // `node_domains` has one entry per topology key that an earlier call has processed.
    for ix in keys.iter().skip(node_domains.len()) {
        let key = keys.label_key(ix);
        for pool_ix in pools.iter() {
            let pool = &cluster.pools[*pool_ix];
            let Some(catalogue) = pool.catalogue.map(|c| &cluster.catalogues[c]) else { continue };
            let requirements = pool_requirement_set(pool, &cluster.label_rules, table);
            let pool_requirement = table.get(requirements, key);
            let mut values: Vec<Str> = Vec::new();
            if let Some(requirement_ix) = pool_requirement {
                values.extend(listed_values(table, requirement_ix));
            }
            for instance_type in &catalogue.types {
                let requirement_ix = match (pool_requirement, table.get(instance_type.requirements, key)) {
                    (Some(pool_requirement), Some(declared)) => {
                        table.intersect_requirements(pool_requirement, declared).0
                    }
                    (None, Some(declared)) => declared,
                    (_, None) => continue,
                };
                values.extend(listed_values(table, requirement_ix));
            }
            values.sort_unstable();
            values.dedup();
            for value in &values {
                keys.add_offered_domain(ix, value, *pool_ix);
            }
        }
        let text = keys.text(ix).clone();
        // Sorted by value, so that domain indices do not depend on the order of the nodes.
        let mut values_of_nodes: Vec<(&str, usize)> = cluster
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(node_ix, node)| Some((node.labels.get(&text)?, node_ix)))
            .collect();
        values_of_nodes.sort_unstable();
        let mut domain_of_node = vec![None; cluster.nodes.len()];
        for (value, node) in values_of_nodes {
            // Nodes that are marked for deletion have a domain, because pods still run there.
            if !cluster.nodes[node].is_removed {
                domain_of_node[node] = Some(keys.add_node_domain(ix, &Str::from(value)));
            }
        }
        node_domains.push(domain_of_node);
    }
}

fn listed_values(table: &RequirementTable, requirement_ix: crate::requirement_table::RequirementIx) -> Vec<Str> {
    let requirement = table.requirement(requirement_ix);
    if requirement.operator() == EffectiveOperator::In { requirement.values().to_vec() } else { Vec::new() }
}

/// Groups nodes by taints and by the labels that some class requires. Does nothing if the profiles
/// exist and no class that was added since the last call requires another label. A change of the
/// nodes clears the profiles (`reindex_nodes`).
pub(super) fn group_nodes_by_profile(problem: &mut SchedulingProblem, state: &mut SolverState) {
    let SchedulingProblem { cluster, classes, node_profiles, profile_keys, profiled_class_count, .. } = problem;
    let table = &mut state.table;
    let old_key_count = profile_keys.len();
    for class in &classes[*profiled_class_count..] {
        for requirements in [class.requirements, class.strict_requirements]
            .into_iter()
            .chain(class.volume_alternatives.iter().map(|v| v.0))
        {
            for (key, _) in table.pairs(requirements) {
                if let Err(position) = profile_keys.binary_search(key) {
                    profile_keys.insert(position, *key);
                }
            }
        }
    }
    *profiled_class_count = classes.len();
    if profile_keys.len() == old_key_count && !node_profiles.is_empty() {
        return;
    }
    node_profiles.clear();
    let mut index: FxHashMap<(RequirementSetIx, &[kerf_api::slim::Taint]), usize> = FxHashMap::default();
    // Nodes that are marked for deletion accept no pod, and neither do removed nodes, which are
    // always marked.
    for (node_ix, node) in cluster.nodes.iter().enumerate().filter(|(_, n)| !n.is_marked_for_deletion) {
        let labels = table.project(node.label_requirements, profile_keys);
        let next = node_profiles.len();
        let profile_ix = *index.entry((labels, node.taints.as_slice())).or_insert(next);
        if profile_ix == next {
            node_profiles.push(NodeProfile { labels, example_node: node_ix, nodes: Bits::new() });
        }
        node_profiles[profile_ix].nodes.insert(node_ix);
    }
}

/// Collects the number of slots of each reservation over all pools. If the instance types of two
/// pools state different numbers for one reservation, the smallest is used (spec 02 §10).
pub(crate) fn collect_reservations(problem: &mut SchedulingProblem, state: &mut SolverState) {
    if !problem.cluster.settings.reserved_capacity {
        return;
    }
    let mut all: Vec<(Str, i32)> = Vec::new();
    for template in &problem.templates {
        for (id, slots) in &problem.cluster.catalogues[template.catalogue].reservations {
            match all.iter_mut().find(|(known, _)| known == id) {
                Some((_, least)) => *least = (*least).min(*slots),
                None => all.push((id.clone(), *slots)),
            }
        }
    }
    all.sort();
    state.reservations = all.iter().map(|(_, slots)| *slots).collect();
    problem.reservations = all;
}

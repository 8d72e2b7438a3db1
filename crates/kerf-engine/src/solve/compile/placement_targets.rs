//! Prepares the targets of pods: instance types per pool, topology domains, and nodes grouped by
//! profile.

use kerf_api::slim::Str;
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::cluster::{ClusterModel, MinValuesPolicy, PoolInput};
use crate::requirement::EffectiveOperator;
use crate::requirement_table::{RequirementSetIx, RequirementTable};
use crate::solve::problem::{NodeProfile, SchedulingProblem};
use crate::solve::state::SolverState;
use crate::solve::template::pool_requirement_set;

/// Returns the rows that satisfy a pool's own requirements (spec 02 §5.4). Empty if they do not
/// meet the pool's `minValues`; under `BestEffort` this is allowed, and opening a claim lowers
/// `minValues`.
pub(crate) fn pre_filter(
    world: &ClusterModel,
    pool: &PoolInput,
    set: RequirementSetIx,
    table: &mut RequirementTable,
) -> (RequirementSetIx, Bits) {
    let Some(columns) = pool.catalogue.map(|c| &world.catalogues[c]) else { return (set, Bits::new()) };
    let rows = columns.view(set, table).rows;
    if !table.has_min_values(set) {
        return (set, rows);
    }
    // Capacity types are checked when a claim is opened. A claim with a reservation needs no second
    // capacity type.
    let short = crate::solve::min_values::shortfalls(columns, &rows, set, None, table);
    if short.is_empty() || world.settings.min_values_policy == MinValuesPolicy::BestEffort {
        (set, rows)
    } else {
        (set, Bits::new())
    }
}

/// Adds the domains of new topology keys: values that pools can launch and values that nodes have
/// (spec 02 §8.2).
pub(super) fn add_domains(problem: &mut SchedulingProblem, state: &mut SolverState) {
    let SchedulingProblem { cluster: world, pools, node_domains, .. } = problem;
    let SolverState { table, keys, .. } = state;
    for ix in keys.iter().skip(node_domains.len()) {
        let key = keys.label_key(ix);
        for pool_ix in pools.iter() {
            let pool = &world.pools[*pool_ix];
            let Some(columns) = pool.catalogue.map(|c| &world.catalogues[c]) else { continue };
            let set = pool_requirement_set(pool, &world.label_rules, table);
            let asked = table.get(set, key);
            let mut values: Vec<Str> = Vec::new();
            if let Some(one) = asked {
                values.extend(listed_values(table, one));
            }
            for column in &columns.types {
                let one = match (asked, table.get(column.requirements, key)) {
                    (Some(asked), Some(declared)) => table.intersect_requirements(asked, declared).0,
                    (None, Some(declared)) => declared,
                    (_, None) => continue,
                };
                values.extend(listed_values(table, one));
            }
            values.sort_unstable();
            values.dedup();
            for value in &values {
                keys.add_offered_domain(ix, value, *pool_ix);
            }
        }
        let text = keys.text(ix).clone();
        // Sorted by value, so that domain indices do not depend on the order of the nodes.
        let mut on_nodes: Vec<(&str, usize)> =
            world.nodes.iter().enumerate().filter_map(|(at, n)| Some((n.labels.get(&text)?, at))).collect();
        on_nodes.sort_unstable();
        let mut column = vec![None; world.nodes.len()];
        for (value, node) in on_nodes {
            if !world.nodes[node].is_removed {
                column[node] = Some(keys.add_node_domain(ix, &Str::from(value)));
            }
        }
        node_domains.push(column);
    }
}

fn listed_values(table: &RequirementTable, one: crate::requirement_table::RequirementIx) -> Vec<Str> {
    let requirement = table.requirement(one);
    if requirement.operator() == EffectiveOperator::In { requirement.values().to_vec() } else { Vec::new() }
}

/// Groups nodes by taints and by the labels that some class requires. Does nothing if no further
/// label is required since the last call.
pub(super) fn group_nodes_by_profile(problem: &mut SchedulingProblem, state: &mut SolverState) {
    let SchedulingProblem {
        cluster: world,
        classes,
        node_profiles: shapes,
        profile_keys: asked,
        profiled_classes: shaped_classes,
        ..
    } = problem;
    let table = &mut state.table;
    let before = asked.len();
    for class in &classes[*shaped_classes..] {
        for set in [class.requirements, class.strict_requirements]
            .into_iter()
            .chain(class.volume_alternatives.iter().map(|v| v.0))
        {
            for (key, _) in table.pairs(set) {
                if let Err(at) = asked.binary_search(key) {
                    asked.insert(at, *key);
                }
            }
        }
    }
    *shaped_classes = classes.len();
    if asked.len() == before && !shapes.is_empty() {
        return;
    }
    shapes.clear();
    let mut index: FxHashMap<(RequirementSetIx, &[kerf_api::slim::Taint]), usize> = FxHashMap::default();
    for (at, node) in world.nodes.iter().enumerate().filter(|(_, n)| !n.is_marked_for_deletion) {
        let labels = table.project(node.label_requirements, asked);
        let next = shapes.len();
        let shape = *index.entry((labels, node.taints.as_slice())).or_insert(next);
        if shape == next {
            shapes.push(NodeProfile { labels, taints_from_node: at, nodes: Bits::new() });
        }
        shapes[shape].nodes.insert(at);
    }
}

/// Collects the slots of each reservation over all pools. If pools disagree, the smallest number
/// counts (spec 02 §10).
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

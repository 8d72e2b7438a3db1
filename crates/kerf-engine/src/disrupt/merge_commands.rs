//! Merges a command with earlier commands of the plan whose replacements it removes, so that no
//! node is launched only to be removed again.
//!
//! Passes are repeated on the cluster that the last one leaves behind, so a later command may
//! remove a node that an earlier one launches. The merged command removes the nodes of both, and
//! pods move once, to their final node. The cluster after the merged command equals the cluster
//! after both.
//!
//! Two commands are merged only if no command between the two depends on the launched node or on
//! the removal of the earlier command's nodes, and if the merged command by itself keeps the
//! budgets and price rules. Otherwise the launched node stays, and the plan reports it as
//! `LaunchedByPlan`.

use kerf_api::labels;
use kerf_api::slim::{Pod, Str};
use rustc_hash::{FxHashMap, FxHashSet};

use super::block_reason::SPOT_TO_SPOT_MIN_TYPES;
use super::budgets::NodePoolBudgets;
use super::command::{CommandNode, DisruptionCommand, Method};
use super::independent_commands::has_no_constraints_on_others;
use super::input::DisruptionSettings;
use super::moves::{MAX_REPLACEMENTS, max_replacement_price};
use super::pass::replacement_price;
use crate::cluster::Input;
use crate::price::Price;
use crate::solve::NodePlacement;

/// Returns the names of the nodes that the commands launch.
pub(crate) fn launched_node_names(commands: &[DisruptionCommand]) -> FxHashSet<Str> {
    commands.iter().flat_map(|command| &command.replacement_names).cloned().collect()
}

/// Merges `later` with those commands of `earlier` that launch the nodes it removes, or that move
/// pods to them. Returns all commands of the plan, or `None` if they cannot be merged.
///
/// In this module, `merged_commands` are these commands of `earlier`, and `skipped_replacements`
/// are the nodes that they launch and `later` removes. The merged command does not launch them.
pub(crate) fn merge_into_earlier(
    input: &Input,
    settings: &DisruptionSettings,
    budgets: &NodePoolBudgets,
    earlier: &[DisruptionCommand],
    later: &DisruptionCommand,
) -> Option<Vec<DisruptionCommand>> {
    let planned = launched_node_names(earlier);
    let skipped_replacements: FxHashSet<&Str> =
        later.nodes.iter().map(|n| &n.name).filter(|name| planned.contains(*name)).collect();
    let is_merged = |command: &&DisruptionCommand| {
        let receives =
            |p: &NodePlacement| skipped_replacements.contains(&p.node) && p.pods.iter().any(|pod| command.evicts(pod));
        command.replacement_names.iter().any(|name| skipped_replacements.contains(name))
            || command.placements.iter().any(receives)
    };
    let first = earlier.iter().position(|command| is_merged(&command))?;
    let (before, since) = earlier.split_at(first);
    let (merged_commands, between): (Vec<&DisruptionCommand>, Vec<&DisruptionCommand>) =
        since.iter().partition(is_merged);
    if !are_independent(input, &merged_commands, &between, later, &skipped_replacements) {
        return None;
    }
    let merged = merge(settings, &merged_commands, later, &skipped_replacements)?;
    let commands: Vec<DisruptionCommand> = before.iter().chain(between).cloned().chain([merged]).collect();
    are_within_budgets(budgets, input, &commands).then_some(commands)
}

/// Returns true if the merged commands can wait for the later command, and their pods can move
/// directly to the nodes on which the later command places them.
fn are_independent(
    input: &Input,
    merged_commands: &[&DisruptionCommand],
    between: &[&DisruptionCommand],
    later: &DisruptionCommand,
    skipped_replacements: &FxHashSet<&Str>,
) -> bool {
    // A command in between must not move a pod that a merged command moves, and must not use a node
    // that a merged command launches.
    let launched: FxHashSet<&Str> = merged_commands.iter().flat_map(|command| &command.replacement_names).collect();
    let is_disjoint = between.iter().all(|command| {
        command.pods.iter().all(|pod| !merged_commands.iter().any(|merged| merged.evicts(pod)))
            && command.placements.iter().all(|placement| !launched.contains(&placement.node))
    });
    // The instance type of a launched node that stays was chosen for the pods that it had at that
    // time. So the later command must not place other pods there.
    let uses_no_launched = later.placements.iter().all(|placement| !launched.contains(&placement.node));
    if !is_disjoint || !uses_no_launched {
        return false;
    }
    // The later command moves again all pods that the merged commands moved, and no other command
    // changes the cluster: the later simulation is exactly the simulation of the merged command.
    let moves_all_again = between.is_empty()
        && merged_commands.iter().all(|command| {
            command.replacement_names.iter().all(|name| skipped_replacements.contains(name))
                && command
                    .placements
                    .iter()
                    .all(|p| skipped_replacements.contains(&p.node) || !p.pods.iter().any(|pod| command.evicts(pod)))
        });
    if moves_all_again {
        return true;
    }
    let pods: FxHashMap<Str, &Pod> = input.pods.iter().map(|pod| (pod.namespaced_name(), pod.as_ref())).collect();
    let moved = merged_commands.iter().chain(between).copied().chain([later]).flat_map(|command| &command.pods);
    input.pools.iter().all(|pool| pool.limits.is_empty())
        && moved.into_iter().all(|pod| pods.get(pod).is_some_and(|pod| has_no_constraints_on_others(pod)))
}

/// Builds the command that does what the merged commands and the later command do. Returns `None`
/// if the rules of its method forbid it.
fn merge(
    settings: &DisruptionSettings,
    merged_commands: &[&DisruptionCommand],
    later: &DisruptionCommand,
    skipped_replacements: &FxHashSet<&Str>,
) -> Option<DisruptionCommand> {
    let existing = later.nodes.iter().filter(|node| !skipped_replacements.contains(&node.name));
    let nodes: Vec<CommandNode> =
        merged_commands.iter().flat_map(|command| &command.nodes).chain(existing).cloned().collect();
    let launches =
        merged_commands.iter().copied().chain([later]).flat_map(|c| c.replacement_names.iter().zip(&c.replacements));
    let (replacement_names, replacements): (Vec<_>, Vec<_>) = launches
        .filter(|(name, _)| !skipped_replacements.contains(name))
        .map(|(name, replacement)| (name.clone(), replacement.clone()))
        .unzip();
    let mut pods: Vec<Str> =
        merged_commands.iter().copied().chain([later]).flat_map(|command| &command.pods).cloned().collect();
    pods.sort_unstable();
    pods.dedup();
    let price_before = nodes.iter().map(|node| node.price).sum();
    let mut merged = DisruptionCommand {
        method: later.method,
        nodes,
        price_before,
        price_after: replacement_price(&replacements),
        replacements,
        replacement_names,
        pods,
        placements: merged_placements(merged_commands, later, skipped_replacements),
        scores: later.scores.clone(),
    };
    merged.method = merged_method(settings, merged_commands, &merged)?;
    Some(merged)
}

/// Returns the merged placements on existing nodes. Pods that were pending are placed as by the
/// later command.
fn merged_placements(
    merged_commands: &[&DisruptionCommand],
    later: &DisruptionCommand,
    skipped_replacements: &FxHashSet<&Str>,
) -> Vec<NodePlacement> {
    let mut all: Vec<NodePlacement> = later.placements.clone();
    for command in merged_commands {
        for placement in command.placements.iter().filter(|p| !skipped_replacements.contains(&p.node)) {
            let moved = placement.pods.iter().filter(|pod| command.evicts(pod)).cloned();
            match all.iter_mut().find(|other| other.node == placement.node) {
                Some(other) => other.pods.extend(moved),
                None => all.push(NodePlacement { node: placement.node.clone(), pods: moved.collect() }),
            }
        }
    }
    all.retain(|placement| !placement.pods.is_empty());
    for placement in &mut all {
        placement.pods.sort_unstable();
    }
    all.sort_by(|a, b| a.node.cmp(&b.node));
    all
}

/// Returns the method whose rules allow the merged command, or `None`.
///
/// The most expensive launch of each replacement costs less than the nodes that it replaces, also
/// over several steps. So only rules that depend on the combination of nodes are checked here.
fn merged_method(
    settings: &DisruptionSettings,
    merged_commands: &[&DisruptionCommand],
    merged: &DisruptionCommand,
) -> Option<Method> {
    let is_drift = |command: &&&DisruptionCommand| command.method == Method::Drift;
    if merged_commands.iter().any(|command| is_drift(&command)) {
        // Drifted nodes are replaced whatever that costs. Other nodes may not be removed in the
        // same command.
        let only_drifted = merged_commands.len() == 1 && merged.nodes.len() == merged_commands[0].nodes.len();
        return only_drifted.then_some(Method::Drift);
    }
    let estimates = || merged.replacements.iter().filter_map(|claim| claim.launch.estimate.as_ref());
    let all_spot = merged.nodes.iter().all(|node| node.capacity_type == labels::CAPACITY_TYPE_SPOT);
    if all_spot && estimates().any(|estimate| estimate.capacity_type == labels::CAPACITY_TYPE_SPOT) {
        let min_types = merged.replacements.iter().map(|claim| claim.launch.instance_types.len()).min();
        let is_flexible = merged.nodes.len() > 1 || min_types.is_some_and(|types| types >= SPOT_TO_SPOT_MIN_TYPES);
        if !settings.allows_spot_to_spot || !is_flexible {
            return None;
        }
    }
    // A reservation can be used only once, and a removed instance type must not be launched again.
    let uses_reservation = merged_commands
        .iter()
        .flat_map(|command| &command.replacements)
        .any(|claim| claim.launch.estimate.as_ref().is_some_and(|e| e.capacity_type == labels::CAPACITY_TYPE_RESERVED));
    let is_launched_again = |node: &CommandNode| {
        merged.replacements.iter().any(|claim| claim.launch.instance_types.contains(&node.instance_type))
    };
    if uses_reservation
        || (merged.nodes.len() > 1 && merged.nodes.iter().any(is_launched_again))
        || merged.saved() <= Price::ZERO
    {
        return None;
    }
    match (merged.nodes.len(), merged.replacements.len()) {
        (1, 0..=1) => Some(Method::SingleNode),
        (_, 0..=1) => Some(Method::MultiNode),
        (_, 2..=MAX_REPLACEMENTS) if merged.price_after <= max_replacement_price(merged.price_before) => {
            Some(Method::Move)
        }
        (_, _) => None,
    }
}

/// Returns true if the commands, in this order, keep the budgets.
fn are_within_budgets(budgets: &NodePoolBudgets, input: &Input, commands: &[DisruptionCommand]) -> bool {
    let mut budgets_left = budgets.clone();
    commands.iter().all(|command| {
        command.nodes.iter().all(|node| {
            let pool = input.pools.iter().position(|pool| pool.name == node.pool);
            let pool = pool.filter(|pool| budgets_left.remaining(*pool, &command.reason()) > 0);
            pool.is_some_and(|pool| {
                budgets_left.charge_node(pool);
                true
            })
        })
    })
}

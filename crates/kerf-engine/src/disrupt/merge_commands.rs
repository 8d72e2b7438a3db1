//! No machine is launched to be taken away again. Passes are repeated on the world that the last one leaves behind, so a later command
//! may want a machine that an earlier one of the same plan launches. Then the two are one decision, and are told as one: the nodes of
//! both go, and pods move once, to where they end up.
//!
//! The world after the one command is the world after the two. That can be said only if nothing in between counts on the machine or on
//! the earlier command's nodes being gone, and if the one keeps the budgets and price rules by itself. If it cannot be
//! said, the machine is left alone, and the plan says so.

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

/// The machines that commands launch.
pub(crate) fn launched_node_names(commands: &[DisruptionCommand]) -> FxHashSet<Str> {
    commands.iter().flat_map(|command| &command.replacement_names).cloned().collect()
}

/// The commands made so far with a later one that takes machines of theirs, all of these as one; none if that cannot be.
pub(crate) fn merge_into_earlier(
    input: &Input,
    settings: &DisruptionSettings,
    budgets: &NodePoolBudgets,
    made: &[DisruptionCommand],
    later: &DisruptionCommand,
) -> Option<Vec<DisruptionCommand>> {
    let planned = launched_node_names(made);
    let taken: FxHashSet<&Str> = later.nodes.iter().map(|n| &n.name).filter(|name| planned.contains(*name)).collect();
    let has_part = |command: &&DisruptionCommand| {
        let receives = |p: &NodePlacement| taken.contains(&p.node) && p.pods.iter().any(|pod| command.evicts(pod));
        command.replacement_names.iter().any(|machine| taken.contains(machine))
            || command.placements.iter().any(receives)
    };
    let first = made.iter().position(|command| has_part(&command))?;
    let (before, since) = made.split_at(first);
    let (parts, between): (Vec<&DisruptionCommand>, Vec<&DisruptionCommand>) = since.iter().partition(has_part);
    if !are_independent(input, &parts, &between, later, &taken) {
        return None;
    }
    let one = merge(settings, &parts, later, &taken)?;
    let all: Vec<DisruptionCommand> = before.iter().chain(between).cloned().chain([one]).collect();
    are_within_budgets(budgets, input, &all).then_some(all)
}

/// Whether the parts can wait for the later command, and their pods go straight to where that one puts them.
fn are_independent(
    input: &Input,
    parts: &[&DisruptionCommand],
    between: &[&DisruptionCommand],
    later: &DisruptionCommand,
    taken: &FxHashSet<&Str>,
) -> bool {
    // Whoever is moved by a command in between must not be moved by a part, and must not go to a machine of a part.
    let machines: FxHashSet<&Str> = parts.iter().flat_map(|part| &part.replacement_names).collect();
    let apart = between.iter().all(|command| {
        command.pods.iter().all(|pod| !parts.iter().any(|part| part.evicts(pod)))
            && command.placements.iter().all(|placement| !machines.contains(&placement.node))
    });
    // A machine that stays was chosen for the pods that it had then.
    let untouched = later.placements.iter().all(|placement| !machines.contains(&placement.node));
    if !apart || !untouched {
        return false;
    }
    // All that the parts had moved is moved again, from a world in which nothing else has changed: it is the later question that was asked.
    let whole = between.is_empty()
        && parts.iter().all(|part| {
            part.replacement_names.iter().all(|machine| taken.contains(machine))
                && part.placements.iter().all(|p| taken.contains(&p.node) || !p.pods.iter().any(|pod| part.evicts(pod)))
        });
    if whole {
        return true;
    }
    let pods: FxHashMap<Str, &Pod> = input.pods.iter().map(|pod| (pod.namespaced_name(), pod.as_ref())).collect();
    let moved = parts.iter().chain(between).copied().chain([later]).flat_map(|command| &command.pods);
    input.pools.iter().all(|pool| pool.limits.is_empty())
        && moved.into_iter().all(|pod| pods.get(pod).is_some_and(|pod| has_no_constraints_on_others(pod)))
}

/// The parts and the later command as one.
fn merge(
    settings: &DisruptionSettings,
    parts: &[&DisruptionCommand],
    later: &DisruptionCommand,
    taken: &FxHashSet<&Str>,
) -> Option<DisruptionCommand> {
    let real = later.nodes.iter().filter(|node| !taken.contains(&node.name));
    let nodes: Vec<CommandNode> = parts.iter().flat_map(|part| &part.nodes).chain(real).cloned().collect();
    let launched = parts.iter().copied().chain([later]).flat_map(|c| c.replacement_names.iter().zip(&c.replacements));
    let (machines, replacements): (Vec<_>, Vec<_>) =
        launched.filter(|(machine, _)| !taken.contains(machine)).map(|(m, r)| (m.clone(), r.clone())).unzip();
    let mut pods: Vec<Str> = parts.iter().copied().chain([later]).flat_map(|command| &command.pods).cloned().collect();
    pods.sort_unstable();
    pods.dedup();
    let before = nodes.iter().map(|node| node.price).sum();
    let mut one = DisruptionCommand {
        method: later.method,
        nodes,
        price_before: before,
        price_after: replacement_price(&replacements),
        replacements,
        replacement_names: machines,
        pods,
        placements: merged_placements(parts, later, taken),
        scores: later.scores.clone(),
    };
    one.method = merged_method(settings, parts, &one)?;
    Some(one)
}

/// Where pods go that go to nodes which are there. Pods that were pending go where the later command puts them.
fn merged_placements(
    parts: &[&DisruptionCommand],
    later: &DisruptionCommand,
    taken: &FxHashSet<&Str>,
) -> Vec<NodePlacement> {
    let mut all: Vec<NodePlacement> = later.placements.clone();
    for part in parts {
        for placement in part.placements.iter().filter(|p| !taken.contains(&p.node)) {
            let moved = placement.pods.iter().filter(|pod| part.evicts(pod)).cloned();
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

/// The method by which the one could have been found, if its rules allow it. The dearest launch of each machine costs less than what it
/// was for, and so does what was launched for that: what is left to ask is what depends on which nodes go together.
fn merged_method(
    settings: &DisruptionSettings,
    parts: &[&DisruptionCommand],
    one: &DisruptionCommand,
) -> Option<Method> {
    let is_drift = |part: &&&DisruptionCommand| part.method == Method::Drift;
    if parts.iter().any(|part| is_drift(&part)) {
        // What drifted goes whatever it costs; others may not go along with it.
        let alone = parts.len() == 1 && one.nodes.len() == parts[0].nodes.len();
        return alone.then_some(Method::Drift);
    }
    let estimates = || one.replacements.iter().filter_map(|claim| claim.launch.estimate.as_ref());
    let all_spot = one.nodes.iter().all(|node| node.capacity_type == labels::CAPACITY_TYPE_SPOT);
    if all_spot && estimates().any(|estimate| estimate.capacity_type == labels::CAPACITY_TYPE_SPOT) {
        let choice = one.replacements.iter().map(|claim| claim.launch.instance_types.len()).min();
        let enough = one.nodes.len() > 1 || choice.is_some_and(|types| types >= SPOT_TO_SPOT_MIN_TYPES);
        if !settings.allows_spot_to_spot || !enough {
            return None;
        }
    }
    // A reservation is taken once, and a type that goes does not come back.
    let reserved = parts
        .iter()
        .flat_map(|part| &part.replacements)
        .any(|claim| claim.launch.estimate.as_ref().is_some_and(|e| e.capacity_type == labels::CAPACITY_TYPE_RESERVED));
    let comes_back = |node: &CommandNode| {
        one.replacements.iter().any(|claim| claim.launch.instance_types.contains(&node.instance_type))
    };
    if reserved || (one.nodes.len() > 1 && one.nodes.iter().any(comes_back)) || one.saved() <= Price::ZERO {
        return None;
    }
    match (one.nodes.len(), one.replacements.len()) {
        (1, 0..=1) => Some(Method::SingleNode),
        (_, 0..=1) => Some(Method::MultiNode),
        (_, 2..=MAX_REPLACEMENTS) if one.price_after <= max_replacement_price(one.price_before) => Some(Method::Move),
        (_, _) => None,
    }
}

/// Whether the commands, in this order, keep the budgets.
fn are_within_budgets(budgets: &NodePoolBudgets, input: &Input, commands: &[DisruptionCommand]) -> bool {
    let mut left = budgets.clone();
    commands.iter().all(|command| {
        command.nodes.iter().all(|node| {
            let pool = input.pools.iter().position(|pool| pool.name == node.pool);
            let pool = pool.filter(|pool| left.remaining(*pool, &command.reason()) > 0);
            pool.is_some_and(|pool| {
                left.charge_node(pool);
                true
            })
        })
    })
}

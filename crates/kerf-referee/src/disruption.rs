//! May these nodes go? Every rule that the disruption half of a plan breaks.
//!
//! Commands are looked at in their order, each on the cluster that those before it leave behind: its nodes are gone, their pods
//! run where the plan says, and each replacement is the machine that was expected. Of each command is asked
//!
//! * whether its nodes may go at all (spec 03 §5 and §8): they are ours and up, no annotation, disruption budget or policy keeps
//!   them, they have rested, and the reason that is given is true;
//! * whether no earlier command launches one of them;
//! * whether the pool's budgets allow it, counted over the whole plan (spec 03 §6, spec 09 §2.2);
//! * whether every pod that has to move has a lawful place, by [`check()`](crate::check::check()) on the cluster without the nodes;
//! * whether the saving is what the catalogue says, and a replacement for cost's sake is cheaper however it is launched (§8.5).
//!
//! Shares nothing with the engine; a cluster is JSON here and is decoded anew for every question.

mod apply_commands;
mod cost;
mod rules;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::catalogue::{self, Catalogue};
use crate::check::{PlanRule, check};
use crate::manifests::ClusterManifests;
use crate::placement::pod_key;
use crate::plan::{ExistingPlacement, Plan, PlanCommand, PlanProvisioning, UnschedulablePod};

pub use self::apply_commands::apply_command;

/// Everything that is wrong with the commands of a plan, one sentence each.
pub fn disruption_violations(manifests: &str, types: &str, plan: &Plan, at: Timestamp) -> Result<Vec<String>, String> {
    let mut cluster: Value = serde_json::from_str(manifests).map_err(|error| error.to_string())?;
    let catalogue = catalogue::read(types).map_err(|error| error.to_string())?;
    let budgets = rules::RemainingBudgets::of(&cluster, at)?;
    let mut taken: BTreeMap<String, i64> = BTreeMap::new();
    let mut launched: Vec<&String> = Vec::new();
    let mut violations = cost::plan_cost_violations(&cluster, &catalogue, plan);
    for (index, command) in plan.disruption.commands.iter().enumerate() {
        let mut found = command_violations(&cluster, &catalogue, command, at)?;
        for name in &command.nodes {
            if launched.contains(&name) {
                found.push(format!("takes {name}, which an earlier command launches"));
            }
            let Some(pool) = rules::pool_name_of(&cluster, name) else { continue };
            let so_far = taken.entry(pool.clone()).or_default();
            let left = budgets.remaining(&pool, &command.reason) - *so_far;
            if left <= 0 {
                found.push(format!("{name} is over the budget of {pool} for {}", command.reason));
            }
            *so_far += 1;
        }
        let named = format!("command {index} ({} {})", command.reason, command.nodes.join(" "));
        violations.extend(found.into_iter().map(|fault| format!("{named}: {fault}")));
        cluster = apply_command(&cluster, &catalogue, command, at)?;
        launched.extend(command.replacements.iter().map(|claim| &claim.name));
    }
    Ok(violations)
}

fn command_violations(
    cluster: &Value,
    catalogue: &Catalogue,
    command: &PlanCommand,
    at: Timestamp,
) -> Result<Vec<String>, String> {
    let mut violations = rules::node_violations(cluster, command, at)?;
    violations.extend(cost::command_cost_violations(cluster, catalogue, command));
    violations.extend(moved_pod_violations(cluster, catalogue, command, at)?);
    violations.extend(rules::target_violations(cluster, command, at)?);
    Ok(violations)
}

/// Whether every pod of the nodes has a place, and a lawful one.
fn moved_pod_violations(
    cluster: &Value,
    catalogue: &Catalogue,
    command: &PlanCommand,
    at: Timestamp,
) -> Result<Vec<String>, String> {
    let must_move = rules::reschedulable_pods(cluster, &command.nodes)?;
    let mut violations = Vec::new();
    let mut told = command.pods.clone();
    told.sort();
    if told != must_move {
        violations.push(format!("moves {told:?}, but on its nodes are {must_move:?}"));
    }
    // Without the nodes, their pods are pending.
    let without = ClusterManifests::decode(&apply_commands::without_nodes(cluster, &command.nodes, &must_move))
        .map_err(|e| e.to_string())?;
    let mut placed: Vec<&String> = command.replacements.iter().flat_map(|claim| &claim.pods).collect();
    placed.extend(command.existing_nodes.iter().flat_map(|node| &node.pods));
    let may_wait = match command.reason.as_str() {
        "Drifted" => rules::pods_not_reschedulable_now(cluster, &command.nodes, at)?,
        _ => Vec::new(),
    };
    let lost: Vec<&String> = must_move.iter().filter(|pod| !placed.contains(pod) && !may_wait.contains(pod)).collect();
    if !lost.is_empty() {
        violations.push(format!("has no place for {lost:?}"));
    }
    let waiting = without.pending_pods().into_iter().map(|pending| pod_key(pending.pod));
    let unschedulable = waiting.filter(|pod| !placed.contains(&pod) && !lost.contains(&pod));
    let what_if = Plan {
        provisioning: PlanProvisioning {
            node_claims: command.replacements.clone(),
            existing_nodes: command
                .existing_nodes
                .iter()
                .map(|node| ExistingPlacement { node: node.node.clone(), pods: node.pods.clone() })
                .collect(),
            unschedulable: unschedulable.map(|pod| UnschedulablePod { pod, message: String::new() }).collect(),
        },
        ..Plan::default()
    };
    // Replacements do not tell their requests.
    let broken =
        check(&without, catalogue, &what_if).into_iter().filter(|violation| violation.rule != PlanRule::Requests);
    violations.extend(broken.map(|violation| format!("breaks {violation}")));
    Ok(violations)
}

#[cfg(test)]
mod tests;

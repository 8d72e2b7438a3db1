//! Checks the disruption part of a plan: returns every rule that its commands break.
//!
//! Commands are checked in their order, each on the cluster that the commands before it leave
//! behind: their nodes are deleted, the pods run where the plan states, and each replacement is the
//! instance of the estimate. For each command it checks that
//!
//! - its nodes may be removed (spec 03 §5 and §8): they are managed and initialized, no annotation,
//!   PodDisruptionBudget or policy protects them, `consolidateAfter` has passed, and the stated
//!   reason is true;
//! - no earlier command launches one of its nodes;
//! - the pool's disruption budgets allow it, counted over the whole plan (spec 03 §6, spec 09
//!   §2.2);
//! - every pod that must move has a valid target, by [`check()`](crate::check::check()) on the
//!   cluster without the nodes;
//! - the savings agree with the catalogue, and a replacement that is made to save money is cheaper
//!   whichever of its launches happens (§8.5).
//!
//! Shares no code with the engine. A cluster is JSON here and is decoded anew for every check.

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

/// Returns all violations of the commands of a plan, one sentence each. Fails if the input cannot
/// be decoded.
pub fn disruption_violations(manifests: &str, types: &str, plan: &Plan, at: Timestamp) -> Result<Vec<String>, String> {
    let mut cluster: Value = serde_json::from_str(manifests).map_err(|error| error.to_string())?;
    let catalogue = catalogue::read(types).map_err(|error| error.to_string())?;
    let budgets = rules::RemainingBudgets::of(&cluster, at)?;
    let mut disrupted_by_pool: BTreeMap<String, i64> = BTreeMap::new();
    let mut launched: Vec<&String> = Vec::new();
    let mut violations = cost::plan_cost_violations(&cluster, &catalogue, plan);
    for (index, command) in plan.disruption.commands.iter().enumerate() {
        let mut own_violations = command_violations(&cluster, &catalogue, command, at)?;
        for name in &command.nodes {
            if launched.contains(&name) {
                own_violations.push(format!("removes {name}, which an earlier command launches"));
            }
            let Some(pool) = rules::pool_name_of(&cluster, name) else { continue };
            let disrupted = disrupted_by_pool.entry(pool.clone()).or_default();
            let left = budgets.remaining(&pool, &command.reason) - *disrupted;
            if left <= 0 {
                own_violations
                    .push(format!("{name} exceeds the disruption budget of pool {pool} for {}", command.reason));
            }
            *disrupted += 1;
        }
        let label = format!("command {index} ({} {})", command.reason, command.nodes.join(" "));
        violations.extend(own_violations.into_iter().map(|violation| format!("{label}: {violation}")));
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

/// Checks that every pod of the nodes has a target, and that the targets are valid.
fn moved_pod_violations(
    cluster: &Value,
    catalogue: &Catalogue,
    command: &PlanCommand,
    at: Timestamp,
) -> Result<Vec<String>, String> {
    let must_move = rules::reschedulable_pods(cluster, &command.nodes)?;
    let mut violations = Vec::new();
    let mut planned_moves = command.pods.clone();
    planned_moves.sort();
    if planned_moves != must_move {
        violations.push(format!("moves the pods {planned_moves:?}, but its nodes run {must_move:?}"));
    }
    // Without the nodes, their pods are pending.
    let remaining_cluster =
        ClusterManifests::decode(&apply_commands::without_nodes(cluster, &command.nodes, &must_move))
            .map_err(|e| e.to_string())?;
    let mut placed: Vec<&String> = command.replacements.iter().flat_map(|claim| &claim.pods).collect();
    placed.extend(command.existing_nodes.iter().flat_map(|node| &node.pods));
    let may_wait = match command.reason.as_str() {
        "Drifted" => rules::pods_not_reschedulable_now(cluster, &command.nodes, at)?,
        _ => Vec::new(),
    };
    let without_target: Vec<&String> =
        must_move.iter().filter(|pod| !placed.contains(pod) && !may_wait.contains(pod)).collect();
    if !without_target.is_empty() {
        violations.push(format!("has no node for the pods {without_target:?}"));
    }
    let waiting = remaining_cluster.pending_pods().into_iter().map(|pending| pod_key(pending.pod));
    let unschedulable = waiting.filter(|pod| !placed.contains(&pod) && !without_target.contains(&pod));
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
    // Replacements have no requests in the plan.
    let broken = check(&remaining_cluster, catalogue, &what_if)
        .into_iter()
        .filter(|violation| violation.rule != PlanRule::Requests);
    violations.extend(broken.map(|violation| format!("breaks {violation}")));
    Ok(violations)
}

#[cfg(test)]
mod tests;

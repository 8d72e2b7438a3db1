//! Properties that every disruption plan must have, checked on random clusters.
//!
//! - No rule is broken, by [`disruption_violations`].
//! - A second plan, made after the first one is applied, has no commands. Exceptions: a budget held
//!   a command back, or the plan states that a node which it launches could be removed in turn
//!   (`LaunchedByPlan`).
//! - Removing an instance type from the catalogue that no node has and no command names does not
//!   change the commands.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use crate::catalogue;
use crate::disruption::{apply_command, disruption_violations};
use crate::generator::GeneratedCluster;
use crate::plan::Plan;
use crate::program::{PLAN_TIME, Planner};
use crate::random::Random;

/// Result of the checks on one cluster.
#[derive(Debug, Clone)]
pub struct ClusterPropertyResult {
    /// Seed of the cluster.
    pub seed: u64,
    /// All violations, one sentence each.
    pub violations: Vec<String>,
    /// Reasons of the plan's commands.
    pub reasons: Vec<String>,
    /// True if the plan states that a node which it launches could be removed in turn.
    pub is_unfinished: bool,
}

/// Makes a plan for a generated cluster and checks all properties.
pub fn check_cluster_properties(generated: &GeneratedCluster, kerf: &Planner<'_>) -> ClusterPropertyResult {
    let mut result = ClusterPropertyResult {
        seed: generated.seed,
        violations: Vec::new(),
        reasons: Vec::new(),
        is_unfinished: false,
    };
    if let Err(error) = run_checks(generated, kerf, &mut result) {
        result.violations.push(error);
    }
    result
}

fn run_checks(
    generated: &GeneratedCluster,
    kerf: &Planner<'_>,
    result: &mut ClusterPropertyResult,
) -> Result<(), String> {
    let at: Timestamp = PLAN_TIME.parse().map_err(|_| "cannot parse the time of the plan".to_owned())?;
    let (answer, plan) = request_plan(kerf, &generated.manifests, &generated.types)?;
    result.reasons = plan.disruption.commands.iter().map(|command| command.reason.clone()).collect();
    result.violations.extend(disruption_violations(&generated.manifests, &generated.types, &plan, at)?);
    if !result.violations.is_empty() {
        return Ok(());
    }
    let has_blocked = |code: &str| plan.disruption.blocked.iter().any(|blocked| blocked.code == code);
    result.is_unfinished = has_blocked("LaunchedByPlan");
    if !has_blocked("DisruptionBudget") && !result.is_unfinished && !plan.disruption.commands.is_empty() {
        let types = catalogue::read(&generated.types).map_err(|error| error.to_string())?;
        let mut cluster: Value = serde_json::from_str(&generated.manifests).map_err(|error| error.to_string())?;
        for command in &plan.disruption.commands {
            cluster = apply_command(&cluster, &types, command, at)?;
        }
        let (_, second_plan) = request_plan(kerf, &cluster.to_string(), &generated.types)?;
        if let Some(command) = second_plan.disruption.commands.first() {
            let applied_commands = plan.disruption.commands.iter().map(|command| (&command.reason, &command.nodes));
            result.violations.push(format!(
                "after the commands {:?} a second plan still has {} {:?}",
                applied_commands.collect::<Vec<_>>(),
                command.reason,
                command.nodes
            ));
        }
    }
    if let Some(fewer) = without_one_unnamed_type(generated, &plan)? {
        let (other, _) = request_plan(kerf, &generated.manifests, &fewer.1)?;
        if other["disruption"]["commands"] != answer["disruption"]["commands"] {
            result.violations.push(format!(
                "the commands differ without the instance type {}, which the plan does not name",
                fewer.0
            ));
        }
    }
    Ok(())
}

fn request_plan(kerf: &Planner<'_>, manifests: &str, types: &str) -> Result<(Value, Plan), String> {
    let answer = kerf(manifests, types)?;
    let plan = Plan::read(&answer).map_err(|error| format!("cannot read the plan: {error}"))?;
    Ok((answer, plan))
}

/// Removes an instance type that no node has and no command names; returns its name and the other
/// types. `None` if there is no such type. The zones of all offerings stay the same, so that
/// spreads have the same domains.
fn without_one_unnamed_type(generated: &GeneratedCluster, plan: &Plan) -> Result<Option<(String, String)>, String> {
    let types: Vec<Value> = serde_json::from_str(&generated.types).map_err(|error| error.to_string())?;
    let replacements = plan.disruption.commands.iter().flat_map(|command| &command.replacements);
    let named: BTreeSet<&String> = replacements.flat_map(|claim| &claim.instance_types).collect();
    let zones = |types: &[Value]| -> BTreeSet<String> {
        let offerings = types.iter().flat_map(|t| t["offerings"].as_array().into_iter().flatten());
        let requirements = offerings.flat_map(|o| o["Requirements"].as_array().into_iter().flatten());
        let zones = requirements.filter(|r| r["key"] == "topology.kubernetes.io/zone");
        zones.map(|r| r["values"].to_string()).collect()
    };
    let mut candidates: Vec<(String, String)> = Vec::new();
    for (index, instance_type) in types.iter().enumerate() {
        let name = instance_type["name"].as_str().unwrap_or_default();
        let mut fewer = types.clone();
        fewer.remove(index);
        let on_a_node = generated.manifests.contains(&format!("\"{name}\""));
        if !named.contains(&name.to_owned()) && !on_a_node && zones(&fewer) == zones(&types) {
            candidates.push((name.to_owned(), Value::Array(fewer).to_string()));
        }
    }
    if candidates.is_empty() {
        return Ok(None);
    }
    Ok(Some(candidates.swap_remove(Random::new(generated.seed).below(candidates.len()))))
}

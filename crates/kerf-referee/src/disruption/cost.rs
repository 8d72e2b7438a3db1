//! Prices of nodes and savings of commands, according to the catalogue.

use serde_json::Value;

use super::rules::{find_node, node_claim_of, objects_of_kind};
use crate::catalogue::{CAPACITY_TYPE, Catalogue, INSTANCE_TYPE, InstanceType, ZONE};
use crate::check::{PossibleLaunch, possible_launches};
use crate::manifests::{Pool, decode};
use crate::plan::{Plan, PlanClaim, PlanCommand};
use crate::price::Price;

/// Returns the price of a node: that of the first offering of its type, zone and capacity type,
/// available or not (spec 03 §5.4). Zero if there is none.
fn node_price(node: &Value, catalogue: &Catalogue) -> Price {
    let label = |key: &str| node["metadata"]["labels"][key].as_str().unwrap_or_default();
    let offerings = catalogue.get(label(INSTANCE_TYPE)).into_iter().flat_map(|t| &t.offerings);
    let mut matching_offerings =
        offerings.filter(|offering| offering.zone() == label(ZONE) && offering.capacity_type() == label(CAPACITY_TYPE));
    matching_offerings.next().map_or(Price::ZERO, |offering| offering.price)
}

fn total_node_price(cluster: &Value, catalogue: &Catalogue, nodes: &[String]) -> Price {
    nodes.iter().filter_map(|name| find_node(cluster, name)).map(|node| node_price(node, catalogue)).sum()
}

/// Checks that the plan's current and planned cost are correct.
pub(super) fn plan_cost_violations(cluster: &Value, catalogue: &Catalogue, plan: &Plan) -> Vec<String> {
    let managed_nodes = objects_of_kind(cluster, "Node").filter(|node| node_claim_of(cluster, node).is_some());
    let current: Price = managed_nodes.map(|node| node_price(node, catalogue)).sum();
    let saved: Price = plan.disruption.commands.iter().map(|command| command.savings_per_hour).sum();
    let planned = current + plan.price() - saved;
    let stated = (plan.cost.current_per_hour, plan.cost.planned_per_hour);
    let is_correct = stated.0.is_about(current) && stated.1.is_about(planned);
    (!is_correct)
        .then(|| {
            format!(
                "the cluster costs {current} now and {planned} after the plan, the plan states {} and {}",
                stated.0, stated.1
            )
        })
        .into_iter()
        .collect()
}

/// Checks that a command saves what it states, and that it saves something at all.
pub(super) fn command_cost_violations(cluster: &Value, catalogue: &Catalogue, command: &PlanCommand) -> Vec<String> {
    let before = total_node_price(cluster, catalogue, &command.nodes);
    let after: Price = command.replacements.iter().map(|claim| claim.estimate.price_per_hour).sum();
    let mut violations = Vec::new();
    if !command.savings_per_hour.is_about(before - after) {
        violations.push(format!("saves {}, the plan states {}", before - after, command.savings_per_hour));
    }
    let decision = if command.replacements.is_empty() { "delete" } else { "replace" };
    if command.decision != decision {
        violations.push(format!("is a {decision}, the plan states {}", command.decision));
    }
    if command.reason == "Underutilized" {
        if after >= before {
            violations.push(format!("moves pods without savings: {before} before, {after} afterwards"));
        }
        violations.extend(overpriced_launch_violations(cluster, catalogue, command, before));
    }
    violations
}

/// Checks that the replacements cost less than the nodes, whichever of their launches happens. A
/// launch uses spot before on-demand.
fn overpriced_launch_violations(
    cluster: &Value,
    catalogue: &Catalogue,
    command: &PlanCommand,
    before: Price,
) -> Vec<String> {
    let is_spot =
        |name: &String| find_node(cluster, name).is_some_and(|n| n["metadata"]["labels"][CAPACITY_TYPE] == "spot");
    let all_spot = command.nodes.iter().all(is_spot);
    let mut violations = Vec::new();
    let mut max_total = Price::ZERO;
    for claim in &command.replacements {
        let Some(pool) = decode_pool(cluster, &claim.node_pool) else { continue };
        let possible = possible_launches(&pool, &claim.requirements, &claim.instance_types, catalogue);
        if all_spot && possible.iter().any(|launch| launch.offering.capacity_type() == "spot") {
            violations.push("replaces spot by spot, which the feature gate does not allow".to_owned());
        }
        max_total = max_total + max_launch_price(claim, &possible, catalogue);
    }
    if max_total >= before {
        violations.push(format!("may cost up to {max_total} instead of {before}"));
    }
    violations
}

/// Returns the greatest price that a claim may have: of each listed type, the most expensive launch
/// of the capacity type that is used first.
fn max_launch_price(claim: &PlanClaim, possible: &[PossibleLaunch<'_>], catalogue: &Catalogue) -> Price {
    let types = claim.instance_types.iter().filter_map(|name| catalogue.get(name));
    let max_price_of = |instance_type: &InstanceType| {
        ["reserved", "spot", "on-demand"].into_iter().find_map(|kind| {
            let of_kind = possible.iter().filter(|launch| {
                launch.instance_type.name == instance_type.name && launch.offering.capacity_type() == kind
            });
            of_kind.map(PossibleLaunch::price).max()
        })
    };
    types.filter_map(max_price_of).max().unwrap_or(Price::ZERO)
}

fn decode_pool(cluster: &Value, wanted: &str) -> Option<Pool> {
    let pool = objects_of_kind(cluster, "NodePool").find(|pool| super::rules::object_name(pool) == wanted)?;
    decode(pool).ok()
}

//! A plan as a table for people (spec 09 section 2.3): new nodes, pods on existing nodes, unplaced
//! pods with reasons, nodes to remove, nodes that stay with reasons, and the cost. Equal rows are
//! merged and long tables are truncated, so that a plan for 500 nodes fits on a screen.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kerf_api::slim::Str;

use super::{
    PublishedBlock, PublishedCommand, PublishedCost, PublishedNodeClaim, PublishedPlacement, PublishedPlan,
    PublishedUnschedulable,
};
use crate::output::table;

/// Maximum number of rows of a table; further rows are only counted.
const ROWS_MAX: usize = 20;

pub(super) fn render(plan: &PublishedPlan<'_>) -> String {
    let sections = [
        ("New nodes", new_nodes_table(&plan.provisioning.node_claims)),
        ("Pods on existing nodes", existing_nodes_table(&plan.provisioning.existing_nodes)),
        ("Unschedulable pods", unschedulable_table(&plan.provisioning.unschedulable)),
        ("Nodes to remove", commands_table(&plan.disruption.commands)),
        ("Nodes that are being removed", blocked_nodes_table(plan.disruption.blocked.iter().filter(is_being_removed))),
        ("Nodes that stay", blocked_nodes_table(plan.disruption.blocked.iter().filter(|block| !is_being_removed(block)))),
    ];
    let mut text = String::new();
    for (title, table) in sections.iter().filter(|(_, table)| !table.is_empty()) {
        let _ = writeln!(text, "{title}\n\n{table}");
    }
    if text.is_empty() {
        text.push_str("Nothing to do.\n\n");
    }
    let _ = writeln!(text, "{}", cost_line(plan.cost));
    text
}

/// One row per kind of instance.
fn new_nodes_table(claims: &[PublishedNodeClaim<'_>]) -> String {
    let mut rows: BTreeMap<[String; 5], (usize, usize)> = BTreeMap::new();
    for claim in claims {
        let [kind, zone, capacity, price] = claim.estimate.as_ref().map_or_else(Default::default, |estimate| {
            let kind = abbreviated(estimate.instance_type, claim.instance_types.len());
            [kind, estimate.zone.to_owned(), estimate.capacity_type.to_owned(), dollars(estimate.price_per_hour)]
        });
        let (nodes, pods) = rows.entry([claim.node_pool.to_owned(), kind, zone, capacity, price]).or_default();
        *nodes += 1;
        *pods += claim.pods.len();
    }
    let row = |(kind, (nodes, pods)): (&[String; 5], &(usize, usize))| {
        let [pool, kind, zone, capacity, price] = kind.clone();
        vec![nodes.to_string(), pool, kind, zone, capacity, price, pods.to_string()]
    };
    let head = ["NODES", "POOL", "TYPE", "ZONE", "CAPACITY", "$/HOUR EACH", "PODS"];
    truncated_table(&head, rows.iter().map(row).collect())
}

fn existing_nodes_table(nodes: &[PublishedPlacement<'_>]) -> String {
    let row = |node: &PublishedPlacement<'_>| vec![node.node.to_owned(), first_name_and_count(node.pods)];
    truncated_table(&["NODE", "PODS"], nodes.iter().map(row).collect())
}

/// One row per reason.
fn unschedulable_table(pods: &[PublishedUnschedulable<'_>]) -> String {
    let mut rows: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for pod in pods {
        rows.entry((pod.code, &pod.message)).or_default().push(pod.pod);
    }
    let row = |((code, message), pods): (&(&str, &str), &Vec<&str>)| {
        vec![abbreviated(pods[0], pods.len()), (*code).to_owned(), (*message).to_owned()]
    };
    truncated_table(&["PODS", "CODE", "WHY"], rows.iter().map(row).collect())
}

/// One row per command, in the order of execution.
fn commands_table(commands: &[PublishedCommand<'_>]) -> String {
    let row = |command: &PublishedCommand<'_>| {
        let new_nodes = command.replacements.iter().map(|replacement| match &replacement.estimate {
            Some(estimate) => abbreviated(estimate.instance_type, replacement.instance_types.len()),
            None => replacement.node_pool.to_owned(),
        });
        vec![
            command.reason.clone(),
            command.decision.to_owned(),
            abbreviated(command.nodes.first().copied().unwrap_or_default(), command.nodes.len()),
            command.pods.len().to_string(),
            new_nodes.collect::<Vec<_>>().join(", "),
            dollars(command.savings_per_hour),
        ]
    };
    truncated_table(
        &["REASON", "DECISION", "NODES", "PODS", "NEW NODES", "$/HOUR SAVED"],
        commands.iter().map(row).collect(),
    )
}

/// Returns true if the node is not among the nodes that stay: it is being deleted, or a controller
/// carries out a command that removes it.
fn is_being_removed(block: &&PublishedBlock<'_>) -> bool {
    matches!(block.code, "AlreadyDisrupting" | "Deleting")
}

/// One row per reason.
fn blocked_nodes_table<'n>(nodes: impl Iterator<Item = &'n PublishedBlock<'n>>) -> String {
    let mut rows: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for node in nodes {
        rows.entry((node.code, &node.message)).or_default().push(node.node);
    }
    let row = |((code, message), nodes): (&(&str, &str), &Vec<&str>)| {
        vec![abbreviated(nodes[0], nodes.len()), (*code).to_owned(), (*message).to_owned()]
    };
    truncated_table(&["NODES", "CODE", "WHY"], rows.iter().map(row).collect())
}

/// Returns a table with at most [`ROWS_MAX`] rows, and a line with the number of further rows.
fn truncated_table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let more = rows.len().saturating_sub(ROWS_MAX);
    let mut text = table(head, rows.into_iter().take(ROWS_MAX));
    if more > 0 {
        let _ = writeln!(text, "… and {more} more (-o json shows all)");
    }
    text
}

/// Returns the first name and the number of further ones: `c-4x +12`.
fn abbreviated(first: &str, count: usize) -> String {
    if count > 1 { format!("{first} +{}", count - 1) } else { first.to_owned() }
}

fn first_name_and_count(names: &[Str]) -> String {
    abbreviated(names.first().map_or("", Str::as_str), names.len())
}

fn cost_line(cost: PublishedCost) -> String {
    let change = cost.planned_per_hour - cost.current_per_hour;
    let sign = if change < 0.0 { "-" } else { "+" };
    format!(
        "Cost: ${}/hour now, ${}/hour after this plan ({sign}${}).",
        dollars(cost.current_per_hour),
        dollars(cost.planned_per_hour),
        dollars(change.abs())
    )
}

/// Formats an amount with four decimals, which distinguish the smallest instances.
fn dollars(amount: f64) -> String {
    format!("{amount:.4}")
}

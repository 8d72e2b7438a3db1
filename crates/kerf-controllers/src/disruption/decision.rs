//! A decision and its texts. Log lines and Events have these fixed forms, because operators search
//! for them (spec 03 §11).

use jiff::Timestamp;
use kerf_api::labels;
use kerf_api::slim::Str;
use kerf_engine::requirement::Requirement;
use kerf_engine::{DisruptionCommand, PlannedClaim, Price};
use serde_json::{Value, json};

use crate::provisioning::report::join_names;

/// Logs a message about a decision with the fields that all such lines have. Further fields follow.
macro_rules! log_decision {
    ($level:ident, $decision:expr, $($rest:tt)+) => {
        tracing::$level!(
            "command-id" = $decision.id.as_str(),
            reason = $decision.reason(),
            command = $decision.text(),
            decision = $decision.command.decision(),
            "disrupted-node-count" = $decision.command.nodes.len(),
            "replacement-node-count" = $decision.command.replacements.len(),
            "pod-count" = $decision.command.pods.len(),
            "disrupted-nodes" = %kerf_operator::logs::json($decision.disrupted_nodes()),
            "replacement-nodes" = %kerf_operator::logs::json($decision.replacement_nodes()),
            $($rest)+
        )
    };
}
pub(super) use log_decision;

/// A command that is carried out.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    /// Unique ID of the command, in logs and in `/decisions`.
    pub(crate) id: Str,
    pub(crate) command: DisruptionCommand,
    /// Time at which the command was started.
    pub(crate) created: Timestamp,
}

impl Decision {
    /// Returns the reason in lower case, as metrics and logs show it.
    pub(crate) fn reason(&self) -> String {
        lowercase_reason(&self.command)
    }

    /// Returns the whole command as one line of text.
    pub(crate) fn text(&self) -> String {
        let command = &self.command;
        let mut pools: Vec<&str> = Vec::new();
        for node in &command.nodes {
            if !pools.contains(&node.pool.as_str()) {
                pools.push(&node.pool);
            }
        }
        format!(
            "{}/{}: {}: nodepools=[{}]: {} (savings: {})",
            command.reason(),
            self.id,
            command.decision(),
            pools.join(","),
            nodes_and_replacements(command),
            format_dollars(command.saved())
        )
    }

    /// Returns the nodes to be deleted, as a value of a log field.
    pub(crate) fn disrupted_nodes(&self) -> Value {
        let node = |node: &kerf_engine::CommandNode| {
            json!({
                "Node": {"name": node.name.as_str()},
                "NodeClaim": {"name": node.claim.as_str()},
                "capacity-type": node.capacity_type.as_str(),
                "instance-type": node.instance_type.as_str(),
            })
        };
        self.command.nodes.iter().map(node).collect()
    }

    /// Returns the replacements, as a value of a log field.
    pub(crate) fn replacement_nodes(&self) -> Value {
        let replacements = &self.command.replacements;
        let node = |planned: &PlannedClaim| {
            let mut node = json!({"capacity-type": capacity_type(planned)});
            if replacements.len() == 1 {
                let types = &planned.launch.instance_types;
                node["instance-types"] = join_names(types.iter(), types.len()).into();
            }
            node
        };
        replacements.iter().map(node).collect()
    }
}

/// Returns the reason in lower case, as metrics and logs show it.
pub(crate) fn lowercase_reason(command: &DisruptionCommand) -> String {
    command.reason().to_string().to_lowercase()
}

/// Formats the nodes and the number of replacements, such as `[a, b] -> [1 replacement]`.
fn nodes_and_replacements(command: &DisruptionCommand) -> String {
    let nodes: Vec<&str> = command.nodes.iter().map(|node| node.name.as_str()).collect();
    let replacements = match command.replacements.len() {
        0 => String::new(),
        1 => " -> [1 replacement]".to_owned(),
        count => format!(" -> [{count} replacements]"),
    };
    format!("[{}]{replacements}", nodes.join(", "))
}

/// Returns the text of the command for an Event about one of its nodes.
pub(crate) fn describe_for_node(command: &DisruptionCommand, node: &str) -> String {
    match command.nodes.len() {
        0 | 1 => format!("{}: {}", command.decision(), nodes_and_replacements(command)),
        count => format!("{}: [{node}] (part of {count}-node consolidation)", command.decision()),
    }
}

/// Formats a price, such as `$0.05`.
pub(crate) fn format_dollars(price: Price) -> String {
    format!("${:.2}", price.dollars())
}

/// Returns the capacity type that a replacement will have: the first of reserved, spot and
/// on-demand that its requirements allow. A launch can still use a later one.
pub(crate) fn capacity_type(planned: &PlannedClaim) -> &'static str {
    let requirement = planned.launch.requirements.get(labels::CAPACITY_TYPE);
    let allows = |value: &str| requirement.is_none_or(|allowed: &Requirement| allowed.has(value));
    [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_SPOT]
        .into_iter()
        .find(|value| allows(value))
        .unwrap_or(labels::CAPACITY_TYPE_ON_DEMAND)
}

#[cfg(test)]
mod tests {
    use kerf_engine::{CommandNode, Method};

    use super::*;

    fn command(nodes: &[&str], pools: &[&str]) -> DisruptionCommand {
        let node = |(name, pool): (&&str, &&str)| CommandNode {
            name: Str::new(name),
            claim: Str::new(name),
            pool: Str::new(pool),
            instance_type: Str::default(),
            capacity_type: Str::default(),
            price: Price::ZERO,
        };
        DisruptionCommand {
            method: Method::MultiNode,
            nodes: nodes.iter().zip(pools).map(node).collect(),
            replacements: Vec::new(),
            replacement_names: Vec::new(),
            pods: Vec::new(),
            placements: Vec::new(),
            price_before: Price::from_nanos(310_000_000),
            price_after: Price::ZERO,
            scores: Vec::new(),
        }
    }

    #[test]
    fn a_command_is_formatted_in_one_line() {
        let decision = Decision {
            id: Str::new_static("0b5a"),
            command: command(&["a", "b", "c"], &["x", "y", "x"]),
            created: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(decision.text(), "Underutilized/0b5a: delete: nodepools=[x,y]: [a, b, c] (savings: $0.31)");
        assert_eq!(describe_for_node(&decision.command, "b"), "delete: [b] (part of 3-node consolidation)");
        assert_eq!(describe_for_node(&command(&["a"], &["x"]), "a"), "delete: [a]");
        assert_eq!(decision.reason(), "underutilized");
    }
}

//! A decision and the words for it: the lines and events that operators search for have these forms (spec 03 §11).

use jiff::Timestamp;
use kerf_api::labels;
use kerf_api::slim::Str;
use kerf_engine::requirement::Requirement;
use kerf_engine::{DisruptionCommand, PlannedClaim, Price};
use serde_json::{Value, json};

use crate::provisioning::report::join_names;

/// Logs a line about a decision, with the fields that all such lines have and more behind them.
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
            "disrupted-nodes" = %$crate::logs::json($decision.disrupted_nodes()),
            "replacement-nodes" = %$crate::logs::json($decision.replacement_nodes()),
            $($rest)+
        )
    };
}
pub(super) use log_decision;

/// A command that is carried out.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    /// What it is known by.
    pub(crate) id: Str,
    pub(crate) command: DisruptionCommand,
    /// When it was started.
    pub(crate) created: Timestamp,
}

impl Decision {
    /// The reason in lower case, as metrics and log lines have it.
    pub(crate) fn reason(&self) -> String {
        lowercase_reason(&self.command)
    }

    /// The whole command in one line.
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

    /// The nodes that go, for the log.
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

    /// What is launched for them, for the log.
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

/// The reason in lower case, as metrics and log lines have it.
pub(crate) fn lowercase_reason(command: &DisruptionCommand) -> String {
    command.reason().to_string().to_lowercase()
}

/// `[a, b] -> [1 replacement]`
fn nodes_and_replacements(command: &DisruptionCommand) -> String {
    let nodes: Vec<&str> = command.nodes.iter().map(|node| node.name.as_str()).collect();
    let replacements = match command.replacements.len() {
        0 => String::new(),
        1 => " -> [1 replacement]".to_owned(),
        several => format!(" -> [{several} replacements]"),
    };
    format!("[{}]{replacements}", nodes.join(", "))
}

/// The command as events on one of its nodes tell it.
pub(crate) fn describe_for_node(command: &DisruptionCommand, node: &str) -> String {
    match command.nodes.len() {
        0 | 1 => format!("{}: {}", command.decision(), nodes_and_replacements(command)),
        several => format!("{}: [{node}] (part of {several}-node consolidation)", command.decision()),
    }
}

/// `$0.05`
pub(crate) fn format_dollars(price: Price) -> String {
    format!("${:.2}", price.dollars())
}

/// The capacity type that a replacement will have, as far as it is known before it is launched.
pub(crate) fn capacity_type(planned: &PlannedClaim) -> &'static str {
    let wanted = planned.launch.requirements.get(labels::CAPACITY_TYPE);
    let admits = |kind: &str| wanted.is_none_or(|asked: &Requirement| asked.has(kind));
    [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_SPOT]
        .into_iter()
        .find(|kind| admits(kind))
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
    fn a_command_in_one_line() {
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

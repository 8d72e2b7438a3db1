//! The result of disruption planning: commands in order of execution, every node that stays with
//! its reasons, prices, and warnings about the input.

use kerf_api::nodepool::DisruptionReason;
use kerf_api::slim::Str;

use super::balanced::BalancedScore;
use super::block_reason::BlockReason;
use crate::price::Price;
use crate::solve::{NodePlacement, PlannedClaim};

/// All commands for one input, and why every other node stays.
#[derive(Debug, Clone, Default)]
pub struct DisruptionPlan {
    /// The commands, in order of execution.
    pub commands: Vec<DisruptionCommand>,
    /// Nodes that stay, sorted by name, each with all its block reasons.
    pub blocked: Vec<BlockedNode>,
    /// Commands that the `Balanced` policy rejected in the last pass. Of single-node consolidation
    /// all are listed; of multi-node consolidation only the last one, and only if no command was
    /// found.
    pub rejected_commands: Vec<RejectedCommand>,
    /// Problems of the input. They do not stop planning for the rest of the input.
    pub warnings: Vec<InputWarning>,
    /// Price per hour of all managed nodes before the plan.
    pub price_before: Price,
    /// Price per hour of all managed nodes after the plan.
    pub price_after: Price,
    /// Counters for logs and metrics.
    pub stats: DisruptionStats,
}

/// One decision: nodes that are removed together, and the NodeClaims that are launched for their
/// pods first.
#[derive(Debug, Clone)]
pub struct DisruptionCommand {
    /// The method that found the command.
    pub method: Method,
    /// The nodes to remove.
    pub nodes: Vec<CommandNode>,
    /// NodeClaims to launch before the nodes are removed.
    pub replacements: Vec<PlannedClaim>,
    /// Node names under which later commands of the plan refer to `replacements`, by index. Set by
    /// [`disrupt`](super::disrupt) only; empty otherwise.
    pub replacement_names: Vec<Str>,
    /// Pods that are evicted and run again elsewhere, as `namespace/name`, sorted.
    pub pods: Vec<Str>,
    /// Existing nodes that receive pods. Besides evicted pods this includes pending ones.
    pub placements: Vec<NodePlacement>,
    /// Price per hour of the nodes to remove.
    pub price_before: Price,
    /// Expected price per hour of the replacements.
    pub price_after: Price,
    /// Scores of the command for each NodePool with the `Balanced` policy. Empty if no pool has it
    /// or the command does not consolidate.
    pub scores: Vec<BalancedScore>,
}

/// A command that the `Balanced` policy rejected: it saves too little for what it disrupts.
#[derive(Debug, Clone, PartialEq)]
pub struct RejectedCommand {
    /// The method that found the command.
    pub method: Method,
    /// The NodePools of its nodes.
    pub pools: Vec<Str>,
    /// Number of nodes it would remove.
    pub nodes: usize,
    /// `delete` or `replace`, as [`DisruptionCommand::decision`] returns it.
    pub decision: &'static str,
    /// Scores by NodePool. At least one of them is below the threshold.
    pub scores: Vec<BalancedScore>,
}

/// A node that a command removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandNode {
    /// Name of the Node.
    pub name: Str,
    /// Name of its NodeClaim.
    pub claim: Str,
    /// Name of its NodePool.
    pub pool: Str,
    /// Instance type, from the Node's label.
    pub instance_type: Str,
    /// Capacity type, from the Node's label.
    pub capacity_type: Str,
    /// Price per hour; zero if unknown.
    pub price: Price,
}

/// The way in which a command was found. Methods are tried in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Deletes nodes without reschedulable pods.
    Emptiness,
    /// Replaces drifted nodes of static NodePools.
    StaticDrift,
    /// Replaces drifted nodes of all other NodePools.
    Drift,
    /// Removes several nodes whose pods fit on existing nodes or on one cheaper node.
    MultiNode,
    /// Removes one node whose pods fit on existing nodes or on one cheaper node.
    SingleNode,
    /// Replaces nodes by up to three nodes that are cheaper together. Runs only if all other
    /// methods found nothing. Karpenter does not have this method.
    Move,
}

impl Method {
    /// All methods, in the order in which they are tried.
    pub const ALL: [Self; 6] =
        [Self::Emptiness, Self::StaticDrift, Self::Drift, Self::MultiNode, Self::SingleNode, Self::Move];

    /// Returns the disruption reason that budgets count the method under.
    pub fn reason(self) -> DisruptionReason {
        match self {
            Self::Emptiness => DisruptionReason::Empty,
            Self::StaticDrift | Self::Drift => DisruptionReason::Drifted,
            Self::MultiNode | Self::SingleNode | Self::Move => DisruptionReason::Underutilized,
        }
    }

    /// Returns true if the method moves pods to save money. The other methods remove nodes because
    /// they are empty or drifted, whatever that saves.
    pub fn is_for_savings(self) -> bool {
        match self {
            Self::MultiNode | Self::SingleNode | Self::Move => true,
            Self::Emptiness | Self::StaticDrift | Self::Drift => false,
        }
    }

    /// Returns the value of the metrics label `consolidation_type`; empty for drift.
    pub fn consolidation_type(self) -> &'static str {
        match self {
            Self::Emptiness => "empty",
            Self::StaticDrift | Self::Drift => "",
            Self::MultiNode | Self::Move => "multi",
            Self::SingleNode => "single",
        }
    }
}

impl DisruptionCommand {
    /// Returns the disruption reason that budgets and Events name.
    pub fn reason(&self) -> DisruptionReason {
        self.method.reason()
    }

    /// Returns `replace` if nodes are launched first, otherwise `delete`.
    pub fn decision(&self) -> &'static str {
        if self.replacements.is_empty() { "delete" } else { "replace" }
    }

    /// Returns true if the command replaces nodes because they have drifted.
    pub(crate) fn is_drift_with_replacements(&self) -> bool {
        self.reason() == DisruptionReason::Drifted && !self.replacements.is_empty()
    }

    /// Returns true if the command evicts the pod.
    pub(crate) fn evicts(&self, pod: &Str) -> bool {
        self.pods.binary_search(pod).is_ok()
    }

    /// Returns the nodes that receive pods which the command evicts. Nodes that receive only
    /// pending pods are left out.
    pub(crate) fn receiving_nodes(&self) -> impl Iterator<Item = &Str> {
        self.placements.iter().filter(|placement| placement.pods.iter().any(|pod| self.evicts(pod))).map(|p| &p.node)
    }

    /// Returns the NodePools of its nodes, sorted, each once.
    pub fn pools(&self) -> Vec<Str> {
        let mut pools: Vec<Str> = self.nodes.iter().map(|node| node.pool.clone()).collect();
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    /// Returns the savings per hour. Negative if drift leads to a more expensive node.
    pub fn saved(&self) -> Price {
        self.price_before - self.price_after
    }
}

/// A node that stays.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockedNode {
    /// Name of the Node, or of a NodeClaim without a Node.
    pub node: Str,
    /// All reasons why the node is not disrupted.
    pub reasons: Vec<BlockReason>,
}

/// A problem of the input that did not stop planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputWarning {
    /// Kind and name of the object.
    pub object: String,
    /// Stable code.
    pub code: &'static str,
    /// The problem and its effect on the plan.
    pub message: String,
}

/// Counters of one planning run. The caller measures time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DisruptionStats {
    /// Nodes that some method could have removed.
    pub candidates: usize,
    /// Candidates for which a command or a block reason was found.
    pub candidates_evaluated: usize,
    /// Number of simulations.
    pub simulations: usize,
    /// Number of passes over all methods, including the last one, which found nothing.
    pub passes: usize,
    /// Budgets by NodePool and reason.
    pub budgets: Vec<BudgetUse>,
}

/// Use of a NodePool's budgets for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetUse {
    /// Name of the NodePool.
    pub pool: Str,
    /// The disruption reason.
    pub reason: DisruptionReason,
    /// Number of nodes that may be disrupted at once.
    pub allowed: u32,
    /// Number of nodes that are not ready or are already being deleted, for whatever cause.
    pub disrupting: u32,
    /// Number of nodes that the plan's commands add.
    pub planned: u32,
}

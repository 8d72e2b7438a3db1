//! What the caller gets: commands in the order of execution, every node that stays with all its reasons, money, and what is odd about
//! the input.

use kerf_api::nodepool::DisruptionReason;
use kerf_api::slim::Str;

use super::balanced::BalancedScore;
use super::block_reason::BlockReason;
use crate::price::Price;
use crate::solve::{NodePlacement, PlannedClaim};

/// Which nodes go, which are replaced and by what, and why the others stay.
#[derive(Debug, Clone, Default)]
pub struct DisruptionPlan {
    /// What to do, in this order.
    pub commands: Vec<DisruptionCommand>,
    /// Nodes that stay, by name, each with everything that keeps it.
    pub blocked: Vec<BlockedNode>,
    /// Moves that pools with the `Balanced` policy refused in the last pass: of single nodes all, of several nodes the last one, if
    /// nothing else was found.
    pub rejected_commands: Vec<RejectedCommand>,
    /// What is odd about the input; the rest was planned all the same.
    pub warnings: Vec<InputWarning>,
    /// Price of all managed nodes before.
    pub price_before: Price,
    /// Price of all managed nodes afterwards.
    pub price_after: Price,
    /// How much there was to do.
    pub stats: DisruptionStats,
}

/// One decision: nodes that go together, and what is launched for their pods first.
#[derive(Debug, Clone)]
pub struct DisruptionCommand {
    /// How it was found.
    pub method: Method,
    /// The nodes that go.
    pub nodes: Vec<CommandNode>,
    /// Machines to launch before they go.
    pub replacements: Vec<PlannedClaim>,
    /// What later commands of the plan call those machines, one by one.
    pub replacement_names: Vec<Str>,
    /// Pods that are evicted and run again elsewhere, as `namespace/name`, sorted.
    pub pods: Vec<Str>,
    /// Nodes that exist and take pods in, moved ones and pending ones.
    pub placements: Vec<NodePlacement>,
    /// Price of the nodes that go.
    pub price_before: Price,
    /// Price of their replacements.
    pub price_after: Price,
    /// What pools with the `Balanced` policy make of it, if it consolidates.
    pub scores: Vec<BalancedScore>,
}

/// A move that saves too little for what it disrupts.
#[derive(Debug, Clone, PartialEq)]
pub struct RejectedCommand {
    /// How it was found.
    pub method: Method,
    /// The pools of its nodes.
    pub pools: Vec<Str>,
    /// How many nodes would go.
    pub nodes: usize,
    /// What would be done, as [`Command::decision`] says it.
    pub decision: &'static str,
    /// What pools make of it; at least one of them does not approve.
    pub scores: Vec<BalancedScore>,
}

/// A node of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandNode {
    /// The Node.
    pub name: Str,
    /// Its claim.
    pub claim: Str,
    /// Its pool.
    pub pool: Str,
    /// Its instance type, as labelled.
    pub instance_type: Str,
    /// Its capacity type, as labelled.
    pub capacity_type: Str,
    /// What it costs.
    pub price: Price,
}

/// How a command was found; methods are tried in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Nodes without pods.
    Emptiness,
    /// Nodes of static pools that are no longer what their pool says.
    StaticDrift,
    /// Nodes that are no longer what their pool says.
    Drift,
    /// Several nodes whose pods fit elsewhere or on one cheaper machine.
    MultiNode,
    /// A node whose pods fit elsewhere or on a cheaper machine.
    SingleNode,
    /// Nodes whose pods fit on a few machines that are cheaper together; only after all others have found nothing.
    Move,
}

impl Method {
    /// All methods, in their order.
    pub const ALL: [Self; 6] =
        [Self::Emptiness, Self::StaticDrift, Self::Drift, Self::MultiNode, Self::SingleNode, Self::Move];

    /// The reason that budgets know it by.
    pub fn reason(self) -> DisruptionReason {
        match self {
            Self::Emptiness => DisruptionReason::Empty,
            Self::StaticDrift | Self::Drift => DisruptionReason::Drifted,
            Self::MultiNode | Self::SingleNode | Self::Move => DisruptionReason::Underutilized,
        }
    }

    /// Whether it moves pods to save money; nodes that are empty or drifted go whatever that saves.
    pub fn is_for_savings(self) -> bool {
        match self {
            Self::MultiNode | Self::SingleNode | Self::Move => true,
            Self::Emptiness | Self::StaticDrift | Self::Drift => false,
        }
    }

    /// The label `consolidation_type` of metrics.
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
    /// The reason that budgets and events name.
    pub fn reason(&self) -> DisruptionReason {
        self.method.reason()
    }

    /// `replace` if machines are launched first, else `delete`.
    pub fn decision(&self) -> &'static str {
        if self.replacements.is_empty() { "delete" } else { "replace" }
    }

    /// Whether a pod is among those that it evicts.
    pub(crate) fn evicts(&self, pod: &Str) -> bool {
        self.pods.binary_search(pod).is_ok()
    }

    /// The nodes that take in pods which it evicts. Others take in pods that wait anyway.
    pub(crate) fn receiving_nodes(&self) -> impl Iterator<Item = &Str> {
        self.placements.iter().filter(|placement| placement.pods.iter().any(|pod| self.evicts(pod))).map(|p| &p.node)
    }

    /// The pools of its nodes, each once.
    pub fn pools(&self) -> Vec<Str> {
        let mut pools: Vec<Str> = self.nodes.iter().map(|node| node.pool.clone()).collect();
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    /// What is saved an hour; less than nothing when drift leads to something dearer.
    pub fn saved(&self) -> Price {
        self.price_before - self.price_after
    }
}

/// A node that stays.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockedNode {
    /// The Node, or the claim that has none.
    pub node: Str,
    /// Everything that keeps it.
    pub reasons: Vec<BlockReason>,
}

/// Something odd about the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputWarning {
    /// Kind and name.
    pub object: String,
    /// The stable code.
    pub code: &'static str,
    /// What is odd, and what it leads to.
    pub message: String,
}

/// How much there was to do; the caller measures time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DisruptionStats {
    /// Nodes that some method might have taken.
    pub candidates: usize,
    /// Those of them on which a verdict was reached.
    pub candidates_evaluated: usize,
    /// Questions asked of the simulator.
    pub simulations: usize,
    /// Passes over all methods, the last and fruitless one included.
    pub passes: usize,
    /// Budgets by pool and reason.
    pub budgets: Vec<BudgetUse>,
}

/// How much of a pool's budget is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetUse {
    /// The pool.
    pub pool: Str,
    /// The reason.
    pub reason: DisruptionReason,
    /// How many nodes may be disrupted at once.
    pub allowed: u32,
    /// How many are already, for whatever cause.
    pub disrupting: u32,
    /// How many the commands add.
    pub planned: u32,
}

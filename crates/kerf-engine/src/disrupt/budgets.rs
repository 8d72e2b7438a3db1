//! How many nodes of each pool may still go (spec 03 §6). Nodes that are going already count for every reason alike, and what the
//! commands of one plan take is counted over the whole plan, as of its instant.

use kerf_api::labels;
use kerf_api::nodepool::DisruptionReason;
use kerf_api::schedule::allowed_disruptions;

use super::command::{BudgetUse, InputWarning};
use super::survey::{NodeFacts, REASONS, Survey};
use crate::cluster::Input;

/// The budgets of all pools, by their place in the input.
#[derive(Debug, Clone)]
pub(crate) struct NodePoolBudgets {
    pools: Vec<PoolBudget>,
}

#[derive(Debug, Clone, Default)]
struct PoolBudget {
    /// For each of [`REASONS`].
    allowed: [u32; 3],
    disrupting: u32,
    charged: u32,
}

impl NodePoolBudgets {
    /// Counts the nodes of every pool. A budget that cannot be read allows nothing and is noted.
    pub(crate) fn new(survey: &Survey<'_>, notices: &mut Vec<InputWarning>) -> Self {
        let input = survey.input;
        let mut counts = vec![(0_u32, 0_u32); input.pools.len()];
        for facts in &survey.nodes {
            if let Some(pool) = budget_pool(facts, input) {
                counts[pool].0 += 1;
                counts[pool].1 += u32::from(is_disrupting(facts));
            }
        }
        let mut pools = Vec::with_capacity(input.pools.len());
        for (pool, (total, disrupting)) in input.pools.iter().zip(counts) {
            let mut budget = PoolBudget { disrupting, ..PoolBudget::default() };
            for (slot, reason) in budget.allowed.iter_mut().zip(&REASONS) {
                *slot = allowed_disruptions(&pool.disruption.budgets, reason, total, input.at).unwrap_or(0);
            }
            if let Err(error) = allowed_disruptions(&pool.disruption.budgets, &REASONS[0], total, input.at) {
                notices.push(InputWarning {
                    object: format!("NodePool {}", pool.name),
                    code: "InvalidDisruptionBudget",
                    message: format!("invalid disruption budgets in nodepool {}, {error}", pool.name),
                });
            }
            pools.push(budget);
        }
        Self { pools }
    }

    /// How many more nodes of the pool may go for this reason.
    pub(crate) fn remaining(&self, pool: usize, reason: &DisruptionReason) -> u32 {
        let budget = &self.pools[pool];
        let allowed = REASONS.iter().position(|r| r == reason).map_or(0, |at| budget.allowed[at]);
        allowed.saturating_sub(budget.disrupting.saturating_add(budget.charged))
    }

    /// One more node of the pool goes.
    pub(crate) fn charge_node(&mut self, pool: usize) {
        self.pools[pool].charged += 1;
    }

    pub(crate) fn budget_uses(&self, input: &Input) -> Vec<BudgetUse> {
        let all = input.pools.iter().zip(&self.pools);
        all.flat_map(|(pool, budget)| {
            REASONS.iter().zip(budget.allowed).map(|(reason, allowed)| BudgetUse {
                pool: pool.name.clone(),
                reason: reason.clone(),
                allowed,
                disrupting: budget.disrupting,
                planned: budget.charged,
            })
        })
        .collect()
    }
}

/// The pool whose budgets count the node; unmanaged nodes, nodes that are not initialized and machines that are being terminated
/// count for none.
fn budget_pool(facts: &NodeFacts<'_>, input: &Input) -> Option<usize> {
    let claim = facts.claim.filter(|c| !c.lifecycle.is_instance_terminating)?;
    let node = facts.node.filter(|n| n.metadata.labels.has_value(labels::INITIALIZED, "true"))?;
    let name = node.metadata.labels.get(labels::NODEPOOL).or_else(|| claim.labels.get(labels::NODEPOOL))?;
    input.pools.iter().position(|p| p.name == name)
}

/// A node that is not ready, or that goes for whatever cause.
fn is_disrupting(facts: &NodeFacts<'_>) -> bool {
    let ready = facts
        .node
        .is_some_and(|n| n.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "True"));
    !ready || facts.claim.is_some_and(|c| c.is_deleting || c.is_marked_for_disruption)
}

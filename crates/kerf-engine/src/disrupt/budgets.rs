//! NodePool budgets: how many nodes of each NodePool may still be disrupted (spec 03 §6). Not to be
//! confused with PodDisruptionBudgets.
//!
//! Nodes that are already being disrupted count for every reason. All commands of a plan count
//! together, and the budgets are evaluated at the plan's time only.

use kerf_api::labels;
use kerf_api::nodepool::DisruptionReason;
use kerf_api::schedule::allowed_disruptions;

use super::command::{BudgetUse, InputWarning};
use super::survey::{NodeFacts, REASONS, Survey};
use crate::cluster::Input;

/// The budgets of all NodePools, by the pool's index in the input.
#[derive(Debug, Clone)]
pub(crate) struct NodePoolBudgets {
    pools: Vec<PoolBudget>,
}

#[derive(Debug, Clone, Default)]
struct PoolBudget {
    /// Number of allowed disruptions for each of [`REASONS`].
    allowed: [u32; 3],
    disrupting: u32,
    charged: u32,
    /// Number of drifted nodes whose replacement may be in flight at once.
    surge_max: u32,
    /// Number of drifted nodes whose replacement is in flight, those of this plan included.
    surging: u32,
}

/// Numbers of nodes of one pool.
#[derive(Debug, Clone, Copy, Default)]
struct NodeCounts {
    total: u32,
    /// Nodes that are not being deleted. A drifted node that is being deleted has a replacement,
    /// which counts in its place: the surge is a part of the size that the pool has without it.
    staying: u32,
    disrupting: u32,
    /// Drifted nodes whose replacement is in flight.
    surging: u32,
}

/// Number of nodes of a pool that may always have a replacement in flight for drift.
const SURGE_MIN_NODES: u32 = 10;
/// Part of a pool's nodes that may have a replacement in flight for drift: one in this many.
const SURGE_FRACTION: u32 = 4;

impl NodePoolBudgets {
    /// Counts the nodes of every NodePool. An invalid budget allows no disruption and adds a
    /// warning.
    pub(crate) fn new(survey: &Survey<'_>, warnings: &mut Vec<InputWarning>) -> Self {
        let input = survey.input;
        let mut counts = vec![NodeCounts::default(); input.pools.len()];
        for facts in &survey.nodes {
            if let Some(pool) = budget_pool(facts, input) {
                let is_deleting = facts.claim.is_some_and(|claim| claim.is_deleting);
                counts[pool].total += 1;
                counts[pool].staying += u32::from(!is_deleting);
                counts[pool].disrupting += u32::from(is_disrupting(facts));
                counts[pool].surging += u32::from(is_being_replaced_for_drift(facts));
            }
        }
        let mut pools = Vec::with_capacity(input.pools.len());
        for (pool, NodeCounts { total, staying, disrupting, surging }) in input.pools.iter().zip(counts) {
            let surge_max = staying.div_ceil(SURGE_FRACTION).max(SURGE_MIN_NODES);
            let mut budget = PoolBudget { disrupting, surge_max, surging, ..PoolBudget::default() };
            for (slot, reason) in budget.allowed.iter_mut().zip(&REASONS) {
                *slot = allowed_disruptions(&pool.disruption.budgets, reason, total, input.at).unwrap_or(0);
            }
            if let Err(error) = allowed_disruptions(&pool.disruption.budgets, &REASONS[0], total, input.at) {
                warnings.push(InputWarning {
                    object: format!("NodePool {}", pool.name),
                    code: "InvalidDisruptionBudget",
                    message: format!("invalid disruption budgets in nodepool {}, {error}", pool.name),
                });
            }
            pools.push(budget);
        }
        Self { pools }
    }

    /// Returns how many more nodes of the pool may be disrupted for this reason.
    pub(crate) fn remaining(&self, pool: usize, reason: &DisruptionReason) -> u32 {
        let budget = &self.pools[pool];
        let allowed = REASONS.iter().position(|r| r == reason).map_or(0, |ix| budget.allowed[ix]);
        allowed.saturating_sub(budget.disrupting.saturating_add(budget.charged))
    }

    /// Returns how many more drifted nodes of the pool may get a replacement now (spec 04 §15): a
    /// budget of 100 % would otherwise double the pool.
    pub(crate) fn remaining_surge(&self, pool: usize) -> u32 {
        let budget = &self.pools[pool];
        budget.surge_max.saturating_sub(budget.surging)
    }

    /// Counts one more drifted node of the pool whose replacement is in flight.
    pub(crate) fn charge_surge(&mut self, pool: usize) {
        self.pools[pool].surging += 1;
    }

    /// Counts one more disrupted node of the pool.
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

/// Returns the pool whose budgets count the node. Returns `None` for unmanaged nodes, nodes that
/// are not initialized, and nodes whose instance is being terminated.
fn budget_pool(facts: &NodeFacts<'_>, input: &Input) -> Option<usize> {
    let claim = facts.claim.filter(|c| !c.lifecycle.is_instance_terminating)?;
    let node = facts.node.filter(|n| n.metadata.labels.has_value(labels::INITIALIZED, "true"))?;
    let name = node.metadata.labels.get(labels::NODEPOOL).or_else(|| claim.labels.get(labels::NODEPOOL))?;
    input.pools.iter().position(|p| p.name == name)
}

/// Returns true if an active command waits for the replacement of the drifted node.
fn is_being_replaced_for_drift(facts: &NodeFacts<'_>) -> bool {
    facts.drift.is_some() && facts.claim.is_some_and(|claim| claim.lifecycle.is_disrupting && !claim.is_deleting)
}

/// Returns true if the node is not ready or is being deleted for whatever cause.
fn is_disrupting(facts: &NodeFacts<'_>) -> bool {
    let ready = facts
        .node
        .is_some_and(|n| n.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "True"));
    !ready || facts.claim.is_some_and(|c| c.is_deleting || c.is_marked_for_disruption)
}

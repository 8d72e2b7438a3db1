//! Data behind `/decisions`: recent decisions with their outcomes, and why the last pass kept each
//! remaining node. It is in memory and bounded. Facts that must survive a restart are in Events and
//! objects instead.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::slim::Str;
use kerf_engine::{BlockReason, BlockedNode, DisruptionPlan, PlannedClaim};
use serde_json::{Value, json};

use super::decision::{Decision, capacity_type};

/// Number of decisions that are kept. The oldest is dropped first.
const DECISIONS_MAX: usize = 256;

/// State of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// The command is being carried out.
    InProgress,
    /// All NodeClaims of the command are deleted or being deleted.
    Succeeded,
    /// The command was rolled back, for this reason.
    RolledBack(String),
}

/// Recent disruption decisions and the result of the last pass. `/decisions` serves them.
#[derive(Debug, Default)]
pub struct DecisionHistory(Mutex<DecisionLog>);

#[derive(Debug, Default)]
struct DecisionLog {
    decisions: VecDeque<DecisionRecord>,
    last_pass: Option<LastPass>,
}

/// A decision, the names of its replacements, and its outcome.
#[derive(Debug)]
struct DecisionRecord {
    decision: Decision,
    replacements: Vec<Str>,
    outcome: CommandOutcome,
    ended: Option<Timestamp>,
}

/// Result of the last disruption pass.
#[derive(Debug)]
struct LastPass {
    at: Timestamp,
    took: Duration,
    plan: DisruptionPlan,
    /// Commands that were found but not started.
    held: Vec<HeldCommand>,
}

/// A command that was found but is not started now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldCommand {
    pub(crate) nodes: Vec<Str>,
    /// Stable code of the reason, such as `ReversedMove`.
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl DecisionHistory {
    fn lock(&self) -> MutexGuard<'_, DecisionLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a started decision and the names of the claims that were created for it.
    pub(crate) fn record_started(&self, decision: &Decision, replacements: Vec<Str>) {
        let mut log = self.lock();
        if log.decisions.len() == DECISIONS_MAX {
            log.decisions.pop_front();
        }
        let decision = decision.clone();
        log.decisions.push_back(DecisionRecord {
            decision,
            replacements,
            outcome: CommandOutcome::InProgress,
            ended: None,
        });
    }

    /// Records the outcome of a decision.
    pub(crate) fn record_outcome(&self, id: &str, outcome: CommandOutcome, at: Timestamp) {
        if let Some(record) = self.lock().decisions.iter_mut().rev().find(|record| record.decision.id == id) {
            record.outcome = outcome;
            record.ended = Some(at);
        }
    }

    /// Replaces the result of the last pass.
    pub(crate) fn record_pass(&self, plan: DisruptionPlan, held: Vec<HeldCommand>, at: Timestamp, took: Duration) {
        self.lock().last_pass = Some(LastPass { at, took, plan, held });
    }

    /// Returns everything as JSON, the latest decision first.
    pub fn json(&self) -> Value {
        let log = self.lock();
        let decisions: Vec<Value> = log.decisions.iter().rev().map(DecisionRecord::json).collect();
        json!({"decisions": decisions, "lastPass": log.last_pass.as_ref().map(LastPass::json)})
    }
}

impl DecisionRecord {
    fn json(&self) -> Value {
        let Decision { id, command, created } = &self.decision;
        let nodes: Vec<Value> = command
            .nodes
            .iter()
            .map(|node| {
                json!({
                    "node": node.name, "nodeClaim": node.claim, "nodePool": node.pool, "instanceType": node.instance_type,
                    "capacityType": node.capacity_type, "dollarsPerHour": node.price.dollars(),
                })
            })
            .collect();
        let replacement = |(at, planned): (usize, &PlannedClaim)| {
            json!({
                "nodeClaim": self.replacements.get(at), "nodePool": planned.pool, "capacityType": capacity_type(planned),
                "instanceTypes": planned.launch.instance_types,
            })
        };
        let replacements: Vec<Value> = command.replacements.iter().enumerate().map(replacement).collect();
        let (outcome, why) = match &self.outcome {
            CommandOutcome::InProgress => ("underway", None),
            CommandOutcome::Succeeded => ("succeeded", None),
            CommandOutcome::RolledBack(why) => ("rolled back", Some(why)),
        };
        let took = self.ended.map(|ended| ended.duration_since(*created).as_secs_f64());
        json!({
            "id": id, "at": created, "reason": command.reason().to_string(), "consolidationType": command.method.consolidation_type(),
            "decision": command.decision(), "command": self.decision.text(), "savedDollarsPerHour": command.saved().dollars(),
            "nodes": nodes, "replacements": replacements, "pods": command.pods, "outcome": outcome, "why": why,
            "endedAt": self.ended, "durationSeconds": took,
        })
    }
}

impl LastPass {
    fn json(&self) -> Value {
        let blocked: Vec<Value> = self.plan.blocked.iter().map(blocked_node_json).collect();
        let held: Vec<Value> = self
            .held
            .iter()
            .map(|held| json!({"nodes": held.nodes, "code": held.code, "message": held.message}))
            .collect();
        let notices: Vec<Value> = self
            .plan
            .warnings
            .iter()
            .map(|notice| json!({"object": notice.object, "code": notice.code, "message": notice.message}))
            .collect();
        let budgets: Vec<Value> = self
            .plan
            .stats
            .budgets
            .iter()
            .map(|budget| {
                json!({
                    "nodePool": budget.pool, "reason": budget.reason.to_string(), "allowed": budget.allowed,
                    "disrupting": budget.disrupting, "taken": budget.planned,
                })
            })
            .collect();
        json!({
            "at": self.at, "durationSeconds": self.took.as_secs_f64(), "candidates": self.plan.stats.candidates,
            "commands": self.plan.commands.len(), "dollarsPerHour": self.plan.price_before.dollars(),
            "blocked": blocked, "held": held, "notices": notices, "budgets": budgets,
        })
    }
}

fn blocked_node_json(node: &BlockedNode) -> Value {
    let reasons: Vec<Value> = node
        .reasons
        .iter()
        .map(|block| {
            let mut reason = json!({"code": block.code(), "message": block.to_string()});
            if let BlockReason::PodDisruptionBudget { pod, .. } | BlockReason::PodDoNotDisrupt(pod) = block {
                reason["pod"] = pod.as_str().into();
            }
            reason
        })
        .collect();
    json!({"node": node.node, "reasons": reasons})
}

//! The decisions of the last while and what came of each, and what the last look said of every node that stays: what
//! `/decisions` serves. It lives in memory and is bounded; what must outlive the process is in events and objects.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::slim::Str;
use kerf_engine::{BlockReason, BlockedNode, DisruptionPlan, PlannedClaim};
use serde_json::{Value, json};

use super::decision::{Decision, capacity_type};

/// How many decisions are kept.
const DECISIONS_MAX: usize = 256;

/// How a decision stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// It is being carried out.
    InProgress,
    /// Its nodes are on their way out.
    Succeeded,
    /// It was taken back, for this reason.
    RolledBack(String),
}

/// What is remembered.
#[derive(Debug, Default)]
pub struct DecisionHistory(Mutex<DecisionLog>);

#[derive(Debug, Default)]
struct DecisionLog {
    decisions: VecDeque<DecisionRecord>,
    last_pass: Option<LastPass>,
}

/// A decision and what came of it.
#[derive(Debug)]
struct DecisionRecord {
    decision: Decision,
    replacements: Vec<Str>,
    outcome: CommandOutcome,
    ended: Option<Timestamp>,
}

/// What the last look found.
#[derive(Debug)]
struct LastPass {
    at: Timestamp,
    took: Duration,
    plan: DisruptionPlan,
    /// Commands that were found and not carried out: the nodes, and why.
    held: Vec<HeldCommand>,
}

/// A command that was found and is not carried out now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldCommand {
    pub(crate) nodes: Vec<Str>,
    /// The stable code.
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl DecisionHistory {
    fn lock(&self) -> MutexGuard<'_, DecisionLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A decision is being carried out, with claims created for it.
    pub(crate) fn record_started(&self, decision: &Decision, replacements: Vec<Str>) {
        let mut kept = self.lock();
        if kept.decisions.len() == DECISIONS_MAX {
            kept.decisions.pop_front();
        }
        let decision = decision.clone();
        kept.decisions.push_back(DecisionRecord {
            decision,
            replacements,
            outcome: CommandOutcome::InProgress,
            ended: None,
        });
    }

    /// What came of a decision.
    pub(crate) fn record_outcome(&self, id: &str, outcome: CommandOutcome, at: Timestamp) {
        if let Some(made) = self.lock().decisions.iter_mut().rev().find(|made| made.decision.id == id) {
            made.outcome = outcome;
            made.ended = Some(at);
        }
    }

    /// What the last look found.
    pub(crate) fn record_pass(&self, plan: DisruptionPlan, held: Vec<HeldCommand>, at: Timestamp, took: Duration) {
        self.lock().last_pass = Some(LastPass { at, took, plan, held });
    }

    /// Everything, the latest decision first.
    pub fn json(&self) -> Value {
        let kept = self.lock();
        let decisions: Vec<Value> = kept.decisions.iter().rev().map(DecisionRecord::json).collect();
        json!({"decisions": decisions, "lastPass": kept.last_pass.as_ref().map(LastPass::json)})
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

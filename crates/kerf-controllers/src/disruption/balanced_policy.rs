//! Metrics, logs and Events about how the consolidation policies of NodePools rate each move (spec
//! 03 §8.8). Every move is counted for each of its NodePools; an Event is published if the
//! `Balanced` policy approves it.
//!
//! This module covers moves as they were found. `report` publishes whether validation rejects them
//! later.

use kerf_api::slim::Str;
use kerf_engine::{BalancedScore, DisruptionCommand, DisruptionPlan, Input, Method};
use tracing::debug;

use super::report::publish_for_each_node;
use crate::context::Context;
use crate::events::{disruption as events, pool_reference};

/// Largest score that the histogram records. An infinite score would make its sum infinite forever.
const SCORE_MAX: f64 = 1000.0;
/// The constant `k` of the `Balanced` policy, as logs and Events show it: a command's share of the
/// disruption cost may be up to `k` times its share of the savings.
const BALANCED_POLICY_K: u32 = 2;

/// The facts of a move that consolidation policies rate.
struct ScoredMove<'m> {
    is_approved: bool,
    decision: &'static str,
    nodes: usize,
    pools: &'m [Str],
    scores: &'m [BalancedScore],
}

/// Reports the moves of one pass, rejected and approved ones.
pub(super) fn report_moves(ctx: &Context, input: &Input, plan: &DisruptionPlan) {
    for rejected in &plan.rejected_commands {
        let (pools, scores) = (rejected.pools.as_slice(), rejected.scores.as_slice());
        let (nodes, decision) = (rejected.nodes, rejected.decision);
        count_move(ctx, input, &ScoredMove { is_approved: false, decision, nodes, pools, scores });
    }
    for command in plan.commands.iter().filter(|command| command.method.is_for_savings()) {
        let (pools, scores) = (command.pools(), command.scores.as_slice());
        let (nodes, decision) = (command.nodes.len(), command.decision());
        count_move(ctx, input, &ScoredMove { is_approved: true, decision, nodes, pools: &pools, scores });
        for score in scores {
            publish_approved(ctx, command, score);
        }
    }
}

fn count_move(ctx: &Context, input: &Input, scored_move: &ScoredMove<'_>) {
    let metrics = &ctx.metrics.disruption;
    for name in scored_move.pools {
        let pool = input.pools.iter().find(|pool| pool.name == *name);
        let policy = pool.map(|pool| pool.disruption.policy.to_string()).unwrap_or_default();
        metrics.consolidation_moves.inc(&[decision_label(scored_move.is_approved), name, &policy]);
        for score in scored_move.scores.iter().filter(|score| score.pool == *name) {
            let labels = [decision_label(score.is_approved()), name, &policy];
            metrics.consolidation_score.observe(&labels, score.score.min(SCORE_MAX));
            log_score(scored_move, score);
        }
    }
}

fn decision_label(is_approved: bool) -> &'static str {
    if is_approved { "approved" } else { "rejected" }
}

fn log_score(scored_move: &ScoredMove<'_>, score: &BalancedScore) {
    debug!(
        nodepool = score.pool.as_str(),
        score = format_score(score.score),
        savings_fraction = score.saved_share,
        disruption_fraction = score.disruption_share,
        savings = score.saved.dollars(),
        disruption_cost = score.disruption,
        nodepool_total_cost = score.total_price.dollars(),
        nodepool_total_disruption_cost = score.total_disruption,
        threshold = BalancedScore::THRESHOLD,
        k = BALANCED_POLICY_K,
        approved = score.is_approved(),
        decision = scored_move.decision,
        candidates = scored_move.nodes,
        "consolidation score"
    );
}

fn publish_approved(ctx: &Context, command: &DisruptionCommand, score: &BalancedScore) {
    let text = format!(
        "score {} >= threshold {:.2} (k: {BALANCED_POLICY_K}, savings {:.1}%, disruption {:.1}%)",
        format_score(score.score),
        BalancedScore::THRESHOLD,
        score.saved_share * 100.0,
        score.disruption_share * 100.0
    );
    match command.method {
        Method::SingleNode => {
            publish_for_each_node(ctx, command, |object, _, _| events::consolidation_approved(object, text.clone()));
        }
        Method::MultiNode | Method::Move | Method::Emptiness | Method::StaticDrift | Method::Drift => {
            if let Some(pool) = ctx.managed_pool(&score.pool) {
                ctx.publish(events::consolidation_approved(pool_reference(&pool), text));
            }
        }
    }
}

/// Formats a score with two decimals, or as `+Inf`.
fn format_score(score: f64) -> String {
    if score.is_infinite() { "+Inf".to_owned() } else { format!("{score:.2}") }
}

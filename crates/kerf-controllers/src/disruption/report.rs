//! Reports the results of a pass to users: Events about nodes that are not disrupted, gauges of
//! budgets, and errors about malformed budgets and pauses (spec 03 §4, §5.2, §6.4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_api::annotations::DO_NOT_DISRUPT;
use kerf_api::conditions::{ConditionStatus, DRIFTED};
use kerf_api::duration::evaluate_do_not_disrupt;
use kerf_api::nodepool::NodePool;
use kerf_api::pause::Pause;
use kerf_api::slim::{Node, Str};
use kerf_engine::{BlockReason, DisruptionCommand, DisruptionPlan, Input, Method, ValidationFailure};
use kerf_state::{TrackedClaim, disruption_pause};
use tracing::error;

use super::balanced_policy;
use super::decision::{Decision, describe_for_node, format_dollars, log_decision};
use crate::context::Context;
use crate::events::{self, Event};

/// The Event that a block reason leads to.
enum BlockEvent {
    Blocked,
    Unconsolidatable,
    /// No Event: the reason ends by itself, or is reported elsewhere.
    NoEvent,
}

fn block_event(block: &BlockReason) -> BlockEvent {
    match block {
        BlockReason::NoNode
        | BlockReason::NotInitialized
        | BlockReason::Deleting
        | BlockReason::Nominated
        | BlockReason::DoNotDisrupt
        | BlockReason::Paused { .. }
        | BlockReason::NoPoolLabel
        | BlockReason::PoolNotFound(_)
        | BlockReason::PodDoNotDisrupt(_)
        | BlockReason::PodDisruptionBudget { .. }
        | BlockReason::MultiplePodDisruptionBudgets(_)
        | BlockReason::InvalidPodDisruptionBudget(_) => BlockEvent::Blocked,
        BlockReason::ConsolidationDisabled(_)
        | BlockReason::BufferPods(_)
        | BlockReason::InstanceTypeNotFound(_)
        | BlockReason::MissingLabel(_)
        | BlockReason::OnlyWhenEmpty(_)
        | BlockReason::PodsUnschedulable(_)
        | BlockReason::TooManyReplacements(_)
        | BlockReason::NoCheaperReplacement
        | BlockReason::SpotToSpotDisabled
        | BlockReason::SpotToSpotFlexibility(_)
        | BlockReason::MinValues(_) => BlockEvent::Unconsolidatable,
        BlockReason::AlreadyDisrupting
        | BlockReason::NotManaged
        | BlockReason::OtherProvider(_)
        | BlockReason::StaticPool(_)
        | BlockReason::LaunchedByPlan
        | BlockReason::InConsolidateAfter { .. }
        | BlockReason::ClaimNotInitialized
        | BlockReason::DisruptionBudget(_)
        | BlockReason::DriftBackoff { .. }
        | BlockReason::DriftSurge
        | BlockReason::ScaleDownFirst(_)
        | BlockReason::NodeLimit(_)
        | BlockReason::NoSaving
        | BlockReason::BelowBalancedThreshold { .. } => BlockEvent::NoEvent,
    }
}

/// A node and its claim, the objects of an Event.
type NodeAndClaim = (Option<Arc<Node>>, Option<Arc<TrackedClaim>>);

/// Reports everything that a pass found, except the commands themselves. Of these it reports only
/// how consolidation policies rate them.
pub(crate) fn report_plan(ctx: &Context, input: &Input, plan: &DisruptionPlan) {
    publish_blocked(ctx, plan);
    report_budgets(ctx, plan);
    publish_do_not_disrupt(ctx, input);
    balanced_policy::report_moves(ctx, input, plan);
}

/// Returns nodes and claims by the node names that plans use. Omits claims of other providers.
fn nodes_and_claims(ctx: &Context) -> BTreeMap<Str, NodeAndClaim> {
    let cluster = ctx.cluster.lock();
    let managed = cluster.state_nodes().filter(|state| state.claim.is_some_and(|claim| ctx.manages_claim(claim)));
    managed
        .map(|state| {
            let node = state.node.and_then(|node| cluster.get::<Node>(&node.metadata.name).cloned());
            let claim = state.claim.and_then(|claim| cluster.get::<TrackedClaim>(claim.name()).cloned());
            (state.name(), (node, claim))
        })
        .collect()
}

fn publish_for_both(
    ctx: &Context,
    (node, claim): &NodeAndClaim,
    event: impl Fn(k8s_openapi::api::core::v1::ObjectReference) -> Event,
) {
    if let Some(node) = node {
        ctx.publish(event(events::node_reference(node)));
    }
    if let Some(claim) = claim {
        ctx.publish(event(events::claim_reference(&claim.object)));
    }
}

fn publish_blocked(ctx: &Context, plan: &DisruptionPlan) {
    let pairs = nodes_and_claims(ctx);
    for (pair, blocked) in plan.blocked.iter().filter_map(|blocked| Some((pairs.get(&blocked.node)?, blocked))) {
        // A node that an active command disrupts has Events of its own.
        if blocked.reasons.contains(&BlockReason::AlreadyDisrupting) {
            continue;
        }
        let mut blocks = blocked.reasons.iter();
        if let Some(block) = blocks.find(|block| matches!(block_event(block), BlockEvent::Blocked)) {
            publish_for_both(ctx, pair, |object| events::disruption::disruption_blocked(object, block.to_string()));
            continue;
        }
        let unschedulable = blocked.reasons.iter().find(|block| matches!(block, BlockReason::PodsUnschedulable(_)));
        if let Some(block) = unschedulable.filter(|_| is_drifted(pair)) {
            publish_for_both(ctx, pair, |object| events::disruption::disruption_blocked(object, block.to_string()));
        }
        let unconsolidatable =
            blocked.reasons.iter().find(|block| matches!(block_event(block), BlockEvent::Unconsolidatable));
        if let Some(block) = unconsolidatable {
            publish_for_both(ctx, pair, |object| events::disruption::unconsolidatable(object, block.to_string()));
        }
    }
}

fn is_drifted((_, claim): &NodeAndClaim) -> bool {
    claim.as_ref().is_some_and(|claim| claim_is_drifted(claim))
}

/// Returns true if the claim has the condition `Drifted`.
pub(crate) fn claim_is_drifted(claim: &TrackedClaim) -> bool {
    let mut conditions = claim.object.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| c.condition_type == DRIFTED && c.status == ConditionStatus::True)
}

/// Sets the gauges of all budgets, and publishes an Event for each NodePool with nodes whose budget
/// allows no disruption.
fn report_budgets(ctx: &Context, plan: &DisruptionPlan) {
    let metrics = &ctx.metrics.disruption;
    let pools_with_nodes: BTreeSet<Str> = {
        let cluster = ctx.cluster.lock();
        let counted = cluster.state_nodes().filter(|state| state.is_managed() && state.is_initialized());
        counted.filter_map(|state| state.labels().get(kerf_api::labels::NODEPOOL).map(Str::new)).collect()
    };
    for budget in &plan.stats.budgets {
        let Some(pool) = ctx.managed_pool(&budget.pool) else { continue };
        let reason = budget.reason.to_string();
        metrics.allowed_disruptions.set(&[&budget.pool, &reason], f64::from(budget.allowed));
        metrics.nodes_consuming_budgets.set(&[&budget.pool, &reason], f64::from(budget.disrupting));
        if budget.allowed == 0 && pools_with_nodes.contains(&budget.pool) {
            ctx.publish(events::disruption::budget_blocked(&pool, &budget.reason));
        }
    }
}

/// Publishes Events about the `do-not-disrupt` annotations of running pods.
fn publish_do_not_disrupt(ctx: &Context, input: &Input) {
    for pod in
        input.pods.iter().filter(|pod| pod.spec.node_name.is_some() && !pod.is_terminal() && !pod.is_terminating())
    {
        let Some(value) = pod.metadata.annotations.get(DO_NOT_DISRUPT) else { continue };
        let protection = evaluate_do_not_disrupt(value, pod.status.start_time, input.at);
        if let Some(event) = events::do_not_disrupt(pod, &protection) {
            ctx.publish(event);
        }
    }
}

/// Removes the disruption metrics of a deleted NodePool.
pub(crate) fn remove_pool_metrics(ctx: &Context, pool: &NodePool) {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let metrics = &ctx.metrics.disruption;
    for reason in ["Empty", "Drifted", "Underutilized"] {
        metrics.allowed_disruptions.remove(&[name, reason]);
        metrics.nodes_consuming_budgets.remove(&[name, reason]);
    }
    metrics.drift_backoff_seconds.remove(&[name]);
}

/// Logs NodePools whose pause annotation or budgets cannot be parsed. `last_report` holds the text
/// of the last call; an unchanged text is not logged again.
pub(crate) fn report_malformed_pools(ctx: &Context, plan: &DisruptionPlan, last_report: &mut String) {
    let pools: Vec<Arc<NodePool>> = ctx.cluster.lock().all::<NodePool>().values().cloned().collect();
    let mut pauses = Vec::new();
    for pool in pools.iter().filter(|pool| ctx.manages_pool(pool)) {
        if let Some(Pause::Malformed(value)) = disruption_pause(pool) {
            ctx.publish(events::disruption::pause_malformed(pool, &value));
            let name = pool.metadata.name.as_deref().unwrap_or_default();
            pauses.push(format!(
                "nodepool {name} is paused, its kerf.sh/pause-disruption is neither \"true\" nor a time, {value:?}"
            ));
        }
    }
    let budget_warnings = plan.warnings.iter().filter(|warning| warning.code == "InvalidDisruptionBudget");
    let budgets: Vec<&str> = budget_warnings.map(|warning| warning.message.as_str()).collect();
    let report = format!("{}\n{}", budgets.join("; "), pauses.join("; "));
    if *last_report == report {
        return;
    }
    if !budgets.is_empty() {
        error!(error = budgets.join("; "), "detected disruption budget errors");
    }
    if !pauses.is_empty() {
        error!(error = pauses.join("; "), "detected malformed disruption pause");
    }
    *last_report = report;
}

/// Publishes an Event for each node of a consolidation command that waits for validation.
pub(crate) fn publish_candidates(ctx: &Context, command: &DisruptionCommand) {
    // Nodes that are deleted without replacement get their Event on deletion (spec 03 §8.5).
    if !command.replacements.is_empty() {
        publish_for_each_node(ctx, command, events::disruption::consolidation_candidate);
    }
}

/// Logs that a command is not carried out, because validation has rejected it.
pub(crate) fn log_abandoned(abandoned: &Decision, why: &ValidationFailure) {
    if abandoned.command.method == Method::Emptiness {
        let message = "abandoning empty node consolidation attempt due to pod churn, command is no longer valid";
        log_decision!(debug, abandoned, error = %why, "{message}");
    } else {
        log_decision!(debug, abandoned, error = %why, "abandoning consolidation attempt, command is no longer valid");
    }
}

/// Publishes an Event for each node of a command that validation has rejected.
pub(crate) fn publish_rejected(ctx: &Context, command: &DisruptionCommand, reason: &str) {
    publish_for_each_node(ctx, command, |object, text, savings| {
        events::disruption::consolidation_rejected(object, text, reason, savings)
    });
}

/// Publishes an Event about each node and claim of a command. `event` receives the object, the text
/// of the command and its savings.
pub(super) fn publish_for_each_node(
    ctx: &Context,
    command: &DisruptionCommand,
    event: impl Fn(k8s_openapi::api::core::v1::ObjectReference, &str, &str) -> Event,
) {
    let savings = format_dollars(command.saved());
    for node in &command.nodes {
        let pair: NodeAndClaim = {
            let cluster = ctx.cluster.lock();
            (cluster.get::<Node>(&node.name).cloned(), cluster.get::<TrackedClaim>(&node.claim).cloned())
        };
        let text = describe_for_node(command, &node.name);
        publish_for_both(ctx, &pair, |object| event(object, &text, &savings));
    }
}

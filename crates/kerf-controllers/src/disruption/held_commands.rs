//! Holds back commands of a plan that must wait, each with a reason code (docs/reasons.md).

use jiff::Timestamp;
use kerf_api::slim::Str;
use kerf_engine::{DisruptionCommand, DisruptionPlan, Input, Method};
use kerf_state::TrackedClaim;

use super::history::HeldCommand;
use super::low_value_moves::low_value_moves;
use super::{churn_backoff, report};
use crate::context::Context;

/// Splits the plan's commands into those that may start and those that must wait. A command
/// waits if static capacity is disabled, if the claim's condition `Drifted` is not written yet,
/// if the command would undo a recent move, or if it moves settled pods and saves little.
pub(crate) fn split_held_commands(
    ctx: &Context,
    input: &Input,
    plan: &DisruptionPlan,
    cooldown_end: Option<Timestamp>,
) -> (Vec<DisruptionCommand>, Vec<HeldCommand>) {
    let low_value = low_value_moves(input, &plan.commands, plan.price_before, cooldown_end);
    let cluster = ctx.cluster.lock();
    let (mut commands, mut held) = (Vec::new(), Vec::new());
    for (index, command) in plan.commands.iter().enumerate() {
        let nodes = || command.nodes.iter().map(|node| node.name.clone()).collect();
        let is_drift = matches!(command.method, Method::StaticDrift | Method::Drift);
        let is_marked_drifted =
            |claim: &Str| cluster.get::<TrackedClaim>(claim).is_some_and(|claim| report::claim_is_drifted(claim));
        if command.method == Method::StaticDrift && !ctx.settings.static_capacity {
            let message = "StaticCapacity is disabled, so nodes of static NodePools are not replaced".to_owned();
            held.push(HeldCommand { nodes: nodes(), code: "StaticCapacityDisabled", message });
        } else if is_drift && !command.nodes.iter().all(|node| is_marked_drifted(&node.claim)) {
            let message = "NodeClaim does not have the condition Drifted yet".to_owned();
            held.push(HeldCommand { nodes: nodes(), code: "AwaitingDrifted", message });
        } else if let Some(until) = churn_backoff::reversed_move_wait_until(&cluster, command, input.at) {
            let message = format!("The command would undo a recent move, so it waits until {until}");
            held.push(HeldCommand { nodes: nodes(), code: "ReversedMove", message });
        } else if low_value.contains(&index) {
            let message = "The command would move settled pods and save little, so it waits until such commands \
                           together save 2.5% of the cluster's cost";
            held.push(HeldCommand { nodes: nodes(), code: "SmallChange", message: message.to_owned() });
        } else {
            commands.push(command.clone());
        }
    }
    (commands, held)
}

//! Reports a decision to users with log lines and Events, and nominates the nodes on which pods are
//! expected, so that they are not disrupted meanwhile (spec 02 §13 and §17).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::slim::{Pod, Str};
use kerf_engine::{Reason, Solution, UnplacedPod};
use kerf_state::Cluster;
use tracing::{debug, error, info};

use crate::context::Context;
use crate::events;
use kerf_operator::logs::key_reference;

/// Number of names that a log line lists.
const LISTED_NAMES_MAX: usize = 5;

/// Returns true if the pod was excluded before scheduling began.
pub(super) fn is_ignored(unplaced: &UnplacedPod) -> bool {
    match unplaced.reason {
        Reason::OptedOut { .. } | Reason::Invalid(_) | Reason::Volume(_) => true,
        Reason::NoPools
        | Reason::ReservedCapacityDeferred
        | Reason::LaunchBackoff { .. }
        | Reason::DynamicResources
        | Reason::NoTypes
        | Reason::MinValuesAfterTruncation { .. }
        | Reason::RejectedByAllPools(_)
        | Reason::OtherProvider(_) => false,
    }
}

/// Logs the decision, publishes Events about all pods, and nominates existing nodes.
pub(super) fn report_and_nominate(ctx: &Context, solution: &Solution, took: std::time::Duration) {
    let on_claims: usize = solution.claims.iter().map(|claim| claim.pods.len()).sum();
    let on_nodes: usize = solution.nodes.iter().map(|node| node.pods.len()).sum();
    if !solution.claims.is_empty() {
        let placed = solution.claims.iter().flat_map(|claim| &claim.pods);
        let placed = placed.chain(solution.nodes.iter().flat_map(|node| &node.pods));
        let unplaced_pods =
            solution.unplaced.iter().filter(|unplaced| !is_ignored(unplaced)).map(|unplaced| &unplaced.pod);
        let pod_count = on_claims + on_nodes + unplaced_pods.clone().count();
        info!(
            Pods = join_names(placed.chain(unplaced_pods), pod_count),
            duration = %kerf_api::duration::Duration::from_std(took),
            "found provisionable pod(s)"
        );
        info!(nodeclaims = solution.claims.len(), pods = on_claims, "computed new nodeclaim(s) to fit pod(s)");
        if on_nodes > 0 {
            info!(nodes = solution.nodes.len(), pods = on_nodes, "computed unready node(s) will fit pod(s)");
        }
    }
    let (unplaced, nominated) = {
        let mut cluster = ctx.cluster.lock();
        let find = |cluster: &Cluster, name: &Str| cluster.get::<Pod>(name).cloned();
        let unplaced: Vec<(Arc<Pod>, &Reason)> =
            solution.unplaced.iter().filter_map(|u| Some((find(&cluster, &u.pod)?, &u.reason))).collect();
        (unplaced, nominate(&mut cluster, solution, ctx.now(), ctx.settings.nomination_window()))
    };
    for event in nominated {
        ctx.publish(event);
    }
    if unplaced.iter().any(|(_, reason)| matches!(reason, Reason::NoPools)) {
        info!("no dynamic nodepools found");
    }
    for (pod, reason) in unplaced {
        report_unplaced(ctx, &pod, reason, &solution.reason_text(reason));
    }
}

/// Logs and publishes why a pod was not placed, if the reason concerns users.
fn report_unplaced(ctx: &Context, pod: &Pod, reason: &Reason, text: &str) {
    let name = pod.namespaced_name();
    match reason {
        Reason::OptedOut { .. } => debug!(Pod = %key_reference(&name), error = %reason, "ignoring pod"),
        Reason::Invalid(_) | Reason::Volume(_) => {
            debug!(Pod = %key_reference(&name), error = %reason, "ignoring pod");
            ctx.publish(events::failed_scheduling(pod, text));
        }
        // The caller logs `NoPools` once for all pods; a pod that waits for reserved capacity is
        // retried at once.
        Reason::NoPools | Reason::ReservedCapacityDeferred => {}
        Reason::LaunchBackoff { .. } => {
            info!(Pod = %key_reference(&name), error = %reason, "waiting before the next node is launched");
            ctx.publish(events::launch_backoff(pod, text));
        }
        Reason::DynamicResources => ctx.publish(events::failed_scheduling(pod, text)),
        // Another controller may be launching the node already, so this is no error.
        Reason::OtherProvider(_) => {
            debug!(Pod = %key_reference(&name), error = text, "pod can only run on nodes of another provider");
            ctx.publish(events::failed_scheduling(pod, text));
        }
        Reason::NoTypes | Reason::MinValuesAfterTruncation { .. } | Reason::RejectedByAllPools(_) => {
            error!(Pod = %key_reference(&name), error = text, "could not schedule pod");
            ctx.publish(events::failed_scheduling(pod, text));
        }
    }
}

/// Nominates the existing nodes on which pods are expected. Returns the Events for these pods.
fn nominate(
    cluster: &mut Cluster,
    solution: &Solution,
    now: Timestamp,
    window: std::time::Duration,
) -> Vec<events::Event> {
    struct NominationTarget {
        provider_id: String,
        claim: Option<Str>,
        node: Option<Str>,
    }
    let targets: BTreeMap<Str, NominationTarget> = cluster
        .state_nodes()
        .map(|state| {
            let id = state.provider_id();
            let target = NominationTarget {
                provider_id: if id.is_empty() { state.name().to_string() } else { id.to_owned() },
                claim: state.claim.map(|claim| claim.name().clone()),
                node: state.node.map(|node| node.metadata.name.clone()),
            };
            (state.name(), target)
        })
        .collect();
    let until = now.saturating_add(window).unwrap_or(Timestamp::MAX);
    let mut nominations = Vec::new();
    for placement in &solution.nodes {
        let Some(target) = targets.get(&placement.node) else { continue };
        cluster.nominate(&target.provider_id, until);
        if let Some(claim) = &target.claim {
            placement.pods.iter().for_each(|pod| cluster.record_launched_for(pod.clone(), claim.clone()));
        }
        for pod in placement.pods.iter().filter_map(|pod| cluster.get::<Pod>(pod)) {
            nominations.push(events::nominated(pod, target.claim.as_deref(), target.node.as_deref()));
        }
    }
    nominations
}

/// Joins names, such as `a, b, c, d, e and 7 other(s)`. `count` is the number of all names.
pub(crate) fn join_names<'n>(names: impl Iterator<Item = &'n Str>, count: usize) -> String {
    join_names_up_to(LISTED_NAMES_MAX, names, count)
}

/// Joins names like [`join_names`], with at most `max` names.
pub(super) fn join_names_up_to<'n>(max: usize, names: impl Iterator<Item = &'n Str>, count: usize) -> String {
    let first: Vec<&str> = names.take(max).map(Str::as_str).collect();
    let others = count.saturating_sub(first.len());
    let text = first.join(", ");
    if others > 0 { format!("{text} and {others} other(s)") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_names_are_truncated() {
        let names: Vec<Str> = (0..7).map(|n| Str::from(n.to_string())).collect();
        assert_eq!(join_names(names.iter(), 7), "0, 1, 2, 3, 4 and 2 other(s)");
        assert_eq!(join_names(names[..5].iter(), 5), "0, 1, 2, 3, 4");
    }
}

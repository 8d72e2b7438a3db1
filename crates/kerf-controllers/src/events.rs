//! All Kubernetes Events that the controllers publish, one constructor each (spec 07 §8.2). All
//! texts stand in one place, so that one situation is never worded in two ways.

pub(crate) mod disruption;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kerf_api::conditions::Condition;
use kerf_api::duration::DoNotDisrupt;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::{Node, Pod};
pub use kerf_operator::events::{
    Event, EventType, Publish, claim_reference, node_reference, pod_reference, pool_reference,
};
use kerf_operator::logs;
use kerf_state::TrackedClaim;

/// The pod is expected on a claim's node, an existing node, or both.
pub(crate) fn nominated(pod: &Pod, claim: Option<&str>, node: Option<&str>) -> Event {
    let targets: Vec<String> = claim
        .map(|name| format!("nodeclaim/{name}"))
        .into_iter()
        .chain(node.map(|name| format!("node/{name}")))
        .collect();
    let message = format!("Pod should schedule on: {}", targets.join(", "));
    Event { is_rate_limited: true, ..Event::new(pod_reference(pod), EventType::Normal, "Nominated", message) }
}

/// The pod cannot be scheduled.
pub(crate) fn failed_scheduling(pod: &Pod, why: &str) -> Event {
    let message = format!("Failed to schedule pod, {why}");
    Event::new(pod_reference(pod), EventType::Warning, "FailedScheduling", message)
        .with_dedupe_timeout(Duration::from_mins(5))
}

/// No node is launched for the pod now, because pods of its owner did not start on earlier ones.
pub(crate) fn launch_backoff(pod: &Pod, why: &str) -> Event {
    let message = format!("Not launching a node, {why}");
    Event::new(pod_reference(pod), EventType::Warning, "LaunchBackoff", message)
        .with_dedupe_timeout(Duration::from_mins(5))
}

/// The pool's requirements exclude all available instance types. `is_by_min_values` is true if only
/// `minValues` does.
pub(crate) fn no_compatible_instance_types(pool: &NodePool, is_by_min_values: bool) -> Event {
    let by = if is_by_min_values { " due to minValues incompatibility" } else { "" };
    let message = format!("NodePool requirements filtered out all compatible available instance types{by}");
    Event::new(pool_reference(pool), EventType::Warning, "NoCompatibleInstanceTypes", message)
        .with_dedupe_timeout(Duration::from_mins(1))
}

/// Time for which an Event about a field of a NodePool that has no effect is not repeated.
const INEFFECTIVE_FIELD_DEDUPE_TIMEOUT: Duration = Duration::from_hours(1);

/// A budget of the pool cannot be read, so none of its nodes is disrupted.
pub(crate) fn invalid_disruption_budget(pool: &NodePool, why: &str) -> Event {
    Event::new(pool_reference(pool), EventType::Warning, "InvalidDisruptionBudget", why.to_owned())
        .with_dedupe_values([pool.metadata.name.clone().unwrap_or_default(), why.to_owned()])
        .with_dedupe_timeout(INEFFECTIVE_FIELD_DEDUPE_TIMEOUT)
}

/// The pool has `replicas`, and the feature gate is off.
pub(crate) fn static_capacity_disabled(pool: &NodePool, why: &str) -> Event {
    Event::new(pool_reference(pool), EventType::Warning, "StaticCapacityDisabled", why.to_owned())
        .with_dedupe_timeout(INEFFECTIVE_FIELD_DEDUPE_TIMEOUT)
}

/// Longest text about a launch in conditions and Events, in bytes (spec 10 §2.4).
const LAUNCH_TEXT_BYTES_MAX: usize = 1024;

/// Returns the text as conditions and Events carry it. A longer text becomes its first 1021 bytes
/// and `...`; it is never cut inside a character.
pub(crate) fn truncated(text: &str) -> String {
    if text.len() <= LAUNCH_TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=LAUNCH_TEXT_BYTES_MAX - "...".len()).rev().find(|end| text.is_char_boundary(*end));
    format!("{}...", &text[..end.unwrap_or(0)])
}

/// The provider has no capacity for the claim.
pub(crate) fn insufficient_capacity(claim: &NodeClaim, why: &str) -> Event {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let message = truncated(&format!("NodeClaim {name} event: {why}"));
    Event::new(claim_reference(claim), EventType::Warning, "InsufficientCapacityError", message)
}

/// The provider rejected the launch of the claim, which is tried again. The condition has the
/// provider's summary; this has the whole error, with the cloud's own code and text.
pub(crate) fn launch_failed(claim: &NodeClaim, why: &str) -> Event {
    let message = truncated(&format!("Failed to launch the instance: {why}"));
    Event::new(claim_reference(claim), EventType::Warning, "LaunchFailed", message)
}

/// The node joined without the taint that keeps pods off until registration.
pub(crate) fn unregistered_taint_missing(claim: &NodeClaim) -> Event {
    let message = "Missing karpenter.sh/unregistered taint which prevents registration related race conditions on \
                   Karpenter-managed nodes";
    Event::new(claim_reference(claim), EventType::Warning, "UnregisteredTaintMissing", message.to_owned())
}

/// The node of the claim was not Ready in time after its registration, so it is replaced.
pub(crate) fn node_never_ready(object: ObjectReference, timeout: Duration) -> Event {
    let minutes = timeout.as_secs() / 60;
    let message = format!("Replacing the node, it was never Ready within {minutes} minutes of its registration");
    let name = object.name.clone();
    Event::new(object, EventType::Warning, "NodeNeverReady", message).with_dedupe_values(name)
}

/// The claim's drain ends at a known time.
pub(crate) fn termination_grace_period_expiring(claim: &NodeClaim, at: &str) -> Event {
    let message = format!("All pods will be deleted by {at}");
    Event::new(claim_reference(claim), EventType::Warning, "TerminationGracePeriodExpiring", message)
        .with_dedupe_values(claim.metadata.name.clone())
}

/// The claim's termination grace period is invalid, so the drain has no time limit.
pub(crate) fn unreadable_grace_period(claim: &NodeClaim, why: &str) -> Event {
    let message = format!("Invalid terminationGracePeriod, the drain has no time limit: {why}");
    Event::new(claim_reference(claim), EventType::Warning, "FailedValidation", message)
        .with_dedupe_values(claim.metadata.name.clone())
}

/// The node has less capacity than the claim promised.
pub(crate) fn failed_consistency_check(claim: &TrackedClaim, issue: &str) -> Event {
    Event::new(claim_reference(&claim.object), EventType::Warning, "FailedConsistencyCheck", issue.to_owned())
        .with_dedupe_values([claim.uid().to_owned(), issue.to_owned()])
}

fn node_event(node: &Node, event_type: EventType, reason: &'static str, message: String) -> Event {
    Event::new(node_reference(node), event_type, reason, message).with_dedupe_values([node.metadata.name.to_string()])
}

/// The node still has pods to evict.
pub(crate) fn failed_draining(node: &Node, why: &str) -> Event {
    node_event(node, EventType::Warning, "FailedDraining", format!("Failed to drain node, {why}"))
}

/// The node is drained and still has attached volumes.
pub(crate) fn awaiting_volume_detachment(node: &Node, attachments: &[&str]) -> Event {
    let names = logs::join_names_truncated(attachments, 5);
    let message = format!("Awaiting deletion of bound volumeattachments ({names})");
    node_event(node, EventType::Normal, "AwaitingVolumeDetachment", message)
}

/// The node's drain ends at a known time.
pub(crate) fn node_termination_grace_period_expiring(node: &Node, at: &str) -> Event {
    let message = format!("All pods will be deleted by {at}");
    node_event(node, EventType::Warning, "TerminationGracePeriodExpiring", message)
}

/// The pod was evicted. `why` may be empty.
pub(crate) fn evicted(pod: &Pod, why: &str) -> Event {
    Event::new(pod_reference(pod), EventType::Normal, "Evicted", format!("Evicted pod: {why}"))
        .with_dedupe_values([pod.metadata.name.to_string()])
}

/// The pod is deleted because its node terminates at `end`. It gets `granted_seconds` of its grace
/// period.
pub(crate) fn disrupted(pod: &Pod, end: Timestamp, granted_seconds: i64) -> Event {
    let own = pod.spec.termination_grace_period_seconds.map_or_else(String::new, |seconds| seconds.to_string());
    let end = end.strftime("%Y-%m-%d %H:%M:%S +0000 UTC");
    let message = format!(
        "Deleting the pod to accommodate the terminationTime {end} of the node. The pod was granted {granted_seconds} seconds of \
         grace-period of its {own} terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation."
    );
    Event::new(pod_reference(pod), EventType::Normal, "Disrupted", message)
        .with_dedupe_values([pod.metadata.name.to_string()])
}

/// Describes the state of the pod's do-not-disrupt annotation. Returns `None` if the annotation
/// protects the pod without a time limit.
pub(crate) fn do_not_disrupt(pod: &Pod, protection: &DoNotDisrupt) -> Option<Event> {
    let uid = pod.metadata.uid.to_string();
    match protection {
        DoNotDisrupt::Protected { until: None } => None,
        DoNotDisrupt::Protected { until: Some(until) } => {
            let message = format!("The karpenter.sh/do-not-disrupt grace period will elapse at {until}");
            let event = Event::new(pod_reference(pod), EventType::Normal, "DoNotDisruptUntil", message);
            Some(event.with_dedupe_values([uid, until.to_string()]))
        }
        DoNotDisrupt::Elapsed { .. } => {
            let message = "The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable".to_owned();
            Some(Event::new(pod_reference(pod), EventType::Normal, "DoNotDisruptGracePeriodElapsed", message))
        }
        DoNotDisrupt::Invalid { why } => {
            let message = format!("Invalid karpenter.sh/do-not-disrupt annotation: {why}, ignoring annotation");
            let event = Event::new(pod_reference(pod), EventType::Warning, "InvalidDoNotDisruptAnnotation", message);
            Some(event.with_dedupe_values([uid, why.clone()]))
        }
    }
}

/// Node repair is blocked because too many nodes are unhealthy.
pub(crate) fn node_repair_blocked(involved_object: ObjectReference, why: &str) -> Event {
    Event::new(involved_object, EventType::Warning, "NodeRepairBlocked", why.to_owned())
        .with_dedupe_timeout(Duration::from_mins(15))
}

/// The status of a condition changed. Never de-duplicated.
pub(crate) fn transitioned(involved_object: ObjectReference, before: &Condition, after: &Condition) -> Event {
    let tail = if after.message.is_empty() { String::new() } else { format!(", Message: {}", after.message) };
    let message = format!(
        "Status condition transitioned, Type: {}, Status: {} -> {}, Reason: {}{tail}",
        after.condition_type, before.status, after.status, after.reason
    );
    let event = Event::new(involved_object, EventType::Normal, "", message).with_dedupe_values([]);
    Event { reason: Cow::Owned(after.condition_type.clone()), ..event }
}

/// A finalizer was removed. Never de-duplicated.
pub(crate) fn finalized(involved_object: ObjectReference, finalizer: &str) -> Event {
    Event::new(involved_object, EventType::Normal, "Finalized", format!("Finalized {finalizer}")).with_dedupe_values([])
}

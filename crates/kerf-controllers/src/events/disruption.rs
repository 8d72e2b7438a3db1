//! Events of voluntary disruption (spec 03 §13).

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::{DisruptionReason, NodePool};
use kerf_api::slim::Node;

use super::{Event, EventType, claim_reference, node_reference, pool_reference};

/// De-duplication time of Events that explain why a node is not consolidated.
const LONG_DEDUPE_TIMEOUT: Duration = Duration::from_mins(15);

fn uid(involved_object: &ObjectReference) -> String {
    involved_object.uid.clone().unwrap_or_default()
}

/// The node or claim cannot be disrupted.
pub(crate) fn disruption_blocked(involved_object: ObjectReference, why: String) -> Event {
    Event::new(involved_object, EventType::Normal, "DisruptionBlocked", why)
}

/// The pool's budgets allow no disruption for this reason.
pub(crate) fn budget_blocked(pool: &NodePool, reason: &DisruptionReason) -> Event {
    let involved_object = pool_reference(pool);
    let message = format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
    let dedupe_values = [uid(&involved_object), reason.to_string()];
    Event::new(involved_object, EventType::Normal, "DisruptionBlocked", message)
        .with_dedupe_values(dedupe_values)
        .with_dedupe_timeout(Duration::from_mins(1))
}

/// The pool's pause-disruption annotation is malformed.
pub(crate) fn pause_malformed(pool: &NodePool, value: &str) -> Event {
    let involved_object = pool_reference(pool);
    let message = format!(
        "Annotation kerf.sh/pause-disruption is neither \"true\" nor a time in RFC 3339: {value:?}. Disruption is paused until it is \
         corrected or removed"
    );
    let dedupe_values = [uid(&involved_object), value.to_owned()];
    Event::new(involved_object, EventType::Warning, "InvalidPauseDisruption", message)
        .with_dedupe_values(dedupe_values)
        .with_dedupe_timeout(LONG_DEDUPE_TIMEOUT)
}

/// The node or claim cannot be consolidated.
pub(crate) fn unconsolidatable(involved_object: ObjectReference, why: String) -> Event {
    Event::new(involved_object, EventType::Normal, "Unconsolidatable", why).with_dedupe_timeout(LONG_DEDUPE_TIMEOUT)
}

/// The node or claim is part of a consolidation command that waits for validation.
pub(crate) fn consolidation_candidate(involved_object: ObjectReference, command: &str, savings: &str) -> Event {
    let dedupe_values = [uid(&involved_object), command.to_owned()];
    let message = format!("Consolidation candidate: {command} (savings: {savings})");
    Event::new(involved_object, EventType::Normal, "ConsolidationCandidate", message).with_dedupe_values(dedupe_values)
}

/// The consolidation command was rejected at validation.
pub(crate) fn consolidation_rejected(
    involved_object: ObjectReference,
    command: &str,
    why: &str,
    savings: &str,
) -> Event {
    let dedupe_values = [uid(&involved_object), command.to_owned(), why.to_owned()];
    let message = format!("Consolidation rejected: {command}, reason: {why} (savings: {savings})");
    Event::new(involved_object, EventType::Normal, "ConsolidationRejected", message).with_dedupe_values(dedupe_values)
}

/// The `Balanced` policy approves of a move.
pub(crate) fn consolidation_approved(involved_object: ObjectReference, why: String) -> Event {
    Event::new(involved_object, EventType::Normal, "ConsolidationApproved", why)
}

/// A replacement is being launched.
pub(crate) fn disruption_launching(claim: &NodeClaim, reason: &str) -> Event {
    let involved_object = claim_reference(claim);
    let dedupe_values = [uid(&involved_object), reason.to_owned()];
    let message = format!("Launching NodeClaim: {reason}");
    Event::new(involved_object, EventType::Normal, "DisruptionLaunching", message).with_dedupe_values(dedupe_values)
}

/// The disruption waits until the replacement is ready.
pub(crate) fn disruption_waiting(claim: &NodeClaim) -> Event {
    let message = "Waiting on readiness to continue disruption".to_owned();
    Event::new(claim_reference(claim), EventType::Normal, "DisruptionWaitingReadiness", message)
}

/// The node is deleted by a disruption command.
pub(crate) fn node_terminating(node: &Node, reason: &str) -> Event {
    let involved_object = node_reference(node);
    let dedupe_values = [uid(&involved_object), reason.to_owned()];
    let message = format!("Disrupting Node: {reason}");
    Event::new(involved_object, EventType::Normal, "DisruptionTerminating", message).with_dedupe_values(dedupe_values)
}

/// The claim is deleted by a disruption command.
pub(crate) fn claim_terminating(claim: &NodeClaim, reason: &str) -> Event {
    let involved_object = claim_reference(claim);
    let dedupe_values = [uid(&involved_object), reason.to_owned()];
    let message = format!("Disrupting NodeClaim: {reason}");
    Event::new(involved_object, EventType::Normal, "DisruptionTerminating", message).with_dedupe_values(dedupe_values)
}

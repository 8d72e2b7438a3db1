//! Kubernetes Events before they are written: type, reason, message, and how long an equal Event is
//! suppressed (spec 07 §8.1).

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::{Node, Pod};
use kerf_state::NodeClass;

/// De-duplication time of Events that set none.
const DEFAULT_DEDUPE_TIMEOUT: Duration = Duration::from_mins(2);

/// Accepts Events for publication. Implementations never fail and never wait: an Event that cannot
/// be written is lost.
pub trait Publish: Send + Sync {
    /// Publishes an Event.
    fn publish(&self, event: Event);
}

/// The `type` of a Kubernetes Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Information about normal operation.
    Normal,
    /// Something is wrong and may need attention.
    Warning,
}

/// An Event about an object, before de-duplication.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The object that the Event is about.
    pub involved_object: ObjectReference,
    /// Normal or Warning.
    pub event_type: EventType,
    /// Machine-readable reason in CamelCase.
    pub reason: Cow<'static, str>,
    /// Message for users.
    pub message: String,
    /// Together with the reason, the values that identify equal Events. An Event without values is
    /// never dropped as a duplicate.
    pub dedupe_values: Vec<String>,
    /// Time for which an equal Event is not published again.
    pub dedupe_timeout: Duration,
    /// True if the Event shares a rate limit with all such Events (five per second, ten at once).
    pub is_rate_limited: bool,
}

impl Event {
    /// Returns an Event that is suppressed for two minutes after an equal one. Events with one
    /// reason and one object are equal, whatever their messages are.
    pub fn new(involved_object: ObjectReference, event_type: EventType, reason: &'static str, message: String) -> Self {
        let dedupe_values = involved_object.uid.iter().cloned().collect();
        let reason = Cow::Borrowed(reason);
        Self {
            involved_object,
            event_type,
            reason,
            message,
            dedupe_values,
            dedupe_timeout: DEFAULT_DEDUPE_TIMEOUT,
            is_rate_limited: false,
        }
    }

    /// Returns the Event with another time for which an equal one is suppressed.
    #[must_use]
    pub fn with_dedupe_timeout(self, dedupe_timeout: Duration) -> Self {
        Self { dedupe_timeout, ..self }
    }

    /// Returns the Event with other values that, together with the reason, identify equal Events.
    /// Without values no Event is suppressed.
    #[must_use]
    pub fn with_dedupe_values(self, values: impl IntoIterator<Item = String>) -> Self {
        Self { dedupe_values: values.into_iter().collect(), ..self }
    }
}

/// Returns the reference to a pod for an Event.
pub fn pod_reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some(pod.metadata.name.to_string()),
        namespace: Some(pod.metadata.namespace.to_string()),
        uid: Some(pod.metadata.uid.to_string()),
        ..ObjectReference::default()
    }
}

/// Returns the reference to a NodeClaim for an Event.
pub fn claim_reference(claim: &NodeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("karpenter.sh/v1".into()),
        kind: Some("NodeClaim".into()),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Returns the reference to a NodePool for an Event.
pub fn pool_reference(pool: &NodePool) -> ObjectReference {
    ObjectReference {
        api_version: Some("karpenter.sh/v1".into()),
        kind: Some("NodePool".into()),
        name: pool.metadata.name.clone(),
        uid: pool.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Returns the reference to a node class for an Event.
pub fn class_reference(class: &NodeClass) -> ObjectReference {
    ObjectReference {
        api_version: Some(class.api_version.clone()),
        kind: Some(class.kind.clone()),
        name: class.metadata.name.clone(),
        uid: class.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Returns the reference to a Node for an Event.
pub fn node_reference(node: &Node) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Node".into()),
        name: Some(node.metadata.name.to_string()),
        uid: Some(node.metadata.uid.to_string()),
        ..ObjectReference::default()
    }
}

//! Changes that can affect what may be disrupted. Others, such as heartbeats, resource versions and
//! counters, do not trigger a disruption pass.

use kerf_api::nodepool::NodePool;
use kerf_api::slim::{Node, Pod, PodDisruptionBudget};
use kerf_state::{ObjectChange, TrackedClaim};

/// A kind whose changes can trigger a disruption pass.
pub(crate) trait DisruptionTrigger: Sized {
    /// Returns true if two versions of an object differ in a field that disruption reads.
    fn is_relevant_update(before: &Self, after: &Self) -> bool;

    /// Returns true if a change can affect what may be disrupted. For an object that Kerf wrote
    /// itself, the index already holds the new version: `before` and `after` are then the same
    /// object, the real difference is unknown, and the change counts as relevant.
    fn is_relevant(change: &ObjectChange<Self>) -> bool {
        match (change.before.as_deref(), change.after.as_deref()) {
            (Some(before), Some(after)) => std::ptr::eq(before, after) || Self::is_relevant_update(before, after),
            (None, _) | (_, None) => true,
        }
    }
}

impl DisruptionTrigger for Pod {
    fn is_relevant_update(before: &Self, after: &Self) -> bool {
        let unschedulable = |pod: &Self| pod.condition("PodScheduled").map(|condition| condition.status.clone());
        before.spec.node_name != after.spec.node_name
            || before.status.phase != after.status.phase
            || before.status.start_time != after.status.start_time
            || before.is_terminating() != after.is_terminating()
            || before.metadata.annotations != after.metadata.annotations
            || before.metadata.labels != after.metadata.labels
            || unschedulable(before) != unschedulable(after)
    }
}

impl DisruptionTrigger for Node {
    fn is_relevant_update(before: &Self, after: &Self) -> bool {
        let ready =
            |node: &Self| node.status.conditions.iter().any(|c| c.condition_type == "Ready" && c.status == "True");
        before.metadata.labels != after.metadata.labels
            || before.metadata.annotations != after.metadata.annotations
            || before.metadata.is_terminating() != after.metadata.is_terminating()
            || before.spec != after.spec
            || before.status.allocatable != after.status.allocatable
            || ready(before) != ready(after)
    }
}

impl DisruptionTrigger for TrackedClaim {
    fn is_relevant_update(before: &Self, after: &Self) -> bool {
        before.engine_claim != after.engine_claim
    }
}

impl DisruptionTrigger for NodePool {
    fn is_relevant_update(before: &Self, after: &Self) -> bool {
        let conditions = |pool: &Self| pool.status.as_ref().map(|status| status.conditions.clone());
        before.metadata.generation != after.metadata.generation
            || before.metadata.annotations != after.metadata.annotations
            || before.metadata.deletion_timestamp.is_some() != after.metadata.deletion_timestamp.is_some()
            || conditions(before) != conditions(after)
    }
}

impl DisruptionTrigger for PodDisruptionBudget {
    fn is_relevant_update(before: &Self, after: &Self) -> bool {
        before != after
    }
}

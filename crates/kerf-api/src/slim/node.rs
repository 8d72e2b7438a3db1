//! Nodes: labels, taints, resources, conditions.

use jiff::Timestamp;

use super::meta::{ObjectMeta, ResourceList, Str};
pub use crate::taints::TaintEffect;

/// Kubernetes Node, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Name, labels and annotations.
    pub metadata: ObjectMeta,
    /// Provider ID, taints, cordon.
    pub spec: NodeSpec,
    /// Resources and conditions.
    pub status: NodeStatus,
}

/// Part of a node's spec that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSpec {
    /// Provider ID of the instance; empty if not set.
    pub provider_id: Str,
    /// Taints of the node.
    pub taints: Vec<Taint>,
    /// True if the node is cordoned.
    pub unschedulable: bool,
}

/// Taint of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Taint key.
    pub key: Str,
    /// Value, often empty.
    pub value: Str,
    /// Effect on pods that do not tolerate the taint.
    pub effect: TaintEffect,
}

/// Part of a node's status that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// Total resources of the node.
    pub capacity: ResourceList,
    /// Resources available to pods.
    pub allocatable: ResourceList,
    /// Conditions, for readiness and node repair.
    pub conditions: Vec<NodeCondition>,
}

/// Condition of a node, reduced to what decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCondition {
    /// Type of the condition, such as `Ready`.
    pub condition_type: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// Reason of the status, as one word for programs.
    pub reason: Str,
    /// Human-readable details.
    pub message: Str,
    /// Time at which the status last changed.
    pub last_transition_time: Option<Timestamp>,
}

//! Nodes: labels, taints, what they can hold.

use jiff::Timestamp;

use super::meta::{ObjectMeta, ResourceList, Str};
pub use crate::taints::TaintEffect;

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Names, labels.
    pub metadata: ObjectMeta,
    /// Provider id, taints, cordon.
    pub spec: NodeSpec,
    /// Resources and conditions.
    pub status: NodeStatus,
}

/// The part of a node's spec that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSpec {
    /// The machine behind the node.
    pub provider_id: Str,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Cordoned.
    pub unschedulable: bool,
}

/// A taint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Key.
    pub key: Str,
    /// Value, often empty.
    pub value: Str,
    /// What it does to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// The part of a node's status that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// All resources.
    pub capacity: ResourceList,
    /// Resources for pods.
    pub allocatable: ResourceList,
    /// Conditions, for readiness and repair.
    pub conditions: Vec<NodeCondition>,
}

/// A condition of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCondition {
    /// Type.
    pub condition_type: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// Why, in one word for programs.
    pub reason: Str,
    /// Why, for people.
    pub message: Str,
    /// When the status last changed.
    pub last_transition_time: Option<Timestamp>,
}

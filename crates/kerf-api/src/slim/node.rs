//! Nodes: labels, taints, what they can hold.

use jiff::Timestamp;
use serde::Deserialize;

use super::meta::{ObjectMeta, ResourceList, Str};

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

/// What a taint does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(from = "Str")]
pub enum TaintEffect {
    /// New pods stay away.
    #[default]
    NoSchedule,
    /// New pods stay away if they can.
    PreferNoSchedule,
    /// Running pods leave as well.
    NoExecute,
    /// Something that is no effect.
    Unsupported(Str),
}

impl TaintEffect {
    /// The effect as it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
            Self::Unsupported(text) => text,
        }
    }
}

impl From<Str> for TaintEffect {
    fn from(text: Str) -> Self {
        match text.as_str() {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            _ => Self::Unsupported(text),
        }
    }
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
    pub kind: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// When the status last changed.
    pub last_transition_time: Option<Timestamp>,
}

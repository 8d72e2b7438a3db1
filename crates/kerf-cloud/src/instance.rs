//! What the controllers know of a machine and of a provider, as plain data.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::labels;
use kerf_api::nodepool::NodeClassReference;
use kerf_api::unparsed::Resources;

/// A machine as its provider sees it: all that a NodeClaim takes over once it is launched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instance {
    /// The provider's name for it, the same as on its Node.
    pub provider_id: String,
    /// The claim that it was launched for, as far as the provider can tell.
    pub claim: Option<String>,
    /// Labels that it turned out to have: type, zone, capacity type, the provider's own.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the provider wants on the claim.
    pub annotations: BTreeMap<String, String>,
    /// The image that it runs.
    pub image_id: Option<String>,
    /// All its resources.
    pub capacity: Resources,
    /// Resources for pods.
    pub allocatable: Resources,
    /// When it was launched.
    pub launched_at: Option<Timestamp>,
    /// Whether its termination is under way.
    pub is_terminating: bool,
}

/// A kind of node class that a provider supports. Objects that refer to other kinds belong to other controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeClassKind {
    /// API group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// The plural by which the API server knows it.
    pub plural: &'static str,
}

impl NodeClassKind {
    /// Whether a reference is to a class of this kind; name and version play no part.
    pub fn matches(&self, reference: &NodeClassReference) -> bool {
        reference.is_kind(self.group, self.kind)
    }

    /// The label that names the class on NodeClaims and Nodes.
    pub fn label_key(&self) -> String {
        labels::node_class_key(self.group, self.kind)
    }
}

/// When a node counts as broken: a condition has had a status for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the node's condition.
    pub condition: &'static str,
    /// The status that is bad.
    pub status: &'static str,
    /// How long it is put up with.
    pub toleration: Duration,
}

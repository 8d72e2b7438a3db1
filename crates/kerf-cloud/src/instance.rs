//! Plain data that a provider reports to the controllers: instances, node class kinds and repair
//! policies.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::labels;
use kerf_api::nodepool::NodeClassReference;
use kerf_api::unparsed::Resources;

/// An instance as its provider reports it: everything that a NodeClaim adopts after its launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instance {
    /// The provider's ID of the instance, equal to `spec.providerID` of its Node.
    pub provider_id: String,
    /// Name of the claim that the instance was launched for; `None` if the provider does not know
    /// it.
    pub claim: Option<String>,
    /// Actual labels of the instance: type, zone, capacity type, and the provider's own.
    pub labels: BTreeMap<String, String>,
    /// Annotations to set on the claim.
    pub annotations: BTreeMap<String, String>,
    /// ID of the image that the instance runs; `None` if the provider has no images.
    pub image_id: Option<String>,
    /// Total resources of the instance.
    pub capacity: Resources,
    /// Resources available for pods.
    pub allocatable: Resources,
    /// Time of the launch; `None` if unknown.
    pub launched_at: Option<Timestamp>,
    /// True if the termination of the instance has begun.
    pub is_terminating: bool,
}

/// A kind of node class that a provider supports. Objects that refer to other kinds belong to other
/// controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeClassKind {
    /// API group, for example `karpenter.kwok.sh`.
    pub group: &'static str,
    /// API version, for example `v1alpha1`.
    pub version: &'static str,
    /// Kind as written in `nodeClassRef.kind`.
    pub kind: &'static str,
    /// Plural name as in URLs of the API server.
    pub plural: &'static str,
}

impl NodeClassKind {
    /// Returns true if the reference names this group and kind. Name and version are not compared.
    pub fn matches(&self, reference: &NodeClassReference) -> bool {
        reference.is_kind(self.group, self.kind)
    }

    /// Returns the key of the label that names the node class on NodeClaims and Nodes.
    pub fn label_key(&self) -> String {
        labels::node_class_key(self.group, self.kind)
    }
}

/// How the conditions of a provider's node classes are reported as metrics and Events (spec 07 §6.6,
/// §8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeClassStatusReport {
    /// Published name of the controller that reports them.
    pub controller: &'static str,
    /// Kind of the node classes.
    pub kind: NodeClassKind,
    /// Conditions that every class has besides `Ready`. One that is not stored yet counts as
    /// Unknown.
    pub dependents: &'static [&'static str],
}

/// Defines when a node counts as unhealthy: a condition has had a status for a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the node condition.
    pub condition: &'static str,
    /// Status that counts as unhealthy.
    pub status: &'static str,
    /// Time for which this status is tolerated before the node is repaired.
    pub toleration: Duration,
}

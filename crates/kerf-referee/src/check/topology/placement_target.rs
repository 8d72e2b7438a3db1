//! Nodes on which pods can be placed.
//!
//! A starting node has taints that it will lose. A spread that honours taints does not count the
//! pods on such a node now, but it counts pods that are bound to it later.

use k8s_openapi::api::core::v1::Taint;

use crate::selectors::Labels;

/// An existing or planned node.
#[derive(Debug, Clone)]
pub(crate) struct PlacementTarget {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    /// Taints that decide whether a spread counts the pods that are on the node now.
    pub(crate) taints: Vec<Taint>,
    /// Taints that the node will have when pods are bound to it.
    pub(crate) lasting_taints: Vec<Taint>,
    /// True for a node that is being deleted: its pods count, but it adds no domain for more pods.
    pub(crate) is_deleting: bool,
}

impl PlacementTarget {
    /// Creates the target of a planned node, which has only the taints that it will keep.
    pub(crate) fn planned_node(name: String, labels: Labels, taints: Vec<Taint>) -> Self {
        Self { name, labels, lasting_taints: taints.clone(), taints, is_deleting: false }
    }
}

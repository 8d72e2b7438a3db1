//! Where pods can be. A node that is starting has taints that it will lose: they keep the pods that are there from being counted, but
//! not those that are bound to it later.

use k8s_openapi::api::core::v1::Taint;

use crate::selectors::Labels;

/// Where pods can be: a node that is there, or one that is planned.
#[derive(Debug, Clone)]
pub(crate) struct PlacementTarget {
    pub(crate) name: String,
    pub(crate) labels: Labels,
    /// The taints by which it is told whether the pods that are there count.
    pub(crate) taints: Vec<Taint>,
    /// The taints that it will have when pods are bound to it.
    pub(crate) lasting_taints: Vec<Taint>,
    /// A node that is going away counts for its pods only, not as a place for more.
    pub(crate) is_deleting: bool,
}

impl PlacementTarget {
    /// A node that is planned: it has the taints that it will keep.
    pub(crate) fn planned_node(name: String, labels: Labels, taints: Vec<Taint>) -> Self {
        Self { name, labels, lasting_taints: taints.clone(), taints, is_deleting: false }
    }
}

//! The scheduler's data about a node: labels, taints, allocatable resources, and the sums of its
//! pods' requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerImage, NodeSpec, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kerf_referee::resources::Resources;
use kerf_referee::selectors::Labels;
use serde::Deserialize;
use smol_str::SmolStr;

use super::amounts::{Amounts, ResourceNames};
use super::pod::{PodInfo, PodKey};

/// Nodes are tried zone by zone in turn, by the values of this label.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// A node. Pods can refer to a node name for which no Node object exists yet or any more; then
/// `exists` is false.
#[derive(Debug, Default)]
pub(super) struct NodeInfo {
    pub(super) name: SmolStr,
    pub(super) exists: bool,
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
    pub(super) allocatable: Amounts,
    /// Size in bytes of the node's images, by each image name.
    pub(super) images: BTreeMap<SmolStr, i64>,
    /// Sum of the requests of its pods.
    pub(super) used: Amounts,
    /// Sum of its pods' requests for scoring ([`PodInfo::nonzero_requests`]): CPU and memory in the
    /// units of [`Amounts`].
    pub(super) nonzero_used: [i64; 2],
    pub(super) pods: BTreeMap<PodKey, Arc<PodInfo>>,
    /// Number of its pods by priority. It answers quickly whether the node has pods of lower
    /// priority, which preemption needs for each node and each pending pod.
    pub(super) priorities: BTreeMap<i32, usize>,
    /// Number of its pods with host ports. It is usually zero, and then no ports are compared.
    pub(super) pods_with_host_ports: usize,
}

#[derive(Deserialize)]
struct StoredNode {
    metadata: StoredNodeMeta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: StoredNodeStatus,
}

#[derive(Deserialize)]
struct StoredNodeMeta {
    name: SmolStr,
    labels: Option<Labels>,
}

#[derive(Default, Deserialize)]
struct StoredNodeStatus {
    allocatable: Option<BTreeMap<String, Quantity>>,
    images: Option<Vec<ContainerImage>>,
}

/// The decoded Node object.
#[derive(Debug)]
pub(super) struct NodeDescription {
    pub(super) name: SmolStr,
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
    pub(super) allocatable: Amounts,
    pub(super) images: BTreeMap<SmolStr, i64>,
}

impl NodeDescription {
    /// Decodes a stored Node. Returns `None` if it cannot be decoded, which does not happen for
    /// objects that the API server stored.
    pub(super) fn decode(bytes: &[u8], names: &mut ResourceNames) -> Option<Self> {
        let node: StoredNode = serde_json::from_slice(bytes).ok()?;
        let mut images = BTreeMap::new();
        for image in node.status.images.iter().flatten() {
            for name in image.names.iter().flatten() {
                images.insert(SmolStr::from(name), image.size_bytes.unwrap_or_default());
            }
        }
        Some(Self {
            name: node.metadata.name,
            labels: node.metadata.labels.unwrap_or_default(),
            taints: node.spec.taints.unwrap_or_default(),
            unschedulable: node.spec.unschedulable.unwrap_or_default(),
            allocatable: names.amounts_of(&Resources::from_quantities(node.status.allocatable.as_ref())),
            images,
        })
    }
}

/// The changes of a node that can make a rejected pod fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeChange {
    pub(super) added: bool,
    pub(super) labels: bool,
    /// True if taints or `spec.unschedulable` changed.
    pub(super) taints: bool,
    pub(super) allocatable: bool,
}

impl NodeChange {
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl NodeInfo {
    /// Applies a Node object and returns the changes.
    pub(super) fn apply(&mut self, description: NodeDescription) -> NodeChange {
        let change = NodeChange {
            added: !self.exists,
            labels: self.labels != description.labels,
            taints: self.taints != description.taints || self.unschedulable != description.unschedulable,
            allocatable: self.allocatable != description.allocatable,
        };
        self.exists = true;
        self.labels = description.labels;
        self.taints = description.taints;
        self.unschedulable = description.unschedulable;
        self.allocatable = description.allocatable;
        self.images = description.images;
        change
    }

    pub(super) fn zone(&self) -> &str {
        self.labels.get(ZONE).map_or("", String::as_str)
    }

    pub(super) fn add_pod(&mut self, pod: Arc<PodInfo>) {
        self.used.add(&pod.requests);
        self.nonzero_used[0] += pod.nonzero_requests[0];
        self.nonzero_used[1] += pod.nonzero_requests[1];
        self.pods_with_host_ports += usize::from(!pod.ports.is_empty());
        *self.priorities.entry(pod.priority).or_default() += 1;
        self.pods.insert(pod.key.clone(), pod);
    }

    /// Returns true if a pod on the node has a priority below `priority`.
    pub(super) fn has_pod_below(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    /// Returns the entry of a deleted node, which keeps only the pods and their sums.
    pub(super) fn take_pods_only(&mut self) -> Self {
        Self {
            name: self.name.clone(),
            pods: std::mem::take(&mut self.pods),
            priorities: std::mem::take(&mut self.priorities),
            used: std::mem::take(&mut self.used),
            nonzero_used: self.nonzero_used,
            pods_with_host_ports: self.pods_with_host_ports,
            ..Self::default()
        }
    }

    pub(super) fn remove_pod(&mut self, key: &PodKey) -> Option<Arc<PodInfo>> {
        let pod = self.pods.remove(key)?;
        self.used.subtract(&pod.requests);
        self.nonzero_used[0] -= pod.nonzero_requests[0];
        self.nonzero_used[1] -= pod.nonzero_requests[1];
        self.pods_with_host_ports -= usize::from(!pod.ports.is_empty());
        if let Some(count) = self.priorities.get_mut(&pod.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&pod.priority);
            }
        }
        Some(pod)
    }
}

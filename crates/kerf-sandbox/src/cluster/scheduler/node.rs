//! What the scheduler keeps of a node: its labels and taints, what it has, and what its pods take of it.

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

/// The zone that a node is in, for the order in which nodes are tried.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// A node. Pods can be bound to a name before (and after) there is a node of that name: then `exists` is false.
#[derive(Debug, Default)]
pub(super) struct NodeInfo {
    pub(super) name: SmolStr,
    pub(super) exists: bool,
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
    pub(super) allocatable: Amounts,
    /// Sizes of the images that it has, by each of their names.
    pub(super) images: BTreeMap<SmolStr, i64>,
    /// What its pods ask for.
    pub(super) used: Amounts,
    pub(super) nonzero_used: [i64; 2],
    pub(super) pods: BTreeMap<PodKey, Arc<PodInfo>>,
    /// How many of its pods have which priority: whether anybody is less important is asked for each node and each pod that waits.
    pub(super) priorities: BTreeMap<i32, usize>,
    /// How many of its pods have ports on the host: mostly none, and then nothing needs to be compared.
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

/// What a node object says.
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
    /// Reads a stored node. None if it cannot be read: the API server has stored no such thing.
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

/// What of a node has changed, as far as it can make a pod fit that did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeChange {
    pub(super) added: bool,
    pub(super) labels: bool,
    /// Taints, or whether it is cordoned.
    pub(super) taints: bool,
    pub(super) allocatable: bool,
}

impl NodeChange {
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl NodeInfo {
    /// Takes over what a node object says, and says what is new about it.
    pub(super) fn apply(&mut self, described: NodeDescription) -> NodeChange {
        let change = NodeChange {
            added: !self.exists,
            labels: self.labels != described.labels,
            taints: self.taints != described.taints || self.unschedulable != described.unschedulable,
            allocatable: self.allocatable != described.allocatable,
        };
        self.exists = true;
        self.labels = described.labels;
        self.taints = described.taints;
        self.unschedulable = described.unschedulable;
        self.allocatable = described.allocatable;
        self.images = described.images;
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

    /// Whether a pod on it is less important than `priority`.
    pub(super) fn has_pod_below(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    /// The place of a node that is gone: its pods are still there.
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

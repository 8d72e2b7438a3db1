//! What the scheduler keeps of a node: its labels and taints, what it has, and what its pods take of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerImage, NodeSpec, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kerf_referee::resources::Resources;
use kerf_referee::selectors::Labels;
use serde::Deserialize;
use smol_str::SmolStr;

use super::amounts::{Amounts, Names};
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
    pub(super) assumed: [i64; 2],
    pub(super) pods: BTreeMap<PodKey, Arc<PodInfo>>,
    /// How many of its pods have ports on the host: mostly none, and then nothing needs to be compared.
    pub(super) with_ports: usize,
}

#[derive(Deserialize)]
struct Read {
    metadata: ReadMeta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: ReadStatus,
}

#[derive(Deserialize)]
struct ReadMeta {
    name: SmolStr,
    labels: Option<Labels>,
}

#[derive(Default, Deserialize)]
struct ReadStatus {
    allocatable: Option<BTreeMap<String, Quantity>>,
    images: Option<Vec<ContainerImage>>,
}

/// What a node object says.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) name: SmolStr,
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
    pub(super) allocatable: Amounts,
    pub(super) images: BTreeMap<SmolStr, i64>,
}

impl Description {
    /// Reads a stored node. None if it cannot be read: the API server has stored no such thing.
    pub(super) fn read(bytes: &[u8], names: &mut Names) -> Option<Self> {
        let node: Read = serde_json::from_slice(bytes).ok()?;
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
            allocatable: names.count(&Resources::read(node.status.allocatable.as_ref())),
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
    pub(super) fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl NodeInfo {
    /// Takes over what a node object says, and says what is new about it.
    pub(super) fn become_as(&mut self, described: Description) -> NodeChange {
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

    pub(super) fn seat(&mut self, pod: Arc<PodInfo>) {
        self.used.add(&pod.requests);
        self.assumed[0] += pod.assumed[0];
        self.assumed[1] += pod.assumed[1];
        self.with_ports += usize::from(!pod.ports.is_empty());
        self.pods.insert(pod.key.clone(), pod);
    }

    pub(super) fn unseat(&mut self, key: &PodKey) -> Option<Arc<PodInfo>> {
        let pod = self.pods.remove(key)?;
        self.used.subtract(&pod.requests);
        self.assumed[0] -= pod.assumed[0];
        self.assumed[1] -= pod.assumed[1];
        self.with_ports -= usize::from(!pod.ports.is_empty());
        Some(pod)
    }
}

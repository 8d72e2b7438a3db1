//! The cluster as the scheduler knows it: nodes with their pods, classes of pods, namespaces,
//! storage and budgets. Changes of the store update it, and filters and scores read it. It decides
//! nothing.
//!
//! Invariants:
//! - A pod that has not ended and has a node, or an assumed node while its volumes are bound, is
//!   counted exactly once: in the sums of that node and in the counts of its class.
//! - The order of nodes alternates between zones, as in kube-scheduler. It depends only on the
//!   order in which nodes were added.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_referee::placement::Namespaces;
use smol_str::{SmolStr, format_smolstr};

use super::amounts::ResourceNames;
use super::classes::PodClasses;
use super::node::{NodeChange, NodeDescription, NodeInfo};
use super::pod::{PodInfo, PodKey};
use super::storage::StorageView;
use super::workloads::Workloads;

/// Index of a node slot. A slot belongs to one node name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeIx(u32);

impl NodeIx {
    /// Returns the index for tables with one row per slot.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
pub(super) struct View {
    pub(super) resource_names: ResourceNames,
    pub(super) classes: PodClasses,
    pub(super) namespaces: Namespaces,
    pub(super) storage: StorageView,
    pub(super) workloads: Workloads,
    pub(super) budgets: BTreeMap<SmolStr, PodDisruptionBudget>,
    nodes: Vec<NodeInfo>,
    by_name: BTreeMap<SmolStr, NodeIx>,
    free: Vec<NodeIx>,
    /// Existing nodes, in the order in which they were added.
    nodes_by_arrival: Vec<NodeIx>,
    /// Existing nodes in the order in which they are tried. Empty if it must be computed again.
    zone_interleaved: Vec<NodeIx>,
    pods: BTreeMap<PodKey, Arc<PodInfo>>,
    nominated: BTreeMap<SmolStr, BTreeSet<PodKey>>,
    /// The assumed node of each pod that waits for its volumes.
    assumed_nodes: BTreeMap<PodKey, SmolStr>,
    /// Number of pods with a node that use a claim, by claim.
    claim_users: BTreeMap<SmolStr, usize>,
    /// Number of nodes that have an image, by image name.
    image_nodes: BTreeMap<SmolStr, usize>,
}

/// The state of a pod before and after a change.
#[derive(Debug)]
pub(super) struct PodChange {
    pub(super) before: Option<Arc<PodInfo>>,
    pub(super) now: Arc<PodInfo>,
}

impl View {
    pub(super) fn new() -> Self {
        Self {
            resource_names: ResourceNames::new(),
            classes: PodClasses::default(),
            namespaces: Namespaces::new(),
            storage: StorageView::default(),
            workloads: Workloads::default(),
            budgets: BTreeMap::new(),
            nodes: Vec::new(),
            by_name: BTreeMap::new(),
            free: Vec::new(),
            nodes_by_arrival: Vec::new(),
            zone_interleaved: Vec::new(),
            pods: BTreeMap::new(),
            nominated: BTreeMap::new(),
            assumed_nodes: BTreeMap::new(),
            claim_users: BTreeMap::new(),
            image_nodes: BTreeMap::new(),
        }
    }

    pub(super) fn node(&self, node: NodeIx) -> &NodeInfo {
        &self.nodes[node.index()]
    }

    /// Returns the slot of an existing node.
    pub(super) fn find_node(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied().filter(|node| self.node(*node).exists)
    }

    /// Returns the number of node slots, for tables with one row per slot.
    pub(super) fn slot_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the existing nodes, in the order in which they were added.
    pub(super) fn existing_nodes(&self) -> impl Iterator<Item = NodeIx> {
        self.nodes_by_arrival.iter().copied()
    }

    pub(super) fn node_count(&self) -> usize {
        self.nodes_by_arrival.len()
    }

    /// Returns the existing nodes, alternating between zones.
    pub(super) fn node_order(&mut self) -> &[NodeIx] {
        if self.zone_interleaved.is_empty() && !self.nodes_by_arrival.is_empty() {
            let mut zones: Vec<(SmolStr, Vec<NodeIx>)> = Vec::new();
            for node in &self.nodes_by_arrival {
                let zone = self.nodes[node.index()].zone();
                match zones.iter_mut().find(|(name, _)| name == zone) {
                    Some((_, nodes)) => nodes.push(*node),
                    None => zones.push((zone.into(), vec![*node])),
                }
            }
            let longest = zones.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or_default();
            let interleaved = (0..longest).flat_map(|turn| zones.iter().filter_map(move |(_, nodes)| nodes.get(turn)));
            self.zone_interleaved = interleaved.copied().collect();
        }
        &self.zone_interleaved
    }

    /// Adds or updates a node.
    pub(super) fn put_node(&mut self, description: NodeDescription) -> (NodeIx, NodeChange) {
        let node = self.ensure_slot(&description.name);
        let images = self.nodes[node.index()].images.clone();
        if images != description.images {
            self.forget_images(&images);
            for image in description.images.keys() {
                *self.image_nodes.entry(image.clone()).or_default() += 1;
            }
        }
        let change = self.nodes[node.index()].apply(description);
        if change.added {
            self.nodes_by_arrival.push(node);
        }
        if change.added || change.labels {
            self.zone_interleaved.clear();
        }
        (node, change)
    }

    /// Removes a node. Its pods stay in its slot until they are deleted, too.
    pub(super) fn remove_node(&mut self, name: &str) {
        let Some(node) = self.find_node(name) else { return };
        let images = std::mem::take(&mut self.nodes[node.index()].images);
        self.forget_images(&images);
        let info = &mut self.nodes[node.index()];
        *info = info.take_pods_only();
        self.nodes_by_arrival.retain(|other| *other != node);
        self.zone_interleaved.clear();
        self.free_slot_if_empty(node);
    }

    fn forget_images(&mut self, images: &BTreeMap<SmolStr, i64>) {
        for image in images.keys() {
            if let Some(count) = self.image_nodes.get_mut(image) {
                *count -= 1;
                if *count == 0 {
                    self.image_nodes.remove(image);
                }
            }
        }
    }

    /// Returns the number of nodes that have an image.
    pub(super) fn image_node_count(&self, image: &str) -> usize {
        self.image_nodes.get(image).copied().unwrap_or_default()
    }

    pub(super) fn pod(&self, key: &str) -> Option<&Arc<PodInfo>> {
        self.pods.get(key)
    }

    /// Adds or updates a pod.
    pub(super) fn put_pod(&mut self, pod: Pod) -> PodChange {
        let now = Arc::new(PodInfo::new(pod, &mut self.resource_names, &mut self.classes));
        let before = self.take_pod(&now.key);
        if now.node.is_some() || now.is_terminal || before.as_ref().is_some_and(|before| before.uid != now.uid) {
            self.assumed_nodes.remove(&now.key);
        }
        self.pods.insert(now.key.clone(), now.clone());
        self.add_to_its_node(&now);
        if let Some(node) = now.nominated_node.clone().filter(|_| now.node.is_none() && !now.is_terminal) {
            self.nominated.entry(node).or_default().insert(now.key.clone());
        }
        PodChange { before, now }
    }

    /// Removes a deleted pod and returns its last state; `None` if the pod was not known.
    pub(super) fn remove_pod(&mut self, key: &PodKey) -> Option<Arc<PodInfo>> {
        let pod = self.take_pod(key);
        self.assumed_nodes.remove(key);
        pod
    }

    fn take_pod(&mut self, key: &PodKey) -> Option<Arc<PodInfo>> {
        let pod = self.pods.remove(key)?;
        self.remove_from_its_node(&pod);
        self.classes.release(pod.class);
        if let Some(node) = &pod.nominated_node
            && let Some(pods) = self.nominated.get_mut(node)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.nominated.remove(node);
            }
        }
        Some(pod)
    }

    /// Assumes that a pod runs on a node: it counts there until it is bound or forgotten.
    pub(super) fn assume_pod(&mut self, pod: &Arc<PodInfo>, node: &str) {
        self.assumed_nodes.insert(pod.key.clone(), node.into());
        self.add_to_its_node(pod);
    }

    /// Removes an assumed pod from its node and returns it.
    pub(super) fn forget_assumed_pod(&mut self, key: &PodKey) -> Option<Arc<PodInfo>> {
        if !self.assumed_nodes.contains_key(key) {
            return None;
        }
        let pod = self.pods.get(key).cloned();
        if let Some(pod) = &pod {
            self.remove_from_its_node(pod);
        }
        self.assumed_nodes.remove(key);
        pod
    }

    /// Returns the name of the pod's node or assumed node; `None` for pods that have ended.
    pub(super) fn node_of<'a>(&'a self, pod: &'a PodInfo) -> Option<&'a SmolStr> {
        if pod.is_terminal { None } else { pod.node.as_ref().or_else(|| self.assumed_nodes.get(&pod.key)) }
    }

    /// Returns the pods without a node that are nominated to this node.
    pub(super) fn nominated_to<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Arc<PodInfo>> {
        self.nominated.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    pub(super) fn has_nominations(&self) -> bool {
        !self.nominated.is_empty()
    }

    /// Returns true if a pod with a node uses the claim.
    pub(super) fn is_claim_in_use(&self, claim: &str) -> bool {
        self.claim_users.contains_key(claim)
    }

    /// Adds a pod to a node temporarily, for a what-if check.
    pub(super) fn add_hypothetically(&mut self, pod: &Arc<PodInfo>, node: NodeIx) {
        self.add_to_node(pod, node);
    }

    /// Removes a pod from a node temporarily, for a what-if check.
    pub(super) fn remove_hypothetically(&mut self, pod: &Arc<PodInfo>, node: NodeIx) {
        self.remove_from_node(pod, node);
    }

    fn add_to_its_node(&mut self, pod: &Arc<PodInfo>) {
        if let Some(name) = self.node_of(pod).cloned() {
            let node = self.ensure_slot(&name);
            self.add_to_node(pod, node);
        }
    }

    fn remove_from_its_node(&mut self, pod: &Arc<PodInfo>) {
        if let Some(node) = self.node_of(pod).and_then(|name| self.by_name.get(name).copied()) {
            self.remove_from_node(pod, node);
            self.free_slot_if_empty(node);
        }
    }

    fn add_to_node(&mut self, pod: &Arc<PodInfo>, node: NodeIx) {
        self.nodes[node.index()].add_pod(pod.clone());
        self.classes.add_pod_on(pod.class, node, !pod.is_deleting);
        for claim in &pod.claims {
            *self.claim_users.entry(claim_key(pod, claim)).or_default() += 1;
        }
    }

    fn remove_from_node(&mut self, pod: &Arc<PodInfo>, node: NodeIx) {
        if self.nodes[node.index()].remove_pod(&pod.key).is_none() {
            return;
        }
        self.classes.remove_pod_on(pod.class, node, !pod.is_deleting);
        for claim in &pod.claims {
            let key = claim_key(pod, claim);
            if let Some(users) = self.claim_users.get_mut(&key) {
                *users -= 1;
                if *users == 0 {
                    self.claim_users.remove(&key);
                }
            }
        }
    }

    /// Returns the slot of a node name. Creates it if necessary.
    fn ensure_slot(&mut self, name: &SmolStr) -> NodeIx {
        if let Some(node) = self.by_name.get(name) {
            return *node;
        }
        let info = NodeInfo { name: name.clone(), ..NodeInfo::default() };
        let node = match self.free.pop() {
            Some(node) => {
                self.nodes[node.index()] = info;
                node
            }
            None => {
                self.nodes.push(info);
                NodeIx(self.nodes.len() as u32 - 1)
            }
        };
        self.by_name.insert(name.clone(), node);
        node
    }

    /// Frees a slot that has neither a node nor a pod.
    fn free_slot_if_empty(&mut self, node: NodeIx) {
        let info = &self.nodes[node.index()];
        if !info.exists && info.pods.is_empty() {
            self.by_name.remove(&info.name);
            self.free.push(node);
        }
    }
}

/// Returns `namespace/name` of a pod's claim.
pub(super) fn claim_key(pod: &PodInfo, claim: &str) -> SmolStr {
    format_smolstr!("{}/{claim}", pod.namespace())
}

//! The cluster model: nodes with their free resources, running pods by label set, NodePools and
//! what they can launch.
//!
//! It is built once from the [`Input`] and then read by many decisions. It holds what depends only
//! on the cluster; `solve` holds what depends on the pods to place. Running pods are counts per
//! distinct label set and node, so a new topology constraint is counted over label sets and not
//! over pods.

mod daemon_pods;
mod daemons;
mod input;
mod nodes;
pub(crate) mod ports;
pub(crate) mod selection;
mod volumes;

use std::sync::Arc;

use kerf_api::labels::LabelRules;
use kerf_api::slim::{CsiNode, Labels, Pod, PodAffinityTerm, Str, Taint};
use rustc_hash::FxHashMap;

pub(crate) use daemon_pods::DaemonPods;
pub(crate) use daemons::{Daemon, needs_devices};
pub use input::{
    Effort, Input, MinValuesPolicy, NodeClaimInput, PoolAvailability, PoolInput, PoolRequirement, PreferencePolicy,
    ReservedMode, Settings, UnsupportedStorage,
};
pub(crate) use nodes::{NodeState, join_node_and_claim};
pub(crate) use volumes::{Attachment, StorageObjects};

use crate::catalogue::CompiledCatalogue;
use crate::pod::requirements::label_requirements;
use crate::pod::{requests, selector};
use crate::requirement_table::{RequirementSetIx, RequirementTable};
use crate::resources::ResourceNames;

/// The facts about a node that topology group filters read, besides its name: its labels, the
/// taints that pods must tolerate, and the Node's own taints.
type NodeKind = (RequirementSetIx, Vec<Taint>, Option<Vec<Taint>>);

/// The cluster, prepared for decisions.
#[derive(Debug, Clone)]
pub(crate) struct ClusterModel {
    pub(crate) settings: Settings,
    pub(crate) label_rules: LabelRules,
    pub(crate) resource_names: ResourceNames,
    pub(crate) catalogues: Vec<CompiledCatalogue>,
    pub(crate) pools: Vec<PoolInput>,
    pub(crate) nodes: Vec<NodeState>,
    /// Index of each node by the name of its Node object, which pods refer to. It also has nodes
    /// that [`NodeState::name`] still lists under the claim's name.
    pub(crate) node_index: FxHashMap<Str, usize>,
    kinds: FxHashMap<NodeKind, u32>,
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) storage: StorageObjects,
    attach_limits: FxHashMap<Str, Vec<(Str, usize)>>,
    pub(crate) namespaces: Vec<(Str, Labels)>,
    /// Running pods by label set.
    pub(crate) running: Vec<RunningClass>,
    running_index: FxHashMap<(Str, Labels), usize>,
    /// Required anti-affinity terms of running pods: the pod's namespace, the term, and the index
    /// of the node.
    pub(crate) running_anti_affinity: Vec<(Str, PodAffinityTerm, usize)>,
}

/// Running pods with equal namespace and labels, which no selector can distinguish.
#[derive(Debug, Clone)]
pub(crate) struct RunningClass {
    pub(crate) namespace: Str,
    pub(crate) labels: Labels,
    /// Number of pods by node index.
    pub(crate) pods_by_node: FxHashMap<u32, i32>,
}

impl ClusterModel {
    /// Builds the model and the table of all its requirements. `may_move` returns true for bound
    /// pods that must be placed again when their node is deleted. Such pods of nodes that are
    /// marked for deletion do not count as running.
    pub(crate) fn new(input: &Input, settings: &Settings, may_move: &dyn Fn(&Pod) -> bool) -> (Self, RequirementTable) {
        let mut resource_names = ResourceNames::default();
        let mut table = RequirementTable::new(input.label_rules.well_known().map(Str::from));
        let catalogues = input
            .catalogues
            .iter()
            .map(|types| CompiledCatalogue::new(types, &mut resource_names, &mut table))
            .collect();
        let daemons: Vec<Daemon> = input
            .daemon_sets
            .iter()
            .map(|set| Daemon::new(set, &input.pods, &input.label_rules, &mut resource_names, &mut table))
            .collect();
        let storage = StorageObjects::new(
            &input.volume_claims,
            &input.volumes,
            &input.storage_classes,
            &input.unsupported_storage,
        );
        let mut nodes = nodes::join_all(&input.nodes, &input.node_claims, &mut resource_names);
        let node_index = index_by_node_name(&nodes);
        let mut cluster = Self {
            settings: settings.clone(),
            label_rules: input.label_rules.clone(),
            resource_names,
            catalogues,
            pools: input.pools.iter().map(|pool| with_known_catalogue(pool, input)).collect(),
            nodes: Vec::new(),
            node_index,
            kinds: FxHashMap::default(),
            daemons,
            storage,
            attach_limits: input.csi_nodes.iter().map(|csi| (csi.metadata.name.clone(), attach_limits(csi))).collect(),
            namespaces: namespaces(input),
            running: Vec::new(),
            running_index: FxHashMap::default(),
            running_anti_affinity: Vec::new(),
        };
        for node in &mut nodes {
            cluster.complete_node(node, &mut table);
        }
        cluster.nodes = nodes;
        cluster.bind_pods(&input.pods, may_move);
        (cluster, table)
    }

    fn bind_pods(&mut self, pods: &[Arc<Pod>], may_move: &dyn Fn(&Pod) -> bool) {
        for pod in pods.iter().filter(|p| !p.is_terminal()) {
            let Some(node) = pod.spec.node_name.as_ref().and_then(|n| self.node_index.get(n)).copied() else {
                continue;
            };
            let need = requests::effective_requests(pod, &mut self.resource_names);
            let attachments = self.storage.attachments(pod);
            let state = &mut self.nodes[node];
            if pod.is_owned_by_daemonset() {
                state.daemons_used.add(&need);
            }
            state.used.add(&need);
            state.ports.extend(ports::host_ports(pod));
            state.attached.extend(attachments);
            if state.is_marked_for_deletion && may_move(pod) {
                continue;
            }
            // The anti-affinity of a terminating pod holds until the pod is gone, but spread and
            // affinity no longer count the pod.
            for term in pod.spec.affinity.iter().flat_map(|a| &a.pod_anti_affinity.required) {
                self.running_anti_affinity.push((pod.metadata.namespace.clone(), term.clone(), node));
            }
            if !pod.is_terminating() {
                self.count_running(&pod.metadata.namespace, &pod.metadata.labels, node, 1);
            }
        }
    }

    /// Fills in what depends on other objects: label requirements, kind, daemon overhead and attach
    /// limits.
    pub(crate) fn complete_node(&mut self, node: &mut NodeState, table: &mut RequirementTable) {
        node.label_requirements = table.intern(&label_requirements(node.labels.iter(), &self.label_rules));
        let next = self.kinds.len() as u32;
        let kind = (node.label_requirements, node.taints.clone(), node.own_taints.clone());
        node.kind = *self.kinds.entry(kind).or_insert(next);
        for daemon in self.daemons.iter().filter(|d| !(self.settings.ignore_dra && d.needs_devices)) {
            if daemon.runs_on_node(node.label_requirements, &node.hostname, &node.taints, table) {
                node.daemons_need.add(&daemon.requests);
            }
        }
        if let Some(limits) = node.node_name.as_ref().and_then(|name| self.attach_limits.get(name)) {
            node.attach_limits.clone_from(limits);
        }
    }

    /// Changes the number of pods with these labels on a node by `pods`, which may be negative.
    pub(crate) fn count_running(&mut self, namespace: &Str, labels: &Labels, node: usize, pods: i32) {
        let next = self.running.len();
        let class = *self.running_index.entry((namespace.clone(), labels.clone())).or_insert(next);
        if class == next {
            let (namespace, labels) = (namespace.clone(), labels.clone());
            self.running.push(RunningClass { namespace, labels, pods_by_node: FxHashMap::default() });
        }
        let counts = &mut self.running[class].pods_by_node;
        let count = counts.entry(node as u32).or_default();
        *count += pods;
        if *count == 0 {
            counts.remove(&(node as u32));
        }
    }

    /// Renumbers nodes after their order has changed. `new_index` returns the new index of a node,
    /// or `None` if the node was removed. `self.nodes` must be in the new order already.
    pub(crate) fn renumber_nodes(&mut self, new_index: &dyn Fn(usize) -> Option<u32>) {
        self.node_index = index_by_node_name(&self.nodes);
        for class in &mut self.running {
            let counts = std::mem::take(&mut class.pods_by_node);
            class.pods_by_node =
                counts.into_iter().filter_map(|(node, pods)| Some((new_index(node as usize)?, pods))).collect();
        }
    }

    /// Returns the index of the node with this name: the Node's name if it is registered, otherwise
    /// the claim's. Nodes must be in scheduling order.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let first_uninitialized = self.nodes.partition_point(|n| n.is_initialized);
        let search = |nodes: &[NodeState]| nodes.binary_search_by(|n| n.name.as_str().cmp(name)).ok();
        search(&self.nodes[..first_uninitialized])
            .or_else(|| search(&self.nodes[first_uninitialized..]).map(|at| first_uninitialized + at))
    }

    /// Returns the namespaces that an affinity term refers to (spec 02 §8.1). `None` stands for
    /// all.
    pub(crate) fn namespaces_of(&self, pod_namespace: &Str, term: &PodAffinityTerm) -> Option<Vec<Str>> {
        let mut all: Vec<Str> = match &term.namespace_selector {
            None if term.namespaces.is_empty() => vec![pod_namespace.clone()],
            None => term.namespaces.clone(),
            Some(s) if s.match_labels.is_empty() && s.match_expressions.is_empty() => return None,
            Some(s) => self
                .namespaces
                .iter()
                .filter(|(_, labels)| selector::selects(s, labels))
                .map(|(name, _)| name.clone())
                .chain(term.namespaces.iter().cloned())
                .collect(),
        };
        all.sort_unstable();
        all.dedup();
        Some(all)
    }
}

/// Returns the maximum number of attachments by CSI driver.
fn attach_limits(csi: &CsiNode) -> Vec<(Str, usize)> {
    let limit = |count: i32| usize::try_from(count).unwrap_or(0);
    csi.drivers.iter().filter_map(|d| Some((d.name.clone(), limit(d.count?)))).collect()
}

/// Returns the pool without its catalogue if the input has no catalogue with that index.
fn with_known_catalogue(pool: &PoolInput, input: &Input) -> PoolInput {
    PoolInput { catalogue: pool.catalogue.filter(|c| *c < input.catalogues.len()), ..pool.clone() }
}

fn index_by_node_name(nodes: &[NodeState]) -> FxHashMap<Str, usize> {
    nodes.iter().enumerate().filter_map(|(at, state)| Some((state.node_name.clone()?, at))).collect()
}

fn namespaces(input: &Input) -> Vec<(Str, Labels)> {
    let with_name = |name: &Str, labels: &Labels| {
        labels
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .chain([(Str::new_static("kubernetes.io/metadata.name"), name.clone())])
            .collect::<Labels>()
    };
    let mut all: Vec<(Str, Labels)> = input
        .namespaces
        .iter()
        .map(|n| (n.metadata.name.clone(), with_name(&n.metadata.name, &n.metadata.labels)))
        .collect();
    let mut used: Vec<&Str> = input.pods.iter().map(|p| &p.metadata.namespace).collect();
    used.sort_unstable();
    used.dedup();
    for name in used {
        if !all.iter().any(|(known, _)| known == name) {
            all.push((name.clone(), with_name(name, &Labels::default())));
        }
    }
    all.sort();
    all
}

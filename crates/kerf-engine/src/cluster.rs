//! The world: nodes with their room, running pods by what selectors see of them, pools and what they can launch.
//!
//! It is prepared once from the [`Input`] and then asked many times. What depends only on the cluster is here; what depends on
//! the pods to place is in `solve`. Running pods are kept as counts per distinct label set and node, so that a new
//! topology constraint is counted over label sets, not over pods.

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

/// What filters of topology groups see of a node, but for its name: its labels, the taints that pods must tolerate, and the Node's own.
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
    /// Nodes by the Node's name, by which pods name them, also while the state still goes by its claim's name.
    pub(crate) node_index: FxHashMap<Str, usize>,
    kinds: FxHashMap<NodeKind, u32>,
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) storage: StorageObjects,
    attach_limits: FxHashMap<Str, Vec<(Str, usize)>>,
    pub(crate) namespaces: Vec<(Str, Labels)>,
    /// Running pods by label set.
    pub(crate) running: Vec<RunningClass>,
    running_index: FxHashMap<(Str, Labels), usize>,
    /// Required anti-affinity terms of running pods, with the nodes they run on.
    pub(crate) running_anti_affinity: Vec<(Str, PodAffinityTerm, usize)>,
}

/// Running pods that no selector can tell apart.
#[derive(Debug, Clone)]
pub(crate) struct RunningClass {
    pub(crate) namespace: Str,
    pub(crate) labels: Labels,
    /// How many run on which node.
    pub(crate) pods_by_node: FxHashMap<u32, i32>,
}

impl ClusterModel {
    /// Prepares a cluster. `may_move` says which bound pods need another place when their node leaves: those of nodes
    /// that are leaving do not count as running.
    /// With it comes the table of all requirements that it speaks of.
    pub(crate) fn new(input: &Input, settings: &Settings, may_move: &dyn Fn(&Pod) -> bool) -> (Self, RequirementTable) {
        let mut names = ResourceNames::default();
        let mut table = RequirementTable::new(input.label_rules.well_known().map(Str::from));
        let columns =
            input.catalogues.iter().map(|types| CompiledCatalogue::new(types, &mut names, &mut table)).collect();
        let daemons: Vec<Daemon> = input
            .daemon_sets
            .iter()
            .map(|set| Daemon::new(set, &input.pods, &input.label_rules, &mut names, &mut table))
            .collect();
        let storage = StorageObjects::new(
            &input.volume_claims,
            &input.volumes,
            &input.storage_classes,
            &input.unsupported_storage,
        );
        let mut nodes = nodes::join_all(&input.nodes, &input.node_claims, &mut names);
        let node_index = index_by_node_name(&nodes);
        let mut world = Self {
            settings: settings.clone(),
            label_rules: input.label_rules.clone(),
            resource_names: names,
            catalogues: columns,
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
            world.complete_node(node, &mut table);
        }
        world.nodes = nodes;
        world.bind_pods(&input.pods, may_move);
        (world, table)
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
            // A pod that is on its way out keeps others away until it is gone, but is counted no more.
            for term in pod.spec.affinity.iter().flat_map(|a| &a.pod_anti_affinity.required) {
                self.running_anti_affinity.push((pod.metadata.namespace.clone(), term.clone(), node));
            }
            if !pod.is_terminating() {
                self.count_running(&pod.metadata.namespace, &pod.metadata.labels, node, 1);
            }
        }
    }

    /// Works out what only the rest of the world says of a node: its labels as a set, its kind, its daemons, what it can attach.
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

    /// Counts pods with these labels on a node, or fewer with a negative number.
    pub(crate) fn count_running(&mut self, namespace: &Str, labels: &Labels, node: usize, pods: i32) {
        let next = self.running.len();
        let class = *self.running_index.entry((namespace.clone(), labels.clone())).or_insert(next);
        if class == next {
            let (namespace, labels) = (namespace.clone(), labels.clone());
            self.running.push(RunningClass { namespace, labels, pods_by_node: FxHashMap::default() });
        }
        let on = &mut self.running[class].pods_by_node;
        let count = on.entry(node as u32).or_default();
        *count += pods;
        if *count == 0 {
            on.remove(&(node as u32));
        }
    }

    /// Nodes have other numbers than before; the nodes themselves are in their places already.
    pub(crate) fn renumber_nodes(&mut self, now: &dyn Fn(usize) -> Option<u32>) {
        self.node_index = index_by_node_name(&self.nodes);
        for class in &mut self.running {
            let on = std::mem::take(&mut class.pods_by_node);
            class.pods_by_node = on.into_iter().filter_map(|(node, pods)| Some((now(node as usize)?, pods))).collect();
        }
    }

    /// The node of that name: a Node's once it is registered, else its claim's. Nodes must be in order.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let starting = self.nodes.partition_point(|n| n.is_initialized);
        let search = |nodes: &[NodeState]| nodes.binary_search_by(|n| n.name.as_str().cmp(name)).ok();
        search(&self.nodes[..starting]).or_else(|| search(&self.nodes[starting..]).map(|at| starting + at))
    }

    /// The namespaces that an affinity term means (spec 02 §8.1); none means all.
    pub(crate) fn namespaces_of(&self, own: &Str, term: &PodAffinityTerm) -> Option<Vec<Str>> {
        let mut all: Vec<Str> = match &term.namespace_selector {
            None if term.namespaces.is_empty() => vec![own.clone()],
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

/// What each driver can attach to a node.
fn attach_limits(csi: &CsiNode) -> Vec<(Str, usize)> {
    let limit = |count: i32| usize::try_from(count).unwrap_or(0);
    csi.drivers.iter().filter_map(|d| Some((d.name.clone(), limit(d.count?)))).collect()
}

/// A pool that names a catalogue which is not there has no types.
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

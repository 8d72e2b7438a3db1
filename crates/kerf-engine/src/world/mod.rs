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

use kerf_api::labels::LabelRules;
use kerf_api::slim::{Labels, Pod, PodAffinityTerm, Str, Taint};
use rustc_hash::FxHashMap;

pub(crate) use daemons::{Daemon, needs_devices};
pub use input::{
    Effort, Input, MinValuesPolicy, NodeClaim, Pool, PoolAvailability, PoolRequirement, PreferencePolicy, ReservedMode,
    Settings, UnsupportedStorage,
};
pub(crate) use nodes::NodeState;
pub(crate) use volumes::{Attachment, Storage};

use crate::catalogue::Columns;
use crate::narrow::{Narrowing, SetIx};
use crate::pod::requirements::of_labels;
use crate::pod::{requests, selector};
use crate::resources::{Amounts, ResourceNames};

/// The cluster, prepared for decisions.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) label_rules: LabelRules,
    pub(crate) names: ResourceNames,
    pub(crate) columns: Vec<Columns>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) node_index: FxHashMap<Str, usize>,
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) storage: Storage,
    pub(crate) namespaces: Vec<(Str, Labels)>,
    /// Running pods by label set.
    pub(crate) running: Vec<RunningClass>,
    running_index: FxHashMap<(Str, Labels), usize>,
    /// Required anti-affinity terms of running pods, with the nodes they run on.
    pub(crate) repelling: Vec<(Str, PodAffinityTerm, usize)>,
}

/// Running pods that no selector can tell apart.
#[derive(Debug, Clone)]
pub(crate) struct RunningClass {
    pub(crate) namespace: Str,
    pub(crate) labels: Labels,
    /// How many run on which node.
    pub(crate) on: FxHashMap<u32, i32>,
}

impl World {
    /// Prepares a cluster. `moving` says which bound pods take part in the simulation and therefore do not count as running.
    /// With it comes the table of all requirements that it speaks of.
    pub(crate) fn new(input: &Input, settings: &Settings, moving: &dyn Fn(&Pod) -> bool) -> (Self, Narrowing) {
        let mut names = ResourceNames::default();
        let mut table = Narrowing::new(input.label_rules.well_known().map(Str::from));
        let columns = input.catalogues.iter().map(|types| Columns::new(types, &mut names, &mut table)).collect();
        let mut nodes = nodes::join(&input.nodes, &input.node_claims, &mut names);
        for node in &mut nodes {
            node.set = table.intern(&of_labels(node.labels.iter(), &input.label_rules));
        }
        number_kinds(&mut nodes);
        let daemons: Vec<Daemon> = input
            .daemon_sets
            .iter()
            .map(|set| Daemon::new(set, &input.pods, &input.label_rules, &mut names, &mut table))
            .collect();
        let storage =
            Storage::new(&input.volume_claims, &input.volumes, &input.storage_classes, &input.unsupported_storage);
        let node_index = index_by_node_name(&nodes, input);
        let mut world = Self {
            settings: settings.clone(),
            label_rules: input.label_rules.clone(),
            names,
            columns,
            pools: input.pools.iter().map(|pool| with_known_catalogue(pool, input)).collect(),
            nodes,
            node_index,
            daemons,
            storage,
            namespaces: namespaces(input),
            running: Vec::new(),
            running_index: FxHashMap::default(),
            repelling: Vec::new(),
        };
        world.set_attach_limits(input);
        world.bind_pods(&input.pods, moving, &mut table);
        (world, table)
    }

    fn set_attach_limits(&mut self, input: &Input) {
        for csi in &input.csi_nodes {
            if let Some(at) = self.node_index.get(&csi.metadata.name) {
                self.nodes[*at].attach_limits = csi
                    .drivers
                    .iter()
                    .filter_map(|d| Some((d.name.clone(), usize::try_from(d.count?).unwrap_or(0))))
                    .collect();
            }
        }
    }

    fn bind_pods(&mut self, pods: &[Pod], moving: &dyn Fn(&Pod) -> bool, table: &mut Narrowing) {
        let mut daemon_use: FxHashMap<usize, Amounts> = FxHashMap::default();
        for pod in pods.iter().filter(|p| !p.is_terminal()) {
            let Some(node) = pod.spec.node_name.as_ref().and_then(|n| self.node_index.get(n)).copied() else {
                continue;
            };
            let need = requests::effective(pod, &mut self.names);
            if pod.is_owned_by_daemonset() {
                daemon_use.entry(node).or_default().add(&need);
            }
            let attachments = self.storage.attachments(pod);
            let state = &mut self.nodes[node];
            state.remaining.sub(&need);
            state.ports.extend(ports::of(pod));
            state.attached.extend(attachments);
            if moving(pod) {
                continue;
            }
            // A pod that is on its way out keeps others away until it is gone, but is counted no more.
            for term in pod.spec.affinity.iter().flat_map(|a| &a.pod_anti_affinity.required) {
                self.repelling.push((pod.metadata.namespace.clone(), term.clone(), node));
            }
            if !pod.is_terminating() {
                self.count_running(pod, node);
            }
        }
        for (at, state) in self.nodes.iter_mut().enumerate() {
            state.attached.sort_unstable();
            state.attached.dedup();
            let mut outstanding = Amounts::default();
            for daemon in self.daemons.iter().filter(|d| !(self.settings.ignore_dra && d.needs_devices)) {
                if daemon.runs_on_node(state.set, &state.hostname, &state.taints, table) {
                    outstanding.add(&daemon.requests);
                }
            }
            if let Some(used) = daemon_use.get(&at) {
                outstanding.sub(used);
            }
            outstanding.floor_at_zero();
            state.remaining.sub(&outstanding);
        }
    }

    fn count_running(&mut self, pod: &Pod, node: usize) {
        let key = (pod.metadata.namespace.clone(), pod.metadata.labels.clone());
        let next = self.running.len();
        let class = *self.running_index.entry(key).or_insert(next);
        if class == next {
            self.running.push(RunningClass {
                namespace: pod.metadata.namespace.clone(),
                labels: pod.metadata.labels.clone(),
                on: FxHashMap::default(),
            });
        }
        *self.running[class].on.entry(node as u32).or_default() += 1;
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

/// What filters of topology groups see of a node, but for its name: its labels, the taints that pods must tolerate, and the Node's own.
type Kind = (SetIx, Vec<Taint>, Option<Vec<Taint>>);

/// Gives nodes of one kind the same number.
fn number_kinds(nodes: &mut [NodeState]) {
    let mut kinds: FxHashMap<Kind, u32> = FxHashMap::default();
    for node in nodes {
        let next = kinds.len() as u32;
        node.kind = *kinds.entry((node.set, node.taints.clone(), node.own_taints.clone())).or_insert(next);
    }
}

/// A pool that names a catalogue which is not there has no types.
fn with_known_catalogue(pool: &Pool, input: &Input) -> Pool {
    Pool { catalogue: pool.catalogue.filter(|c| *c < input.catalogues.len()), ..pool.clone() }
}

/// Pods name nodes by the Node's name, also while the state still goes by its claim's name.
fn index_by_node_name(nodes: &[NodeState], input: &Input) -> FxHashMap<Str, usize> {
    let mut index: FxHashMap<Str, usize> = FxHashMap::default();
    let mut by_claim: FxHashMap<&Str, usize> = FxHashMap::default();
    for (at, state) in nodes.iter().enumerate() {
        match &state.claim_name {
            Some(claim) => {
                by_claim.insert(claim, at);
            }
            None => {
                index.insert(state.name.clone(), at);
            }
        }
    }
    let mut by_provider: FxHashMap<&Str, &Str> = FxHashMap::default();
    for claim in input.node_claims.iter().filter(|c| !c.provider_id.is_empty()) {
        by_provider.entry(&claim.provider_id).or_insert(&claim.name);
    }
    for node in &input.nodes {
        if let Some(at) = by_provider.get(&node.spec.provider_id).and_then(|claim| by_claim.get(claim)) {
            index.insert(node.metadata.name.clone(), *at);
        }
    }
    index
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

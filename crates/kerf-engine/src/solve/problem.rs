//! The part of a solve that does not change while pods are placed: pool templates, pod classes,
//! topology groups and nodes grouped by profile.
//!
//! A problem is built either for the pods that need a node now, or also for every running pod, so
//! that what-ifs can remove nodes. The choice does not change where any single pod is placed.

use jiff::Timestamp;
use kerf_api::slim::{Pod, PodPhase, Str};
use rustc_hash::FxHashMap;

use super::class::{ClassIx, PodClass};
use super::compile::{self, ClassTable, GroupTable};
use super::state::SolverState;
use super::template::{Template, pool_requirement_set, pools_in_order};
use crate::bits::Bits;
use crate::cluster::{Attachment, ClusterModel, Input, Settings, selection};
use crate::explain::Reason;
use crate::pod::default_spread::DefaultSpread;
use crate::requirement_table::{KeyIx, RequirementSetIx};
use crate::topology::{FilterIx, Group, NodeFilter, TopologyKeyIx};

/// Index of a pod in [`SchedulingProblem::pods`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PodIx(pub(crate) u32);

/// The fixed input of all passes of one solve.
#[derive(Debug)]
pub(crate) struct SchedulingProblem {
    pub(crate) cluster: ClusterModel,
    pub(crate) templates: Vec<Template>,
    /// Indices of the pools that may launch nodes, in the order in which they are tried.
    pub(crate) pools: Vec<usize>,
    pub(crate) groups: Vec<Group>,
    pub(crate) filters: Vec<NodeFilter>,
    /// Key and filter of each entry of `SolverState::node_counts`, which counts the nodes per
    /// domain.
    pub(crate) node_count_keys: Vec<(TopologyKeyIx, FilterIx)>,
    pub(crate) classes: Vec<PodClass>,
    pub(crate) pods: Vec<PodEntry>,
    /// Pending pods, and reschedulable pods on nodes that are marked for deletion.
    pub(crate) pods_to_place: Vec<PodIx>,
    /// Pending pods that are left out before placing starts, as `namespace/name`, with the reason.
    pub(crate) excluded_pods: Vec<(Str, Reason)>,
    /// Running pods per node. Holds only pods of nodes marked for deletion if the problem was built
    /// without running pods.
    pub(crate) pods_on: Vec<Vec<PodIx>>,
    /// Running pods that no target could accept, such as pods with an invalid volume.
    pub(crate) unplaceable_pods: FxHashMap<PodIx, Reason>,
    /// Entries of `pods` that no pod uses, to be reused for new pods.
    pub(crate) free_pod_slots: Vec<PodIx>,
    /// True if node indices follow the order in which nodes are offered to pods, and
    /// `node_profiles` is up to date.
    pub(crate) is_node_order_current: bool,
    /// Nodes grouped by profile. All nodes of a profile are eligible for the same classes.
    pub(crate) node_profiles: Vec<NodeProfile>,
    /// Label keys that some class requires, sorted. Nodes that differ in one of them have different
    /// profiles.
    pub(crate) profile_keys: Vec<KeyIx>,
    /// Number of classes whose label keys are in `profile_keys`.
    pub(crate) profiled_class_count: usize,
    /// Domain of each node, per topology key. `None` if the node lacks the label.
    pub(crate) node_domains: Vec<Vec<Option<u32>>>,
    pub(crate) reservations: Vec<(Str, i32)>,
    pub(crate) class_table: ClassTable,
    pub(crate) group_table: GroupTable,
}

/// A pod of the problem: the facts that distinguish it from other pods of its class.
#[derive(Debug, Clone)]
pub(crate) struct PodEntry {
    pub(crate) name: Str,
    pub(crate) class: ClassIx,
    pub(crate) created: Option<Timestamp>,
    pub(crate) uid: Str,
    pub(crate) attachments: Box<[Attachment]>,
    /// Index of the node that the pod runs on. `None` if the pod is pending or its node is unknown.
    pub(crate) node: Option<u32>,
    /// True if the pod's phase is not `Pending`, so it could stay on its node.
    pub(crate) is_started: bool,
    /// True if topology groups count the pod on its node, that is, it is not terminating.
    pub(crate) is_counted: bool,
    /// True if the pod needs another node when its node is removed.
    pub(crate) is_currently_reschedulable: bool,
    pub(crate) is_daemon: bool,
}

/// Nodes that no class can tell apart by labels or taints.
#[derive(Debug, Clone)]
pub(crate) struct NodeProfile {
    /// The labels whose keys some class requires.
    pub(crate) labels: RequirementSetIx,
    /// Index of one of the nodes. All nodes of the profile have its taints.
    pub(crate) example_node: usize,
    pub(crate) nodes: Bits,
}

/// The pods that a problem includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProblemScope {
    /// Pods that need a node now.
    PodsToPlace,
    /// Also running pods, which would need another node if their node were removed.
    AllPods,
}

impl SchedulingProblem {
    /// Returns the problem of placing pending pods and pods of nodes marked for deletion, with its
    /// initial state.
    pub(crate) fn new(input: &Input, settings: &Settings) -> (Self, SolverState) {
        Self::build(input, settings, ProblemScope::PodsToPlace)
    }

    /// Like [`new`](Self::new), but includes every running pod, so that what-ifs can remove nodes.
    pub(crate) fn with_running_pods(input: &Input, settings: &Settings) -> (Self, SolverState) {
        Self::build(input, settings, ProblemScope::AllPods)
    }

    fn build(input: &Input, settings: &Settings, scope: ProblemScope) -> (Self, SolverState) {
        let is_reschedulable =
            |pod: &Pod| selection::is_currently_reschedulable(pod, &input.disruption_budgets, input.at);
        let (cluster, table) = ClusterModel::new(input, settings, &is_reschedulable);
        let mut state = SolverState::new(table);
        let pools = pools_in_order(&cluster.pools);
        let mut templates = Vec::new();
        for pool_ix in &pools {
            let pool = &cluster.pools[*pool_ix];
            let requirements = pool_requirement_set(pool, &cluster.label_rules, &mut state.table);
            let rows = compile::rows_of_pool(&cluster, pool, requirements, &mut state.table);
            if !rows.is_empty() {
                templates.extend(Template::new(&cluster, *pool_ix, requirements, rows, &mut state.table));
            }
        }
        state.init_capacity(&cluster, &templates);
        let mut problem = Self {
            pods_on: vec![Vec::new(); cluster.nodes.len()],
            cluster,
            templates,
            pools,
            groups: Vec::new(),
            filters: Vec::new(),
            node_count_keys: Vec::new(),
            classes: Vec::new(),
            pods: Vec::new(),
            pods_to_place: Vec::new(),
            excluded_pods: Vec::new(),
            unplaceable_pods: FxHashMap::default(),
            free_pod_slots: Vec::new(),
            is_node_order_current: true,
            node_profiles: Vec::new(),
            profile_keys: Vec::new(),
            profiled_class_count: 0,
            node_domains: Vec::new(),
            reservations: Vec::new(),
            class_table: ClassTable::default(),
            group_table: GroupTable::default(),
        };
        let mut defaults = DefaultSpread::new(&settings.default_spread, &input.services, &input.replica_owners);
        for pod in input.pods.iter().filter(|p| selection::is_provisionable(p, settings)) {
            compile::add_pending_pod(&mut problem, &mut state, pod, defaults.constraints_for(pod));
        }
        for pod in input.pods.iter().filter(|p| !p.is_terminal()) {
            let Some(node) = pod.spec.node_name.as_ref().and_then(|n| problem.cluster.node_index.get(n)).copied()
            else {
                continue;
            };
            let is_reschedulable = is_reschedulable(pod);
            let must_move = is_reschedulable && problem.cluster.nodes[node].is_marked_for_deletion;
            if must_move || scope == ProblemScope::AllPods {
                let ix = compile::add_running_pod(
                    &mut problem,
                    &mut state,
                    pod,
                    is_reschedulable,
                    defaults.constraints_for(pod),
                );
                problem.pods[ix.0 as usize].node = Some(node as u32);
                problem.pods_on[node].push(ix);
                if must_move && !problem.unplaceable_pods.contains_key(&ix) {
                    problem.pods_to_place.push(ix);
                }
            }
        }
        compile::add_running_anti_affinity(&mut problem, &mut state);
        compile::collect_reservations(&mut problem, &mut state);
        compile::index_additions(&mut problem, &mut state);
        (problem, state)
    }

    /// Returns the pods to place, in queue order.
    pub(crate) fn queue(&self) -> Vec<PodIx> {
        let mut order = self.pods_to_place.clone();
        self.sort_for_queue(&mut order);
        order
    }

    /// Sorts pods into queue order: highest CPU request first, then highest memory request, then
    /// oldest, then uid (spec 02 §6.2).
    pub(crate) fn sort_for_queue(&self, pods: &mut [PodIx]) {
        use crate::resources::ResourceIx;
        let request = |pod: PodIx, resource| self.class_of(pod).requests.get(resource);
        pods.sort_by(|a, b| {
            let (entry_a, entry_b) = (&self.pods[a.0 as usize], &self.pods[b.0 as usize]);
            request(*b, ResourceIx::CPU)
                .cmp(&request(*a, ResourceIx::CPU))
                .then_with(|| request(*b, ResourceIx::MEMORY).cmp(&request(*a, ResourceIx::MEMORY)))
                .then_with(|| entry_a.created.cmp(&entry_b.created))
                .then_with(|| entry_a.uid.cmp(&entry_b.uid))
                .then_with(|| entry_a.name.cmp(&entry_b.name))
        });
    }

    /// Returns the pods that are left out before placing starts if the nodes in `removed_nodes` are
    /// removed, with their reasons, sorted by name.
    pub(crate) fn excluded_pods_without(&self, removed_nodes: &Bits) -> Vec<(Str, Reason)> {
        let is_node_removed =
            |node: usize| removed_nodes.contains(node) || self.cluster.nodes[node].is_marked_for_deletion;
        let is_on_removed_node =
            |pod: &PodIx| self.pods[pod.0 as usize].node.is_some_and(|node| is_node_removed(node as usize));
        let unplaceable = self.unplaceable_pods.iter().filter(|(pod, _)| is_on_removed_node(pod));
        let mut excluded: Vec<(Str, Reason)> =
            unplaceable.map(|(pod, reason)| (self.pods[pod.0 as usize].name.clone(), reason.clone())).collect();
        excluded.extend(self.excluded_pods.iter().cloned());
        excluded.sort_by(|a, b| a.0.cmp(&b.0));
        excluded
    }

    /// Returns the class of a pod that has given up all its preferences. Last resorts are not
    /// included.
    pub(crate) fn most_relaxed(&self, class: ClassIx) -> ClassIx {
        let mut class = class;
        let next_relaxed = |class: ClassIx| self.classes[class.0 as usize].next_relaxed;
        while let Some(next) = next_relaxed(class).filter(|next| !self.classes[next.0 as usize].is_last_resort) {
            class = next;
        }
        class
    }

    pub(crate) fn class_of(&self, pod: PodIx) -> &PodClass {
        &self.classes[self.pods[pod.0 as usize].class.0 as usize]
    }
}

impl PodEntry {
    /// Returns an entry for a pod that runs on no node.
    pub(crate) fn new(pod: &Pod, class: ClassIx, attachments: Vec<Attachment>) -> Self {
        Self {
            name: pod.namespaced_name(),
            class,
            created: pod.metadata.creation_timestamp,
            uid: pod.metadata.uid.clone(),
            attachments: attachments.into_boxed_slice(),
            node: None,
            is_started: pod.status.phase != PodPhase::Pending,
            is_counted: !pod.is_terminating(),
            is_currently_reschedulable: false,
            is_daemon: pod.is_owned_by_daemonset(),
        }
    }
}

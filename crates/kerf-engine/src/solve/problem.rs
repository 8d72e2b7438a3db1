//! What is fixed while pods are placed: templates, classes of pods, groups, nodes by shape.
//!
//! A problem is built for the pods that wait, or for every pod that may ever have to move (then it is prepared for what-ifs).
//! Which of them it knows makes no difference to what becomes of any one.

use jiff::Timestamp;
use kerf_api::slim::{Pod, PodPhase, Str};
use rustc_hash::FxHashMap;

use super::class::{ClassIx, PodClass};
use super::compile::{self, ClassTable, GroupTable};
use super::state::SolverState;
use super::template::{Template, pool_set, pools_in_order};
use crate::bits::Bits;
use crate::cluster::{Attachment, ClusterModel, Input, Settings, selection};
use crate::explain::Reason;
use crate::pod::default_spread::DefaultSpread;
use crate::requirement_table::{KeyIx, RequirementSetIx};
use crate::topology::{FilterIx, Group, NodeFilter, TopologyKeyIx};

/// A pod to place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PodIx(pub(crate) u32);

/// Everything that one solve is about.
#[derive(Debug)]
pub(crate) struct SchedulingProblem {
    pub(crate) world: ClusterModel,
    pub(crate) templates: Vec<Template>,
    /// The pools that take part, in the order in which they are tried.
    pub(crate) pools: Vec<usize>,
    pub(crate) groups: Vec<Group>,
    pub(crate) filters: Vec<NodeFilter>,
    /// For which keys and filters it is counted which domains nodes make.
    pub(crate) presences: Vec<(TopologyKeyIx, FilterIx)>,
    pub(crate) classes: Vec<PodClass>,
    pub(crate) pods: Vec<PodEntry>,
    /// The pods that wait for a place or are on nodes that are leaving.
    pub(crate) waiting: Vec<PodIx>,
    /// Pods that wait and are left out before anything is tried.
    pub(crate) refused: Vec<(Str, Reason)>,
    /// Per node the pods that run there; only of nodes that are leaving unless it is prepared for what-ifs.
    pub(crate) pods_on: Vec<Vec<PodIx>>,
    /// Pods on nodes that could not be placed elsewhere, whatever is tried.
    pub(crate) stuck: FxHashMap<PodIx, Reason>,
    /// Places in `pods` that nobody has.
    pub(crate) free: Vec<PodIx>,
    /// Whether nodes are numbered in the order in which pods are offered to them, and shapes are up to date.
    pub(crate) is_in_order: bool,
    /// Nodes of one shape accept the same classes.
    pub(crate) shapes: Vec<NodeProfile>,
    /// The labels that tell shapes apart.
    pub(crate) asked: Vec<KeyIx>,
    /// How many classes have been asked about that.
    pub(crate) shaped_classes: usize,
    /// Per topology key the domain of each node.
    pub(crate) node_domains: Vec<Vec<Option<u32>>>,
    pub(crate) reservations: Vec<(Str, i32)>,
    pub(crate) class_book: ClassTable,
    pub(crate) group_book: GroupTable,
}

/// A pod of the problem.
#[derive(Debug, Clone)]
pub(crate) struct PodEntry {
    pub(crate) name: Str,
    pub(crate) class: ClassIx,
    pub(crate) created: Option<Timestamp>,
    pub(crate) uid: Str,
    pub(crate) attachments: Box<[Attachment]>,
    /// The node that it runs on.
    pub(crate) on: Option<u32>,
    /// It runs, so that it could stay where it is.
    pub(crate) is_settled: bool,
    /// It is counted where it runs: it is not on its way out.
    pub(crate) is_counted: bool,
    /// It needs another place when its node goes.
    pub(crate) may_move: bool,
    pub(crate) is_daemon: bool,
}

/// Nodes that no class can tell apart by labels and taints.
#[derive(Debug, Clone)]
pub(crate) struct NodeProfile {
    pub(crate) labels: RequirementSetIx,
    pub(crate) taints_of: usize,
    pub(crate) nodes: Bits,
}

/// Which pods a problem knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProblemScope {
    /// Those that need a place now.
    PodsToPlace,
    /// Also those that would need one if their node went.
    AllPods,
}

impl SchedulingProblem {
    /// The problem of placing what waits, and the books to start with.
    pub(crate) fn new(input: &Input, settings: &Settings) -> (Self, SolverState) {
        Self::build(input, settings, ProblemScope::PodsToPlace)
    }

    /// The same, prepared for what-ifs.
    pub(crate) fn prepared(input: &Input, settings: &Settings) -> (Self, SolverState) {
        Self::build(input, settings, ProblemScope::AllPods)
    }

    fn build(input: &Input, settings: &Settings, scope: ProblemScope) -> (Self, SolverState) {
        let may_move = |pod: &Pod| selection::is_leaving(pod, &input.disruption_budgets, input.at);
        let (world, table) = ClusterModel::new(input, settings, &may_move);
        let mut state = SolverState::new(table);
        let pools = pools_in_order(&world.pools);
        let mut templates = Vec::new();
        for pool_ix in &pools {
            let pool = &world.pools[*pool_ix];
            let set = pool_set(pool, &world.label_rules, &mut state.table);
            let (set, rows) = compile::pre_filter(&world, pool, set, &mut state.table);
            if !rows.is_empty() {
                templates.extend(Template::new(&world, *pool_ix, set, rows, &mut state.table));
            }
        }
        state.take_stock(&world, &templates);
        let mut problem = Self {
            pods_on: vec![Vec::new(); world.nodes.len()],
            world,
            templates,
            pools,
            groups: Vec::new(),
            filters: Vec::new(),
            presences: Vec::new(),
            classes: Vec::new(),
            pods: Vec::new(),
            waiting: Vec::new(),
            refused: Vec::new(),
            stuck: FxHashMap::default(),
            free: Vec::new(),
            is_in_order: true,
            shapes: Vec::new(),
            asked: Vec::new(),
            shaped_classes: 0,
            node_domains: Vec::new(),
            reservations: Vec::new(),
            class_book: ClassTable::default(),
            group_book: GroupTable::default(),
        };
        let mut defaults = DefaultSpread::new(&settings.default_spread, &input.services, &input.replica_owners);
        for pod in input.pods.iter().filter(|p| selection::is_provisionable(p, settings)) {
            compile::pending_pod(&mut problem, &mut state, pod, defaults.of(pod));
        }
        for pod in input.pods.iter().filter(|p| !p.is_terminal()) {
            let Some(node) = pod.spec.node_name.as_ref().and_then(|n| problem.world.node_index.get(n)).copied() else {
                continue;
            };
            let may_move = may_move(pod);
            let is_waiting = may_move && problem.world.nodes[node].is_leaving;
            if is_waiting || scope == ProblemScope::AllPods {
                let ix = compile::running_pod(&mut problem, &mut state, pod, may_move, defaults.of(pod));
                problem.pods[ix.0 as usize].on = Some(node as u32);
                problem.pods_on[node].push(ix);
                if is_waiting && !problem.stuck.contains_key(&ix) {
                    problem.waiting.push(ix);
                }
            }
        }
        compile::running_rules(&mut problem, &mut state);
        compile::reservations(&mut problem, &mut state);
        compile::settle(&mut problem, &mut state);
        (problem, state)
    }

    /// The pods that wait, in the queue's order.
    pub(crate) fn queue(&self) -> Vec<PodIx> {
        let mut order = self.waiting.clone();
        self.sort(&mut order);
        order
    }

    /// Puts pods into the queue's order: much CPU first, then much memory, then age, then uid (spec 02 §6.2).
    pub(crate) fn sort(&self, pods: &mut [PodIx]) {
        use crate::resources::ResourceIx;
        let request = |pod: PodIx, resource| self.class_of(pod).requests.get(resource);
        pods.sort_by(|a, b| {
            let (x, y) = (&self.pods[a.0 as usize], &self.pods[b.0 as usize]);
            request(*b, ResourceIx::CPU)
                .cmp(&request(*a, ResourceIx::CPU))
                .then_with(|| request(*b, ResourceIx::MEMORY).cmp(&request(*a, ResourceIx::MEMORY)))
                .then_with(|| x.created.cmp(&y.created))
                .then_with(|| x.uid.cmp(&y.uid))
                .then_with(|| x.name.cmp(&y.name))
        });
    }

    /// Pods that are left out before anything is tried, when these nodes are gone: with their reasons.
    pub(crate) fn left_out(&self, gone: &Bits) -> Vec<(Str, Reason)> {
        let leaves = |node: usize| gone.contains(node) || self.world.nodes[node].is_leaving;
        let on_the_way = |pod: &PodIx| self.pods[pod.0 as usize].on.is_some_and(|node| leaves(node as usize));
        let stuck = self.stuck.iter().filter(|(pod, _)| on_the_way(pod));
        let mut all: Vec<(Str, Reason)> =
            stuck.map(|(pod, reason)| (self.pods[pod.0 as usize].name.clone(), reason.clone())).collect();
        all.extend(self.refused.iter().cloned());
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// What a class turns into once all its wishes are given up.
    pub(crate) fn most_relaxed(&self, class: ClassIx) -> ClassIx {
        let mut class = class;
        let next_of = |class: ClassIx| self.classes[class.0 as usize].relaxed;
        while let Some(next) = next_of(class).filter(|next| !self.classes[next.0 as usize].is_last_resort) {
            class = next;
        }
        class
    }

    pub(crate) fn class_of(&self, pod: PodIx) -> &PodClass {
        &self.classes[self.pods[pod.0 as usize].class.0 as usize]
    }
}

impl PodEntry {
    /// A pod of this class, with what tells it from others of the class.
    pub(crate) fn new(pod: &Pod, class: ClassIx, attachments: Vec<Attachment>) -> Self {
        Self {
            name: pod.namespaced_name(),
            class,
            created: pod.metadata.creation_timestamp,
            uid: pod.metadata.uid.clone(),
            attachments: attachments.into_boxed_slice(),
            on: None,
            is_settled: pod.status.phase != PodPhase::Pending,
            is_counted: !pod.is_terminating(),
            may_move: false,
            is_daemon: pod.is_owned_by_daemonset(),
        }
    }
}

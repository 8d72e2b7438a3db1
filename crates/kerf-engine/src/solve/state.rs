//! What a pass works on: what is left on every node and to every pool, who counts where, the claims that are being put together.
//!
//! Every change of what lasts goes through a method here and is noted in a log, and [`State::roll_back`] undoes it in the opposite
//! order; what belongs to one pass alone is emptied. What a pass learned (intersections, which types satisfy what, which
//! nodes a class may go to) holds for any pass over the same problem and stays. So a pass, and a what-if, costs what it
//! changes and not what there is.

use kerf_api::slim::HostPort;
use rustc_hash::FxHashMap;

use super::claim::OpenClaim;
use super::class::ClassIx;
use super::free_capacity::FreeCapacity;
use super::pass::{PlacementTarget, UnplacedReason};
use super::problem::{PodIx, SchedulingProblem};
use super::template::Template;
use crate::bits::Bits;
use crate::catalogue::RowView;
use crate::cluster::{Attachment, ClusterModel, NodeState};
use crate::requirement_table::{RequirementSetIx, RequirementTable};
use crate::resources::{Amounts, ResourceIx};
use crate::topology::{DomainNodeCounts, FilterIx, GroupCounts, GroupIx, GroupKey, GroupKind, TopologyKeys};

/// The books of a pass.
#[derive(Debug, Clone)]
pub(crate) struct SolverState {
    // Learned; true for every pass over the problem.
    pub(crate) table: RequirementTable,
    pub(crate) keys: TopologyKeys,
    pub(crate) views: FxHashMap<(usize, RequirementSetIx), RowView>,
    /// Per class the nodes that carry the labels it demands and whose taints it tolerates.
    pub(crate) eligible_nodes: Vec<Option<Bits>>,
    filter_results: FxHashMap<(FilterIx, u32), FilterResult>,

    // What lasts; changed through the log.
    /// What is left of each node.
    pub(crate) remaining: Vec<Amounts>,
    pub(crate) free_capacity: FreeCapacity,
    pub(crate) group_counts: Vec<GroupCounts>,
    /// Per filter and key the domains that nodes make.
    pub(crate) node_counts: Vec<DomainNodeCounts>,
    pub(crate) limits: Vec<Vec<(ResourceIx, i128)>>,
    pub(crate) reservations: Vec<i32>,

    // Of this pass alone.
    /// Nodes that the question takes away.
    pub(crate) removed_nodes: Bits,
    /// Nodes that take no pod that could stay where it is.
    pub(crate) avoided_nodes: Bits,
    /// The pods to place.
    pub(crate) queue: Vec<PodIx>,
    pub(crate) placements: Vec<Option<PlacementTarget>>,
    pub(crate) unplaced_reasons: Vec<Option<UnplacedReason>>,
    pub(crate) node_ports: FxHashMap<usize, Vec<HostPort>>,
    pub(crate) node_attached: FxHashMap<usize, Vec<Attachment>>,
    pub(crate) claims: Vec<OpenClaim>,
    /// Claims by number of pods.
    pub(crate) claims_by_pod_count: Vec<Bits>,
    /// The numbers of pods that some claim has.
    pub(crate) used_pod_counts: Bits,
    pub(crate) rejecting_claims: Vec<Bits>,
    /// Per topology key and domain the claims that may still end up there.
    pub(crate) claims_by_domain: Vec<Vec<Bits>>,
    /// Pods that are certain to be in a domain where a group does not count them, if they have a spread of their own.
    pub(crate) uncounted: Vec<(GroupIx, usize, PodIx)>,
    /// How many wishes were given up in all.
    pub(crate) relaxations: usize,
    /// The pods that were placed as something else than what they asked for.
    pub(crate) relaxed_pods: Vec<(PodIx, ClassIx)>,
    /// Grows with every placement and never falls, so that what failed before cannot be mistaken for now.
    pub(crate) revision: u64,
    pub(crate) failed_at_revision: Vec<Option<u64>>,

    log: Vec<Undo>,
    /// How much of the log is the question.
    pass_start: usize,
    classes_with_rejections: Vec<ClassIx>,
    groups_with_claims: Vec<GroupIx>,
}

impl Default for SolverState {
    /// The books of nothing at all.
    fn default() -> Self {
        Self::new(RequirementTable::new(None))
    }
}

/// Whether a filter accepts nodes of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterResult {
    /// Pods that run there count, judged by the Node's own taints.
    pub(crate) counts_running: bool,
    /// Pods that are placed there will count, once the taints of a starting node are gone.
    pub(crate) counts_placed: bool,
}

/// How to take one change back.
#[derive(Debug, Clone)]
enum Undo {
    Remaining { node: usize, before: Amounts },
    Domain { group: GroupIx, domain: usize, pods: i32 },
    Node { group: GroupIx, node: usize, pods: i32, kind: GroupKind },
    NodesInDomain { presence: usize, domain: usize, nodes: i32 },
    Limits { template: usize, before: Vec<(ResourceIx, i128)> },
    Reservation { reservation: usize, slots: i32 },
}

impl SolverState {
    /// Books that are empty but for the table.
    pub(crate) fn new(table: RequirementTable) -> Self {
        Self {
            table,
            keys: TopologyKeys::default(),
            views: FxHashMap::default(),
            eligible_nodes: Vec::new(),
            filter_results: FxHashMap::default(),
            remaining: Vec::new(),
            free_capacity: FreeCapacity::default(),
            group_counts: Vec::new(),
            node_counts: Vec::new(),
            limits: Vec::new(),
            reservations: Vec::new(),
            removed_nodes: Bits::new(),
            avoided_nodes: Bits::new(),
            queue: Vec::new(),
            placements: Vec::new(),
            unplaced_reasons: Vec::new(),
            node_ports: FxHashMap::default(),
            node_attached: FxHashMap::default(),
            claims: Vec::new(),
            claims_by_pod_count: Vec::new(),
            used_pod_counts: Bits::new(),
            rejecting_claims: Vec::new(),
            claims_by_domain: Vec::new(),
            uncounted: Vec::new(),
            relaxations: 0,
            relaxed_pods: Vec::new(),
            revision: 0,
            failed_at_revision: Vec::new(),
            log: Vec::new(),
            pass_start: 0,
            classes_with_rejections: Vec::new(),
            groups_with_claims: Vec::new(),
        }
    }

    /// Writes down what nodes and pools have to start with.
    pub(crate) fn init_capacity(&mut self, world: &ClusterModel, templates: &[Template]) {
        self.remaining = world.nodes.iter().map(NodeState::remaining).collect();
        self.free_capacity = FreeCapacity::new(&self.remaining);
        self.limits = templates.iter().map(|t| t.limits.clone()).collect();
    }

    /// Makes room for all that the problem has.
    pub(crate) fn resize_for(&mut self, problem: &SchedulingProblem) {
        self.eligible_nodes.resize(problem.classes.len(), None);
        self.rejecting_claims.resize(problem.classes.len(), Bits::new());
        self.failed_at_revision.resize(problem.classes.len(), None);
        self.group_counts.resize(problem.groups.len(), GroupCounts::default());
        self.node_counts.resize(problem.node_count_keys.len(), DomainNodeCounts::default());
        self.placements.resize(problem.pods.len(), None);
        self.unplaced_reasons.resize(problem.pods.len(), None);
        let domains = self.keys.iter().map(|key| self.keys.domain_count(key)).collect::<Vec<_>>();
        self.claims_by_domain.resize(domains.len(), Vec::new());
        for (claims, domains) in self.claims_by_domain.iter_mut().zip(domains) {
            claims.resize(domains, Bits::new());
        }
    }

    /// What was changed so far is the question; passes over it are rolled back to here.
    pub(crate) fn mark_pass_start(&mut self) {
        self.pass_start = self.log.len();
    }

    /// Undoes everything that happened since the books were last clean, the question included.
    pub(crate) fn roll_back(&mut self) {
        self.pass_start = 0;
        self.undo_pass();
        self.removed_nodes = Bits::new();
        self.avoided_nodes = Bits::new();
    }

    /// Undoes what a pass did to the question.
    pub(crate) fn undo_pass(&mut self) {
        while self.log.len() > self.pass_start {
            let Some(undo) = self.log.pop() else { break };
            match undo {
                Undo::Remaining { node, before } => {
                    self.free_capacity.set(node, &before);
                    self.remaining[node] = before;
                }
                Undo::Domain { group, domain, pods } => self.group_counts[group.0].add_pods_in_domain(domain, -pods),
                Undo::Node { group, node, pods, kind } => {
                    self.group_counts[group.0].add_pods_on_node(node, -pods, kind)
                }
                Undo::NodesInDomain { presence, domain, nodes } => self.node_counts[presence].add_nodes(domain, -nodes),
                Undo::Limits { template, before } => self.limits[template] = before,
                Undo::Reservation { reservation, slots } => self.reservations[reservation] -= slots,
            }
        }
        for class in self.classes_with_rejections.drain(..) {
            self.rejecting_claims[class.0 as usize] = Bits::new();
        }
        for group in self.groups_with_claims.drain(..) {
            self.group_counts[group.0].clear_claims();
        }
        for pod in self.queue.drain(..) {
            self.placements[pod.0 as usize] = None;
            self.unplaced_reasons[pod.0 as usize] = None;
        }
        if !self.claims.is_empty() {
            self.claims.clear();
            self.claims_by_domain.iter_mut().flatten().for_each(|claims| *claims = Bits::new());
        }
        self.node_ports.clear();
        self.node_attached.clear();
        self.claims_by_pod_count.clear();
        self.used_pod_counts = Bits::new();
        self.uncounted.clear();
        self.relaxations = 0;
        self.relaxed_pods.clear();
        self.revision += 1;
    }

    /// Keeps what happened since the books were last clean: it cannot be undone any more.
    pub(crate) fn clear_undo_log(&mut self) {
        self.log.clear();
    }

    /// Writes down for good what is left of a node.
    pub(crate) fn set_remaining(&mut self, node: usize, remaining: Amounts) {
        self.free_capacity.set(node, &remaining);
        self.remaining[node] = remaining;
    }

    /// Nodes have other numbers than before.
    pub(crate) fn renumber_nodes(&mut self, world: &ClusterModel) {
        self.remaining = world.nodes.iter().map(NodeState::remaining).collect();
        self.free_capacity = FreeCapacity::new(&self.remaining);
        self.eligible_nodes.iter_mut().for_each(|nodes| *nodes = None);
    }

    /// Takes room on a node.
    pub(crate) fn subtract_remaining(&mut self, node: usize, need: &Amounts) {
        let before = self.remaining[node].clone();
        self.remaining[node].sub(need);
        self.free_capacity.set(node, &self.remaining[node]);
        self.log.push(Undo::Remaining { node, before });
    }

    /// Counts pods in a domain, or fewer with a negative number.
    pub(crate) fn count_in_domain(&mut self, group: GroupIx, domain: usize, pods: i32) {
        self.group_counts[group.0].add_pods_in_domain(domain, pods);
        self.log.push(Undo::Domain { group, domain, pods });
    }

    /// How many pods the pass has counted in a domain so far.
    pub(crate) fn counted_by_pass(&self, group: GroupIx, domain: usize) -> i32 {
        let counted = self.log[self.pass_start.min(self.log.len())..].iter().filter_map(|undo| match undo {
            Undo::Domain { group: of, domain: at, pods } if (*of, *at) == (group, domain) => Some(*pods),
            Undo::Domain { .. }
            | Undo::Remaining { .. }
            | Undo::Node { .. }
            | Undo::NodesInDomain { .. }
            | Undo::Limits { .. }
            | Undo::Reservation { .. } => None,
        });
        counted.sum()
    }

    /// Counts pods of a group wherever the node belongs.
    pub(crate) fn count_on_node(&mut self, problem: &SchedulingProblem, group: GroupIx, node: usize, pods: i32) {
        let identity = &problem.groups[group.0].identity;
        match identity.key {
            GroupKey::Hostname => {
                self.group_counts[group.0].add_pods_on_node(node, pods, identity.kind);
                self.log.push(Undo::Node { group, node, pods, kind: identity.kind });
            }
            GroupKey::Label(key) => {
                if let Some(domain) = problem.node_domains[key.0][node] {
                    self.count_in_domain(group, domain as usize, pods);
                }
            }
        }
    }

    /// Counts a pod on a claim, by host.
    pub(crate) fn count_on_claim(&mut self, group: GroupIx, claim: usize, kind: GroupKind) {
        self.group_counts[group.0].add_pod_on_claim(claim, kind);
        self.groups_with_claims.push(group);
    }

    /// Counts nodes that make a domain exist.
    pub(crate) fn count_nodes_in_domain(&mut self, presence: usize, domain: usize, nodes: i32) {
        self.node_counts[presence].add_nodes(domain, nodes);
        self.log.push(Undo::NodesInDomain { presence, domain, nodes });
    }

    /// What a pool may still grow by, to be changed.
    pub(crate) fn limits_mut(&mut self, template: usize) -> &mut Vec<(ResourceIx, i128)> {
        let limits = &mut self.limits[template];
        if !limits.is_empty() {
            self.log.push(Undo::Limits { template, before: limits.clone() });
        }
        limits
    }

    /// Takes slots of a reservation, or gives them back with a negative number.
    pub(crate) fn take_reservation_slots(&mut self, reservation: usize, slots: i32) {
        self.reservations[reservation] -= slots;
        self.log.push(Undo::Reservation { reservation, slots: -slots });
    }

    /// Remembers that a claim will never take the class in this pass.
    pub(crate) fn reject_until_pass_end(&mut self, class: ClassIx, claim: usize) {
        let refused = &mut self.rejecting_claims[class.0 as usize];
        if refused.is_empty() {
            self.classes_with_rejections.push(class);
        }
        refused.insert(claim);
    }

    /// Whether pods on this node count for the filter.
    pub(crate) fn filter_node(&mut self, problem: &SchedulingProblem, filter: FilterIx, node: usize) -> FilterResult {
        let state = &problem.cluster.nodes[node];
        let asked = &problem.filters[filter.0];
        if asked.accepts_all() {
            return FilterResult { counts_running: state.own_taints.is_some(), counts_placed: true };
        }
        let table = &mut self.table;
        let mut judge = || {
            let mut accepts = |taints| asked.accepts(state.label_requirements, Some(&state.hostname), taints, table);
            FilterResult {
                counts_running: state.own_taints.as_ref().is_some_and(|taints| accepts(taints)),
                counts_placed: accepts(&state.taints),
            }
        };
        if asked.has_hostname_rule() {
            judge()
        } else {
            *self.filter_results.entry((filter, state.kind)).or_insert_with(judge)
        }
    }

    /// Whether everything that lasts is the same, and nothing is left of a pass.
    #[cfg(test)]
    pub(crate) fn has_same_lasting_state(&self, other: &Self) -> bool {
        let clean = |s: &Self| s.log.is_empty() && s.queue.is_empty() && s.claims.is_empty() && s.node_ports.is_empty();
        clean(self)
            && clean(other)
            && self.remaining == other.remaining
            && self.free_capacity == other.free_capacity
            && self.group_counts == other.group_counts
            && self.node_counts == other.node_counts
            && self.limits == other.limits
            && self.reservations == other.reservations
            && self.placements == other.placements
            && self.unplaced_reasons == other.unplaced_reasons
            && self.rejecting_claims == other.rejecting_claims
            && self.claims_by_domain == other.claims_by_domain
    }
}

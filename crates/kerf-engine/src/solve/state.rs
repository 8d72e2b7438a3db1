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
    pub(crate) eligible: Vec<Option<Bits>>,
    accepted: FxHashMap<(FilterIx, u32), FilterResult>,

    // What lasts; changed through the log.
    /// What is left of each node.
    pub(crate) remaining: Vec<Amounts>,
    pub(crate) room: FreeCapacity,
    pub(crate) counts: Vec<GroupCounts>,
    /// Per filter and key the domains that nodes make.
    pub(crate) presences: Vec<DomainNodeCounts>,
    pub(crate) limits: Vec<Vec<(ResourceIx, i128)>>,
    pub(crate) reservations: Vec<i32>,

    // Of this pass alone.
    /// Nodes that the question takes away.
    pub(crate) gone: Bits,
    /// Nodes that take no pod that could stay where it is.
    pub(crate) resting: Bits,
    /// The pods to place.
    pub(crate) queue: Vec<PodIx>,
    pub(crate) places: Vec<Option<PlacementTarget>>,
    pub(crate) refusals: Vec<Option<UnplacedReason>>,
    pub(crate) node_ports: FxHashMap<usize, Vec<HostPort>>,
    pub(crate) node_attached: FxHashMap<usize, Vec<Attachment>>,
    pub(crate) claims: Vec<OpenClaim>,
    /// Claims by number of pods.
    pub(crate) by_pods: Vec<Bits>,
    /// The numbers of pods that some claim has.
    pub(crate) pod_counts: Bits,
    pub(crate) claim_refused: Vec<Bits>,
    /// Per topology key and domain the claims that may still end up there.
    pub(crate) may_be_in: Vec<Vec<Bits>>,
    /// Pods that are certain to be in a domain where a group does not count them, if they have a spread of their own.
    pub(crate) uncounted: Vec<(GroupIx, usize, PodIx)>,
    /// How many wishes were given up in all.
    pub(crate) concessions: usize,
    /// The pods that were placed as something else than what they asked for.
    pub(crate) relaxed: Vec<(PodIx, ClassIx)>,
    /// Grows with every placement and never falls, so that what failed before cannot be mistaken for now.
    pub(crate) commits: u64,
    pub(crate) failed_at: Vec<Option<u64>>,

    log: Vec<Undo>,
    /// How much of the log is the question.
    begun: usize,
    refused_classes: Vec<ClassIx>,
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
    pub(crate) running: bool,
    /// Pods that are placed there will count, once the taints of a starting node are gone.
    pub(crate) placed: bool,
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
            eligible: Vec::new(),
            accepted: FxHashMap::default(),
            remaining: Vec::new(),
            room: FreeCapacity::default(),
            counts: Vec::new(),
            presences: Vec::new(),
            limits: Vec::new(),
            reservations: Vec::new(),
            gone: Bits::new(),
            resting: Bits::new(),
            queue: Vec::new(),
            places: Vec::new(),
            refusals: Vec::new(),
            node_ports: FxHashMap::default(),
            node_attached: FxHashMap::default(),
            claims: Vec::new(),
            by_pods: Vec::new(),
            pod_counts: Bits::new(),
            claim_refused: Vec::new(),
            may_be_in: Vec::new(),
            uncounted: Vec::new(),
            concessions: 0,
            relaxed: Vec::new(),
            commits: 0,
            failed_at: Vec::new(),
            log: Vec::new(),
            begun: 0,
            refused_classes: Vec::new(),
            groups_with_claims: Vec::new(),
        }
    }

    /// Writes down what nodes and pools have to start with.
    pub(crate) fn take_stock(&mut self, world: &ClusterModel, templates: &[Template]) {
        self.remaining = world.nodes.iter().map(NodeState::remaining).collect();
        self.room = FreeCapacity::new(&self.remaining);
        self.limits = templates.iter().map(|t| t.limits.clone()).collect();
    }

    /// Makes room for all that the problem has.
    pub(crate) fn fit_to(&mut self, problem: &SchedulingProblem) {
        self.eligible.resize(problem.classes.len(), None);
        self.claim_refused.resize(problem.classes.len(), Bits::new());
        self.failed_at.resize(problem.classes.len(), None);
        self.counts.resize(problem.groups.len(), GroupCounts::default());
        self.presences.resize(problem.presences.len(), DomainNodeCounts::default());
        self.places.resize(problem.pods.len(), None);
        self.refusals.resize(problem.pods.len(), None);
        let domains = self.keys.iter().map(|key| self.keys.domain_count(key)).collect::<Vec<_>>();
        self.may_be_in.resize(domains.len(), Vec::new());
        for (claims, domains) in self.may_be_in.iter_mut().zip(domains) {
            claims.resize(domains, Bits::new());
        }
    }

    /// What was changed so far is the question; passes over it are rolled back to here.
    pub(crate) fn begin(&mut self) {
        self.begun = self.log.len();
    }

    /// Undoes everything that happened since the books were last clean, the question included.
    pub(crate) fn roll_back(&mut self) {
        self.begun = 0;
        self.start_over();
        self.gone = Bits::new();
        self.resting = Bits::new();
    }

    /// Undoes what a pass did to the question.
    pub(crate) fn start_over(&mut self) {
        while self.log.len() > self.begun {
            let Some(undo) = self.log.pop() else { break };
            match undo {
                Undo::Remaining { node, before } => {
                    self.room.set(node, &before);
                    self.remaining[node] = before;
                }
                Undo::Domain { group, domain, pods } => self.counts[group.0].add(domain, -pods),
                Undo::Node { group, node, pods, kind } => self.counts[group.0].add_node(node, -pods, kind),
                Undo::NodesInDomain { presence, domain, nodes } => self.presences[presence].add(domain, -nodes),
                Undo::Limits { template, before } => self.limits[template] = before,
                Undo::Reservation { reservation, slots } => self.reservations[reservation] -= slots,
            }
        }
        for class in self.refused_classes.drain(..) {
            self.claim_refused[class.0 as usize] = Bits::new();
        }
        for group in self.groups_with_claims.drain(..) {
            self.counts[group.0].forget_claims();
        }
        for pod in self.queue.drain(..) {
            self.places[pod.0 as usize] = None;
            self.refusals[pod.0 as usize] = None;
        }
        if !self.claims.is_empty() {
            self.claims.clear();
            self.may_be_in.iter_mut().flatten().for_each(|claims| *claims = Bits::new());
        }
        self.node_ports.clear();
        self.node_attached.clear();
        self.by_pods.clear();
        self.pod_counts = Bits::new();
        self.uncounted.clear();
        self.concessions = 0;
        self.relaxed.clear();
        self.commits += 1;
    }

    /// Keeps what happened since the books were last clean: it cannot be undone any more.
    pub(crate) fn keep(&mut self) {
        self.log.clear();
    }

    /// Writes down for good what is left of a node.
    pub(crate) fn set_room(&mut self, node: usize, remaining: Amounts) {
        self.room.set(node, &remaining);
        self.remaining[node] = remaining;
    }

    /// Nodes have other numbers than before.
    pub(crate) fn renumber_nodes(&mut self, world: &ClusterModel) {
        self.remaining = world.nodes.iter().map(NodeState::remaining).collect();
        self.room = FreeCapacity::new(&self.remaining);
        self.eligible.iter_mut().for_each(|nodes| *nodes = None);
    }

    /// Takes room on a node.
    pub(crate) fn take_room(&mut self, node: usize, need: &Amounts) {
        let before = self.remaining[node].clone();
        self.remaining[node].sub(need);
        self.room.set(node, &self.remaining[node]);
        self.log.push(Undo::Remaining { node, before });
    }

    /// Counts pods in a domain, or fewer with a negative number.
    pub(crate) fn count(&mut self, group: GroupIx, domain: usize, pods: i32) {
        self.counts[group.0].add(domain, pods);
        self.log.push(Undo::Domain { group, domain, pods });
    }

    /// How many pods the pass has counted in a domain so far.
    pub(crate) fn counted_by_pass(&self, group: GroupIx, domain: usize) -> i32 {
        let counted = self.log[self.begun.min(self.log.len())..].iter().filter_map(|undo| match undo {
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
    pub(crate) fn count_at(&mut self, problem: &SchedulingProblem, group: GroupIx, node: usize, pods: i32) {
        let identity = &problem.groups[group.0].identity;
        match identity.key {
            GroupKey::Hostname => {
                self.counts[group.0].add_node(node, pods, identity.kind);
                self.log.push(Undo::Node { group, node, pods, kind: identity.kind });
            }
            GroupKey::Label(key) => {
                if let Some(domain) = problem.node_domains[key.0][node] {
                    self.count(group, domain as usize, pods);
                }
            }
        }
    }

    /// Counts a pod on a claim, by host.
    pub(crate) fn count_on_claim(&mut self, group: GroupIx, claim: usize, kind: GroupKind) {
        self.counts[group.0].add_claim(claim, kind);
        self.groups_with_claims.push(group);
    }

    /// Counts nodes that make a domain exist.
    pub(crate) fn make_present(&mut self, presence: usize, domain: usize, nodes: i32) {
        self.presences[presence].add(domain, nodes);
        self.log.push(Undo::NodesInDomain { presence, domain, nodes });
    }

    /// What a pool may still grow by, to be changed.
    pub(crate) fn limits_of(&mut self, template: usize) -> &mut Vec<(ResourceIx, i128)> {
        let limits = &mut self.limits[template];
        if !limits.is_empty() {
            self.log.push(Undo::Limits { template, before: limits.clone() });
        }
        limits
    }

    /// Takes slots of a reservation, or gives them back with a negative number.
    pub(crate) fn reserve(&mut self, reservation: usize, slots: i32) {
        self.reservations[reservation] -= slots;
        self.log.push(Undo::Reservation { reservation, slots: -slots });
    }

    /// Remembers that a claim will never take the class in this pass.
    pub(crate) fn refuse_for_good(&mut self, class: ClassIx, claim: usize) {
        let refused = &mut self.claim_refused[class.0 as usize];
        if refused.is_empty() {
            self.refused_classes.push(class);
        }
        refused.insert(claim);
    }

    /// Whether pods on this node count for the filter.
    pub(crate) fn accepted(&mut self, problem: &SchedulingProblem, filter: FilterIx, node: usize) -> FilterResult {
        let state = &problem.world.nodes[node];
        let asked = &problem.filters[filter.0];
        if asked.accepts_all() {
            return FilterResult { running: state.own_taints.is_some(), placed: true };
        }
        let table = &mut self.table;
        let mut judge = || {
            let mut accepts = |taints| asked.accepts(state.set, Some(&state.hostname), taints, table);
            FilterResult {
                running: state.own_taints.as_ref().is_some_and(|taints| accepts(taints)),
                placed: accepts(&state.taints),
            }
        };
        if asked.names_hosts() { judge() } else { *self.accepted.entry((filter, state.kind)).or_insert_with(judge) }
    }

    /// Whether everything that lasts is the same, and nothing is left of a pass.
    #[cfg(test)]
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        let clean = |s: &Self| s.log.is_empty() && s.queue.is_empty() && s.claims.is_empty() && s.node_ports.is_empty();
        clean(self)
            && clean(other)
            && self.remaining == other.remaining
            && self.room == other.room
            && self.counts == other.counts
            && self.presences == other.presences
            && self.limits == other.limits
            && self.reservations == other.reservations
            && self.places == other.places
            && self.refusals == other.refusals
            && self.claim_refused == other.claim_refused
            && self.may_be_in == other.may_be_in
    }
}

//! The part of a solve that changes while pods are placed: free capacity of nodes, remaining pool
//! limits, pod counts of topology groups, and open claims.
//!
//! There are three kinds of fields. Caches (intersections, matching instance types, eligible nodes)
//! hold for every pass over the same problem and are kept, up to a size in bytes. Lasting fields
//! (capacity, counts, limits) change only through methods of this module, which append to an undo
//! log. Fields of one pass (claims, placements) are cleared when the pass is undone.
//!
//! [`SolverState::undo_pass`] undoes one pass; [`SolverState::roll_back`] also undoes the simulated
//! node removals before it. Both cost as much as was changed, not as much as the cluster holds.

use kerf_api::slim::{HostPort, Str};
use rustc_hash::FxHashMap;

use super::claim::OpenClaim;
use super::class::ClassIx;
use super::free_capacity::FreeCapacity;
use super::pass::{PlacementTarget, UnplacedReason};
use super::problem::{PodIx, SchedulingProblem};
use super::template::Template;
use crate::bits::Bits;
use crate::catalogue::ViewCache;
use crate::cluster::{Attachment, ClusterModel, NodeState};
use crate::requirement_table::{KeyIx, RequirementTable};
use crate::resources::{Amounts, ResourceIx};
use crate::topology::{DomainNodeCounts, FilterIx, GroupCounts, GroupIx, GroupKey, GroupKind, TopologyKeys};

/// Maximum size of the caches during a solve, over all threads, in bytes.
pub(crate) const SEARCH_CACHE_BYTES_MAX: usize = 128 << 20;
/// Maximum size of the caches between two solves, in bytes.
const KEPT_CACHE_BYTES_MAX: usize = 32 << 20;

/// Everything that a pass reads and writes besides the problem.
#[derive(Debug, Clone)]
pub(crate) struct SolverState {
    // Caches; valid for every pass over the problem.
    pub(crate) table: RequirementTable,
    pub(crate) keys: TopologyKeys,
    pub(crate) views: ViewCache,
    /// Nodes whose labels and taints accept a class, per class. `None` until first needed.
    pub(crate) eligible_nodes: Vec<Option<Bits>>,
    filter_results: FxHashMap<(FilterIx, u32), FilterResult>,

    // Lasting fields; changed only together with the undo log.
    /// Free resources of each node.
    pub(crate) remaining: Vec<Amounts>,
    pub(crate) free_capacity: FreeCapacity,
    pub(crate) group_counts: Vec<GroupCounts>,
    /// Nodes per domain, for each key and filter of `SchedulingProblem::node_count_keys`.
    pub(crate) node_counts: Vec<DomainNodeCounts>,
    pub(crate) limits: Vec<Vec<(ResourceIx, i128)>>,
    pub(crate) reservations: Vec<i32>,

    // Fields of one what-if or one pass.
    /// Nodes that the what-if removes.
    pub(crate) removed_nodes: Bits,
    /// Nodes that accept no running pod of a removed node (see
    /// `PlacementPass::skips_avoided_nodes`).
    pub(crate) avoided_nodes: Bits,
    /// Pods that the pass has to place.
    pub(crate) queue: Vec<PodIx>,
    pub(crate) placements: Vec<Option<PlacementTarget>>,
    pub(crate) unplaced_reasons: Vec<Option<UnplacedReason>>,
    pub(crate) node_ports: FxHashMap<usize, Vec<HostPort>>,
    pub(crate) node_attached: FxHashMap<usize, Vec<Attachment>>,
    pub(crate) claims: Vec<OpenClaim>,
    /// Claims that hold a given number of pods; the index is the number of pods.
    pub(crate) claims_by_pod_count: Vec<Bits>,
    /// Numbers of pods for which `claims_by_pod_count` is not empty.
    pub(crate) occurring_pod_counts: Bits,
    pub(crate) rejecting_claims: Vec<Bits>,
    /// Claims that may still be launched in a domain, per topology key and domain.
    pub(crate) claims_by_domain: Vec<Vec<Bits>>,
    /// Claims that require exactly one value of a label, by label and value. Only of labels that
    /// the claim's pool does not fix itself.
    pub(crate) claims_by_label: FxHashMap<KeyIx, ClaimsByValue>,
    /// Group, domain, pod: a pod with a spread of its own that is certain to be in the domain,
    /// although the group does not count it there.
    pub(crate) uncounted: Vec<(GroupIx, usize, PodIx)>,
    /// Total number of relaxations of the placed pods.
    pub(crate) relaxations: usize,
    /// True if the open claims of a pool restricted what a new claim of the pool could be.
    pub(crate) is_restricted_by_limits: bool,
    /// Pods that were placed with a class other than their own, with that class.
    pub(crate) relaxed_pods: Vec<(PodIx, ClassIx)>,
    /// Incremented by every placement, undo and correction, never reset. A class that failed at the
    /// current revision fails again.
    pub(crate) revision: u64,
    pub(crate) failed_at_revision: Vec<Option<u64>>,

    // Counters; never undone.
    /// See `SolveStats::steps`.
    pub(crate) steps: u64,
    /// See `SolveStats::cache_bytes`.
    pub(crate) max_cache_bytes: usize,
    /// Caches that exceed this size are dropped before the next pod is placed, in bytes.
    pub(crate) cache_bytes_limit: usize,
    /// The limit that holds now. Larger than `cache_bytes_limit` if the open claims alone need
    /// more.
    current_cache_limit: usize,

    log: Vec<Undo>,
    /// Length of the log when the pass started. Earlier entries are simulated node removals.
    pass_start: usize,
    classes_with_rejections: Vec<ClassIx>,
    groups_with_claims: Vec<GroupIx>,
}

impl Default for SolverState {
    /// Returns the state of an empty problem.
    fn default() -> Self {
        Self::new(RequirementTable::new(None))
    }
}

/// Claims that require exactly one value of a label.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClaimsByValue {
    pub(crate) all: Bits,
    pub(crate) by_value: FxHashMap<Str, Bits>,
}

/// The answer of a node filter for all nodes of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterResult {
    /// True if pods that run on the node count. Judged by the Node object's own taints.
    pub(crate) counts_running: bool,
    /// True if pods that are placed on the node will count. Ignores the taints that a starting node
    /// loses.
    pub(crate) counts_placed: bool,
}

/// One entry of the undo log.
#[derive(Debug, Clone)]
enum Undo {
    Remaining { node: usize, before: Amounts },
    Domain { group: GroupIx, domain: usize, pods: i32 },
    Node { group: GroupIx, node: usize, pods: i32, kind: GroupKind },
    NodesInDomain { node_counts_ix: usize, domain: usize, nodes: i32 },
    Limits { template: usize, before: Vec<(ResourceIx, i128)> },
    Reservation { reservation: usize, slots: i32 },
}

impl SolverState {
    /// Returns a state that holds only the requirement table.
    pub(crate) fn new(table: RequirementTable) -> Self {
        Self {
            table,
            keys: TopologyKeys::default(),
            views: ViewCache::default(),
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
            occurring_pod_counts: Bits::new(),
            rejecting_claims: Vec::new(),
            claims_by_domain: Vec::new(),
            claims_by_label: FxHashMap::default(),
            uncounted: Vec::new(),
            relaxations: 0,
            is_restricted_by_limits: false,
            relaxed_pods: Vec::new(),
            revision: 0,
            failed_at_revision: Vec::new(),
            steps: 0,
            max_cache_bytes: 0,
            cache_bytes_limit: SEARCH_CACHE_BYTES_MAX,
            current_cache_limit: SEARCH_CACHE_BYTES_MAX,
            log: Vec::new(),
            pass_start: 0,
            classes_with_rejections: Vec::new(),
            groups_with_claims: Vec::new(),
        }
    }

    /// Sets the free capacity of all nodes and the remaining limits of all pools.
    pub(crate) fn init_capacity(&mut self, cluster: &ClusterModel, templates: &[Template]) {
        self.remaining = cluster.nodes.iter().map(NodeState::remaining).collect();
        self.free_capacity = FreeCapacity::new(&self.remaining);
        self.limits = templates.iter().map(|t| t.limits.clone()).collect();
    }

    /// Extends all vectors to the number of classes, groups, pods and domains of the problem.
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

    /// Returns the approximate size of the caches in bytes.
    fn cache_bytes(&self) -> usize {
        self.table.cache_bytes() + self.keys.cache_bytes() + self.views.bytes()
    }

    /// Drops the caches if they exceed their limit. Must be called only between placements, when
    /// nothing but the open claims refers to a learned requirement set.
    pub(crate) fn limit_caches(&mut self) {
        let bytes = self.cache_bytes();
        self.max_cache_bytes = self.max_cache_bytes.max(bytes);
        if bytes > self.current_cache_limit {
            self.drop_caches();
            // If the claims need half of the limit, the caches would be dropped too often.
            self.current_cache_limit = self.cache_bytes_limit.max(2 * self.cache_bytes());
        }
    }

    fn drop_caches(&mut self) {
        self.table.forget_learned(self.claims.iter_mut().map(|claim| &mut claim.requirements));
        self.keys.clear_caches();
        self.views.clear();
    }

    /// Sets the limit on the size of the caches, in bytes.
    pub(crate) fn set_cache_bytes_limit(&mut self, limit: usize) {
        (self.cache_bytes_limit, self.current_cache_limit) = (limit, limit);
    }

    /// Marks the start of passes: [`undo_pass`](Self::undo_pass) keeps the changes made so far.
    pub(crate) fn mark_pass_start(&mut self) {
        self.pass_start = self.log.len();
    }

    /// Undoes all logged changes, including simulated node removals, and clears the fields of the
    /// pass.
    pub(crate) fn roll_back(&mut self) {
        self.pass_start = 0;
        self.undo_pass();
        self.removed_nodes = Bits::new();
        self.avoided_nodes = Bits::new();
        self.current_cache_limit = self.cache_bytes_limit;
    }

    /// Drops the caches if they are too large to be kept until the next solve.
    pub(crate) fn shrink_caches(&mut self) {
        if self.cache_bytes() > KEPT_CACHE_BYTES_MAX {
            self.drop_caches();
        }
    }

    /// Undoes the changes since [`mark_pass_start`](Self::mark_pass_start) and clears the fields of
    /// the pass.
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
                    self.group_counts[group.0].add_pods_on_node(node, -pods, kind);
                }
                Undo::NodesInDomain { node_counts_ix, domain, nodes } => {
                    self.node_counts[node_counts_ix].add_nodes(domain, -nodes);
                }
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
        self.table.set_learning(false);
        if !self.claims.is_empty() {
            self.claims.clear();
            self.claims_by_label.clear();
            self.claims_by_domain.iter_mut().flatten().for_each(|claims| *claims = Bits::new());
        }
        self.node_ports.clear();
        self.node_attached.clear();
        self.claims_by_pod_count.clear();
        self.occurring_pod_counts = Bits::new();
        self.uncounted.clear();
        self.relaxations = 0;
        self.is_restricted_by_limits = false;
        self.relaxed_pods.clear();
        self.revision += 1;
    }

    /// Makes all logged changes permanent.
    pub(crate) fn clear_undo_log(&mut self) {
        self.log.clear();
    }

    /// Sets the free capacity of a node permanently, without a log entry.
    pub(crate) fn set_remaining(&mut self, node: usize, remaining: Amounts) {
        self.free_capacity.set(node, &remaining);
        self.remaining[node] = remaining;
    }

    /// Resets everything that depends on node indices, after the nodes were renumbered.
    pub(crate) fn renumber_nodes(&mut self, cluster: &ClusterModel) {
        self.remaining = cluster.nodes.iter().map(NodeState::remaining).collect();
        self.free_capacity = FreeCapacity::new(&self.remaining);
        self.eligible_nodes.iter_mut().for_each(|nodes| *nodes = None);
    }

    /// Subtracts a pod's requests from the free capacity of a node.
    pub(crate) fn subtract_remaining(&mut self, node: usize, requests: &Amounts) {
        let before = self.remaining[node].clone();
        self.remaining[node].sub(requests);
        self.free_capacity.set(node, &self.remaining[node]);
        self.log.push(Undo::Remaining { node, before });
    }

    /// Adds `pods` to the count of a domain. A negative number subtracts.
    pub(crate) fn count_in_domain(&mut self, group: GroupIx, domain: usize, pods: i32) {
        self.group_counts[group.0].add_pods_in_domain(domain, pods);
        self.log.push(Undo::Domain { group, domain, pods });
    }

    /// Returns the number of pods that the pass has counted in a domain so far.
    pub(crate) fn counted_by_pass(&self, group: GroupIx, domain: usize) -> i32 {
        let counted = self.log[self.pass_start.min(self.log.len())..].iter().filter_map(|undo| match undo {
            Undo::Domain { group: other_group, domain: other_domain, pods }
                if (*other_group, *other_domain) == (group, domain) =>
            {
                Some(*pods)
            }
            Undo::Domain { .. }
            | Undo::Remaining { .. }
            | Undo::Node { .. }
            | Undo::NodesInDomain { .. }
            | Undo::Limits { .. }
            | Undo::Reservation { .. } => None,
        });
        counted.sum()
    }

    /// Adds `pods` to the count of the node's host or, for a label key, of the node's domain.
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

    /// Counts one pod on the future host of a claim.
    pub(crate) fn count_on_claim(&mut self, group: GroupIx, claim: usize, kind: GroupKind) {
        self.group_counts[group.0].add_pod_on_claim(claim, kind);
        self.groups_with_claims.push(group);
    }

    /// Adds `nodes` to the number of nodes in a domain. A negative number subtracts.
    pub(crate) fn count_nodes_in_domain(&mut self, node_counts_ix: usize, domain: usize, nodes: i32) {
        self.node_counts[node_counts_ix].add_nodes(domain, nodes);
        self.log.push(Undo::NodesInDomain { node_counts_ix, domain, nodes });
    }

    /// Returns the remaining limits of a pool, after logging them for undo.
    pub(crate) fn limits_mut(&mut self, template: usize) -> &mut Vec<(ResourceIx, i128)> {
        let limits = &mut self.limits[template];
        if !limits.is_empty() {
            self.log.push(Undo::Limits { template, before: limits.clone() });
        }
        limits
    }

    /// Takes slots of a reservation. A negative number returns slots.
    pub(crate) fn take_reservation_slots(&mut self, reservation: usize, slots: i32) {
        self.reservations[reservation] -= slots;
        self.log.push(Undo::Reservation { reservation, slots: -slots });
    }

    /// Records that the claim rejects the class for the rest of the pass.
    pub(crate) fn reject_until_pass_end(&mut self, class: ClassIx, claim: usize) {
        let rejecting = &mut self.rejecting_claims[class.0 as usize];
        if rejecting.is_empty() {
            self.classes_with_rejections.push(class);
        }
        rejecting.insert(claim);
    }

    /// Returns whether running and placed pods on this node count for the filter.
    pub(crate) fn filter_node(&mut self, problem: &SchedulingProblem, filter: FilterIx, node: usize) -> FilterResult {
        let node_state = &problem.cluster.nodes[node];
        let node_filter = &problem.filters[filter.0];
        if node_filter.accepts_all() {
            return FilterResult { counts_running: node_state.own_taints.is_some(), counts_placed: true };
        }
        let table = &mut self.table;
        let mut evaluate = || {
            let mut accepts =
                |taints| node_filter.accepts(node_state.label_requirements, Some(&node_state.hostname), taints, table);
            FilterResult {
                counts_running: node_state.own_taints.as_ref().is_some_and(|taints| accepts(taints)),
                counts_placed: accepts(&node_state.taints),
            }
        };
        if node_filter.has_hostname_rule() {
            evaluate()
        } else {
            *self.filter_results.entry((filter, node_state.kind)).or_insert_with(evaluate)
        }
    }

    /// Returns true if all lasting fields are equal and neither state holds changes of a pass.
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

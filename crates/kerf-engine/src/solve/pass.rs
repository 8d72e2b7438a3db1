//! One attempt to place every pod: take them in an order, put each on the first place that accepts it, let it give up its wishes
//! one at a time when nothing does, and try again what failed as long as anything else succeeds (spec 02 §6).
//!
//! What a pass learns of claims holds to its end: a claim that refused a class for want of room, labels or taints will refuse it again,
//! because claims only narrow. Refusals by topology are not remembered; counts move both ways.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::class::{ClassIx, GroupConstraint, PodClass};
use super::problem::{PodIx, SchedulingProblem};
use super::state::SolverState;
use crate::bits::Bits;
use crate::catalogue::RowView;
use crate::price::Price;
use crate::requirement_table::RequirementSetIx;
use crate::resources::Amounts;
use crate::topology::{GroupIx, GroupKind, TopologyKeyIx};

/// Which open claim a pod is offered first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimOrder {
    /// The one with the fewest pods, as Karpenter does.
    FewestPods,
    /// The oldest.
    Oldest,
    /// The one whose price grows least, or a new one if that is cheaper still.
    CheapestGrowth,
}

/// What is decided otherwise than usual, for the sake of variety.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SearchVariant {
    /// Of claims that grow by the same price the newest is taken, not the oldest.
    pub(crate) prefer_newest_claim: bool,
    /// Of domains that are allowed any is taken, not one with the fewest pods; of the places where volumes can be, not the first.
    pub(crate) pick_any_domain: bool,
    /// Of domains that are allowed the one is taken where a full machine costs least for each pod, not one with the fewest pods.
    pub(crate) cheapest_domain: bool,
    /// Pods that found no place are tried again whenever another has found one, not when all the others have been tried.
    pub(crate) retry_after_each_placement: bool,
    /// Pods that were on a claim before it came to be bound to one domain are counted there. Karpenter never does (spec 02 §8.6).
    pub(crate) recount_narrowed_claims: bool,
    /// The first of those who must share a host goes where all of them have room.
    pub(crate) keep_colocated_together: bool,
    /// Claims that could be in several domains are kept to the one where a spread needs them.
    pub(crate) pin_claims_to_domains: bool,
}

/// Where a pod went, and after how many concessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlacementTarget {
    Node(usize),
    Claim(usize),
}

/// Why a pod was not placed, as far as the loop needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnplacedReason {
    /// Nothing accepts it.
    NoTarget,
    /// It waits for a reservation that is spoken for; it must not give in and must not go elsewhere.
    WaitsForReservation,
    /// It asks for devices, which are not looked at.
    NeedsDevices,
}

/// One attempt.
#[derive(Debug, Clone)]
pub(crate) struct PlacementPass<'p> {
    pub(crate) problem: &'p SchedulingProblem,
    pub(crate) claim_order: ClaimOrder,
    /// Turns ties between domains.
    pub(crate) seed: u64,
    pub(crate) search_variant: SearchVariant,
    /// Whether pods may be placed by what lies beyond the steps of spec 02 §6.4.
    allows_last_resort: bool,
    /// What must be left beside the pod that is being placed.
    pub(crate) colocated_requests: Option<Amounts>,
    /// Pods for which a node was launched; it is tried first.
    pub(crate) launched_nodes: Arc<FxHashMap<PodIx, usize>>,
    pub(crate) state: SolverState,
}

impl<'p> PlacementPass<'p> {
    /// An attempt on clean books, in Karpenter's manner until told otherwise.
    pub(crate) fn new(problem: &'p SchedulingProblem, state: SolverState) -> Self {
        Self {
            problem,
            claim_order: ClaimOrder::FewestPods,
            seed: problem.cluster.settings.seed,
            search_variant: SearchVariant::default(),
            allows_last_resort: false,
            colocated_requests: None,
            launched_nodes: Arc::default(),
            state,
        }
    }

    /// Places the pods in this order as far as they can be placed. What is kept out gets another chance once it is known what
    /// the claims have become.
    pub(crate) fn run(&mut self, order: &[PodIx]) {
        let order = self.with_launched_nodes_first(order);
        self.state.queue.extend_from_slice(&order);
        // Karpenter knows no last resorts: nobody whom it places may lose the room to one.
        self.allows_last_resort = self.claim_order != ClaimOrder::FewestPods;
        let mut waiting = self.place_all(&order);
        while !waiting.is_empty() && (self.recount_claims() || self.allow_last_resort()) {
            waiting = self.place_all(&waiting);
        }
        if self.search_variant.pin_claims_to_domains {
            self.pin_open_claims();
        }
        self.update_claim_prices();
    }

    /// From now on last resorts will do; whether they did not before.
    fn allow_last_resort(&mut self) -> bool {
        let is_news = !self.allows_last_resort;
        self.allows_last_resort = true;
        // A class that failed may succeed now.
        self.state.revision += u64::from(is_news);
        is_news
    }

    /// The order in which nobody who has a node coming loses it to somebody who came later.
    fn with_launched_nodes_first<'o>(&self, order: &'o [PodIx]) -> Cow<'o, [PodIx]> {
        if self.launched_nodes.is_empty() {
            return Cow::Borrowed(order);
        }
        let (expected, others): (Vec<PodIx>, Vec<PodIx>) =
            order.iter().partition(|pod| self.launched_nodes.contains_key(pod));
        Cow::Owned([expected, others].concat())
    }

    /// Places pods as long as any of them finds a place, and returns those that do not.
    fn place_all(&mut self, order: &[PodIx]) -> Vec<PodIx> {
        // Each pod with the length of the queue when it was pushed back, or zero.
        let mut queue: VecDeque<(PodIx, usize)> = order.iter().map(|pod| (*pod, 0)).collect();
        while let Some((pod, length_when_pushed)) = queue.pop_front() {
            // Every pod in the queue has been tried since the last success.
            if length_when_pushed == queue.len() + 1 {
                queue.push_front((pod, length_when_pushed));
                break;
            }
            match self.try_place(pod) {
                Ok(()) => {
                    self.state.unplaced_reasons[pod.0 as usize] = None;
                    while self.search_variant.retry_after_each_placement
                        && let Some((failed, _)) = queue.pop_back_if(|(_, length_when_pushed)| *length_when_pushed > 0)
                    {
                        queue.push_front((failed, 0));
                    }
                }
                Err(refusal) => {
                    self.state.unplaced_reasons[pod.0 as usize] = Some(refusal);
                    queue.push_back((pod, queue.len() + 1));
                }
            }
        }
        queue.into_iter().map(|(pod, _)| pod).collect()
    }

    fn update_claim_prices(&mut self) {
        for ix in 0..self.state.claims.len() {
            let claim = &self.state.claims[ix];
            let (columns, set, rows) =
                (self.problem.templates[claim.template].catalogue, claim.requirements, claim.rows.clone());
            self.state.claims[ix].price = self.cheapest(columns, set, &rows);
        }
    }

    /// Alternates placing and giving in (spec 02 §6.4).
    fn try_place(&mut self, pod: PodIx) -> Result<(), UnplacedReason> {
        let entry = &self.problem.pods[pod.0 as usize];
        let mut class = entry.class;
        // A class that failed when the world was just like this fails again; pods differ by their volumes' claims and by the
        // nodes that they stay away from.
        let repeatable = entry.attachments.is_empty() && !self.skips_avoided_nodes(pod);
        if repeatable && self.state.failed_at_revision[class.0 as usize] == Some(self.state.revision) {
            return Err(UnplacedReason::NoTarget);
        }
        loop {
            let options = self.class_options(class);
            let last = options.last().copied().unwrap_or(class);
            match self.place(pod, &options) {
                Ok(()) => {
                    self.state.relaxations += self.problem.classes[class.0 as usize].relaxation_count;
                    if class != entry.class {
                        self.state.relaxed_pods.push((pod, class));
                    }
                    self.state.revision += 1;
                    return Ok(());
                }
                Err(refusal @ (UnplacedReason::WaitsForReservation | UnplacedReason::NeedsDevices)) => {
                    return Err(refusal);
                }
                Err(refusal @ UnplacedReason::NoTarget) => match self.problem.classes[last.0 as usize].next_relaxed {
                    Some(next) if self.allows_last_resort || !self.problem.classes[next.0 as usize].is_last_resort => {
                        class = next;
                    }
                    Some(_) | None => {
                        if repeatable {
                            self.state.failed_at_revision[entry.class.0 as usize] = Some(self.state.revision);
                        }
                        return Err(refusal);
                    }
                },
            }
        }
    }

    /// The classes that a pod of this one may take for each other. Karpenter keeps to the first alternative of a node affinity for
    /// which there is a place; whoever looks for a better one weighs all of them.
    fn class_options(&self, class: ClassIx) -> SmallVec<[ClassIx; 4]> {
        match self.claim_order {
            ClaimOrder::FewestPods => SmallVec::from_iter([class]),
            ClaimOrder::Oldest | ClaimOrder::CheapestGrowth => {
                self.problem.classes[class.0 as usize].alternatives.clone().map(ClassIx).collect()
            }
        }
    }

    fn place(&mut self, pod: PodIx, options: &[ClassIx]) -> Result<(), UnplacedReason> {
        if self.search_variant.keep_colocated_together && self.place_with_colocated(pod, options) {
            return Ok(());
        }
        self.place_on_node_or_claim(pod, options)
    }

    pub(super) fn place_on_node_or_claim(&mut self, pod: PodIx, options: &[ClassIx]) -> Result<(), UnplacedReason> {
        let mut open: SmallVec<[(ClassIx, Vec<KeyDomains>); 1]> = SmallVec::with_capacity(options.len());
        for class in options.iter().copied() {
            let facts = &self.problem.classes[class.0 as usize];
            if facts.needs_devices && self.problem.cluster.settings.ignore_dra {
                return Err(UnplacedReason::NeedsDevices);
            }
            let domains = self.allowed_domains(class);
            if self.place_on_node(pod, class, &domains) {
                return Ok(());
            }
            open.push((class, domains));
        }
        self.place_on_claim(pod, &open)
    }

    /// Whether the pod stays away from nodes that rest: it could stay where it is.
    pub(super) fn skips_avoided_nodes(&self, pod: PodIx) -> bool {
        let entry = &self.problem.pods[pod.0 as usize];
        !self.state.avoided_nodes.is_empty()
            && entry.is_started
            && entry.node.is_some_and(|node| self.state.removed_nodes.contains(node as usize))
    }

    /// The domains that exist for a group.
    pub(crate) fn known_domains(&self, group: GroupIx) -> Bits {
        let counts = &self.state.group_counts[group.0];
        match self.problem.groups[group.0].node_counts_ix {
            Some(presence) => counts.known_domains(&self.state.node_counts[presence].present_domains),
            None => counts.known_domains(&Bits::new()),
        }
    }

    /// Per topology key of the class the domains that its groups allow, before any particular place is looked at.
    pub(crate) fn allowed_domains(&mut self, class: ClassIx) -> Vec<KeyDomains> {
        let facts = &self.problem.classes[class.0 as usize];
        let mut open = Vec::with_capacity(facts.label_constraints.len());
        for (key, bounds) in &facts.label_constraints {
            let by_pod = self.domains_allowed_by_pod(facts, *key);
            let mut domains =
                KeyDomains { key: *key, allowed: self.state.keys.existing_domains(*key).clone(), pick_one: None };
            for bound in bounds {
                self.restrict(&mut domains, *bound, &by_pod);
            }
            open.push(domains);
        }
        open
    }

    /// The domains that one group alone would allow.
    pub(crate) fn domains_allowed_by_group(
        &mut self,
        class: ClassIx,
        key: TopologyKeyIx,
        group: GroupIx,
    ) -> Option<Bits> {
        let facts = &self.problem.classes[class.0 as usize];
        let bound = facts.label_constraints.iter().find(|(k, _)| *k == key)?.1.iter().find(|b| b.group == group)?;
        let by_pod = self.domains_allowed_by_pod(facts, key);
        let mut domains = KeyDomains { key, allowed: self.state.keys.existing_domains(key).clone(), pick_one: None };
        self.restrict(&mut domains, *bound, &by_pod);
        Some(domains.allowed)
    }

    /// The domains that the pod's own musts accept.
    fn domains_allowed_by_pod(&mut self, facts: &PodClass, key: TopologyKeyIx) -> Bits {
        let strict = self.state.table.get(facts.strict_requirements, self.state.keys.label_key(key));
        self.state.keys.domains_accepted_by(key, strict, &self.state.table).clone()
    }

    /// What one group leaves of the domains (spec 02 §8.5).
    fn restrict(&self, domains: &mut KeyDomains, bound: GroupConstraint, by_pod: &Bits) {
        let counts = &self.state.group_counts[bound.group.0];
        match self.problem.groups[bound.group.0].identity.kind {
            GroupKind::Spread { max_skew, min_domains } => {
                let own = i32::from(bound.counts_self);
                let known = self.known_domains(bound.group);
                domains.allowed.and_with(&counts.domains_within_skew(&known, max_skew, min_domains, own, by_pod));
                domains.pick_one.get_or_insert(bound.group);
            }
            GroupKind::Affinity => {
                let mut there = counts.occupied_domains.clone();
                there.and_with(by_pod);
                if there.is_empty() && bound.counts_self {
                    // Nobody to be near to that this pod could reach: it is the first, in one domain.
                    domains.allowed.and_with(&self.known_domains(bound.group));
                    domains.allowed.and_with(by_pod);
                    domains.pick_one.get_or_insert(bound.group);
                } else {
                    domains.allowed.and_with(&there);
                }
            }
            GroupKind::AntiAffinity => {
                domains.allowed.and_not_with(&counts.occupied_domains);
                domains.allowed.and_with(&self.known_domains(bound.group));
                domains.allowed.and_with(by_pod);
            }
            // Whoever stands behind the rule may reach other domains than this pod.
            GroupKind::InverseAntiAffinity => {
                domains.allowed.and_not_with(&counts.occupied_domains);
                domains.allowed.and_with(by_pod);
            }
        }
    }

    /// The rows and offerings of a catalogue that satisfy a set.
    pub(crate) fn view(&mut self, columns: usize, set: RequirementSetIx) -> &RowView {
        let problem = self.problem;
        let table = &mut self.state.table;
        self.state.views.entry((columns, set)).or_insert_with(|| problem.cluster.catalogues[columns].view(set, table))
    }

    /// The price of the cheapest machine among the rows.
    pub(crate) fn cheapest(&mut self, columns: usize, set: RequirementSetIx, rows: &Bits) -> Price {
        let view = self.view(columns, set);
        view.by_price.iter().find(|(_, row)| rows.contains(*row)).map_or(Price::UNKNOWN, |(price, _)| *price)
    }

    /// Total price of the machines to launch.
    pub(crate) fn total_price(&self) -> Price {
        self.state.claims.iter().map(|c| c.price).sum()
    }

    pub(crate) fn placed_count(&self) -> usize {
        self.state.queue.iter().filter(|pod| self.state.placements[pod.0 as usize].is_some()).count()
    }
}

/// The domains of one key that a class may go to.
#[derive(Debug, Clone)]
pub(crate) struct KeyDomains {
    pub(crate) key: TopologyKeyIx,
    pub(crate) allowed: Bits,
    /// The pod must end up in exactly one domain, preferably the one where this group has the fewest pods.
    pub(crate) pick_one: Option<GroupIx>,
}

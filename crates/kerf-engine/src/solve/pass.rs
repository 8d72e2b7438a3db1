//! One attempt to place all pods in one order (spec 02 §6).
//!
//! Each pod goes to the first target that accepts it. If no target does, the pod gives up its
//! preferences one at a time. Failed pods return to the end of the queue and are tried again until
//! a whole round places no pod.
//!
//! Rejections by a claim for lack of capacity, labels or taints are remembered until the pass ends,
//! because claims only ever narrow. Rejections by topology are not remembered, because counts can
//! make a domain allowed again.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::class::{ClassIx, GroupConstraint, PodClass};
use super::launch_facts::LaunchWait;
use super::problem::{PodIx, SchedulingProblem};
use super::state::SolverState;
use crate::bits::Bits;
use crate::catalogue::RowView;
use crate::price::Price;
use crate::requirement_table::RequirementSetIx;
use crate::resources::{Amounts, ResourceIx};
use crate::topology::{GroupIx, GroupKind, TopologyKeyIx};

/// The order in which open claims are offered to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimOrder {
    /// Fewest pods first, as in Karpenter.
    FewestPods,
    /// Oldest first.
    Oldest,
    /// Smallest price increase first. A new claim is opened instead if it is cheaper by more than
    /// 1%.
    SmallestPriceIncrease,
}

/// Choices in which a pass of the search differs from Karpenter's first fit. All are off by
/// default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SearchVariant {
    /// Of claims with an equal price increase, take the newest instead of the oldest.
    pub(crate) prefer_newest_claim: bool,
    /// Take a pseudo-random allowed domain instead of the one with the fewest pods, and start with
    /// a pseudo-random volume alternative instead of the first.
    pub(crate) pick_any_domain: bool,
    /// Take the allowed domain in which the pod's share of a full instance is cheapest, instead of
    /// the domain with the fewest pods.
    pub(crate) cheapest_domain: bool,
    /// Retry failed pods after each placement, instead of after all other pods were tried.
    pub(crate) retry_after_each_placement: bool,
    /// Count the earlier pods of a claim in a domain as soon as the claim is narrowed to that
    /// domain. Karpenter never counts them (spec 02 §8.6).
    pub(crate) recount_narrowed_claims: bool,
    /// Place the first of several pods that must share a host where all of them fit.
    pub(crate) keep_colocated_together: bool,
    /// Restrict claims that could be launched in several domains to the one that a spread needs.
    pub(crate) pin_claims_to_domains: bool,
    /// Count an open claim against the limits of its pool as the smallest types that it needs, not
    /// as its largest type, and remove its largest types at the end until the limits hold.
    pub(crate) shrink_claims_to_limits: bool,
}

/// The target that a pod was placed on, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlacementTarget {
    Node(usize),
    Claim(usize),
}

/// Why a pod was not placed, as far as the queue needs to know. `explain` computes the full reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnplacedReason {
    /// No node or claim accepts the pod.
    NoTarget,
    /// The pod could use a reservation whose slots other claims of this pass hold. It must wait:
    /// neither relaxation nor another target is allowed (spec 02 §10).
    WaitsForReservation,
    /// The pod requests devices (DRA), and the settings say to ignore such pods.
    NeedsDevices,
    /// No existing node accepts the pod, and no claim is created for it now (see [`LaunchWait`]).
    WaitsForLaunch(LaunchWait),
}

/// One attempt to place all pods.
#[derive(Debug, Clone)]
pub(crate) struct PlacementPass<'p> {
    pub(crate) problem: &'p SchedulingProblem,
    pub(crate) claim_order: ClaimOrder,
    /// Decides ties between domains.
    pub(crate) seed: u64,
    pub(crate) search_variant: SearchVariant,
    /// True if pods may use last resorts, the alternatives that follow all steps of spec 02 §6.4.
    allows_last_resort: bool,
    /// True if open claims count against limits as the smallest types that they need (see
    /// `SearchVariant::shrink_claims_to_limits`).
    pub(super) counts_smallest_types: bool,
    /// True if the pass left a pod unplaced under Karpenter's rule for limits, and then counted claims
    /// as the smallest types that they need.
    pub(super) left_pods_to_limits: bool,
    /// What the limits of each pool left when the pass started. Empty if no pool limits a resource of
    /// instance types.
    pub(super) limits_at_start: Vec<Vec<(ResourceIx, i128)>>,
    /// Requests of pods that must later fit on the host of the pod that is being placed.
    pub(crate) colocated_requests: Option<Amounts>,
    /// A topology key without an allowed domain for the pod that is being placed, before its last
    /// relaxation. Checked first after the relaxation.
    blocking_key: Option<TopologyKeyIx>,
    /// Nodes that were launched for certain pods; each is tried first for its pod.
    pub(crate) launched_nodes: Arc<FxHashMap<PodIx, usize>>,
    /// Pods that are placed on existing nodes only.
    pub(crate) launch_waits: Arc<FxHashMap<PodIx, LaunchWait>>,
    pub(crate) state: SolverState,
}

impl<'p> PlacementPass<'p> {
    /// Returns a pass with the choices of Karpenter's first fit. `state` must hold no changes of
    /// another pass.
    pub(crate) fn new(problem: &'p SchedulingProblem, state: SolverState) -> Self {
        Self {
            problem,
            claim_order: ClaimOrder::FewestPods,
            seed: problem.cluster.settings.seed,
            search_variant: SearchVariant::default(),
            allows_last_resort: false,
            counts_smallest_types: false,
            left_pods_to_limits: false,
            limits_at_start: Vec::new(),
            colocated_requests: None,
            blocking_key: None,
            launched_nodes: Arc::default(),
            launch_waits: Arc::default(),
            state,
        }
    }

    /// Places as many pods as possible, in this order.
    ///
    /// Unplaced pods are tried again after each correction that may help them: first the claims are
    /// recounted at what they have become, then they are counted as the smallest types that they
    /// need, then last resorts are allowed.
    pub(crate) fn run(&mut self, order: &[PodIx]) {
        let order = self.with_launched_nodes_first(order);
        self.state.queue.extend_from_slice(&order);
        self.state.table.set_learning(true);
        // In the first-fit order, last resorts come only after all other pods: Karpenter has none,
        // and a pod that Karpenter places must not lose its capacity to one.
        self.allows_last_resort = self.claim_order != ClaimOrder::FewestPods;
        self.counts_smallest_types = self.search_variant.shrink_claims_to_limits;
        self.limits_at_start = if self.has_limited_rows() { self.state.limits.clone() } else { Vec::new() };
        let mut unplaced = self.place_all(&order);
        while !unplaced.is_empty() && (self.recount_claims() || self.count_smallest_types() || self.allow_last_resort())
        {
            unplaced = self.place_all(&unplaced);
        }
        if self.search_variant.pin_claims_to_domains {
            self.pin_open_claims();
        }
        self.left_pods_to_limits = self.counts_smallest_types && !self.search_variant.shrink_claims_to_limits;
        if self.counts_smallest_types || self.state.is_restricted_by_limits {
            self.count_smallest_types();
            self.shrink_claims_to_limits();
        }
        self.update_claim_prices();
        self.state.limit_caches();
    }

    /// Allows last resorts. Returns false if they were allowed already.
    fn allow_last_resort(&mut self) -> bool {
        let is_change = !self.allows_last_resort;
        self.allows_last_resort = true;
        // Classes that failed before may succeed now.
        self.state.revision += u64::from(is_change);
        is_change
    }

    /// Moves pods with a launched node to the front, so that no other pod takes their capacity.
    fn with_launched_nodes_first<'o>(&self, order: &'o [PodIx]) -> Cow<'o, [PodIx]> {
        if self.launched_nodes.is_empty() {
            return Cow::Borrowed(order);
        }
        let (with_node, others): (Vec<PodIx>, Vec<PodIx>) =
            order.iter().partition(|pod| self.launched_nodes.contains_key(pod));
        Cow::Owned([with_node, others].concat())
    }

    /// Places pods until a whole round places none. Returns the pods that remain.
    fn place_all(&mut self, order: &[PodIx]) -> Vec<PodIx> {
        // Each pod with the length of the queue when it was pushed back, or 0 if it was not tried
        // yet.
        let mut queue: VecDeque<(PodIx, usize)> = order.iter().map(|pod| (*pod, 0)).collect();
        while let Some((pod, length_when_pushed)) = queue.pop_front() {
            // Every pod in the queue has been tried since the last success.
            if length_when_pushed == queue.len() + 1 {
                queue.push_front((pod, length_when_pushed));
                break;
            }
            self.state.limit_caches();
            match self.try_place(pod) {
                Ok(()) => {
                    self.state.unplaced_reasons[pod.0 as usize] = None;
                    while self.search_variant.retry_after_each_placement
                        && let Some((failed, _)) = queue.pop_back_if(|(_, length_when_pushed)| *length_when_pushed > 0)
                    {
                        queue.push_front((failed, 0));
                    }
                }
                Err(reason) => {
                    self.state.unplaced_reasons[pod.0 as usize] = Some(reason);
                    queue.push_back((pod, queue.len() + 1));
                }
            }
        }
        queue.into_iter().map(|(pod, _)| pod).collect()
    }

    fn update_claim_prices(&mut self) {
        for ix in 0..self.state.claims.len() {
            let claim = &self.state.claims[ix];
            let (catalogue, requirements, rows) =
                (self.problem.templates[claim.template].catalogue, claim.requirements, claim.rows.clone());
            self.state.claims[ix].price = self.cheapest(catalogue, requirements, &rows);
        }
    }

    /// Tries to place a pod, relaxing it step by step (spec 02 §6.4).
    fn try_place(&mut self, pod: PodIx) -> Result<(), UnplacedReason> {
        let entry = &self.problem.pods[pod.0 as usize];
        let mut class = entry.class;
        // A class that failed at this revision fails again. This does not hold for pods whose
        // volume claims or avoided nodes differ from those of other pods of the class.
        let repeatable =
            entry.attachments.is_empty() && !self.skips_avoided_nodes(pod) && !self.launch_waits.contains_key(&pod);
        if repeatable && self.state.failed_at_revision[class.0 as usize] == Some(self.state.revision) {
            return Err(UnplacedReason::NoTarget);
        }
        self.blocking_key = None;
        loop {
            self.state.steps += 1;
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
                Err(reason @ (UnplacedReason::WaitsForReservation | UnplacedReason::NeedsDevices)) => {
                    return Err(reason);
                }
                Err(reason @ (UnplacedReason::NoTarget | UnplacedReason::WaitsForLaunch(_))) => {
                    match self.problem.classes[last.0 as usize].next_relaxed {
                        Some(next)
                            if self.allows_last_resort || !self.problem.classes[next.0 as usize].is_last_resort =>
                        {
                            class = next;
                        }
                        Some(_) | None => {
                            if repeatable {
                                self.state.failed_at_revision[entry.class.0 as usize] = Some(self.state.revision);
                            }
                            return Err(reason);
                        }
                    }
                }
            }
        }
    }

    /// Returns the classes that a pod of this class may be placed with. Karpenter uses the first
    /// alternative of the required node affinity that finds a target. The search compares all of
    /// them.
    fn class_options(&self, class: ClassIx) -> SmallVec<[ClassIx; 4]> {
        match self.claim_order {
            ClaimOrder::FewestPods => SmallVec::from_iter([class]),
            ClaimOrder::Oldest | ClaimOrder::SmallestPriceIncrease => {
                self.problem.classes[class.0 as usize].alternative_classes.clone().map(ClassIx).collect()
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
        let mut class_options: SmallVec<[(ClassIx, Vec<KeyDomains>); 1]> = SmallVec::with_capacity(options.len());
        for class in options.iter().copied() {
            let pod_class = &self.problem.classes[class.0 as usize];
            if pod_class.needs_devices && self.problem.cluster.settings.ignore_dra {
                return Err(UnplacedReason::NeedsDevices);
            }
            // No target can be in an allowed domain of every key if a key has none.
            let Some(domains) = self.allowed_domains_of_each_key(class) else { continue };
            if self.place_on_node(pod, class, &domains) {
                return Ok(());
            }
            class_options.push((class, domains));
        }
        if let Some(wait) = self.launch_waits.get(&pod) {
            return Err(UnplacedReason::WaitsForLaunch(*wait));
        }
        self.place_on_claim(pod, &class_options)
    }

    /// Returns true if the pod must not be placed on an avoided node: it runs on a removed node and
    /// could stay there.
    pub(super) fn skips_avoided_nodes(&self, pod: PodIx) -> bool {
        let entry = &self.problem.pods[pod.0 as usize];
        !self.state.avoided_nodes.is_empty()
            && entry.is_started
            && entry.node.is_some_and(|node| self.state.removed_nodes.contains(node as usize))
    }

    /// Returns the domains that exist for a group.
    pub(crate) fn known_domains(&self, group: GroupIx) -> Bits {
        let counts = &self.state.group_counts[group.0];
        match self.problem.groups[group.0].node_counts_ix {
            Some(node_counts_ix) => counts.known_domains(&self.state.node_counts[node_counts_ix].present_domains),
            None => counts.known_domains(&Bits::new()),
        }
    }

    /// Returns, per topology key of the class, the domains that its groups allow on any target.
    pub(crate) fn allowed_domains(&mut self, class: ClassIx) -> Vec<KeyDomains> {
        let keys = 0..self.problem.classes[class.0 as usize].label_constraints.len();
        keys.map(|position| self.allowed_domains_of_key(class, position)).collect()
    }

    /// Like [`allowed_domains`](Self::allowed_domains), but returns `None` if some key has no
    /// allowed domain. A pod with many preferences comes here once per relaxation, so the key that
    /// had no domain before the relaxation is checked first.
    fn allowed_domains_of_each_key(&mut self, class: ClassIx) -> Option<Vec<KeyDomains>> {
        let label_constraints = &self.problem.classes[class.0 as usize].label_constraints;
        let blocking = label_constraints.iter().position(|(key, _)| Some(*key) == self.blocking_key);
        if blocking.is_some_and(|position| self.allowed_domains_of_key(class, position).allowed.is_empty()) {
            return None;
        }
        let mut allowed_domains = Vec::with_capacity(label_constraints.len());
        for (position, (key, _)) in label_constraints.iter().enumerate() {
            let domains = self.allowed_domains_of_key(class, position);
            if domains.allowed.is_empty() {
                self.blocking_key = Some(*key);
                return None;
            }
            allowed_domains.push(domains);
        }
        Some(allowed_domains)
    }

    /// Returns the domains that the groups of one topology key allow. `position` is the position of
    /// the key in the class's `label_constraints`.
    fn allowed_domains_of_key(&mut self, class: ClassIx, position: usize) -> KeyDomains {
        let pod_class = &self.problem.classes[class.0 as usize];
        let (key, constraints) = &pod_class.label_constraints[position];
        self.state.steps += constraints.len() as u64;
        let mut domains =
            KeyDomains { key: *key, allowed: self.state.keys.existing_domains(*key).clone(), pick_one: None };
        let pod_domains = self.domains_allowed_by_pod(pod_class, *key);
        for constraint in constraints {
            self.restrict(&mut domains, *constraint, &pod_domains);
        }
        domains
    }

    /// Returns the domains that one group alone allows. `None` if the group does not constrain the
    /// class.
    pub(crate) fn domains_allowed_by_group(
        &mut self,
        class: ClassIx,
        key: TopologyKeyIx,
        group: GroupIx,
    ) -> Option<Bits> {
        let pod_class = &self.problem.classes[class.0 as usize];
        let constraint =
            pod_class.label_constraints.iter().find(|(k, _)| *k == key)?.1.iter().find(|b| b.group == group)?;
        let pod_domains = self.domains_allowed_by_pod(pod_class, key);
        let mut domains = KeyDomains { key, allowed: self.state.keys.existing_domains(key).clone(), pick_one: None };
        self.restrict(&mut domains, *constraint, &pod_domains);
        Some(domains.allowed)
    }

    /// Returns the domains that the pod's own strict requirements accept.
    fn domains_allowed_by_pod(&mut self, pod_class: &PodClass, key: TopologyKeyIx) -> Bits {
        let strict_requirement = self.state.table.get(pod_class.strict_requirements, self.state.keys.label_key(key));
        self.state.keys.domains_accepted_by(key, strict_requirement, &self.state.table).clone()
    }

    /// Removes the domains that one group does not allow (spec 02 §8.5).
    fn restrict(&self, domains: &mut KeyDomains, constraint: GroupConstraint, pod_domains: &Bits) {
        let counts = &self.state.group_counts[constraint.group.0];
        match self.problem.groups[constraint.group.0].identity.kind {
            GroupKind::Spread { max_skew, min_domains } => {
                let self_count = i32::from(constraint.counts_self);
                let known_domains = self.known_domains(constraint.group);
                domains.allowed.and_with(&counts.domains_within_skew(
                    &known_domains,
                    max_skew,
                    min_domains,
                    self_count,
                    pod_domains,
                ));
                domains.pick_one.get_or_insert(constraint.group);
            }
            GroupKind::Affinity => {
                let mut occupied = counts.occupied_domains.clone();
                occupied.and_with(pod_domains);
                if occupied.is_empty() && constraint.counts_self {
                    // No pod of the group is in a domain that this pod can reach: this pod is the
                    // first and chooses one domain.
                    domains.allowed.and_with(&self.known_domains(constraint.group));
                    domains.allowed.and_with(pod_domains);
                    domains.pick_one.get_or_insert(constraint.group);
                } else {
                    domains.allowed.and_with(&occupied);
                }
            }
            GroupKind::AntiAffinity => {
                domains.allowed.and_not_with(&counts.occupied_domains);
                domains.allowed.and_with(&self.known_domains(constraint.group));
                domains.allowed.and_with(pod_domains);
            }
            // Not restricted to known domains: the owners of the rule may reach other domains than
            // this pod.
            GroupKind::InverseAntiAffinity => {
                domains.allowed.and_not_with(&counts.occupied_domains);
                domains.allowed.and_with(pod_domains);
            }
        }
    }

    /// Returns the rows and offerings of a catalogue that satisfy a requirement set. Cached.
    pub(crate) fn view(&mut self, catalogue: usize, requirements: RequirementSetIx) -> &RowView {
        let SolverState { views, table, .. } = &mut self.state;
        views.view(catalogue, &self.problem.cluster.catalogues[catalogue], requirements, table)
    }

    /// Returns the price of the cheapest row that satisfies the set, or `Price::UNKNOWN` if none
    /// does.
    pub(crate) fn cheapest(&mut self, catalogue: usize, requirements: RequirementSetIx, rows: &Bits) -> Price {
        let view = self.view(catalogue, requirements);
        view.by_price.iter().find(|priced| rows.contains(priced.row)).map_or(Price::UNKNOWN, |priced| priced.price)
    }

    /// Returns the total hourly price of the open claims.
    pub(crate) fn total_price(&self) -> Price {
        self.state.claims.iter().map(|c| c.price).sum()
    }

    pub(crate) fn placed_count(&self) -> usize {
        self.state.queue.iter().filter(|pod| self.state.placements[pod.0 as usize].is_some()).count()
    }
}

/// The domains of one topology key that a class may use.
#[derive(Debug, Clone)]
pub(crate) struct KeyDomains {
    pub(crate) key: TopologyKeyIx,
    pub(crate) allowed: Bits,
    /// If set, the pod must be placed in exactly one domain. Domains with few pods of this group
    /// come first.
    pub(crate) pick_one: Option<GroupIx>,
}

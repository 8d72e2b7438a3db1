//! Places a pod on a NodeClaim to be launched (spec 02 §6.7): on the first open claim that accepts
//! the pod, or else on a new claim of the first pool that does. Under
//! [`ClaimOrder::SmallestPriceIncrease`], the claim is chosen by price instead. Existing nodes are
//! not considered here (see `place_node`).
//!
//! Accepting a pod narrows the claim's requirements and rows step by step: here by tolerations,
//! pool limits (of a new claim), requests (those of colocated pods included) and host ports, then
//! in `narrow_claim` by labels, volumes, topology domains, `minValues` and reservations. The pod is
//! rejected if a step leaves no row. These checks do not change the claim: they return an
//! [`ExtendedClaim`], which `commit_to_claim` or `open_claim` stores. They only record which claims
//! reject the class for the rest of the pass.

use smallvec::SmallVec;

use super::class::{ClassIx, PodClass};
use super::limits;
use super::pass::{ClaimOrder, KeyDomains, PlacementPass, UnplacedReason};
use super::problem::PodIx;
use super::template::Template;
use crate::bits::{Bits, WordBits};
use crate::cluster::ports;
use crate::price::{Price, saves_enough};
use crate::requirement_table::RequirementSetIx;
use crate::resources::Amounts;
use crate::topology::GroupKind;

/// Longest list of values for which claims with another value are excluded by an index.
const INDEXED_VALUES_MAX: usize = 8;

/// One of the classes that stand for the pod, and the domains that the class's topology groups
/// allow. There are several classes if the search compares the alternatives of the pod's required
/// node affinity.
pub(super) type ClassOption = (ClassIx, Vec<KeyDomains>);

/// An open or new claim as it would be with one more pod.
#[derive(Debug, Clone)]
pub(super) struct ExtendedClaim {
    pub(super) requirements: RequirementSetIx,
    pub(super) rows: Bits,
    pub(super) requests: Amounts,
    /// Indices of the reservations that it would hold a slot of.
    pub(super) reserved: Vec<usize>,
    /// True if a `minValues` of the pool was lowered (policy `BestEffort`).
    pub(super) min_values_relaxed: bool,
}

/// Why a claim does not accept a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimRejection {
    /// Labels, taints, capacity or ports do not fit. Claims only narrow, so this holds for the rest
    /// of the pass.
    UntilPassEnd,
    /// Topology counts or `minValues` do not allow the pod now.
    Temporary,
    /// All usable reservations are held by other claims.
    WaitsForReservation,
}

impl PlacementPass<'_> {
    /// Places the pod on an open or new claim, as a pod of one of the given classes.
    pub(super) fn place_on_claim(&mut self, pod: PodIx, options: &[ClassOption]) -> Result<(), UnplacedReason> {
        if self.claim_order == ClaimOrder::SmallestPriceIncrease {
            return self.place_at_lowest_price(pod, options);
        }
        for (class, key_domains) in options {
            if let Some((claim, extended)) = self.first_accepting_claim(*class, key_domains) {
                self.commit_to_claim(pod, *class, claim, extended);
                return Ok(());
            }
        }
        let mut reason = UnplacedReason::NoTarget;
        for (class, key_domains) in options {
            match self.first_accepting_template(*class, key_domains) {
                Ok((template, extended)) => {
                    self.open_claim(pod, *class, template, extended);
                    return Ok(());
                }
                Err(new_reason) => reason = new_reason,
            }
        }
        Err(reason)
    }

    /// Returns the first open claim that accepts the class, and the claim as it would be. The
    /// oldest claim comes first, or the claim with the fewest pods (see [`ClaimOrder`]).
    fn first_accepting_claim(&mut self, class: ClassIx, key_domains: &[KeyDomains]) -> Option<(usize, ExtendedClaim)> {
        let pod_class = &self.problem.classes[class.0 as usize];
        let candidates = self.claim_candidates(class, pod_class, key_domains);
        if self.claim_order == ClaimOrder::Oldest {
            return candidates
                .iter()
                .find_map(|claim| self.extend_claim(class, claim, key_domains).ok().map(|extended| (claim, extended)));
        }
        let pod_counts: SmallVec<[usize; 32]> = self.state.occurring_pod_counts.iter().collect();
        for pod_count in pod_counts {
            for word in 0..self.state.claims_by_pod_count[pod_count].words() {
                let word_bits = self.state.claims_by_pod_count[pod_count].word(word) & candidates.word(word);
                for bit in WordBits(word_bits) {
                    let claim = word * 64 + bit;
                    if let Ok(extended) = self.extend_claim(class, claim, key_domains) {
                        return Some((claim, extended));
                    }
                }
            }
        }
        None
    }

    /// Places the pod where the total price grows least. Opens a new claim only if that is cheaper
    /// by more than 1% than extending an open one.
    fn place_at_lowest_price(&mut self, pod: PodIx, options: &[ClassOption]) -> Result<(), UnplacedReason> {
        // Price increase, index of the open claim, class, the claim with the pod.
        let mut cheapest_open: Option<(Price, usize, ClassIx, ExtendedClaim)> = None;
        // Price, index of the template, class, the claim with the pod.
        let mut cheapest_new: Result<(Price, usize, ClassIx, ExtendedClaim), UnplacedReason> =
            Err(UnplacedReason::NoTarget);
        for (class, key_domains) in options {
            let option = self.open_claim_with_smallest_increase(*class, key_domains);
            let is_cheaper = |(increase, ..): &(Price, usize, ExtendedClaim)| {
                cheapest_open.as_ref().is_none_or(|(smallest, ..)| increase < smallest)
            };
            if let Some((increase, claim, extended)) = option.filter(is_cheaper) {
                cheapest_open = Some((increase, claim, *class, extended));
            }
            match (self.first_accepting_template(*class, key_domains), &cheapest_new) {
                (Ok((template, extended)), current) => {
                    let price = self.cheapest(
                        self.problem.templates[template].catalogue,
                        extended.requirements,
                        &extended.rows,
                    );
                    if current.as_ref().map_or(true, |(lowest, ..)| price < *lowest) {
                        cheapest_new = Ok((price, template, *class, extended));
                    }
                }
                (Err(reason), Err(_)) => cheapest_new = Err(reason),
                (Err(_), Ok(_)) => {}
            }
        }
        match (cheapest_open, cheapest_new) {
            (Some((increase, ..)), Ok((new_price, template, class, extended))) if saves_enough(new_price, increase) => {
                self.open_claim(pod, class, template, extended);
                Ok(())
            }
            (Some((_, claim, class, extended)), Ok(_) | Err(_)) => {
                self.commit_to_claim(pod, class, claim, extended);
                Ok(())
            }
            (None, Ok((_, template, class, extended))) => {
                self.open_claim(pod, class, template, extended);
                Ok(())
            }
            (None, Err(reason)) => Err(reason),
        }
    }

    /// Returns the open claim whose price grows least with one more pod: the increase, the claim's
    /// index and the claim as it would be. Compares the newest claims that accept the class, at
    /// most [`max_claims_compared`].
    fn open_claim_with_smallest_increase(
        &mut self,
        class: ClassIx,
        key_domains: &[KeyDomains],
    ) -> Option<(Price, usize, ExtendedClaim)> {
        let pod_class = &self.problem.classes[class.0 as usize];
        let candidates = self.claim_candidates(class, pod_class, key_domains);
        let mut best: Option<(Price, usize, ExtendedClaim)> = None;
        let mut compared = 0;
        let max_compared = max_claims_compared(self.state.queue.len());
        // Newest first, because new claims have the most free capacity. Of claims with an equal
        // increase the oldest is used, so that few claims stay half empty, unless the search
        // variant prefers the newest.
        for claim in candidates.descending() {
            if compared == max_compared {
                break;
            }
            let Ok(extended) = self.extend_claim(class, claim, key_domains) else { continue };
            compared += 1;
            let catalogue = self.problem.templates[self.state.claims[claim].template].catalogue;
            let increase =
                self.cheapest(catalogue, extended.requirements, &extended.rows) - self.state.claims[claim].price;
            let is_better = |smallest: Price| {
                increase < smallest || (increase == smallest && !self.search_variant.prefer_newest_claim)
            };
            if best.as_ref().is_none_or(|(smallest, ..)| is_better(*smallest)) {
                best = Some((increase, claim, extended));
            }
        }
        best
    }

    /// Returns the open claims that have not rejected the class until the end of the pass and that
    /// neither a topology count nor another value of a required label excludes.
    fn claim_candidates(&self, class: ClassIx, pod_class: &PodClass, key_domains: &[KeyDomains]) -> Bits {
        let mut candidates = Bits::full(self.state.claims.len());
        candidates.and_not_with(&self.state.rejecting_claims[class.0 as usize]);
        for constraint in &pod_class.host_constraints {
            let counts = &self.state.group_counts[constraint.group.0];
            match self.problem.groups[constraint.group.0].identity.kind {
                GroupKind::Spread { .. } => {
                    // The limit is the maximum skew. A pod that the group counts needs a host below
                    // it, any other pod a host that does not exceed it.
                    let excluded =
                        if constraint.counts_self { &counts.claims.at_limit } else { &counts.claims.over_limit };
                    candidates.and_not_with(excluded);
                }
                GroupKind::Affinity => {
                    // The first pod of an affinity that selects the pod itself may be on any host.
                    if !(constraint.counts_self && counts.no_host_is_occupied()) {
                        candidates.and_with(&counts.claims.occupied);
                    }
                }
                GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => {
                    candidates.and_not_with(&counts.claims.occupied);
                }
            }
        }
        for (key, requirement_ix) in self.state.table.pairs(pod_class.requirements) {
            let Some(claims) = self.state.claims_by_label.get(key) else { continue };
            let Some(values) = self.state.table.requirement(*requirement_ix).allowed_values() else { continue };
            // Longer lists cost more than checking the claims, and are rare.
            if values.len() <= INDEXED_VALUES_MAX {
                let mut other_values = claims.all.clone();
                for claims_with_value in values.iter().filter_map(|value| claims.by_value.get(value)) {
                    other_values.and_not_with(claims_with_value);
                }
                candidates.and_not_with(&other_values);
            }
        }
        for key in key_domains {
            let mut claims_in_domains = Bits::new();
            for domain in key.allowed.iter() {
                claims_in_domains.or_with(&self.state.claims_by_domain[key.key.0][domain]);
            }
            candidates.and_with(&claims_in_domains);
        }
        candidates
    }

    /// Checks whether an open claim accepts one more pod of the class, and returns the claim as it
    /// would be. Records a rejection that holds until the end of the pass.
    fn extend_claim(
        &mut self,
        class: ClassIx,
        claim_ix: usize,
        key_domains: &[KeyDomains],
    ) -> Result<ExtendedClaim, ClaimRejection> {
        self.state.steps += 1;
        let pod_class = &self.problem.classes[class.0 as usize];
        let claim = &self.state.claims[claim_ix];
        let template = &self.problem.templates[claim.template];
        if !pod_class.tolerates_template[claim.template] {
            self.state.reject_until_pass_end(class, claim_ix);
            return Err(ClaimRejection::UntilPassEnd);
        }
        let requests = claim.requests.plus(&pod_class.requests);
        let mut rows = claim.rows.clone();
        template.fit.keep_fitting(&mut rows, &requests);
        if !pod_class.ports.is_empty() {
            if ports::first_conflict(&pod_class.ports, &claim.ports).is_some() {
                rows = Bits::new();
            }
            drop_rows_with_port_conflict(&mut rows, template, pod_class);
        }
        // What the other claims leave of the limits only shrinks until the end of the pass.
        self.drop_rows_beyond_limits(claim_ix, &mut rows);
        if rows.is_empty() {
            self.state.reject_until_pass_end(class, claim_ix);
            return Err(ClaimRejection::UntilPassEnd);
        }
        self.drop_rows_too_small_for_colocated(&mut rows, template, &requests);
        let (template_ix, requirements, held) = (claim.template, claim.requirements, claim.reserved.clone());
        let min_values_relaxed = self.state.claims[claim_ix].min_values_relaxed;
        let outcome =
            self.narrow_claim(class, template_ix, requirements, rows, requests, key_domains, Some((claim_ix, &held)));
        match outcome {
            Ok(mut extended) => {
                extended.min_values_relaxed = min_values_relaxed;
                Ok(extended)
            }
            Err(rejection) => {
                // With colocated pods the reason may be their requests, so the claim may accept the
                // class without them.
                if rejection == ClaimRejection::UntilPassEnd && self.colocated_requests.is_none() {
                    self.state.reject_until_pass_end(class, claim_ix);
                }
                Err(rejection)
            }
        }
    }

    /// Drops the rows that are too small for `requests` together with the colocated pods that are
    /// placed later.
    fn drop_rows_too_small_for_colocated(&self, rows: &mut Bits, template: &Template, requests: &Amounts) {
        if let Some(colocated) = &self.colocated_requests {
            template.fit.keep_fitting(rows, &requests.plus(colocated));
        }
    }

    /// Returns the index of the first pool template that accepts the class, and the claim as it
    /// would be opened (spec 02 §6.5, step 5). Fails at once if a pool could accept the class only
    /// with a reservation whose slots other claims hold.
    fn first_accepting_template(
        &mut self,
        class: ClassIx,
        key_domains: &[KeyDomains],
    ) -> Result<(usize, ExtendedClaim), UnplacedReason> {
        let pod_class = &self.problem.classes[class.0 as usize];
        if !self.is_new_host_allowed(pod_class) {
            return Err(UnplacedReason::NoTarget);
        }
        for (ix, template) in self.problem.templates.iter().enumerate() {
            if !pod_class.tolerates_template[ix] || limits::is_node_limit_reached(&self.state.limits[ix]) {
                continue;
            }
            self.state.steps += 1;
            let mut rows = template.rows.clone();
            template.keep_within_limits(&mut rows, &self.state.limits[ix]);
            template.fit.keep_fitting(&mut rows, &pod_class.requests);
            self.drop_rows_too_small_for_colocated(&mut rows, template, &pod_class.requests);
            drop_rows_with_port_conflict(&mut rows, template, pod_class);
            if rows.is_empty() {
                self.record_limit_restriction(ix, pod_class);
                continue;
            }
            match self.narrow_claim(
                class,
                ix,
                template.requirements,
                rows,
                pod_class.requests.clone(),
                key_domains,
                None,
            ) {
                Ok(extended) => {
                    self.record_limit_restriction(ix, pod_class);
                    return Ok((ix, extended));
                }
                Err(ClaimRejection::WaitsForReservation) => return Err(UnplacedReason::WaitsForReservation),
                Err(ClaimRejection::UntilPassEnd | ClaimRejection::Temporary) => {
                    self.record_limit_restriction(ix, pod_class);
                }
            }
        }
        Err(UnplacedReason::NoTarget)
    }

    /// Returns true if a host that does not exist yet satisfies all constraints on hosts.
    pub(crate) fn is_new_host_allowed(&self, pod_class: &PodClass) -> bool {
        pod_class.host_constraints.iter().all(|constraint| {
            match self.problem.groups[constraint.group.0].identity.kind {
                GroupKind::Spread { max_skew, .. } => i32::from(constraint.counts_self) <= max_skew,
                GroupKind::Affinity => {
                    constraint.counts_self && self.state.group_counts[constraint.group.0].no_host_is_occupied()
                }
                GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => true,
            }
        })
    }
}

/// Drops the rows on which a DaemonSet pod will use one of the pod's host ports.
fn drop_rows_with_port_conflict(rows: &mut Bits, template: &Template, pod_class: &PodClass) {
    if pod_class.ports.is_empty() {
        return;
    }
    for group in &template.overhead_groups {
        if ports::first_conflict(&pod_class.ports, &group.ports).is_some() {
            rows.and_not_with(&group.rows);
        }
    }
}

/// Returns the number of claims that are compared for the smallest price increase: 80,000 divided
/// by the number of pods that the pass has to place, at least 4 and at most 24, so that the work
/// per pass stays bounded.
fn max_claims_compared(queued_pods: usize) -> usize {
    (80_000 / queued_pods.max(1)).clamp(4, 24)
}

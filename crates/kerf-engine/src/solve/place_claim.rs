//! Places a pod on a NodeClaim to be launched (spec 02 §6.7): on an open claim, or else on a new
//! claim of the first pool that accepts the pod.
//!
//! Accepting a pod narrows the claim's requirements and rows step by step: tolerations, requests
//! and host ports, labels, volumes, topology domains, `minValues` and reservations. The pod is
//! rejected if a step leaves no row. These checks do not change the claim: they return an
//! [`ExtendedClaim`], which `commit_claim` stores.

use smallvec::SmallVec;

use super::class::{ClassIx, PodClass};
use super::pass::{ClaimOrder, KeyDomains, PlacementPass, UnplacedReason};
use super::problem::PodIx;
use super::template::Template;
use super::{limits, min_values};
use crate::bits::{Bits, WordBits};
use crate::cluster::{MinValuesPolicy, ReservedMode, ports};
use crate::price::{Price, saves_enough};
use crate::requirement_table::{RequirementSetIx, UndefinedKeys};
use crate::resources::Amounts;
use crate::seeded_hash;
use crate::topology::{GroupIx, GroupKind, TopologyKeyIx};

/// A class that the pod may be placed with, and the domains that its groups allow.
pub(super) type ClassOption = (ClassIx, Vec<KeyDomains>);

/// A claim as it would be with one more pod.
#[derive(Debug, Clone)]
pub(super) struct ExtendedClaim {
    pub(super) requirements: RequirementSetIx,
    pub(super) rows: Bits,
    pub(super) requests: Amounts,
    pub(super) reserved: Vec<usize>,
    pub(super) min_values_relaxed: bool,
}

/// Why a claim does not accept a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimRejection {
    /// Labels, taints, capacity or ports do not fit. Holds for the rest of the pass.
    Permanent,
    /// Topology counts or `minValues` do not allow it now.
    Temporary,
    /// All usable reservations are held by other claims.
    WaitsForReservation,
}

impl PlacementPass<'_> {
    /// Places the pod on an open or new claim, with one of the given classes.
    pub(super) fn place_on_claim(&mut self, pod: PodIx, options: &[ClassOption]) -> Result<(), UnplacedReason> {
        if self.claim_order == ClaimOrder::CheapestGrowth {
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
            match self.new_claim(*class, key_domains) {
                Ok((template, extended)) => {
                    self.open_claim(pod, *class, template, extended);
                    return Ok(());
                }
                Err(new_reason) => reason = new_reason,
            }
        }
        Err(reason)
    }

    fn first_accepting_claim(&mut self, class: ClassIx, key_domains: &[KeyDomains]) -> Option<(usize, ExtendedClaim)> {
        let pod_class = &self.problem.classes[class.0 as usize];
        let candidates = self.claim_candidates(class, pod_class, key_domains);
        if self.claim_order == ClaimOrder::Oldest {
            return candidates
                .iter()
                .find_map(|claim| self.extend_claim(class, claim, key_domains).ok().map(|extended| (claim, extended)));
        }
        let counts: SmallVec<[usize; 32]> = self.state.used_pod_counts.iter().collect();
        for pods in counts {
            for word in 0..self.state.claims_by_pod_count[pods].words() {
                let word_bits = self.state.claims_by_pod_count[pods].word(word) & candidates.word(word);
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
        let mut best: Option<(Price, usize, ClassIx, ExtendedClaim)> = None;
        let mut new_claim: Result<(Price, usize, ClassIx, ExtendedClaim), UnplacedReason> =
            Err(UnplacedReason::NoTarget);
        for (class, key_domains) in options {
            let cheapest = self.cheapest_growth(*class, key_domains);
            let is_cheaper =
                |(growth, ..): &(Price, usize, ExtendedClaim)| best.as_ref().is_none_or(|(lowest, ..)| growth < lowest);
            if let Some((growth, claim, extended)) = cheapest.filter(is_cheaper) {
                best = Some((growth, claim, *class, extended));
            }
            match (self.new_claim(*class, key_domains), &new_claim) {
                (Ok((template, extended)), current) => {
                    let price = self.cheapest(
                        self.problem.templates[template].catalogue,
                        extended.requirements,
                        &extended.rows,
                    );
                    if current.as_ref().map_or(true, |(lowest, ..)| price < *lowest) {
                        new_claim = Ok((price, template, *class, extended));
                    }
                }
                (Err(reason), Err(_)) => new_claim = Err(reason),
                (Err(_), Ok(_)) => {}
            }
        }
        match (best, new_claim) {
            (Some((growth, ..)), Ok((price, template, class, extended))) if saves_enough(price, growth) => {
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

    /// Returns the claim whose price grows least with one more pod, and the increase.
    fn cheapest_growth(&mut self, class: ClassIx, key_domains: &[KeyDomains]) -> Option<(Price, usize, ExtendedClaim)> {
        let pod_class = &self.problem.classes[class.0 as usize];
        let candidates = self.claim_candidates(class, pod_class, key_domains);
        let mut best: Option<(Price, usize, ExtendedClaim)> = None;
        let mut compared = 0;
        let max_compared = max_claims_compared(self.state.queue.len());
        // Newest first, because new claims have the most free capacity. Of claims with an equal
        // increase the oldest wins, so that claims fill up.
        for claim in candidates.descending() {
            if compared == max_compared {
                break;
            }
            let Ok(extended) = self.extend_claim(class, claim, key_domains) else { continue };
            compared += 1;
            let catalogue = self.problem.templates[self.state.claims[claim].template].catalogue;
            let growth =
                self.cheapest(catalogue, extended.requirements, &extended.rows) - self.state.claims[claim].price;
            let is_better =
                |lowest: Price| growth < lowest || (growth == lowest && !self.search_variant.prefer_newest_claim);
            if best.as_ref().is_none_or(|(lowest, ..)| is_better(*lowest)) {
                best = Some((growth, claim, extended));
            }
        }
        best
    }

    /// Returns the claims that have not permanently rejected the class and that no topology count
    /// excludes.
    fn claim_candidates(&self, class: ClassIx, pod_class: &PodClass, key_domains: &[KeyDomains]) -> Bits {
        let mut candidates = Bits::full(self.state.claims.len());
        candidates.and_not_with(&self.state.rejecting_claims[class.0 as usize]);
        for constraint in &pod_class.host_constraints {
            let counts = &self.state.group_counts[constraint.group.0];
            match self.problem.groups[constraint.group.0].identity.kind {
                GroupKind::Spread { .. } => {
                    let excluded =
                        if constraint.counts_self { &counts.claims.at_limit } else { &counts.claims.over_limit };
                    candidates.and_not_with(excluded);
                }
                GroupKind::Affinity => {
                    if !(constraint.counts_self && counts.no_host_is_occupied()) {
                        candidates.and_with(&counts.claims.occupied);
                    }
                }
                GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => {
                    candidates.and_not_with(&counts.claims.occupied);
                }
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

    /// Returns an open claim with one more pod.
    fn extend_claim(
        &mut self,
        class: ClassIx,
        claim_ix: usize,
        key_domains: &[KeyDomains],
    ) -> Result<ExtendedClaim, ClaimRejection> {
        let pod_class = &self.problem.classes[class.0 as usize];
        let claim = &self.state.claims[claim_ix];
        let template = &self.problem.templates[claim.template];
        if !pod_class.tolerates_template[claim.template] {
            self.state.reject_until_pass_end(class, claim_ix);
            return Err(ClaimRejection::Permanent);
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
        if rows.is_empty() {
            self.state.reject_until_pass_end(class, claim_ix);
            return Err(ClaimRejection::Permanent);
        }
        self.retain_fitting_colocated(&mut rows, template, &requests);
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
                if rejection == ClaimRejection::Permanent && self.colocated_requests.is_none() {
                    self.state.reject_until_pass_end(class, claim_ix);
                }
                Err(rejection)
            }
        }
    }

    /// Drops the rows on which the colocated pods that are still to come would not fit.
    fn retain_fitting_colocated(&self, rows: &mut Bits, template: &Template, requests: &Amounts) {
        if let Some(colocated) = &self.colocated_requests {
            template.fit.keep_fitting(rows, &requests.plus(colocated));
        }
    }

    /// Returns a new claim with the pod on it, of the first pool that accepts the pod (spec 02
    /// §6.5, step 5).
    fn new_claim(
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
            let mut rows = template.rows.clone();
            limits::retain_within_limits(
                &mut rows,
                &self.problem.cluster.catalogues[template.catalogue],
                &self.state.limits[ix],
            );
            template.fit.keep_fitting(&mut rows, &pod_class.requests);
            self.retain_fitting_colocated(&mut rows, template, &pod_class.requests);
            drop_rows_with_port_conflict(&mut rows, template, pod_class);
            if rows.is_empty() {
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
                Ok(extended) => return Ok((ix, extended)),
                Err(ClaimRejection::WaitsForReservation) => return Err(UnplacedReason::WaitsForReservation),
                Err(ClaimRejection::Permanent | ClaimRejection::Temporary) => {}
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

    /// Narrows a claim by labels, volumes, domains and offerings, in this order. Returns the first
    /// combination that leaves a row.
    #[allow(clippy::too_many_arguments, reason = "one step of the algorithm, with the state it works on")]
    fn narrow_claim(
        &mut self,
        class: ClassIx,
        template: usize,
        requirements: RequirementSetIx,
        rows: Bits,
        requests: Amounts,
        key_domains: &[KeyDomains],
        claim: Option<(usize, &[usize])>,
    ) -> Result<ExtendedClaim, ClaimRejection> {
        let pod_class = &self.problem.classes[class.0 as usize];
        // The name of a new node is not known yet.
        if pod_class.hostname.as_ref().is_some_and(|h| !h.has(super::UNNAMED_HOST)) {
            return Err(ClaimRejection::Permanent);
        }
        let table = &self.state.table;
        if !pod_class.must_exist.iter().all(|key| table.is_well_known(*key) || table.get(requirements, *key).is_some())
        {
            return Err(ClaimRejection::Permanent);
        }
        let catalogue = self.problem.templates[template].catalogue;
        let Some(with_pod) =
            self.state.table.intersect_sets(requirements, pod_class.requirements, UndefinedKeys::AllowWellKnown)
        else {
            return Err(ClaimRejection::Permanent);
        };
        let no_restriction = [(RequirementSetIx::EMPTY, None)];
        let alternatives =
            if pod_class.volume_alternatives.is_empty() { &no_restriction[..] } else { &pod_class.volume_alternatives };
        let first = if self.search_variant.pick_any_domain {
            seeded_hash::splitmix64(self.seed) % alternatives.len() as u64
        } else {
            0
        };
        let mut rejection = ClaimRejection::Permanent;
        for (volume, volume_host) in alternatives.iter().cycle().skip(first as usize).take(alternatives.len()) {
            if volume_host.as_ref().is_some_and(|h| !h.has(super::UNNAMED_HOST)) {
                continue;
            }
            let Some(base) = self.state.table.intersect_sets(with_pod, *volume, UndefinedKeys::AllowWellKnown) else {
                continue;
            };
            let mut remaining_rows = rows.clone();
            if base != requirements || claim.is_none() {
                remaining_rows.and_with(&self.view(catalogue, base).rows);
            }
            if remaining_rows.is_empty() {
                continue;
            }
            let input = ExtensionInput { catalogue, rows: &remaining_rows, requests: &requests, claim };
            match self.choose_domains(base, key_domains, &input) {
                Ok(extended) => return Ok(extended),
                Err(new_rejection) => rejection = new_rejection,
            }
        }
        Err(rejection)
    }

    /// Narrows each topology key to allowed domains, trying domains with few pods first (spec 02
    /// §8.5, Q15).
    fn choose_domains(
        &mut self,
        requirements: RequirementSetIx,
        key_domains: &[KeyDomains],
        input: &ExtensionInput<'_>,
    ) -> Result<ExtendedClaim, ClaimRejection> {
        let Some((key, rest)) = key_domains.split_first() else {
            return self.build_extended_claim(requirements, input);
        };
        let label = self.state.keys.label_key(key.key);
        let node_requirement = self.state.table.get(requirements, label);
        let mut allowed = key.allowed.clone();
        allowed.and_with(self.state.keys.domains_accepted_by(key.key, node_requirement, &self.state.table));
        if allowed.is_empty() {
            return Err(ClaimRejection::Temporary);
        }
        let options: SmallVec<[Bits; 4]> = match key.pick_one {
            None => SmallVec::from_iter([allowed]),
            Some(group) => self.domains_by_preference(key.key, group, &allowed),
        };
        // Prices are compared only where one domain of several must be chosen.
        let compares_prices = self.search_variant.cheapest_domain && key.pick_one.is_some();
        let mut best: Option<(i128, ExtendedClaim)> = None;
        for option in options {
            let requirement = self.state.keys.requirement_for_domains(key.key, &option, &mut self.state.table);
            let narrowed = self.state.table.single_requirement_set(label, requirement);
            let Some(next_requirements) =
                self.state.table.intersect_sets(requirements, narrowed, UndefinedKeys::AllowWellKnown)
            else {
                continue;
            };
            match self.choose_domains(next_requirements, rest, input) {
                Ok(extended) if compares_prices => {
                    let share = self.lowest_price_share(input.catalogue, &extended);
                    if best.as_ref().is_none_or(|(lowest, _)| share < *lowest) {
                        best = Some((share, extended));
                    }
                }
                Ok(extended) => return Ok(extended),
                // A pod waits for a reservation and does not avoid it in another domain (spec 02
                // §10).
                Err(ClaimRejection::WaitsForReservation) => return Err(ClaimRejection::WaitsForReservation),
                Err(ClaimRejection::Permanent | ClaimRejection::Temporary) => {}
            }
        }
        best.map(|(_, extended)| extended).ok_or(ClaimRejection::Temporary)
    }

    /// Returns the price of the claim's requests as a share of an instance that is filled with
    /// equal requests, for the row where this share is cheapest. Unit: 1/1000 nano-dollar per hour.
    fn lowest_price_share(&mut self, catalogue: usize, extended: &ExtendedClaim) -> i128 {
        let catalogue_rows = &self.problem.cluster.catalogues[catalogue].rows;
        let view = self.view(catalogue, extended.requirements);
        let rows = view.by_price.iter().filter(|(_, row)| extended.rows.contains(*row));
        let shares = rows.map(|(price, row)| {
            let requested = extended.requests.iter().filter(|(_, amount)| *amount > 0);
            let copies =
                requested.map(|(resource, amount)| catalogue_rows[*row].allocatable.get(resource) / amount).min();
            i128::from(price.nanos()).saturating_mul(1_000) / copies.unwrap_or(1).max(1)
        });
        shares.min().unwrap_or(i128::MAX)
    }

    /// Returns the allowed domains one by one, fewest pods first. Ties are decided by the seed, so
    /// that workloads do not all start in one zone.
    pub(crate) fn domains_by_preference(
        &self,
        key: TopologyKeyIx,
        group: GroupIx,
        allowed: &Bits,
    ) -> SmallVec<[Bits; 4]> {
        let counts = &self.state.group_counts[group.0];
        let seed = self.seed ^ self.problem.groups[group.0].tie_break;
        let ignores_counts = self.search_variant.pick_any_domain;
        let mut order: SmallVec<[(i32, u64, usize); 4]> = allowed
            .iter()
            .map(|domain| {
                (
                    if ignores_counts { 0 } else { counts.get(domain) },
                    seeded_hash::splitmix64(seed ^ self.state.keys.tie_break(key, domain)),
                    domain,
                )
            })
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, domain)| std::iter::once(domain).collect()).collect()
    }

    /// Checks the narrowed claim: a row is left, `minValues` are met, and reservations are free.
    fn build_extended_claim(
        &mut self,
        requirements: RequirementSetIx,
        input: &ExtensionInput<'_>,
    ) -> Result<ExtendedClaim, ClaimRejection> {
        let mut rows = input.rows.clone();
        rows.and_with(&self.view(input.catalogue, requirements).rows);
        if rows.is_empty() {
            return Err(ClaimRejection::Temporary);
        }
        let mut requirements = requirements;
        let mut min_values_relaxed = false;
        let reserved = self.reservable(requirements, &rows, input);
        if self.state.table.has_min_values(requirements) {
            let catalogue = &self.problem.cluster.catalogues[input.catalogue];
            // A claim that holds reservations replaces its capacity-type requirement (spec 02
            // §6.8), so the capacity types of its offerings do not count.
            let holds_reservations = reserved.as_ref().is_ok_and(|held| !held.is_empty());
            let offerings = (!holds_reservations).then(|| self.view(input.catalogue, requirements).offerings.clone());
            let failing = min_values::shortfalls(catalogue, &rows, requirements, offerings.as_ref(), &self.state.table);
            if !failing.is_empty() {
                let may_lower = self.problem.cluster.settings.min_values_policy == MinValuesPolicy::BestEffort;
                if input.claim.is_some() || !may_lower {
                    return Err(ClaimRejection::Temporary);
                }
                requirements = min_values::lower_to_available(requirements, &failing, &mut self.state.table);
                min_values_relaxed = true;
            }
        }
        Ok(ExtendedClaim {
            requirements,
            rows,
            requests: input.requests.clone(),
            reserved: reserved?,
            min_values_relaxed,
        })
    }

    /// Returns the reservations that the claim would hold (spec 02 §10).
    fn reservable(
        &mut self,
        requirements: RequirementSetIx,
        rows: &Bits,
        input: &ExtensionInput<'_>,
    ) -> Result<Vec<usize>, ClaimRejection> {
        if self.state.reservations.is_empty() {
            return Ok(Vec::new());
        }
        let held = input.claim.map_or(&[][..], |(_, held)| held);
        let offerings = self.view(input.catalogue, requirements).offerings.clone();
        let catalogue = &self.problem.cluster.catalogues[input.catalogue];
        let mut any_compatible = false;
        let mut collected: Vec<usize> = Vec::new();
        for offering in offerings.iter().map(|o| &catalogue.offerings[o]).filter(|o| rows.contains(o.row)) {
            let Some(id) = &offering.reservation else { continue };
            let Ok(ix) = self.problem.reservations.binary_search_by(|(known, _)| known.cmp(id)) else { continue };
            any_compatible = true;
            if (held.contains(&ix) || self.state.reservations[ix] > 0) && !collected.contains(&ix) {
                collected.push(ix);
            }
        }
        collected.sort_unstable();
        let is_strict = self.problem.cluster.settings.reserved_mode == ReservedMode::Strict;
        if is_strict && collected.is_empty() && (any_compatible || !held.is_empty()) {
            return Err(ClaimRejection::WaitsForReservation);
        }
        Ok(collected)
    }
}

/// Arguments of [`PlacementPass::choose_domains`] that stay equal in its recursion.
struct ExtensionInput<'a> {
    catalogue: usize,
    rows: &'a Bits,
    requests: &'a Amounts,
    /// The open claim and the reservations that it holds. `None` for a new claim.
    claim: Option<(usize, &'a [usize])>,
}

/// Drops the rows on which a daemon already uses one of the pod's host ports.
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
/// by the number of pods, at least 4 and at most 24, so that the work per pass stays bounded.
fn max_claims_compared(pods: usize) -> usize {
    (80_000 / pods.max(1)).clamp(4, 24)
}

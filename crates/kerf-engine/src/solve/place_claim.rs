//! Places a pod on a NodeClaim to be launched (spec 02 §6.7): on an open claim, or else on a new
//! claim of the first pool that accepts the pod.
//!
//! Accepting a pod narrows the claim's requirements and rows step by step: tolerations, requests
//! and host ports, labels, volumes, topology domains, `minValues` and reservations. The pod is
//! rejected if a step leaves no row. Nothing is written here: the result is an [`ExtendedClaim`],
//! which `commit_claim` stores.

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
        for (class, open) in options {
            if let Some((claim, grown)) = self.first_accepting_claim(*class, open) {
                self.commit_to_claim(pod, *class, claim, grown);
                return Ok(());
            }
        }
        let mut refusal = UnplacedReason::NoTarget;
        for (class, open) in options {
            match self.new_claim(*class, open) {
                Ok((template, grown)) => {
                    self.open_claim(pod, *class, template, grown);
                    return Ok(());
                }
                Err(other) => refusal = other,
            }
        }
        Err(refusal)
    }

    fn first_accepting_claim(&mut self, class: ClassIx, open: &[KeyDomains]) -> Option<(usize, ExtendedClaim)> {
        let facts = &self.problem.classes[class.0 as usize];
        let candidates = self.claim_candidates(class, facts, open);
        if self.claim_order == ClaimOrder::Oldest {
            return candidates
                .iter()
                .find_map(|claim| self.extend_claim(class, claim, open).ok().map(|grown| (claim, grown)));
        }
        let counts: SmallVec<[usize; 32]> = self.state.used_pod_counts.iter().collect();
        for pods in counts {
            for word in 0..self.state.claims_by_pod_count[pods].words() {
                let word_bits = self.state.claims_by_pod_count[pods].word(word) & candidates.word(word);
                for bit in WordBits(word_bits) {
                    let claim = word * 64 + bit;
                    if let Ok(grown) = self.extend_claim(class, claim, open) {
                        return Some((claim, grown));
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
        let mut fresh: Result<(Price, usize, ClassIx, ExtendedClaim), UnplacedReason> = Err(UnplacedReason::NoTarget);
        for (class, open) in options {
            let found = self.cheapest_growth(*class, open);
            let beats =
                |(growth, ..): &(Price, usize, ExtendedClaim)| best.as_ref().is_none_or(|(least, ..)| growth < least);
            if let Some((growth, claim, grown)) = found.filter(beats) {
                best = Some((growth, claim, *class, grown));
            }
            match (self.new_claim(*class, open), &fresh) {
                (Ok((template, grown)), known) => {
                    let price =
                        self.cheapest(self.problem.templates[template].catalogue, grown.requirements, &grown.rows);
                    if known.as_ref().map_or(true, |(least, ..)| price < *least) {
                        fresh = Ok((price, template, *class, grown));
                    }
                }
                (Err(refusal), Err(_)) => fresh = Err(refusal),
                (Err(_), Ok(_)) => {}
            }
        }
        match (best, fresh) {
            (Some((growth, ..)), Ok((price, template, class, grown))) if saves_enough(price, growth) => {
                self.open_claim(pod, class, template, grown);
                Ok(())
            }
            (Some((_, claim, class, grown)), Ok(_) | Err(_)) => {
                self.commit_to_claim(pod, class, claim, grown);
                Ok(())
            }
            (None, Ok((_, template, class, grown))) => {
                self.open_claim(pod, class, template, grown);
                Ok(())
            }
            (None, Err(refusal)) => Err(refusal),
        }
    }

    /// Returns the claim whose price grows least with one more pod, and the increase.
    fn cheapest_growth(&mut self, class: ClassIx, open: &[KeyDomains]) -> Option<(Price, usize, ExtendedClaim)> {
        let facts = &self.problem.classes[class.0 as usize];
        let candidates = self.claim_candidates(class, facts, open);
        let mut best: Option<(Price, usize, ExtendedClaim)> = None;
        let mut compared = 0;
        let most = max_claims_compared(self.state.queue.len());
        // Newest first, because new claims have the most free capacity. Of claims with an equal
        // increase the oldest wins, so that claims fill up.
        for claim in candidates.descending() {
            if compared == most {
                break;
            }
            let Ok(grown) = self.extend_claim(class, claim, open) else { continue };
            compared += 1;
            let columns = self.problem.templates[self.state.claims[claim].template].catalogue;
            let growth = self.cheapest(columns, grown.requirements, &grown.rows) - self.state.claims[claim].price;
            let beats = |least: Price| growth < least || (growth == least && !self.search_variant.prefer_newest_claim);
            if best.as_ref().is_none_or(|(least, ..)| beats(*least)) {
                best = Some((growth, claim, grown));
            }
        }
        best
    }

    /// Returns the claims that have not permanently rejected the class and that no topology count
    /// excludes.
    fn claim_candidates(&self, class: ClassIx, facts: &PodClass, open: &[KeyDomains]) -> Bits {
        let mut candidates = Bits::full(self.state.claims.len());
        candidates.and_not_with(&self.state.rejecting_claims[class.0 as usize]);
        for bound in &facts.host_constraints {
            let counts = &self.state.group_counts[bound.group.0];
            match self.problem.groups[bound.group.0].identity.kind {
                GroupKind::Spread { .. } => {
                    let full = if bound.counts_self { &counts.claims.at_limit } else { &counts.claims.over_limit };
                    candidates.and_not_with(full);
                }
                GroupKind::Affinity => {
                    if !(bound.counts_self && counts.no_host_is_occupied()) {
                        candidates.and_with(&counts.claims.occupied);
                    }
                }
                GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => {
                    candidates.and_not_with(&counts.claims.occupied);
                }
            }
        }
        for key in open {
            let mut there = Bits::new();
            for domain in key.allowed.iter() {
                there.or_with(&self.state.claims_by_domain[key.key.0][domain]);
            }
            candidates.and_with(&there);
        }
        candidates
    }

    /// Returns an open claim with one more pod.
    fn extend_claim(
        &mut self,
        class: ClassIx,
        claim_ix: usize,
        open: &[KeyDomains],
    ) -> Result<ExtendedClaim, ClaimRejection> {
        let facts = &self.problem.classes[class.0 as usize];
        let claim = &self.state.claims[claim_ix];
        let template = &self.problem.templates[claim.template];
        if !facts.tolerates_template[claim.template] {
            self.state.reject_until_pass_end(class, claim_ix);
            return Err(ClaimRejection::Permanent);
        }
        let requests = claim.requests.plus(&facts.requests);
        let mut rows = claim.rows.clone();
        template.fit.keep_fitting(&mut rows, &requests);
        if !facts.ports.is_empty() {
            if ports::first_conflict(&facts.ports, &claim.ports).is_some() {
                rows = Bits::new();
            }
            drop_rows_with_port_conflict(&mut rows, template, facts);
        }
        if rows.is_empty() {
            self.state.reject_until_pass_end(class, claim_ix);
            return Err(ClaimRejection::Permanent);
        }
        self.retain_fitting_colocated(&mut rows, template, &requests);
        let (template_ix, set, held) = (claim.template, claim.requirements, claim.reserved.clone());
        let no_before = self.state.claims[claim_ix].min_values_relaxed;
        let outcome = self.narrow_claim(class, template_ix, set, rows, requests, open, Some((claim_ix, &held)));
        match outcome {
            Ok(mut grown) => {
                grown.min_values_relaxed = no_before;
                Ok(grown)
            }
            Err(no) => {
                if no == ClaimRejection::Permanent && self.colocated_requests.is_none() {
                    self.state.reject_until_pass_end(class, claim_ix);
                }
                Err(no)
            }
        }
    }

    /// Drops the rows on which the colocated pods that are still to come would not fit.
    fn retain_fitting_colocated(&self, rows: &mut Bits, template: &Template, requests: &Amounts) {
        if let Some(beside) = &self.colocated_requests {
            template.fit.keep_fitting(rows, &requests.plus(beside));
        }
    }

    /// Returns a new claim with the pod on it, of the first pool that accepts the pod (spec 02
    /// §6.5, step 5).
    fn new_claim(&mut self, class: ClassIx, open: &[KeyDomains]) -> Result<(usize, ExtendedClaim), UnplacedReason> {
        let facts = &self.problem.classes[class.0 as usize];
        if !self.is_new_host_allowed(facts) {
            return Err(UnplacedReason::NoTarget);
        }
        for (ix, template) in self.problem.templates.iter().enumerate() {
            if !facts.tolerates_template[ix] || limits::is_node_limit_reached(&self.state.limits[ix]) {
                continue;
            }
            let mut rows = template.rows.clone();
            limits::retain_within_limits(
                &mut rows,
                &self.problem.cluster.catalogues[template.catalogue],
                &self.state.limits[ix],
            );
            template.fit.keep_fitting(&mut rows, &facts.requests);
            self.retain_fitting_colocated(&mut rows, template, &facts.requests);
            drop_rows_with_port_conflict(&mut rows, template, facts);
            if rows.is_empty() {
                continue;
            }
            match self.narrow_claim(class, ix, template.requirements, rows, facts.requests.clone(), open, None) {
                Ok(grown) => return Ok((ix, grown)),
                Err(ClaimRejection::WaitsForReservation) => return Err(UnplacedReason::WaitsForReservation),
                Err(ClaimRejection::Permanent | ClaimRejection::Temporary) => {}
            }
        }
        Err(UnplacedReason::NoTarget)
    }

    /// Returns true if a host that does not exist yet satisfies all constraints on hosts.
    pub(crate) fn is_new_host_allowed(&self, facts: &PodClass) -> bool {
        facts.host_constraints.iter().all(|bound| match self.problem.groups[bound.group.0].identity.kind {
            GroupKind::Spread { max_skew, .. } => i32::from(bound.counts_self) <= max_skew,
            GroupKind::Affinity => bound.counts_self && self.state.group_counts[bound.group.0].no_host_is_occupied(),
            GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => true,
        })
    }

    /// Narrows a claim by labels, volumes, domains and offerings, in this order. Returns the first
    /// combination that leaves a row.
    #[allow(clippy::too_many_arguments, reason = "one step of the algorithm, with the state it works on")]
    fn narrow_claim(
        &mut self,
        class: ClassIx,
        template: usize,
        set: RequirementSetIx,
        rows: Bits,
        requests: Amounts,
        open: &[KeyDomains],
        claim: Option<(usize, &[usize])>,
    ) -> Result<ExtendedClaim, ClaimRejection> {
        let facts = &self.problem.classes[class.0 as usize];
        // The name of a new node is not known yet.
        if facts.hostname.as_ref().is_some_and(|h| !h.has(super::UNNAMED_HOST)) {
            return Err(ClaimRejection::Permanent);
        }
        let table = &self.state.table;
        if !facts.must_exist.iter().all(|key| table.is_well_known(*key) || table.get(set, *key).is_some()) {
            return Err(ClaimRejection::Permanent);
        }
        let columns = self.problem.templates[template].catalogue;
        let Some(asked) = self.state.table.intersect_sets(set, facts.requirements, UndefinedKeys::AllowWellKnown)
        else {
            return Err(ClaimRejection::Permanent);
        };
        let anywhere = [(RequirementSetIx::EMPTY, None)];
        let alternatives =
            if facts.volume_alternatives.is_empty() { &anywhere[..] } else { &facts.volume_alternatives };
        let first = if self.search_variant.pick_any_domain {
            seeded_hash::splitmix64(self.seed) % alternatives.len() as u64
        } else {
            0
        };
        let mut no = ClaimRejection::Permanent;
        for (volume, volume_host) in alternatives.iter().cycle().skip(first as usize).take(alternatives.len()) {
            if volume_host.as_ref().is_some_and(|h| !h.has(super::UNNAMED_HOST)) {
                continue;
            }
            let Some(base) = self.state.table.intersect_sets(asked, *volume, UndefinedKeys::AllowWellKnown) else {
                continue;
            };
            let mut left = rows.clone();
            if base != set || claim.is_none() {
                left.and_with(&self.view(columns, base).rows);
            }
            if left.is_empty() {
                continue;
            }
            let work = ExtensionInput { columns, rows: &left, requests: &requests, claim };
            match self.choose_domains(base, open, &work) {
                Ok(grown) => return Ok(grown),
                Err(other) => no = other,
            }
        }
        Err(no)
    }

    /// Narrows each topology key to allowed domains, trying domains with few pods first (spec 02
    /// §8.5, Q15).
    fn choose_domains(
        &mut self,
        set: RequirementSetIx,
        open: &[KeyDomains],
        work: &ExtensionInput<'_>,
    ) -> Result<ExtendedClaim, ClaimRejection> {
        let Some((key, rest)) = open.split_first() else { return self.build_extended_claim(set, work) };
        let label = self.state.keys.label_key(key.key);
        let by_node = self.state.table.get(set, label);
        let mut allowed = key.allowed.clone();
        allowed.and_with(self.state.keys.domains_accepted_by(key.key, by_node, &self.state.table));
        if allowed.is_empty() {
            return Err(ClaimRejection::Temporary);
        }
        let options: SmallVec<[Bits; 4]> = match key.pick_one {
            None => SmallVec::from_iter([allowed]),
            Some(group) => self.domains_by_preference(key.key, group, &allowed),
        };
        // Prices are compared only where one domain of several must be chosen.
        let weighs = self.search_variant.cheapest_domain && key.pick_one.is_some();
        let mut best: Option<(i128, ExtendedClaim)> = None;
        for option in options {
            let one = self.state.keys.requirement_for_domains(key.key, &option, &mut self.state.table);
            let narrowed = self.state.table.single_requirement_set(label, one);
            let Some(next) = self.state.table.intersect_sets(set, narrowed, UndefinedKeys::AllowWellKnown) else {
                continue;
            };
            match self.choose_domains(next, rest, work) {
                Ok(grown) if weighs => {
                    let share = self.lowest_price_share(work.columns, &grown);
                    if best.as_ref().is_none_or(|(least, _)| share < *least) {
                        best = Some((share, grown));
                    }
                }
                Ok(grown) => return Ok(grown),
                // A pod waits for a reservation and does not avoid it in another domain (spec 02
                // §10).
                Err(ClaimRejection::WaitsForReservation) => return Err(ClaimRejection::WaitsForReservation),
                Err(ClaimRejection::Permanent | ClaimRejection::Temporary) => {}
            }
        }
        best.map(|(_, grown)| grown).ok_or(ClaimRejection::Temporary)
    }

    /// Returns the price of the claim's requests as a share of an instance that is filled with
    /// equal requests, for the row where this share is cheapest. Unit: 1/1000 nano-dollar per hour.
    fn lowest_price_share(&mut self, columns: usize, grown: &ExtendedClaim) -> i128 {
        let machines = &self.problem.cluster.catalogues[columns].rows;
        let view = self.view(columns, grown.requirements);
        let rows = view.by_price.iter().filter(|(_, row)| grown.rows.contains(*row));
        let shares = rows.map(|(price, row)| {
            let asked = grown.requests.iter().filter(|(_, amount)| *amount > 0);
            let times = asked.map(|(resource, amount)| machines[*row].allocatable.get(resource) / amount).min();
            i128::from(price.nanos()).saturating_mul(1_000) / times.unwrap_or(1).max(1)
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
        let turn = self.seed ^ self.problem.groups[group.0].tie_break;
        let any = self.search_variant.pick_any_domain;
        let mut order: SmallVec<[(i32, u64, usize); 4]> = allowed
            .iter()
            .map(|domain| {
                (
                    if any { 0 } else { counts.get(domain) },
                    seeded_hash::splitmix64(turn ^ self.state.keys.tie_break(key, domain)),
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
        set: RequirementSetIx,
        work: &ExtensionInput<'_>,
    ) -> Result<ExtendedClaim, ClaimRejection> {
        let mut rows = work.rows.clone();
        rows.and_with(&self.view(work.columns, set).rows);
        if rows.is_empty() {
            return Err(ClaimRejection::Temporary);
        }
        let mut set = set;
        let mut min_values_relaxed = false;
        let reserved = self.reservable(set, &rows, work);
        if self.state.table.has_min_values(set) {
            let columns = &self.problem.cluster.catalogues[work.columns];
            // A claim that holds reservations replaces its capacity-type requirement (spec 02
            // §6.8), so the capacity types of its offerings do not count.
            let holds = reserved.as_ref().is_ok_and(|held| !held.is_empty());
            let offerings = (!holds).then(|| self.view(work.columns, set).offerings.clone());
            let failing = min_values::shortfalls(columns, &rows, set, offerings.as_ref(), &self.state.table);
            if !failing.is_empty() {
                let may_lower = self.problem.cluster.settings.min_values_policy == MinValuesPolicy::BestEffort;
                if work.claim.is_some() || !may_lower {
                    return Err(ClaimRejection::Temporary);
                }
                set = min_values::lower_to_available(set, &failing, &mut self.state.table);
                min_values_relaxed = true;
            }
        }
        Ok(ExtendedClaim {
            requirements: set,
            rows,
            requests: work.requests.clone(),
            reserved: reserved?,
            min_values_relaxed,
        })
    }

    /// Returns the reservations that the claim would hold (spec 02 §10).
    fn reservable(
        &mut self,
        set: RequirementSetIx,
        rows: &Bits,
        work: &ExtensionInput<'_>,
    ) -> Result<Vec<usize>, ClaimRejection> {
        if self.state.reservations.is_empty() {
            return Ok(Vec::new());
        }
        let held = work.claim.map_or(&[][..], |(_, held)| held);
        let offerings = self.view(work.columns, set).offerings.clone();
        let columns = &self.problem.cluster.catalogues[work.columns];
        let mut seen = false;
        let mut collected: Vec<usize> = Vec::new();
        for offering in offerings.iter().map(|o| &columns.offerings[o]).filter(|o| rows.contains(o.row)) {
            let Some(id) = &offering.reservation else { continue };
            let Ok(ix) = self.problem.reservations.binary_search_by(|(known, _)| known.cmp(id)) else { continue };
            seen = true;
            if (held.contains(&ix) || self.state.reservations[ix] > 0) && !collected.contains(&ix) {
                collected.push(ix);
            }
        }
        collected.sort_unstable();
        let strict = self.problem.cluster.settings.reserved_mode == ReservedMode::Strict;
        if strict && collected.is_empty() && (seen || !held.is_empty()) {
            return Err(ClaimRejection::WaitsForReservation);
        }
        Ok(collected)
    }
}

/// Arguments of [`PlacementPass::choose_domains`] that stay equal in its recursion.
struct ExtensionInput<'a> {
    columns: usize,
    rows: &'a Bits,
    requests: &'a Amounts,
    /// The open claim and the reservations that it holds. `None` for a new claim.
    claim: Option<(usize, &'a [usize])>,
}

/// Drops the rows on which a daemon already uses one of the pod's host ports.
fn drop_rows_with_port_conflict(rows: &mut Bits, template: &Template, facts: &PodClass) {
    if facts.ports.is_empty() {
        return;
    }
    for group in &template.overhead_groups {
        if ports::first_conflict(&facts.ports, &group.ports).is_some() {
            rows.and_not_with(&group.rows);
        }
    }
}

/// Returns the number of claims that are compared for the smallest price increase: 80,000 divided
/// by the number of pods, at least 4 and at most 24, so that the work per pass stays bounded.
fn max_claims_compared(pods: usize) -> usize {
    (80_000 / pods.max(1)).clamp(4, 24)
}

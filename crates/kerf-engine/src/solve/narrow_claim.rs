//! Narrows a NodeClaim to be launched so that it accepts one more pod: requirements and rows are
//! restricted by labels, volumes, topology domains, `minValues` and reservations, in this order.
//!
//! Nothing here changes the claim: [`PlacementPass::narrow_claim`] returns an [`ExtendedClaim`].

use std::cell::Cell;

use smallvec::SmallVec;

use super::class::ClassIx;
use super::min_values;
use super::pass::{KeyDomains, PlacementPass};
use super::place_claim::{ClaimRejection, ExtendedClaim};
use super::price_share;
use crate::bits::Bits;
use crate::cluster::{MinValuesPolicy, ReservedMode};
use crate::requirement_table::{RequirementSetIx, UndefinedKeys};
use crate::resources::Amounts;
use crate::seeded_hash;
use crate::topology::{GroupIx, TopologyKeyIx};

/// Arguments of [`PlacementPass::choose_domains`] that stay equal in its recursion.
struct ExtensionInput<'a> {
    catalogue: usize,
    rows: &'a Bits,
    requests: &'a Amounts,
    /// The open claim and the reservations that it holds. `None` for a new claim.
    claim: Option<(usize, &'a [usize])>,
    /// Domains that may still be tried. The number of combinations grows exponentially with the
    /// number of topology keys, so not all of them can be.
    domains_left: Cell<usize>,
}

/// Domains that are tried for one claim, in addition to twice the domains of all topology keys. So
/// every domain of a single key is tried, and every combination of a few small keys.
const EXTRA_DOMAINS_TRIED: usize = 64;

impl PlacementPass<'_> {
    /// Narrows a claim by labels, volumes, domains and offerings, in this order. Returns the first
    /// combination that leaves a row.
    #[allow(clippy::too_many_arguments, reason = "one step of the algorithm, with the state it works on")]
    pub(super) fn narrow_claim(
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
            return Err(ClaimRejection::UntilPassEnd);
        }
        let table = &self.state.table;
        if !pod_class.must_exist.iter().all(|key| table.is_well_known(*key) || table.get(requirements, *key).is_some())
        {
            return Err(ClaimRejection::UntilPassEnd);
        }
        let catalogue = self.problem.templates[template].catalogue;
        let Some(with_pod) =
            self.state.table.intersect_sets(requirements, pod_class.requirements, UndefinedKeys::AllowWellKnown)
        else {
            return Err(ClaimRejection::UntilPassEnd);
        };
        let no_restriction = [(RequirementSetIx::EMPTY, None)];
        let alternatives =
            if pod_class.volume_alternatives.is_empty() { &no_restriction[..] } else { &pod_class.volume_alternatives };
        let first = if self.search_variant.pick_any_domain {
            seeded_hash::splitmix64(self.seed) % alternatives.len() as u64
        } else {
            0
        };
        let mut rejection = ClaimRejection::UntilPassEnd;
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
            let domains: usize = key_domains.iter().map(|key| key.allowed.iter().count()).sum();
            let max_tried = EXTRA_DOMAINS_TRIED + 2 * domains;
            let domains_left = Cell::new(max_tried);
            let input = ExtensionInput { catalogue, rows: &remaining_rows, requests: &requests, claim, domains_left };
            let chosen = self.choose_domains(base, key_domains, &input);
            // A few domains are part of the step that the check of a claim counts as.
            let tried = max_tried - input.domains_left.get();
            self.state.steps += tried.saturating_sub(EXTRA_DOMAINS_TRIED) as u64;
            match chosen {
                Ok(extended) => return Ok(extended),
                Err(new_rejection) => rejection = new_rejection,
            }
        }
        Err(rejection)
    }

    /// Narrows each topology key to allowed domains, trying domains with few pods first, and a
    /// limited number of domains (spec 02 §8.5, Q15).
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
        let compares_prices = self.search_variant.cheapest_domain && key.pick_one.is_some() && options.len() > 1;
        let mut best: Option<(i128, ExtendedClaim)> = None;
        for option in options {
            let Some(domains_left) = input.domains_left.get().checked_sub(1) else { break };
            input.domains_left.set(domains_left);
            let requirement = self.state.keys.requirement_for_domains(key.key, &option, &mut self.state.table);
            let narrowed = self.state.table.single_requirement_set(label, requirement);
            let Some(next_requirements) =
                self.state.table.intersect_sets(requirements, narrowed, UndefinedKeys::AllowWellKnown)
            else {
                continue;
            };
            match self.choose_domains(next_requirements, rest, input) {
                Ok(extended) if compares_prices => {
                    let problem = self.problem;
                    let view = self.view(input.catalogue, extended.requirements);
                    let rows = &problem.cluster.catalogues[input.catalogue].rows;
                    let share = price_share::lowest(&view.by_price, rows, &extended.rows, &extended.requests);
                    if best.as_ref().is_none_or(|(lowest, _)| share < *lowest) {
                        best = Some((share, extended));
                    }
                }
                Ok(extended) => return Ok(extended),
                // A pod waits for a reservation and does not avoid it in another domain (spec 02
                // §10).
                Err(ClaimRejection::WaitsForReservation) => return Err(ClaimRejection::WaitsForReservation),
                Err(ClaimRejection::UntilPassEnd | ClaimRejection::Temporary) => {}
            }
        }
        best.map(|(_, extended)| extended).ok_or(ClaimRejection::Temporary)
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

    /// Returns the reservations that the claim would hold (spec 02 §10, spec 10 §7.1). Pods do not
    /// wait for a reservation that was full before the pass; a claim that could use nothing else is
    /// rejected.
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
        let (mut any_capacity, mut any_full, mut any_other) = (false, false, false);
        let mut collected: Vec<usize> = Vec::new();
        for offering in offerings.iter().map(|o| &catalogue.offerings[o]).filter(|o| rows.contains(o.row)) {
            let Some(id) = &offering.reservation else {
                any_other = true;
                continue;
            };
            if !offering.is_launchable {
                any_full = true;
                continue;
            }
            let Ok(ix) = self.problem.reservations.binary_search_by(|(known, _)| known.cmp(id)) else { continue };
            any_capacity = true;
            if (held.contains(&ix) || self.state.reservations[ix] > 0) && !collected.contains(&ix) {
                collected.push(ix);
            }
        }
        collected.sort_unstable();
        let is_strict = self.problem.cluster.settings.reserved_mode == ReservedMode::Strict;
        if is_strict && collected.is_empty() && any_capacity {
            return Err(ClaimRejection::WaitsForReservation);
        }
        if any_full && !any_capacity && !any_other {
            return Err(ClaimRejection::Temporary);
        }
        if is_strict && collected.is_empty() && !held.is_empty() {
            return Err(ClaimRejection::WaitsForReservation);
        }
        Ok(collected)
    }
}

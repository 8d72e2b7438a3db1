//! Removes instance types from the claims of a pass until the limits of their pool hold for every
//! type that a claim may be launched as (spec 02 §4.6 and Q19).
//!
//! During the pass a claim counts as the smallest types that it needs, so the limits always allow
//! these. What the limits leave is given to the claims in this order:
//!
//! 1. to the cheapest type of each claim, so that limits do not change the price of a plan;
//! 2. to 15 types of each claim that may be a spot instance;
//! 3. to all others, by size: the largest types are removed first, measured in the resource that
//!    exceeds its limit, and of equal types those of the claim that was opened last.
//!
//! Nothing here changes which pods are on a claim.

use kerf_api::labels::CAPACITY_TYPE_SPOT;
use rustc_hash::FxHashMap;

use super::limits::LimitAmounts;
use super::pass::PlacementPass;
use crate::bits::Bits;
use crate::catalogue::RowIx;

/// Number of instance types that a claim keeps, if the limits allow them, to be launched as a spot
/// instance: with fewer the instance would soon be interrupted (spec 03 §7).
const SPOT_TYPES_KEPT: usize = 15;

/// A claim whose types may be removed.
struct ShrinkableClaim {
    claim: usize,
    /// Amounts that the claim may take at least. Types within them are kept.
    kept: LimitAmounts,
}

impl PlacementPass<'_> {
    /// Removes the largest types of claims until the limits of every pool hold for all types that
    /// remain.
    pub(super) fn shrink_claims_to_limits(&mut self) {
        for template in 0..self.problem.templates.len() {
            if !self.problem.templates[template].limited_rows.is_empty() {
                self.shrink_claims_of_pool(template);
            }
        }
    }

    fn shrink_claims_of_pool(&mut self, template: usize) {
        let is_shrinkable = |claim: &usize| {
            self.state.claims[*claim].template == template && self.state.claims[*claim].reserved.is_empty()
        };
        let own_claims: Vec<usize> = (0..self.state.claims.len()).filter(is_shrinkable).collect();
        if own_claims.is_empty() {
            return;
        }
        let mut claims: Vec<ShrinkableClaim> = own_claims
            .into_iter()
            .map(|claim| ShrinkableClaim { claim, kept: self.state.claims[claim].counted_in_limits.clone() })
            .collect();
        let mut unused: LimitAmounts = self.state.limits[template].iter().map(|(_, amount)| *amount).collect();
        self.keep_cheapest_types(&mut claims, &mut unused);
        // A claim may have lost types to limits that other claims turn out not to need.
        for shrinkable in &claims {
            self.restore_types(shrinkable.claim);
        }
        if self.all_types_fit(&claims, &unused) {
            return;
        }
        self.keep_cheapest_types(&mut claims, &mut unused);
        for shrinkable in &mut claims {
            if self.may_be_spot(shrinkable.claim) {
                let smallest_types = self.smallest_rows_of_types(shrinkable.claim, SPOT_TYPES_KEPT);
                self.keep_rows_if_allowed(shrinkable, &smallest_types, &mut unused);
            }
        }
        for limit in 0..unused.len() {
            self.remove_largest_types(&claims, limit, &unused);
        }
    }

    /// Keeps the cheapest of the types that each claim has now, where the limits allow it.
    fn keep_cheapest_types(&mut self, claims: &mut [ShrinkableClaim], unused: &mut LimitAmounts) {
        for shrinkable in claims {
            if let Some(row) = self.cheapest_row(shrinkable.claim) {
                self.keep_rows_if_allowed(shrinkable, &[row], unused);
            }
        }
    }

    /// Sets the rows of a claim to all that the pool has for its pods and that do not exceed the
    /// limits by themselves. Keeps the rows of a claim with host ports, whose conflicts are not
    /// known here.
    fn restore_types(&mut self, claim: usize) {
        let open_claim = &self.state.claims[claim];
        if !open_claim.ports.is_empty() {
            return;
        }
        let template_ix = open_claim.template;
        let template = &self.problem.templates[template_ix];
        let mut rows = template.rows.clone();
        template.fit.keep_fitting(&mut rows, &open_claim.requests);
        let requirements = open_claim.requirements;
        rows.and_with(&self.view(template.catalogue, requirements).rows);
        template.keep_within_limits(&mut rows, &self.limits_at_start[template_ix]);
        self.state.claims[claim].rows = rows;
    }

    /// Returns true if the limits allow that each claim is launched as its largest types.
    fn all_types_fit(&self, claims: &[ShrinkableClaim], unused: &LimitAmounts) -> bool {
        let mut left = unused.clone();
        for shrinkable in claims {
            let largest = self.largest_amounts(shrinkable.claim);
            for (at, amount) in largest.iter().enumerate() {
                left[at] -= amount - shrinkable.kept[at];
                if left[at] < 0 {
                    return false;
                }
            }
        }
        true
    }

    fn cheapest_row(&mut self, claim: usize) -> Option<RowIx> {
        let open_claim = &self.state.claims[claim];
        let (catalogue, requirements) =
            (self.problem.templates[open_claim.template].catalogue, open_claim.requirements);
        let rows = open_claim.rows.clone();
        let mut by_price = self.view(catalogue, requirements).by_price.iter().map(|priced| priced.row);
        by_price.find(|row| rows.contains(*row))
    }

    /// Returns true if some offering that the claim may use is a spot offering.
    fn may_be_spot(&mut self, claim: usize) -> bool {
        let open_claim = &self.state.claims[claim];
        let (catalogue_ix, requirements) =
            (self.problem.templates[open_claim.template].catalogue, open_claim.requirements);
        let offerings = self.view(catalogue_ix, requirements).offerings.clone();
        let catalogue = &self.problem.cluster.catalogues[catalogue_ix];
        let rows = &self.state.claims[claim].rows;
        offerings.iter().map(|offering| &catalogue.offerings[offering]).any(|offering| {
            offering.is_launchable && offering.capacity_type == CAPACITY_TYPE_SPOT && rows.contains(offering.row)
        })
    }

    /// Returns the smallest rows of the claim that have this number of types, or all its rows if
    /// they have fewer.
    fn smallest_rows_of_types(&self, claim: usize, type_count: usize) -> Vec<RowIx> {
        let open_claim = &self.state.claims[claim];
        let template = &self.problem.templates[open_claim.template];
        let catalogue = &self.problem.cluster.catalogues[template.catalogue];
        let mut types: Vec<usize> = Vec::new();
        let is_needed = |row: &RowIx| {
            let type_ix = catalogue.rows[*row].type_ix;
            if !types.contains(&type_ix) {
                types.push(type_ix);
            }
            types.len() <= type_count
        };
        template.limited_rows.smallest_first(&open_claim.rows).take_while(is_needed).collect()
    }

    /// Adds these rows to those that the claim keeps, if the unused part of the limits allows it.
    fn keep_rows_if_allowed(&self, shrinkable: &mut ShrinkableClaim, rows: &[RowIx], unused: &mut LimitAmounts) {
        let amounts = self.amounts_of_rows(shrinkable.claim, rows);
        let needed: LimitAmounts =
            amounts.iter().zip(&shrinkable.kept).map(|(amount, kept)| (*amount).max(*kept) - kept).collect();
        if needed.iter().zip(unused.iter()).any(|(needed, unused)| *needed > 0 && needed > unused) {
            return;
        }
        for (at, needed) in needed.into_iter().enumerate() {
            unused[at] -= needed;
            shrinkable.kept[at] += needed;
        }
    }

    /// Removes the types with the most of one limited resource from the claims, until the limit
    /// holds for all that remain. `unused` is what the limits leave besides the kept amounts.
    fn remove_largest_types(&mut self, claims: &[ShrinkableClaim], limit: usize, unused: &LimitAmounts) {
        let allowed: i128 = unused[limit] + claims.iter().map(|shrinkable| shrinkable.kept[limit]).sum::<i128>();
        let template = match claims.first() {
            Some(first) => self.state.claims[first.claim].template,
            None => return,
        };
        let problem = self.problem;
        let limited_rows = &problem.templates[template].limited_rows;
        // Many claims have equal rows.
        let mut known: FxHashMap<&Bits, usize> = FxHashMap::default();
        let mut lists: Vec<Vec<i128>> = Vec::new();
        let list_of: Vec<usize> = claims
            .iter()
            .map(|shrinkable| {
                let rows = &self.state.claims[shrinkable.claim].rows;
                *known.entry(rows).or_insert_with(|| {
                    lists.push(limited_rows.capacities(limit, rows));
                    lists.len() - 1
                })
            })
            .collect();
        // The largest capacity of a claim if types up to `level` may stay.
        let largest_up_to = |at: usize, level: i128| {
            let capacities = &lists[list_of[at]];
            let bound = level.max(claims[at].kept[limit]);
            let count = capacities.partition_point(|capacity| *capacity <= bound);
            count.checked_sub(1).map_or(0, |last| capacities[last])
        };
        let total = |level: i128| (0..claims.len()).map(|at| largest_up_to(at, level)).sum::<i128>();
        let mut levels: Vec<i128> = lists.iter().flatten().copied().collect();
        levels.sort_unstable();
        levels.dedup();
        let allowed_levels = levels.partition_point(|level| total(*level) <= allowed);
        let level = allowed_levels.checked_sub(1).map_or(0, |last| levels[last]);
        let Some(next_level) = levels.get(allowed_levels).copied() else { return };
        let mut left = allowed - total(level);
        let bounds: Vec<i128> = (0..claims.len())
            .map(|at| {
                let (low, high) = (largest_up_to(at, level), largest_up_to(at, next_level));
                if high - low <= left {
                    left -= high - low;
                    high
                } else {
                    low
                }
            })
            .collect();
        for (shrinkable, bound) in claims.iter().zip(bounds) {
            let unbounded = (0..unused.len()).map(|at| if at == limit { bound } else { i128::MAX });
            limited_rows.keep_within(&mut self.state.claims[shrinkable.claim].rows, unbounded);
        }
    }
}

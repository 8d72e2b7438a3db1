//! What an open claim takes from the limits of its pool while a pass runs.
//!
//! The first pass counts a claim as Karpenter does: as the largest type that it could become when it
//! was opened. So a few claims with many types use up the limits. All other passes count a claim as
//! the smallest types that it needs, and grow this amount when more pods need larger types. The
//! limits hold for these amounts at any time; `shrink_claims` makes them hold for every type that a
//! claim lists.

use super::class::PodClass;
use super::limits::{self, LimitAmounts};
use super::min_values;
use super::pass::PlacementPass;
use crate::bits::Bits;
use crate::catalogue::RowIx;

impl PlacementPass<'_> {
    /// Updates what a claim takes from its pool's limits after a pod joined it.
    pub(super) fn count_in_limits(&mut self, claim: usize) {
        let open_claim = &self.state.claims[claim];
        if self.state.limits[open_claim.template].is_empty() {
            return;
        }
        if self.counts_smallest_types {
            let amounts = self.smallest_amounts(claim);
            self.set_counted_in_limits(claim, amounts);
        } else if open_claim.counted_in_limits.is_empty() {
            let amounts = self.largest_amounts(claim);
            self.set_counted_in_limits(claim, amounts);
        }
    }

    /// Sets what a claim takes from its pool's limits. Returns true if that increases a remaining
    /// limit.
    pub(super) fn set_counted_in_limits(&mut self, claim: usize, amounts: LimitAmounts) -> bool {
        let open_claim = &mut self.state.claims[claim];
        if open_claim.counted_in_limits == amounts {
            return false;
        }
        let template = open_claim.template;
        let before = std::mem::replace(&mut open_claim.counted_in_limits, amounts.clone());
        let mut frees_any = false;
        for (at, (_, remaining)) in self.state.limits_mut(template).iter_mut().enumerate() {
            let freed = before.get(at).copied().unwrap_or(0) - amounts[at];
            *remaining += freed;
            frees_any |= freed > 0;
        }
        frees_any
    }

    /// Returns the largest amount of each limited resource that the claim could take.
    pub(super) fn largest_amounts(&self, claim: usize) -> LimitAmounts {
        let open_claim = &self.state.claims[claim];
        let catalogue = &self.problem.cluster.catalogues[self.problem.templates[open_claim.template].catalogue];
        limits::largest_amounts(&self.state.limits[open_claim.template], open_claim.rows.iter(), catalogue)
    }

    /// Returns the amounts that the claim needs at least: those of its smallest type, or of its
    /// smallest types that meet `minValues`. A claim that holds reservations keeps all its types.
    fn smallest_amounts(&mut self, claim: usize) -> LimitAmounts {
        let template = &self.problem.templates[self.state.claims[claim].template];
        if template.limited_rows.is_empty() || !self.state.claims[claim].reserved.is_empty() {
            return self.largest_amounts(claim);
        }
        let ordered = self.smallest_rows_first(claim);
        let needed = self.needed_row_count(claim, &ordered);
        self.amounts_of_rows(claim, &ordered[..needed])
    }

    /// Returns the claim's rows, smallest first. Of a claim without `minValues`, only the first.
    fn smallest_rows_first(&self, claim: usize) -> Vec<RowIx> {
        let open_claim = &self.state.claims[claim];
        let limited_rows = &self.problem.templates[open_claim.template].limited_rows;
        let needed = if self.state.table.has_min_values(open_claim.requirements) { usize::MAX } else { 1 };
        limited_rows.smallest_first(&open_claim.rows).take(needed).collect()
    }

    /// Returns how many of the rows, from the first one, meet the claim's `minValues`; at least 1
    /// if there is a row.
    fn needed_row_count(&mut self, claim: usize, ordered: &[RowIx]) -> usize {
        let open_claim = &self.state.claims[claim];
        let (requirements, template) = (open_claim.requirements, open_claim.template);
        if !self.state.table.has_min_values(requirements) {
            return ordered.len().min(1);
        }
        let catalogue_ix = self.problem.templates[template].catalogue;
        let offerings = self.view(catalogue_ix, requirements).offerings.clone();
        let catalogue = &self.problem.cluster.catalogues[catalogue_ix];
        let is_too_few = |count: usize| {
            let rows: Bits = ordered[..count].iter().copied().collect();
            !min_values::shortfalls(catalogue, &rows, requirements, Some(&offerings), &self.state.table).is_empty()
        };
        // More rows never have fewer values, so the smallest sufficient number can be bisected.
        let (mut too_few, mut enough) = (0, ordered.len());
        while too_few + 1 < enough {
            let middle = too_few + (enough - too_few) / 2;
            if is_too_few(middle) {
                too_few = middle;
            } else {
                enough = middle;
            }
        }
        enough
    }

    /// Returns the largest amount of each limited resource over these rows of a claim.
    pub(super) fn amounts_of_rows(&self, claim: usize, rows: &[RowIx]) -> LimitAmounts {
        let template = self.state.claims[claim].template;
        let catalogue = &self.problem.cluster.catalogues[self.problem.templates[template].catalogue];
        limits::largest_amounts(&self.state.limits[template], rows.iter().copied(), catalogue)
    }

    /// Removes the rows of an open claim whose capacity exceeds what the other claims leave of the
    /// limits.
    pub(super) fn drop_rows_beyond_limits(&self, claim: usize, rows: &mut Bits) {
        let open_claim = &self.state.claims[claim];
        let limited_rows = &self.problem.templates[open_claim.template].limited_rows;
        if !self.counts_smallest_types || limited_rows.is_empty() {
            return;
        }
        let remaining = self.state.limits[open_claim.template].iter().zip(&open_claim.counted_in_limits);
        limited_rows.keep_within(rows, remaining.map(|((_, remaining), own)| remaining + own));
    }

    /// Counts every open claim as the smallest types that it needs from now on. Returns true if
    /// that increases a remaining limit.
    pub(super) fn count_smallest_types(&mut self) -> bool {
        if self.counts_smallest_types || !self.has_limited_rows() {
            return false;
        }
        self.counts_smallest_types = true;
        let mut frees_any = false;
        for claim in 0..self.state.claims.len() {
            if !self.problem.templates[self.state.claims[claim].template].limited_rows.is_empty() {
                let amounts = self.smallest_amounts(claim);
                frees_any |= self.set_counted_in_limits(claim, amounts);
            }
        }
        // Classes that failed before may succeed now.
        self.state.revision += u64::from(frees_any);
        frees_any
    }

    /// Returns true if some pool limits a resource of instance types.
    pub(crate) fn has_limited_rows(&self) -> bool {
        self.problem.templates.iter().any(|template| !template.limited_rows.is_empty())
    }

    /// Records whether the open claims of a pool restrict what a new claim with this pod could be.
    pub(super) fn record_limit_restriction(&mut self, template_ix: usize, pod_class: &PodClass) {
        let template = &self.problem.templates[template_ix];
        if self.state.is_restricted_by_limits || template.limited_rows.is_empty() {
            return;
        }
        let mut at_start = template.rows.clone();
        template.fit.keep_fitting(&mut at_start, &pod_class.requests);
        template.keep_within_limits(&mut at_start, &self.limits_at_start[template_ix]);
        let mut now = at_start.clone();
        template.keep_within_limits(&mut now, &self.state.limits[template_ix]);
        self.state.is_restricted_by_limits = now != at_start;
    }
}

//! Corrects limits and counts once it is certain what the claims of a pass have become, and retries
//! the pods that were not placed.
//!
//! During a pass a claim is counted at the maximum that it could be when its pods joined: against
//! pool limits as its largest type, against anti-affinity in every domain where it could be
//! launched. Later pods narrow it. Karpenter leaves the difference to its next pass. Here it is
//! returned at once, so that one plan holds everything that fits.

use super::claim::UncertainCount;
use super::pass::PlacementPass;
use crate::bits::Bits;
use crate::requirement_table::{RequirementSetIx, UndefinedKeys};
use crate::topology::TopologyKeyIx;

impl PlacementPass<'_> {
    /// Counts every claim as what it can still become. Returns true if that frees limits or
    /// domains.
    pub(super) fn recount_claims(&mut self) -> bool {
        let frees_limits = self.recount_limits();
        let frees_domains = self.recount_domains();
        // Classes that failed before may succeed now.
        self.state.revision += u64::from(frees_limits || frees_domains);
        frees_limits || frees_domains
    }

    /// Counts every claim against its pool's limits as the largest type that it can still become.
    /// Returns true if that increases a remaining limit. Claims that count as the smallest types
    /// that they need are up to date.
    fn recount_limits(&mut self) -> bool {
        let mut frees_any = false;
        if self.counts_smallest_types {
            return false;
        }
        for ix in 0..self.state.claims.len() {
            let amounts = self.largest_amounts(ix);
            frees_any |= self.set_counted_in_limits(ix, amounts);
        }
        frees_any
    }

    /// Uncounts claims in domains where they can no longer be launched, and restricts them to the
    /// other domains. Returns true if any count changed.
    fn recount_domains(&mut self) -> bool {
        let mut any_removed = false;
        for ix in 0..self.state.claims.len() {
            for key in self.state.keys.iter() {
                if !self.state.claims[ix].uncertain_counts.iter().any(|count| count.key == key) {
                    continue;
                }
                let offered = self.offered_domains(ix, key);
                let is_obsolete = |count: &mut UncertainCount| count.key == key && !offered.contains(count.domain);
                let obsolete: Vec<UncertainCount> =
                    self.state.claims[ix].uncertain_counts.extract_if(.., is_obsolete).collect();
                if obsolete.is_empty() {
                    continue;
                }
                any_removed = true;
                for UncertainCount { group, domain, .. } in obsolete {
                    self.state.count_in_domain(group, domain, -1);
                }
                if let Some(requirements) = self.requirements_narrowed_to(ix, key, &offered) {
                    self.state.claims[ix].requirements = requirements;
                    self.update_claim_domains(ix, requirements);
                }
            }
        }
        any_removed
    }

    /// Returns the domains in which a row of the claim has an offering.
    fn offered_domains(&mut self, claim: usize, key: TopologyKeyIx) -> Bits {
        let (requirements, rows) = (self.state.claims[claim].requirements, self.state.claims[claim].rows.clone());
        let catalogue = self.problem.templates[self.state.claims[claim].template].catalogue;
        let requirement_ix = self.state.table.get(requirements, self.state.keys.label_key(key));
        let accepted: Vec<usize> =
            self.state.keys.domains_accepted_by(key, requirement_ix, &self.state.table).iter().collect();
        let mut is_offered = |domain: &usize| {
            let narrowed = self.requirements_narrowed_to(claim, key, &Bits::from_iter([*domain]));
            narrowed.is_some_and(|requirements| self.view(catalogue, requirements).rows.intersects(&rows))
        };
        accepted.into_iter().filter(|domain| is_offered(domain)).collect()
    }

    /// Returns the claim's requirements restricted to these domains. `None` if they are not
    /// compatible.
    pub(super) fn requirements_narrowed_to(
        &mut self,
        claim: usize,
        key: TopologyKeyIx,
        domains: &Bits,
    ) -> Option<RequirementSetIx> {
        let requirement_ix = self.state.keys.requirement_for_domains(key, domains, &mut self.state.table);
        let domain_requirement =
            self.state.table.single_requirement_set(self.state.keys.label_key(key), requirement_ix);
        self.state.table.intersect_sets(
            self.state.claims[claim].requirements,
            domain_requirement,
            UndefinedKeys::AllowWellKnown,
        )
    }
}

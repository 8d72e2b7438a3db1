//! A second look at the books once it is known what the claims have become, for the pods that found no place.
//!
//! While a pass goes on, a claim is counted at the most that it could be when a pod joined it: against its pool's limits at its largest
//! type, against those who must keep away in every domain that it could be launched in. Later pods narrow it. Karpenter
//! leaves what that frees to its next pass; here it is given back at once, so that one plan holds all that fits.

use super::claim::UncertainCount;
use super::limits;
use super::pass::PlacementPass;
use crate::bits::Bits;
use crate::requirement_table::{RequirementSetIx, UndefinedKeys};
use crate::topology::TopologyKeyIx;

impl PlacementPass<'_> {
    /// Counts every claim at what it can still become; whether that frees anything.
    pub(super) fn recount_claims(&mut self) -> bool {
        let frees_limits = self.recount_limits();
        let frees_domains = self.recount_domains();
        // A class that failed may succeed now.
        self.state.revision += u64::from(frees_limits || frees_domains);
        frees_limits || frees_domains
    }

    /// Counts every claim at the largest machine that it can still become; whether that leaves more room within some pool's limits.
    fn recount_limits(&mut self) -> bool {
        let mut leaves_more = false;
        for ix in 0..self.state.claims.len() {
            let claim = &mut self.state.claims[ix];
            let template = claim.template;
            if self.state.limits[template].is_empty() || claim.rows_counted_in_limits == claim.rows {
                continue;
            }
            let before = std::mem::replace(&mut claim.rows_counted_in_limits, claim.rows.clone());
            let now = claim.rows.clone();
            let columns = &self.problem.cluster.catalogues[self.problem.templates[template].catalogue];
            for (resource, left) in self.state.limits_mut(template) {
                let given_back =
                    limits::max_capacity(*resource, &before, columns) - limits::max_capacity(*resource, &now, columns);
                *left += given_back;
                leaves_more |= given_back > 0;
            }
        }
        leaves_more
    }

    /// Takes back what was counted in domains where a claim cannot be launched any more, and keeps the claim to the others; whether
    /// there was any.
    fn recount_domains(&mut self) -> bool {
        let mut takes_back = false;
        for ix in 0..self.state.claims.len() {
            for key in self.state.keys.iter() {
                if !self.state.claims[ix].uncertain_counts.iter().any(|counted| counted.key == key) {
                    continue;
                }
                let open = self.offered_domains(ix, key);
                let is_lost = |counted: &mut UncertainCount| counted.key == key && !open.contains(counted.domain);
                let lost: Vec<UncertainCount> =
                    self.state.claims[ix].uncertain_counts.extract_if(.., is_lost).collect();
                if lost.is_empty() {
                    continue;
                }
                takes_back = true;
                for UncertainCount { group, domain, .. } in lost {
                    self.state.count_in_domain(group, domain, -1);
                }
                if let Some(set) = self.requirements_narrowed_to(ix, key, &open) {
                    self.state.claims[ix].requirements = set;
                    self.update_claim_domains(ix, set);
                }
            }
        }
        takes_back
    }

    /// The domains in which some machine that the claim can become is offered.
    fn offered_domains(&mut self, claim: usize, key: TopologyKeyIx) -> Bits {
        let (set, rows) = (self.state.claims[claim].requirements, self.state.claims[claim].rows.clone());
        let columns = self.problem.templates[self.state.claims[claim].template].catalogue;
        let one = self.state.table.get(set, self.state.keys.label_key(key));
        let accepted: Vec<usize> = self.state.keys.domains_accepted_by(key, one, &self.state.table).iter().collect();
        let mut is_offered = |domain: &usize| {
            let narrowed = self.requirements_narrowed_to(claim, key, &Bits::from_iter([*domain]));
            narrowed.is_some_and(|set| self.view(columns, set).rows.intersects(&rows))
        };
        accepted.into_iter().filter(|domain| is_offered(domain)).collect()
    }

    /// What the claim asks for if it must be in one of these domains.
    pub(super) fn requirements_narrowed_to(
        &mut self,
        claim: usize,
        key: TopologyKeyIx,
        domains: &Bits,
    ) -> Option<RequirementSetIx> {
        let one = self.state.keys.requirement_for_domains(key, domains, &mut self.state.table);
        let asked = self.state.table.single_requirement_set(self.state.keys.label_key(key), one);
        self.state.table.intersect_sets(self.state.claims[claim].requirements, asked, UndefinedKeys::AllowWellKnown)
    }
}

//! Restricts open claims to the domain where a spread needs their pods.
//!
//! If pods must share hosts with other pods (`host_affinity`), a spread that counts both may hold
//! only if claims that could be launched in several zones are launched in the emptiest one.
//! Karpenter leaves the zone open. Here the claim is restricted to that zone, which only narrows
//! what was allowed before.

use rustc_hash::FxHashSet;

use super::host_affinity;
use super::pass::{PlacementPass, PlacementTarget};
use super::spread_violations::{LabelSpread, certain_domain};
use crate::bits::Bits;
use crate::topology::{GroupKey, GroupKind, TopologyKeyIx};

impl PlacementPass<'_> {
    /// Restricts open claims to the emptiest domains of those spreads that cannot be kept
    /// otherwise.
    pub(super) fn pin_open_claims(&mut self) {
        let mut seen = FxHashSet::default();
        for pod in self.state.queue.clone() {
            let Some(target) = self.state.placements[pod.0 as usize].filter(|_| self.problem.needs_occupied_host(pod))
            else {
                continue;
            };
            let class = self.problem.pods[pod.0 as usize].class;
            for spread in self.problem.spreads_of(pod).collect::<Vec<_>>() {
                let Some(domain) = certain_domain(self, target, spread.key) else { continue };
                if !seen.insert((class, spread.group, domain)) {
                    continue;
                }
                while let Some(emptiest) = host_affinity::emptiest_domain_if_exceeded(self, class, spread, domain) {
                    if !self.pin_one(spread, emptiest) {
                        break;
                    }
                }
            }
        }
    }

    /// Restricts one claim with pods that the spread counts to the domain. Returns false if no
    /// claim can be.
    fn pin_one(&mut self, spread: LabelSpread, domain: usize) -> bool {
        (0..self.state.claims.len()).any(|claim| {
            let mut pods = self.state.claims[claim].pods.iter();
            let is_counted = pods.any(|pod| self.problem.class_of(*pod).counted_by.contains(&spread.group));
            let is_uncertain = certain_domain(self, PlacementTarget::Claim(claim), spread.key).is_none();
            is_counted && is_uncertain && self.pin_claim(claim, spread.key, domain)
        })
    }

    /// Restricts a claim to a domain and counts its pods there. Returns false if the claim cannot
    /// be launched there.
    fn pin_claim(&mut self, claim: usize, key: TopologyKeyIx, domain: usize) -> bool {
        let problem = self.problem;
        let template = &problem.templates[self.state.claims[claim].template];
        if !self.state.claims_by_domain[key.0][domain].contains(claim) {
            return false;
        }
        let Some(requirements) = self.requirements_narrowed_to(claim, key, &Bits::from_iter([domain])) else {
            return false;
        };
        let mut rows = self.state.claims[claim].rows.clone();
        rows.and_with(&self.view(template.catalogue, requirements).rows);
        self.drop_rows_beyond_limits(claim, &mut rows);
        if rows.is_empty() || self.state.table.has_min_values(requirements) {
            return false;
        }
        self.state.claims[claim].requirements = requirements;
        self.state.claims[claim].rows = rows;
        self.count_in_limits(claim);
        self.update_claim_domains(claim, requirements);
        for pod in self.state.claims[claim].pods.clone() {
            for group in &problem.class_of(pod).counted_by {
                let identity = &problem.groups[group.0].identity;
                let counts_single_domain = match identity.kind {
                    GroupKind::Spread { .. } | GroupKind::Affinity => true,
                    GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => false,
                };
                let has_key = identity.key == GroupKey::Label(key);
                if counts_single_domain
                    && has_key
                    && identity.filter.accepts(requirements, None, &template.taints, &mut self.state.table)
                {
                    self.state.count_in_domain(*group, domain, 1);
                }
            }
        }
        true
    }
}

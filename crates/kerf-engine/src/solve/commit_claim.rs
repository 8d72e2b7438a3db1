//! Records that a pod is on a claim: stores the narrowed claim, takes limits and reservations, and
//! counts the pod in every group that selects it.

use smallvec::SmallVec;

use super::claim::{OpenClaim, UncertainCount};
use super::class::ClassIx;
use super::limits::LimitAmounts;
use super::pass::{ClaimOrder, PlacementPass, PlacementTarget};
use super::place_claim::ExtendedClaim;
use super::problem::PodIx;
use super::state::SolverState;
use crate::bits::Bits;
use crate::price::Price;
use crate::requirement::EffectiveOperator;
use crate::requirement_table::RequirementSetIx;
use crate::resources::Amounts;
use crate::topology::{GroupKey, GroupKind};

impl PlacementPass<'_> {
    /// Opens a new claim with the pod on it.
    pub(super) fn open_claim(&mut self, pod: PodIx, class: ClassIx, template: usize, extended: ExtendedClaim) {
        let claim_ix = self.state.claims.len();
        self.state.claims.push(OpenClaim {
            template,
            requirements: RequirementSetIx::EMPTY,
            rows: Bits::new(),
            counted_in_limits: LimitAmounts::new(),
            requests: Amounts::default(),
            pods: Vec::new(),
            uncertain_counts: Vec::new(),
            ports: Vec::new(),
            reserved: Vec::new(),
            price: Price::ZERO,
            min_values_relaxed: extended.min_values_relaxed,
        });
        self.commit_to_claim(pod, class, claim_ix, extended);
    }

    /// Adds the pod to an open claim.
    pub(super) fn commit_to_claim(&mut self, pod: PodIx, class: ClassIx, claim_ix: usize, extended: ExtendedClaim) {
        let pod_class = &self.problem.classes[class.0 as usize];
        let template = &self.problem.templates[self.state.claims[claim_ix].template];
        let (requirements, catalogue) = (extended.requirements, template.catalogue);
        // Only this order compares prices during the pass. For the others,
        // `PlacementPass::update_claim_prices` computes them once at the end.
        let price = match self.claim_order {
            ClaimOrder::SmallestPriceIncrease => self.cheapest(catalogue, requirements, &extended.rows),
            ClaimOrder::FewestPods | ClaimOrder::Oldest => Price::ZERO,
        };
        let held = std::mem::take(&mut self.state.claims[claim_ix].reserved);
        for released in held.iter().filter(|r| !extended.reserved.contains(r)) {
            self.state.take_reservation_slots(*released, -1);
        }
        for added in extended.reserved.iter().filter(|r| !held.contains(r)) {
            self.state.take_reservation_slots(*added, 1);
        }
        let claim = &mut self.state.claims[claim_ix];
        let (old_requirements, old_pod_count) = (claim.requirements, claim.pods.len());
        claim.requirements = requirements;
        claim.rows = extended.rows;
        claim.requests = extended.requests;
        claim.reserved = extended.reserved;
        claim.price = price;
        claim.pods.push(pod);
        claim.ports.extend(pod_class.ports.iter().cloned());
        if self.state.claims_by_pod_count.len() <= old_pod_count + 1 {
            self.state.claims_by_pod_count.resize(old_pod_count + 2, Bits::new());
        }
        self.state.claims_by_pod_count[old_pod_count].remove(claim_ix);
        self.state.claims_by_pod_count[old_pod_count + 1].insert(claim_ix);
        self.state.occurring_pod_counts.insert(old_pod_count + 1);
        if old_pod_count > 0 && self.state.claims_by_pod_count[old_pod_count].is_empty() {
            self.state.occurring_pod_counts.remove(old_pod_count);
        }
        self.count_in_limits(claim_ix);
        if old_requirements != requirements {
            self.update_claim_domains(claim_ix, requirements);
            if old_pod_count > 0 {
                self.count_earlier_pods(claim_ix, old_requirements, requirements);
            }
        }
        self.count_pod_in_groups(class, claim_ix, requirements);
        self.state.placements[pod.0 as usize] = Some(PlacementTarget::Claim(claim_ix));
    }

    /// Records the labels of which the claim requires one value, and the domains in which the claim
    /// may still be launched.
    pub(super) fn update_claim_domains(&mut self, claim: usize, requirements: RequirementSetIx) {
        let SolverState { table, claims_by_label, claims, .. } = &mut self.state;
        let pool_requirements = self.problem.templates[claims[claim].template].requirements;
        for (key, requirement_ix) in table.pairs(requirements) {
            if table.get(pool_requirements, *key) == Some(*requirement_ix) {
                continue;
            }
            if let Some([value]) = table.requirement(*requirement_ix).allowed_values() {
                let claims = claims_by_label.entry(*key).or_default();
                claims.all.insert(claim);
                match claims.by_value.get_mut(value) {
                    Some(claims) => claims.insert(claim),
                    None => drop(claims.by_value.insert(value.clone(), Bits::from_iter([claim]))),
                }
            }
        }
        for key in self.state.keys.iter() {
            let requirement_ix = self.state.table.get(requirements, self.state.keys.label_key(key));
            let accepted = self.state.keys.domains_accepted_by(key, requirement_ix, &self.state.table);
            for (domain, claims) in self.state.claims_by_domain[key.0].iter_mut().enumerate() {
                claims.set(claim, accepted.contains(domain));
            }
        }
    }

    /// Handles the earlier pods of a claim when the claim is narrowed to one domain. Counts them
    /// there if the search variant says so, else records them as uncounted (spec 02 §8.6).
    fn count_earlier_pods(&mut self, claim: usize, old_requirements: RequirementSetIx, requirements: RequirementSetIx) {
        let problem = self.problem;
        for key in self.state.keys.iter() {
            let label = self.state.keys.label_key(key);
            let single_domain = |state: &SolverState, requirements: RequirementSetIx| {
                let requirement = state.table.requirement(state.table.get(requirements, label)?);
                let values = requirement.values();
                (requirement.operator() == EffectiveOperator::In && values.len() == 1).then(|| values[0].clone())
            };
            if single_domain(&self.state, old_requirements).is_some() {
                continue;
            }
            let Some(domain) =
                single_domain(&self.state, requirements).and_then(|value| self.state.keys.domain(key, &value))
            else {
                continue;
            };
            let taints = &problem.templates[self.state.claims[claim].template].taints;
            let earlier_pods: SmallVec<[PodIx; 8]> =
                self.state.claims[claim].pods.iter().rev().skip(1).copied().collect();
            for (pod, group) in
                earlier_pods.iter().flat_map(|pod| problem.class_of(*pod).counted_by.iter().map(|g| (*pod, g)))
            {
                let identity = &problem.groups[group.0].identity;
                let counts_single_domain = matches!(identity.kind, GroupKind::Spread { .. } | GroupKind::Affinity);
                if identity.key != GroupKey::Label(key)
                    || !counts_single_domain
                    || !identity.filter.accepts(requirements, None, taints, &mut self.state.table)
                {
                    continue;
                }
                if self.search_variant.recount_narrowed_claims {
                    self.state.count_in_domain(*group, domain, 1);
                } else if problem.has_spread(pod) {
                    self.state.uncounted.push((*group, domain, pod));
                }
            }
        }
    }

    /// Counts the pod in every group that selects it (spec 02 §8.6). Spread and affinity count it
    /// only if the claim's domain is certain; anti-affinity counts it in every possible domain.
    fn count_pod_in_groups(&mut self, class: ClassIx, claim: usize, requirements: RequirementSetIx) {
        let pod_class = &self.problem.classes[class.0 as usize];
        let template = &self.problem.templates[self.state.claims[claim].template];
        for group in pod_class.counted_by.iter().chain(&pod_class.inverse_groups) {
            let identity = &self.problem.groups[group.0].identity;
            if !identity.filter.accepts(requirements, None, &template.taints, &mut self.state.table) {
                continue;
            }
            let key = match identity.key {
                GroupKey::Hostname => {
                    self.state.count_on_claim(*group, claim, identity.kind);
                    continue;
                }
                GroupKey::Label(key) => key,
            };
            let Some(requirement_ix) = self.state.table.get(requirements, self.state.keys.label_key(key)) else {
                continue;
            };
            let requirement = self.state.table.requirement(requirement_ix);
            if requirement.operator() != EffectiveOperator::In {
                continue;
            }
            let counts_all_domains = match identity.kind {
                GroupKind::Spread { .. } | GroupKind::Affinity => false,
                GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => true,
            };
            if counts_all_domains || requirement.values().len() == 1 {
                let domains: SmallVec<[usize; 8]> =
                    requirement.values().iter().filter_map(|v| self.state.keys.domain(key, v)).collect();
                let is_uncertain = domains.len() > 1;
                for domain in domains {
                    self.state.count_in_domain(*group, domain, 1);
                    if is_uncertain {
                        self.state.claims[claim].uncertain_counts.push(UncertainCount { group: *group, key, domain });
                    }
                }
            }
        }
    }
}

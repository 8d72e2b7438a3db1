//! Checks spreads of pods that may only run on hosts where certain other pods are already (required
//! pod affinity on the hostname whose selector does not match the pod itself).
//!
//! Such pods fix the order of binding. When the last of them in a domain is bound, all the others
//! there are bound, and at least one other pod on each of their hosts. A spread that counts these
//! pods must allow that number, whatever the pass has counted.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::class::{ClassIx, GroupConstraint, PodClass};
use super::pass::{PlacementPass, PlacementTarget};
use super::problem::{PodIx, SchedulingProblem};
use super::spread_violations::{LabelSpread, certain_domain};
use crate::topology::{GroupIx, GroupKind};

/// Results of [`emptiest_domain_if_exceeded`] for one solution, by class, group and domain.
#[derive(Debug, Default)]
pub(super) struct HostAffinityCheck {
    results: FxHashMap<(ClassIx, GroupIx, usize), bool>,
}

impl HostAffinityCheck {
    /// Returns true if the spread of the pod's class cannot be kept in the domain.
    pub(super) fn exceeds_spread(
        &mut self,
        pass: &PlacementPass<'_>,
        pod: PodIx,
        spread: LabelSpread,
        domain: usize,
    ) -> bool {
        let class = pass.problem.pods[pod.0 as usize].class;
        let result = self.results.entry((class, spread.group, domain));
        *result.or_insert_with(|| emptiest_domain_if_exceeded(pass, class, spread, domain).is_some())
    }
}

/// Checks whether pods of the class in `domain` break their spread when the last of them is bound.
/// If so, returns the domain with the fewest pods. `None` if the spread can be kept.
pub(super) fn emptiest_domain_if_exceeded(
    pass: &PlacementPass<'_>,
    class: ClassIx,
    spread: LabelSpread,
    domain: usize,
) -> Option<usize> {
    let (problem, state) = (pass.problem, &pass.state);
    problem.without_preferences(class).constraints().find(|constraint| constraint.group == spread.group)?;
    // Pods per domain when the last pod of the class is bound (a lower bound), and when all are.
    let (mut bound_counts, mut final_counts) = (FxHashMap::default(), FxHashMap::default());
    for domain in pass.known_domains(spread.group).iter() {
        let initial = state.group_counts[spread.group.0].get(domain) - state.counted_by_pass(spread.group, domain);
        bound_counts.insert(domain, initial);
        final_counts.insert(domain, initial);
    }
    for pod in state.queue.iter().filter(|pod| problem.class_of(**pod).counted_by.contains(&spread.group)) {
        let target = state.placements[pod.0 as usize];
        if let Some(domain) = target.and_then(|target| certain_domain(pass, target, spread.key)) {
            *final_counts.entry(domain).or_default() += 1;
            let is_of_class = problem.pods[pod.0 as usize].class == class;
            *bound_counts.entry(domain).or_default() += i32::from(is_of_class);
        }
    }
    for domain in domains_of_hosts(pass, class, spread) {
        *bound_counts.entry(domain).or_default() += 1;
    }
    let label = state.keys.label_key(spread.key);
    let own_requirement = state.table.get(problem.classes[class.0 as usize].strict_requirements, label);
    let own_requirement = own_requirement.map(|requirement_ix| state.table.requirement(requirement_ix));
    let is_accepted = |domain: &usize| {
        own_requirement.is_none_or(|own_requirement| own_requirement.has(state.keys.domain_text(spread.key, *domain)))
    };
    let compared = final_counts.iter().filter(|(domain, _)| is_accepted(domain));
    let (lowest, emptiest) = compared.map(|(domain, pods)| (*pods, *domain)).min()?;
    bound_counts.get(&domain).filter(|pods| *pods - lowest > spread.max_skew).map(|_| emptiest)
}

/// Returns the domains of the claims that hold pods of the class, one entry per claim. Includes
/// only claims where the spread counts every pod that the class's host affinity selects.
fn domains_of_hosts(pass: &PlacementPass<'_>, class: ClassIx, spread: LabelSpread) -> Vec<usize> {
    let problem = pass.problem;
    let host_constraints = problem.without_preferences(class).host_constraints.iter();
    let affinity_groups: SmallVec<[GroupIx; 2]> = host_constraints
        .filter(|constraint| problem.is_host_affinity_to_others(constraint))
        .map(|constraint| constraint.group)
        .collect();
    let is_included = |pods: &[PodIx]| {
        let holds_class = pods.iter().any(|pod| problem.pods[pod.0 as usize].class == class);
        let is_counted_by = |pod: &PodIx, group: &GroupIx| problem.class_of(*pod).counted_by.contains(group);
        let is_affinity_target = |pod: &PodIx| {
            problem.pods[pod.0 as usize].class != class && affinity_groups.iter().any(|group| is_counted_by(pod, group))
        };
        holds_class && pods.iter().filter(|pod| is_affinity_target(pod)).all(|pod| is_counted_by(pod, &spread.group))
    };
    let claims = pass.state.claims.iter().enumerate().filter(|(_, claim)| is_included(&claim.pods));
    claims.filter_map(|(ix, _)| certain_domain(pass, PlacementTarget::Claim(ix), spread.key)).collect()
}

impl SchedulingProblem {
    /// Returns true if the pod may only run on hosts where certain other pods are, and also has
    /// constraints over labels.
    pub(super) fn needs_occupied_host(&self, pod: PodIx) -> bool {
        let class = self.class_of(pod);
        !class.label_constraints.is_empty()
            && class.host_constraints.iter().any(|constraint| self.is_host_affinity_to_others(constraint))
            && self
                .without_preferences(self.pods[pod.0 as usize].class)
                .host_constraints
                .iter()
                .any(|constraint| self.is_host_affinity_to_others(constraint))
    }

    /// Returns the class that is left when all preferences are given up.
    fn without_preferences(&self, class: ClassIx) -> &PodClass {
        &self.classes[self.most_relaxed(class).0 as usize]
    }

    /// Returns true for affinity to other pods that does not select the pod itself.
    fn is_host_affinity_to_others(&self, constraint: &GroupConstraint) -> bool {
        self.groups[constraint.group.0].identity.kind == GroupKind::Affinity && !constraint.counts_self
    }
}

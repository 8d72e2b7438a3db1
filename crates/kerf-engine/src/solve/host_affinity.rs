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
    known: FxHashMap<(ClassIx, GroupIx, usize), bool>,
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
        let known = self.known.entry((class, spread.group, domain));
        *known.or_insert_with(|| emptiest_domain_if_exceeded(pass, class, spread, domain).is_some())
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
    problem.without_preferences(class).constraints().find(|bound| bound.group == spread.group)?;
    let (mut earlier, mut in_the_end) = (FxHashMap::default(), FxHashMap::default());
    for domain in pass.known_domains(spread.group).iter() {
        let at_first = state.group_counts[spread.group.0].get(domain) - state.counted_by_pass(spread.group, domain);
        earlier.insert(domain, at_first);
        in_the_end.insert(domain, at_first);
    }
    for pod in state.queue.iter().filter(|pod| problem.class_of(**pod).counted_by.contains(&spread.group)) {
        let place = state.placements[pod.0 as usize];
        if let Some(domain) = place.and_then(|place| certain_domain(pass, place, spread.key)) {
            *in_the_end.entry(domain).or_default() += 1;
            let is_alike = problem.pods[pod.0 as usize].class == class;
            *earlier.entry(domain).or_default() += i32::from(is_alike);
        }
    }
    for domain in domains_of_hosts(pass, class, spread) {
        *earlier.entry(domain).or_default() += 1;
    }
    let label = state.keys.label_key(spread.key);
    let own = state.table.get(problem.classes[class.0 as usize].strict_requirements, label);
    let own = own.map(|one| state.table.requirement(one));
    let counts = |domain: &usize| own.is_none_or(|own| own.has(state.keys.domain_text(spread.key, *domain)));
    let compared = in_the_end.iter().filter(|(domain, _)| counts(domain));
    let (least, emptiest) = compared.map(|(domain, pods)| (*pods, *domain)).min()?;
    earlier.get(&domain).filter(|pods| *pods - least > spread.max_skew).map(|_| emptiest)
}

/// Returns the domains of the claims that hold pods of the class, one entry per claim. Includes
/// only claims where the spread counts every pod that the class's host affinity selects.
fn domains_of_hosts(pass: &PlacementPass<'_>, class: ClassIx, spread: LabelSpread) -> Vec<usize> {
    let problem = pass.problem;
    let hosts = problem.without_preferences(class).host_constraints.iter();
    let followed: SmallVec<[GroupIx; 2]> =
        hosts.filter(|bound| problem.is_host_affinity_to_others(bound)).map(|bound| bound.group).collect();
    let brings = |pods: &[PodIx]| {
        let is_here = pods.iter().any(|pod| problem.pods[pod.0 as usize].class == class);
        let is_in = |pod: &PodIx, group: &GroupIx| problem.class_of(*pod).counted_by.contains(group);
        let leads =
            |pod: &PodIx| problem.pods[pod.0 as usize].class != class && followed.iter().any(|group| is_in(pod, group));
        is_here && pods.iter().filter(|pod| leads(pod)).all(|pod| is_in(pod, &spread.group))
    };
    let claims = pass.state.claims.iter().enumerate().filter(|(_, claim)| brings(&claim.pods));
    claims.filter_map(|(ix, _)| certain_domain(pass, PlacementTarget::Claim(ix), spread.key)).collect()
}

impl SchedulingProblem {
    /// Returns true if the pod may only run on hosts where certain other pods are, and also has
    /// constraints over labels.
    pub(super) fn needs_occupied_host(&self, pod: PodIx) -> bool {
        let class = self.class_of(pod);
        !class.label_constraints.is_empty()
            && class.host_constraints.iter().any(|bound| self.is_host_affinity_to_others(bound))
            && self
                .without_preferences(self.pods[pod.0 as usize].class)
                .host_constraints
                .iter()
                .any(|bound| self.is_host_affinity_to_others(bound))
    }

    /// Returns the class that is left when all preferences are given up.
    fn without_preferences(&self, class: ClassIx) -> &PodClass {
        &self.classes[self.most_relaxed(class).0 as usize]
    }

    /// Returns true for affinity to other pods that does not select the pod itself.
    fn is_host_affinity_to_others(&self, bound: &GroupConstraint) -> bool {
        self.groups[bound.group.0].identity.kind == GroupKind::Affinity && !bound.counts_self
    }
}

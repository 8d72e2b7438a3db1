//! Counts pods whose topology spread kube-scheduler cannot keep.
//!
//! A pod that joins a claim before the claim's zone is certain stays uncounted in that zone (spec
//! 02 §8.6), so a pass may count fewer pods than will be there. Usually this is harmless:
//! kube-scheduler binds the pod with the spread before the uncounted one. There are two exceptions.
//! Either both pods have a spread that counts the other one, or the pod with the spread must run on
//! a host where the uncounted pod is already (`host_affinity`). Then one of the pods is never
//! bound, and the search looks for another solution.

use super::host_affinity::HostAffinityCheck;
use super::pass::{PlacementPass, PlacementTarget};
use super::problem::{PodIx, SchedulingProblem};
use crate::topology::{GroupIx, GroupKind, TopologyKeyIx};

/// If there would be more comparisons, violations of the first kind are not counted.
const MAX_COMPARISONS: usize = 1_000_000;

/// A spread constraint over a label other than the hostname.
#[derive(Debug, Clone, Copy)]
pub(super) struct LabelSpread {
    pub(super) key: TopologyKeyIx,
    pub(super) group: GroupIx,
    pub(super) max_skew: i32,
}

/// Returns the number of placed pods whose spread cannot be kept, in whichever order pods are
/// bound.
pub(super) fn count_spread_violations(pass: &PlacementPass<'_>) -> usize {
    let (queue, uncounted) = (&pass.state.queue, &pass.state.uncounted);
    let checks_uncounted = !uncounted.is_empty() && uncounted.len() * queue.len() <= MAX_COMPARISONS;
    let mut host_affinity = HostAffinityCheck::default();
    let mut violates = |pod: PodIx, target: PlacementTarget| {
        let needs_occupied_host = pass.problem.needs_occupied_host(pod);
        (checks_uncounted || needs_occupied_host)
            && pass.problem.spreads_of(pod).any(|spread| {
                certain_domain(pass, target, spread.key).is_some_and(|domain| {
                    (checks_uncounted && violates_spread(pass, pod, spread, domain))
                        || (needs_occupied_host && host_affinity.exceeds_spread(pass, pod, spread, domain))
                })
            })
    };
    queue
        .iter()
        .filter(|pod| pass.state.placements[pod.0 as usize].is_some_and(|target| violates(**pod, target)))
        .count()
}

/// Returns true if the domain exceeds the spread's `max_skew` once uncounted pods are added that
/// have a spread which counts `pod`.
fn violates_spread(
    pass: &PlacementPass<'_>,
    pod: PodIx,
    LabelSpread { group, max_skew, .. }: LabelSpread,
    domain: usize,
) -> bool {
    let counted_by = &pass.problem.class_of(pod).counted_by;
    let has_spread_over_pod = |other: PodIx| {
        let mut constraints = pass.problem.class_of(other).constraints();
        constraints.any(|constraint| {
            pass.problem.max_skew_of(constraint.group).is_some() && counted_by.contains(&constraint.group)
        })
    };
    let uncounted = pass.state.uncounted.iter().filter(|(other_group, other_domain, other)| {
        (*other_group, *other_domain) == (group, domain) && has_spread_over_pod(*other)
    });
    let uncounted = i32::try_from(uncounted.count()).unwrap_or(i32::MAX);
    let pods = |domain: usize| pass.state.group_counts[group.0].get(domain);
    let lowest = pass.known_domains(group).iter().map(pods).min().unwrap_or(0);
    uncounted > 0 && pods(domain).saturating_add(uncounted) - lowest > max_skew
}

impl SchedulingProblem {
    /// Returns true if the pod has a spread constraint.
    pub(super) fn has_spread(&self, pod: PodIx) -> bool {
        self.class_of(pod).constraints().any(|constraint| self.max_skew_of(constraint.group).is_some())
    }

    /// Returns the pod's spread constraints over labels other than the hostname.
    pub(super) fn spreads_of(&self, pod: PodIx) -> impl Iterator<Item = LabelSpread> + '_ {
        let label_constraints = self.class_of(pod).label_constraints.iter();
        let groups =
            label_constraints.flat_map(|(key, groups)| groups.iter().map(|constraint| (*key, constraint.group)));
        groups.filter_map(|(key, group)| Some(LabelSpread { key, group, max_skew: self.max_skew_of(group)? }))
    }

    /// Returns the `max_skew` of a spread group. `None` for other groups.
    fn max_skew_of(&self, group: GroupIx) -> Option<i32> {
        match self.groups[group.0].identity.kind {
            GroupKind::Spread { max_skew, .. } => Some(max_skew),
            GroupKind::Affinity | GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => None,
        }
    }
}

/// Returns the domain of a target. `None` if the target has no domain or several are possible.
pub(super) fn certain_domain(pass: &PlacementPass<'_>, target: PlacementTarget, key: TopologyKeyIx) -> Option<usize> {
    match target {
        PlacementTarget::Node(node) => pass.problem.node_domains[key.0][node].map(|domain| domain as usize),
        PlacementTarget::Claim(claim) => {
            let claims_by_domain = pass.state.claims_by_domain[key.0].iter().enumerate();
            let mut domains = claims_by_domain.filter(|(_, claims)| claims.contains(claim)).map(|(domain, _)| domain);
            domains.next().filter(|_| domains.next().is_none())
        }
    }
}

//! Relaxation: a pod that cannot be placed gives up its preferences, one at a time and in a fixed
//! order (spec 02 §6.4). Also the last resorts, which are tried after all relaxations failed.

use kerf_api::slim::{
    NodeSelectorTerm, PodSpec, PreferredSchedulingTerm, TopologySpreadConstraint, WeightedPodAffinityTerm,
    WhenUnsatisfiable,
};

use super::tolerations::prefer_no_schedule;

/// The preference or alternative that a pod gives up in one relaxation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relaxation {
    /// An alternative of its required node affinity. At least one alternative always remains.
    RequiredNodeAffinityTerm(NodeSelectorTerm),
    /// A preferred pod affinity term.
    PodAffinity(WeightedPodAffinityTerm),
    /// A preferred pod anti-affinity term.
    PodAntiAffinity(WeightedPodAffinityTerm),
    /// A preferred node affinity term.
    NodeAffinity(PreferredSchedulingTerm),
    /// A topology spread constraint with `ScheduleAnyway`.
    Spread(TopologySpreadConstraint),
    /// The preference for nodes without a `PreferNoSchedule` taint.
    PreferNoSchedule,
}

/// Returns the next relaxation and the relaxed spec. Returns `None` if nothing is left to give up.
pub(crate) fn relax(
    spec: &PodSpec,
    ignore_preferences: bool,
    some_pool_prefers_no_schedule: bool,
) -> Option<(Relaxation, PodSpec)> {
    let mut relaxed = spec.clone();
    let relaxation = relax_in_place(&mut relaxed, ignore_preferences, some_pool_prefers_no_schedule)?;
    Some((relaxation, relaxed))
}

/// Applies the next relaxation to a spec and returns it. Returns `None` if nothing is left to give
/// up. Copies nothing: a pod may have hundreds of preferences.
pub(crate) fn relax_in_place(
    relaxed: &mut PodSpec,
    ignore_preferences: bool,
    some_pool_prefers_no_schedule: bool,
) -> Option<Relaxation> {
    if let Some(affinity) = &mut relaxed.affinity {
        if let Some(terms) = &mut affinity.node_affinity.required
            && terms.len() > 1
        {
            return Some(Relaxation::RequiredNodeAffinityTerm(terms.remove(0)));
        }
        if !ignore_preferences {
            let term = remove_heaviest(&mut affinity.pod_affinity.preferred, |t| t.weight);
            let relaxation = term
                .map(Relaxation::PodAffinity)
                .or_else(|| {
                    let term = remove_heaviest(&mut affinity.pod_anti_affinity.preferred, |t| t.weight);
                    term.map(Relaxation::PodAntiAffinity)
                })
                .or_else(|| {
                    let term = remove_heaviest(&mut affinity.node_affinity.preferred, |t| t.weight);
                    term.map(Relaxation::NodeAffinity)
                });
            if relaxation.is_some() {
                return relaxation;
            }
        }
    }
    if !ignore_preferences {
        let spreads = &mut relaxed.topology_spread_constraints;
        if let Some(at) = spreads.iter().position(|s| s.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway) {
            return Some(Relaxation::Spread(spreads.swap_remove(at)));
        }
    }
    let toleration = prefer_no_schedule();
    if some_pool_prefers_no_schedule && !relaxed.tolerations.contains(&toleration) {
        relaxed.tolerations.push(toleration);
        return Some(Relaxation::PreferNoSchedule);
    }
    None
}

/// Returns the specs to try after all relaxations failed: each alternative of the required node
/// affinity once more, without preferences.
///
/// Relaxation removes all alternatives but the last before the first preference. So an alternative
/// may have failed only because of a preference. Karpenter leaves such a pod pending for ever.
pub(crate) fn last_resorts(alternatives: &[NodeSelectorTerm], relaxed: &PodSpec) -> Vec<PodSpec> {
    let all_but_the_last = alternatives.len().saturating_sub(1);
    let with_first = |at: usize| {
        let mut spec = relaxed.clone();
        let mut terms = alternatives.to_vec();
        terms.rotate_left(at);
        spec.affinity.as_mut()?.node_affinity.required = Some(terms);
        Some(spec)
    };
    (0..all_but_the_last).filter_map(with_first).collect()
}

/// Removes the term with the highest weight; of several, the first. The others stay sorted by
/// weight.
fn remove_heaviest<T>(terms: &mut Vec<T>, weight: impl Fn(&T) -> i32) -> Option<T> {
    terms.sort_by_key(|t| std::cmp::Reverse(weight(t)));
    (!terms.is_empty()).then(|| terms.remove(0))
}

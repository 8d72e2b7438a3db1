//! How a pod gives up its wishes, one at a time and always in the same order (spec 02 §6.4), and what is left to try after that.

use kerf_api::slim::{
    NodeSelectorTerm, PodSpec, PreferredSchedulingTerm, TopologySpreadConstraint, WeightedPodAffinityTerm,
    WhenUnsatisfiable,
};

use super::tolerations::prefer_no_schedule;

/// What a pod gives up in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relaxation {
    /// An alternative of its required node affinity.
    RequiredNodeAffinityTerm(NodeSelectorTerm),
    /// To be near other pods.
    PodAffinity(WeightedPodAffinityTerm),
    /// To be away from other pods.
    PodAntiAffinity(WeightedPodAffinityTerm),
    /// To be on nodes of a kind.
    NodeAffinity(PreferredSchedulingTerm),
    /// To be spread.
    Spread(TopologySpreadConstraint),
    /// To stay away from nodes that would rather not have it.
    PreferNoSchedule,
}

/// The next step of giving in, and what is given up; nothing when only musts are left.
pub(crate) fn relax(
    spec: &PodSpec,
    ignore_preferences: bool,
    some_pool_prefers_no_schedule: bool,
) -> Option<(Relaxation, PodSpec)> {
    let mut relaxed = spec.clone();
    if let Some(affinity) = &mut relaxed.affinity {
        if let Some(terms) = &mut affinity.node_affinity.required
            && terms.len() > 1
        {
            let given_up = Relaxation::RequiredNodeAffinityTerm(terms.remove(0));
            return Some((given_up, relaxed));
        }
        if !ignore_preferences {
            let near = remove_heaviest(&mut affinity.pod_affinity.preferred, |t| t.weight);
            let given_up = near
                .map(Relaxation::PodAffinity)
                .or_else(|| {
                    let away = remove_heaviest(&mut affinity.pod_anti_affinity.preferred, |t| t.weight);
                    away.map(Relaxation::PodAntiAffinity)
                })
                .or_else(|| {
                    let there = remove_heaviest(&mut affinity.node_affinity.preferred, |t| t.weight);
                    there.map(Relaxation::NodeAffinity)
                });
            if let Some(given_up) = given_up {
                return Some((given_up, relaxed));
            }
        }
    }
    if !ignore_preferences {
        let spreads = &mut relaxed.topology_spread_constraints;
        if let Some(at) = spreads.iter().position(|s| s.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway) {
            let given_up = Relaxation::Spread(spreads.swap_remove(at));
            return Some((given_up, relaxed));
        }
    }
    let toleration = prefer_no_schedule();
    if some_pool_prefers_no_schedule && !relaxed.tolerations.contains(&toleration) {
        relaxed.tolerations.push(toleration);
        return Some((Relaxation::PreferNoSchedule, relaxed));
    }
    None
}

/// What is tried when every wish is given up in vain. The order of giving in takes all alternatives of the required node affinity but
/// the last away before the first wish, so that an alternative may have failed over a wish alone. Each of them is tried once
/// more without wishes; Karpenter leaves such a pod pending for ever.
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

/// Removes the heaviest term, of several the first; the others stay sorted by weight.
fn remove_heaviest<T>(terms: &mut Vec<T>, weight: impl Fn(&T) -> i32) -> Option<T> {
    terms.sort_by_key(|t| std::cmp::Reverse(weight(t)));
    (!terms.is_empty()).then(|| terms.remove(0))
}

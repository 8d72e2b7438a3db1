//! How a pod gives up its wishes, one at a time and always in the same order (spec 02 §6.4).

use kerf_api::slim::{PodSpec, WhenUnsatisfiable};

use super::tolerations::prefer_no_schedule;

/// The next step of giving in, or nothing when only musts are left.
pub(crate) fn relax(spec: &PodSpec, ignore_preferences: bool, some_pool_prefers_no_schedule: bool) -> Option<PodSpec> {
    let mut relaxed = spec.clone();
    if let Some(affinity) = &mut relaxed.affinity {
        if let Some(terms) = &mut affinity.node_affinity.required
            && terms.len() > 1
        {
            terms.remove(0);
            return Some(relaxed);
        }
        if !ignore_preferences {
            let removed = remove_heaviest(&mut affinity.pod_affinity.preferred, |t| t.weight)
                || remove_heaviest(&mut affinity.pod_anti_affinity.preferred, |t| t.weight)
                || remove_heaviest(&mut affinity.node_affinity.preferred, |t| t.weight);
            if removed {
                return Some(relaxed);
            }
        }
    }
    if !ignore_preferences {
        let spreads = &mut relaxed.topology_spread_constraints;
        if let Some(at) = spreads.iter().position(|s| s.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway) {
            spreads.swap_remove(at);
            return Some(relaxed);
        }
    }
    let toleration = prefer_no_schedule();
    if some_pool_prefers_no_schedule && !relaxed.tolerations.contains(&toleration) {
        relaxed.tolerations.push(toleration);
        return Some(relaxed);
    }
    None
}

/// Removes the heaviest term, of several the first; the others stay sorted by weight.
fn remove_heaviest<T>(terms: &mut Vec<T>, weight: impl Fn(&T) -> i32) -> bool {
    if terms.is_empty() {
        return false;
    }
    terms.sort_by_key(|t| std::cmp::Reverse(weight(t)));
    terms.remove(0);
    true
}

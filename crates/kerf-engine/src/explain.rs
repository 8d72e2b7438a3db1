//! Reasons why pods stay pending: a stable code and a sentence, computed on demand only.

// No command shows the funnel yet, so only its tests compile it.
#[cfg(test)]
mod funnel;
mod other_provider;
mod pool_rejection;
mod reason;

pub use other_provider::OtherProviderPools;
pub(crate) use other_provider::{group_of_other_provider, may_be_served, other_provider_pools};
pub use reason::{PlacementRule, PoolRejection, Reason};

use rustc_hash::FxHashMap;

use crate::solve::{ClassIx, PlacementPass, PodIx, UnplacedReason};

/// Returns the reasons of the pods that the pass could not place and for which `include` returns
/// true. Pods of one class share a reason.
pub(crate) fn explain_unplaced(pass: &mut PlacementPass<'_>, include: impl Fn(PodIx) -> bool) -> Vec<(PodIx, Reason)> {
    let problem = pass.problem;
    let mut by_class: FxHashMap<ClassIx, Reason> = FxHashMap::default();
    let mut all = Vec::new();
    let placements = &pass.state.placements;
    let unplaced: Vec<PodIx> =
        pass.state.queue.iter().copied().filter(|pod| placements[pod.0 as usize].is_none() && include(*pod)).collect();
    for pod in unplaced {
        let class = problem.pods[pod.0 as usize].class;
        let reason = match pass.state.unplaced_reasons[pod.0 as usize] {
            Some(UnplacedReason::WaitsForReservation) => Reason::ReservedCapacityDeferred,
            Some(UnplacedReason::NeedsDevices) => Reason::DynamicResources,
            Some(UnplacedReason::WaitsForLaunch(wait)) => {
                Reason::LaunchBackoff { nodes: wait.nodes, until: wait.until }
            }
            Some(UnplacedReason::NoTarget) | None => {
                by_class.entry(class).or_insert_with(|| pool_rejection::explain_rejection(pass, class)).clone()
            }
        };
        all.push((pod, reason));
    }
    all
}

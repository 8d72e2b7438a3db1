//! Reasons why pods stay pending: a stable code and a sentence, computed on demand only. Also the
//! funnel, which shows how many instance types each rule leaves for one pod.

mod funnel;
mod pool_rejection;
mod reason;

pub use funnel::{Funnel, FunnelRule, FunnelStep, PoolFunnel, funnel};
pub use reason::{PlacementRule, PoolRejection, Reason};

use rustc_hash::FxHashMap;

use crate::solve::{ClassIx, PlacementPass, PodIx, UnplacedReason};

/// Returns the reasons of the pods that the pass could not place and for which `asked` returns
/// true. Pods of one class share a reason.
pub(crate) fn explain_unplaced(pass: &mut PlacementPass<'_>, asked: impl Fn(PodIx) -> bool) -> Vec<(PodIx, Reason)> {
    let problem = pass.problem;
    let mut known: FxHashMap<ClassIx, Reason> = FxHashMap::default();
    let mut all = Vec::new();
    let places = &pass.state.placements;
    let left: Vec<PodIx> =
        pass.state.queue.iter().copied().filter(|pod| places[pod.0 as usize].is_none() && asked(*pod)).collect();
    for pod in left {
        let class = problem.pods[pod.0 as usize].class;
        let reason = match pass.state.unplaced_reasons[pod.0 as usize] {
            Some(UnplacedReason::WaitsForReservation) => Reason::ReservedCapacityDeferred,
            Some(UnplacedReason::NeedsDevices) => Reason::DynamicResources,
            Some(UnplacedReason::NoTarget) | None => {
                known.entry(class).or_insert_with(|| pool_rejection::explain_rejection(pass, class)).clone()
            }
        };
        all.push((pod, reason));
    }
    all
}

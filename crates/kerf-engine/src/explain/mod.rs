//! Why: a code for programs and a sentence for people, worked out when somebody asks and not before.

mod funnel;
mod reason;
mod template;

pub use funnel::{Funnel, FunnelRule, FunnelStep, PoolFunnel, funnel};
pub use reason::{PoolRefusal, Reason, Rule};

use rustc_hash::FxHashMap;

use crate::solve::{ClassIx, Pass, Refusal, Unplaced};

/// The reasons of all pods that the pass left pending. Pods of one class share theirs.
pub(crate) fn unplaced(pass: &mut Pass<'_>) -> Vec<Unplaced> {
    let problem = pass.problem;
    let mut known: FxHashMap<ClassIx, Reason> = FxHashMap::default();
    let mut all = Vec::new();
    for (ix, pod) in problem.pods.iter().enumerate() {
        if pass.places[ix].is_some() {
            continue;
        }
        let reason = match pass.refusals[ix] {
            Some(Refusal::Reserved) => Reason::ReservedCapacity,
            Some(Refusal::Devices) => Reason::DynamicResources,
            Some(Refusal::Nowhere) | None => {
                known.entry(pod.class).or_insert_with(|| template::why_nowhere(pass, pod.class)).clone()
            }
        };
        all.push(Unplaced { pod: pod.name.clone(), reason });
    }
    all
}

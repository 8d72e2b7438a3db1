//! What there is to say of an answer beside the answer: pools that had nothing to launch, types that limits kept out, wishes that were
//! given up. Worked out when somebody asks, and about the last question; the answer itself does not depend on any of it.

use kerf_api::slim::Str;

use super::class::ClassIx;
use super::incremental::IncrementalSolver;
use super::limits;
use super::pass::{PlacementPass, UnplacedReason};
use super::problem::PodIx;
use super::template::pool_requirement_set;
use super::{compile, min_values};
use crate::bits::Bits;
use crate::pod::relax::Relaxation;

/// A pool that takes pods and has no type for any (spec 02 §5.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolWithoutTypes {
    /// The pool.
    pub pool: Str,
    /// The labels that too few values would be left of, if that is what keeps the types out.
    pub min_values: Vec<Str>,
}

/// A pool whose limits keep out some of its types, but not all (spec 02 §4.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypesBeyondLimits {
    /// The pool.
    pub pool: Str,
    /// How many types are kept out.
    pub excluded: usize,
    /// Of how many.
    pub total: usize,
}

/// A pod that gave something up (spec 02 §6.4), for a place or in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelaxedPod {
    /// The pod, as `namespace/name`.
    pub pod: Str,
    /// What it gave up, in this order.
    pub relaxations: Vec<Relaxation>,
}

impl IncrementalSolver {
    /// The pools that had nothing to launch, in the order in which they are tried.
    pub fn pools_without_types(&mut self) -> Vec<PoolWithoutTypes> {
        let (problem, state) = (&self.problem, &mut self.state);
        let pools = problem.pools.iter().map(|ix| &problem.cluster.pools[*ix]);
        let empty = pools.filter(|pool| problem.templates.iter().all(|template| template.name != pool.name));
        let judged = empty.map(|pool| {
            let set = pool_requirement_set(pool, &problem.cluster.label_rules, &mut state.table);
            let short = pool.catalogue.map(|ix| &problem.cluster.catalogues[ix]).map(|columns| {
                let rows = columns.view(set, &mut state.table).rows;
                min_values::shortfalls(columns, &rows, set, None, &state.table)
            });
            let min_values = short.unwrap_or_default().into_iter().map(|short| short.key).collect();
            PoolWithoutTypes { pool: pool.name.clone(), min_values }
        });
        judged.collect()
    }

    /// The pools whose limits kept out types from the beginning, in the order in which they are tried.
    pub fn types_beyond_limits(&self) -> Vec<TypesBeyondLimits> {
        let of_template = |(ix, template): (usize, &super::Template)| {
            let columns = &self.problem.cluster.catalogues[template.catalogue];
            let types = |rows: &Bits| rows.iter().map(|row| columns.rows[row].type_ix).collect::<Bits>().iter().count();
            let mut within = template.rows.clone();
            limits::retain_within_limits(&mut within, columns, &self.state.limits[ix]);
            let (total, left) = (types(&template.rows), types(&within));
            let is_partial = 0 < left && left < total;
            is_partial.then(|| TypesBeyondLimits { pool: template.name.clone(), excluded: total - left, total })
        };
        self.problem.templates.iter().enumerate().filter_map(of_template).collect()
    }

    /// The pods that gave something up to get the last answer, by name.
    pub fn relaxed_pods(&self) -> Vec<RelaxedPod> {
        let mut all: Vec<RelaxedPod> =
            self.relaxed_pods.iter().map(|(pod, end)| self.relaxations_until(*pod, *end)).collect();
        all.sort_by(|a, b| a.pod.cmp(&b.pod));
        all
    }

    fn relaxations_until(&self, pod: PodIx, end: ClassIx) -> RelaxedPod {
        let entry = &self.problem.pods[pod.0 as usize];
        let (mut class, mut given_up) = (entry.class, Vec::new());
        // What lies beyond the steps gives nothing up that is not given up before.
        while class != end
            && let facts = &self.problem.classes[class.0 as usize]
            && let Some((concession, _)) = compile::next_relaxation(&self.problem, &facts.spec)
            && let Some(next) = facts.next_relaxed
        {
            given_up.push(concession);
            class = next;
        }
        RelaxedPod { pod: entry.name.clone(), relaxations: given_up }
    }
}

/// The pods that the pass placed as something else than what they asked for, and those that gave everything up in vain.
pub(super) fn collect_relaxed_pods(pass: &PlacementPass<'_>) -> Vec<(PodIx, ClassIx)> {
    let state = &pass.state;
    let in_vain = state.queue.iter().filter(|pod| {
        let at = pod.0 as usize;
        state.placements[at].is_none() && state.unplaced_reasons[at] == Some(UnplacedReason::NoTarget)
    });
    let ends = in_vain.map(|pod| (*pod, pass.problem.most_relaxed(pass.problem.pods[pod.0 as usize].class)));
    let further = ends.filter(|(pod, end)| pass.problem.pods[pod.0 as usize].class != *end);
    state.relaxed_pods.iter().copied().chain(further).collect()
}

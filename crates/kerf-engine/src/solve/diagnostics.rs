//! Reports about a solve besides the solution: pools without instance types, types excluded by
//! limits, and relaxed pods. Computed on demand for the last solve; the solution does not depend on
//! them.

use kerf_api::slim::Str;

use super::class::ClassIx;
use super::incremental::IncrementalSolver;
use super::pass::{PlacementPass, UnplacedReason};
use super::problem::PodIx;
use super::template::pool_requirement_set;
use super::{compile, min_values};
use crate::bits::Bits;
use crate::pod::relax::Relaxation;

/// A ready pool that has no instance type to launch (spec 02 §5.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolWithoutTypes {
    /// Name of the NodePool.
    pub pool: Str,
    /// Labels whose `minValues` cannot be met. Empty if another reason excludes the types.
    pub min_values: Vec<Str>,
}

/// A pool whose limits exclude some of its instance types, but not all (spec 02 §4.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypesBeyondLimits {
    /// Name of the NodePool.
    pub pool: Str,
    /// Number of types that exceed the remaining limits.
    pub excluded: usize,
    /// Number of types that satisfy the pool's requirements.
    pub total: usize,
}

/// A pod that gave up preferences (spec 02 §6.4). It may still be unplaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelaxedPod {
    /// The pod, as `namespace/name`.
    pub pod: Str,
    /// The relaxations, in the order in which they were applied.
    pub relaxations: Vec<Relaxation>,
}

impl IncrementalSolver {
    /// Returns the ready pools that have no instance type to launch, in the order in which pools
    /// are tried.
    pub fn pools_without_types(&mut self) -> Vec<PoolWithoutTypes> {
        let (problem, state) = (&self.problem, &mut self.state);
        let pools = problem.pools.iter().map(|ix| &problem.cluster.pools[*ix]);
        let empty = pools.filter(|pool| problem.templates.iter().all(|template| template.name != pool.name));
        let reports = empty.map(|pool| {
            let requirements = pool_requirement_set(pool, &problem.cluster.label_rules, &mut state.table);
            let shortfalls = pool.catalogue.map(|ix| &problem.cluster.catalogues[ix]).map(|catalogue| {
                let rows = catalogue.view(requirements, &mut state.table).rows;
                min_values::shortfalls(catalogue, &rows, requirements, None, &state.table)
            });
            let min_values = shortfalls.unwrap_or_default().into_iter().map(|shortfall| shortfall.key).collect();
            PoolWithoutTypes { pool: pool.name.clone(), min_values }
        });
        reports.collect()
    }

    /// Returns the pools whose limits exclude types before any pod is placed, in the order in which
    /// pools are tried.
    pub fn types_beyond_limits(&self) -> Vec<TypesBeyondLimits> {
        let report = |(ix, template): (usize, &super::Template)| {
            let catalogue = &self.problem.cluster.catalogues[template.catalogue];
            let types =
                |rows: &Bits| rows.iter().map(|row| catalogue.rows[row].type_ix).collect::<Bits>().iter().count();
            let mut within = template.rows.clone();
            template.keep_within_limits(&mut within, &self.state.limits[ix]);
            let (total, remaining) = (types(&template.rows), types(&within));
            let is_partial = 0 < remaining && remaining < total;
            is_partial.then(|| TypesBeyondLimits { pool: template.name.clone(), excluded: total - remaining, total })
        };
        self.problem.templates.iter().enumerate().filter_map(report).collect()
    }

    /// Returns the pods that were relaxed in the last solve, sorted by name.
    pub fn relaxed_pods(&self) -> Vec<RelaxedPod> {
        let mut all: Vec<RelaxedPod> =
            self.relaxed_pods.iter().map(|(pod, end)| self.relaxations_until(*pod, *end)).collect();
        all.sort_by(|a, b| a.pod.cmp(&b.pod));
        all
    }

    fn relaxations_until(&self, pod: PodIx, end: ClassIx) -> RelaxedPod {
        let entry = &self.problem.pods[pod.0 as usize];
        let (mut class, mut relaxations) = (entry.class, Vec::new());
        let mut spec = self.problem.classes[class.0 as usize].spec.clone();
        // Last resorts are not listed: they give up no further preference.
        while class != end
            && let Some((relaxation, relaxed_spec)) = compile::next_relaxation(&self.problem, &spec)
            && let Some(next) = self.problem.classes[class.0 as usize].next_relaxed
        {
            relaxations.push(relaxation);
            (class, spec) = (next, relaxed_spec);
        }
        RelaxedPod { pod: entry.name.clone(), relaxations }
    }
}

/// Returns the pods that the pass placed with a class other than their own, and the pods that
/// stayed unplaced although they gave up every preference.
pub(super) fn collect_relaxed_pods(pass: &PlacementPass<'_>) -> Vec<(PodIx, ClassIx)> {
    let state = &pass.state;
    let unplaced = state.queue.iter().filter(|pod| {
        let pod_ix = pod.0 as usize;
        state.placements[pod_ix].is_none() && state.unplaced_reasons[pod_ix] == Some(UnplacedReason::NoTarget)
    });
    let ends = unplaced.map(|pod| (*pod, pass.problem.most_relaxed(pass.problem.pods[pod.0 as usize].class)));
    let relaxed = ends.filter(|(pod, end)| pass.problem.pods[pod.0 as usize].class != *end);
    state.relaxed_pods.iter().copied().chain(relaxed).collect()
}

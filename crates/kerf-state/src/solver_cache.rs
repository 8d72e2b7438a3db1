//! The prepared solver, kept between decisions. It follows pods, nodes and claims by events, so
//! that a decision costs only what has changed. Kinds that change rarely are not followed: their
//! changes invalidate the cache, and the next decision prepares the solver again.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::labels::LabelRules;
use kerf_api::slim::{Node, Pod, Str};
use kerf_engine::catalogue::InstanceTypes;
use kerf_engine::{
    EffectiveZone, IncrementalSolver, PoolAvailability, PoolInput, PoolWithoutTypes, RelaxedPod, Settings, Solution,
    TypesBeyondLimits, UnsupportedStorage,
};

use crate::claims::TrackedClaim;
use crate::cluster::Cluster;
use crate::input::InputContext;
use crate::kinds::Tracked;
use crate::object_table::ObjectChange;

/// A prepared solver and the inputs that it was prepared for.
#[derive(Debug)]
pub(crate) struct SolverCache {
    solver: IncrementalSolver,
    settings: Settings,
    pools: Vec<PoolInput>,
    instance_types: BTreeMap<Str, InstanceTypes>,
    label_rules: LabelRules,
    unsupported_storage: UnsupportedStorage,
}

impl SolverCache {
    /// Returns true if the solver was prepared for exactly these inputs and is not stale.
    fn is_valid_for(&self, context: &InputContext, settings: &Settings, pools: &[PoolInput]) -> bool {
        let is_same = |a: (&Str, &InstanceTypes), b: (&Str, &InstanceTypes)| a.0 == b.0 && a.1.is_same(b.1);
        !self.solver.is_stale()
            && self.settings == *settings
            && self.pools == pools
            && self.instance_types.len() == context.instance_types.len()
            && self.instance_types.iter().zip(&context.instance_types).all(|(a, b)| is_same(a, b))
            && self.label_rules == context.label_rules
            && self.unsupported_storage == context.unsupported_storage
    }
}

impl Cluster {
    /// Places the pending pods. Returns what the engine would return for [`Cluster::input`], but
    /// builds that input only if the cached solver is not valid for `context` and `settings`.
    pub fn solve(&mut self, context: &InputContext, settings: &Settings) -> Solution {
        let pools = self.engine_pools(context).0;
        let mut cache = match self.solver_cache.take().filter(|cache| cache.is_valid_for(context, settings, &pools)) {
            Some(cache) => cache,
            None => SolverCache {
                solver: IncrementalSolver::new(&self.input(context), settings),
                settings: settings.clone(),
                pools,
                instance_types: context.instance_types.clone(),
                label_rules: context.label_rules.clone(),
                unsupported_storage: context.unsupported_storage.clone(),
            },
        };
        cache.solver.set_time(context.at);
        let launches = self.refresh_launch_facts(context.at);
        let solution = cache.solver.solve_with_launches(&launches);
        self.solver_cache = Some(cache);
        solution
    }

    /// Returns the number of pending pods that can use each zone, as of the last decision. Empty if
    /// there is no cached solver.
    pub fn pending_by_zone(&mut self) -> BTreeMap<EffectiveZone, usize> {
        self.solver_cache.as_mut().map(|cache| cache.solver.pending_by_zone()).unwrap_or_default()
    }

    /// Returns the pools that the last decision left out because they were not ready.
    pub fn pools_not_ready(&self) -> Vec<Str> {
        let pools = self.solver_cache.iter().flat_map(|cache| &cache.pools);
        let not_ready = pools.filter(|pool| matches!(pool.availability, PoolAvailability::NotReady(_)));
        not_ready.map(|pool| pool.name.clone()).collect()
    }

    /// Returns the pools that took part in the last decision and had no instance type to launch.
    pub fn pools_without_types(&mut self) -> Vec<PoolWithoutTypes> {
        self.solver_cache.as_mut().map(|cache| cache.solver.pools_without_types()).unwrap_or_default()
    }

    /// Returns the pools whose limits excluded instance types from the last decision.
    pub fn pools_beyond_limits(&self) -> Vec<TypesBeyondLimits> {
        self.solver_cache.as_ref().map(|cache| cache.solver.types_beyond_limits()).unwrap_or_default()
    }

    /// Returns the pods that gave up preferences for the last decision.
    pub fn pods_relaxed(&self) -> Vec<RelaxedPod> {
        self.solver_cache.as_ref().map(|cache| cache.solver.relaxed_pods()).unwrap_or_default()
    }

    pub(crate) fn cache_pod_change(&mut self, change: &ObjectChange<Pod>) {
        let Some(cache) = &mut self.solver_cache else { return };
        match (&change.before, &change.after) {
            (_, Some(pod)) => cache.solver.update_pod(pod),
            (Some(pod), None) => cache.solver.remove_pod(&pod.key()),
            (None, None) => {}
        }
    }

    pub(crate) fn cache_node_change(&mut self, change: &ObjectChange<Node>) {
        let Some(cache) = &mut self.solver_cache else { return };
        match (&change.before, &change.after) {
            (_, Some(node)) => cache.solver.update_node(node),
            (Some(node), None) => cache.solver.remove_node(&node.metadata.name),
            (None, None) => {}
        }
    }

    pub(crate) fn cache_claim_change(&mut self, change: &ObjectChange<TrackedClaim>) {
        if self.solver_cache.is_none() {
            return;
        }
        match (&change.before, &change.after) {
            (_, Some(claim)) => self.refresh_cached_claim(claim),
            (Some(claim), None) => {
                if let Some(cache) = &mut self.solver_cache {
                    cache.solver.remove_claim(claim.name());
                }
            }
            (None, None) => {}
        }
    }

    /// Updates the claim in the cached solver, with its current deletion mark and nomination.
    pub(crate) fn refresh_cached_claim(&mut self, claim: &TrackedClaim) {
        let input = self.engine_claim(claim);
        if let Some(cache) = &mut self.solver_cache {
            cache.solver.update_claim(&input);
        }
    }

    pub(crate) fn refresh_cached_claims(&mut self, provider_id: &str) {
        let claims: Vec<Arc<TrackedClaim>> = self.claims_of(provider_id).cloned().collect();
        for claim in claims {
            self.refresh_cached_claim(&claim);
        }
    }

    /// Drops the cached solver, after a change that it does not follow.
    pub(crate) fn invalidate_cache(&mut self) {
        self.solver_cache = None;
    }
}

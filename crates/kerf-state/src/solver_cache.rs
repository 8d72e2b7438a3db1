//! The prepared solver, kept between decisions. It follows pods, nodes and claims by events, so
//! that a decision costs only what has changed. Kinds that change rarely are not followed: their
//! changes invalidate the cache, and the next decision prepares the solver again.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::labels::LabelRules;
use kerf_api::slim::{Node, Pod, Str};
use kerf_engine::catalogue::InstanceType;
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
    prepared: IncrementalSolver,
    settings: Settings,
    pools: Vec<PoolInput>,
    instance_types: BTreeMap<Str, Arc<Vec<InstanceType>>>,
    label_rules: LabelRules,
    unsupported_storage: UnsupportedStorage,
}

impl SolverCache {
    /// Returns true if the solver was prepared for exactly these inputs and is not stale.
    fn is_valid_for(&self, ask: &InputContext, settings: &Settings, pools: &[PoolInput]) -> bool {
        let is_same = |a: (&Str, &Arc<Vec<InstanceType>>), b: (&Str, &Arc<Vec<InstanceType>>)| {
            a.0 == b.0 && Arc::ptr_eq(a.1, b.1)
        };
        !self.prepared.is_stale()
            && self.settings == *settings
            && self.pools == pools
            && self.instance_types.len() == ask.instance_types.len()
            && self.instance_types.iter().zip(&ask.instance_types).all(|(a, b)| is_same(a, b))
            && self.label_rules == ask.label_rules
            && self.unsupported_storage == ask.unsupported_storage
    }
}

impl Cluster {
    /// Places the pending pods. Returns what the engine would return for [`Cluster::input`], but
    /// builds that input only if the cached solver is not valid for `ask` and `settings`.
    pub fn solve(&mut self, ask: &InputContext, settings: &Settings) -> Solution {
        let pools = self.engine_pools(ask).0;
        let mut kept = match self.solver_cache.take().filter(|kept| kept.is_valid_for(ask, settings, &pools)) {
            Some(kept) => kept,
            None => SolverCache {
                prepared: IncrementalSolver::new(&self.input(ask), settings),
                settings: settings.clone(),
                pools,
                instance_types: ask.instance_types.clone(),
                label_rules: ask.label_rules.clone(),
                unsupported_storage: ask.unsupported_storage.clone(),
            },
        };
        kept.prepared.set_time(ask.at);
        let solution = kept.prepared.solve_with_launched_nodes(&self.launched_provider_ids());
        self.solver_cache = Some(kept);
        solution
    }

    /// Returns the number of pending pods that can use each zone, as of the last decision. Empty if
    /// there is no cached solver.
    pub fn pending_by_zone(&mut self) -> BTreeMap<EffectiveZone, usize> {
        self.solver_cache.as_mut().map(|kept| kept.prepared.pending_by_zone()).unwrap_or_default()
    }

    /// Returns the pools that the last decision left out because they were not ready.
    pub fn pools_not_ready(&self) -> Vec<Str> {
        let pools = self.solver_cache.iter().flat_map(|kept| &kept.pools);
        let not_ready = pools.filter(|pool| matches!(pool.availability, PoolAvailability::NotReady(_)));
        not_ready.map(|pool| pool.name.clone()).collect()
    }

    /// Returns the pools that took part in the last decision and had no instance type to launch.
    pub fn pools_without_types(&mut self) -> Vec<PoolWithoutTypes> {
        self.solver_cache.as_mut().map(|kept| kept.prepared.pools_without_types()).unwrap_or_default()
    }

    /// Returns the pools whose limits excluded instance types from the last decision.
    pub fn pools_beyond_limits(&self) -> Vec<TypesBeyondLimits> {
        self.solver_cache.as_ref().map(|kept| kept.prepared.types_beyond_limits()).unwrap_or_default()
    }

    /// Returns the pods that gave up preferences for the last decision.
    pub fn pods_relaxed(&self) -> Vec<RelaxedPod> {
        self.solver_cache.as_ref().map(|kept| kept.prepared.relaxed_pods()).unwrap_or_default()
    }

    pub(crate) fn cache_pod_change(&mut self, change: &ObjectChange<Pod>) {
        let Some(kept) = &mut self.solver_cache else { return };
        match (&change.before, &change.after) {
            (_, Some(pod)) => kept.prepared.update_pod(pod),
            (Some(pod), None) => kept.prepared.remove_pod(&pod.key()),
            (None, None) => {}
        }
    }

    pub(crate) fn cache_node_change(&mut self, change: &ObjectChange<Node>) {
        let Some(kept) = &mut self.solver_cache else { return };
        match (&change.before, &change.after) {
            (_, Some(node)) => kept.prepared.update_node(node),
            (Some(node), None) => kept.prepared.remove_node(&node.metadata.name),
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
                if let Some(kept) = &mut self.solver_cache {
                    kept.prepared.remove_claim(claim.name());
                }
            }
            (None, None) => {}
        }
    }

    /// Updates the claim in the cached solver, with its current deletion mark and nomination.
    pub(crate) fn refresh_cached_claim(&mut self, claim: &TrackedClaim) {
        let seen = self.engine_claim(claim);
        if let Some(kept) = &mut self.solver_cache {
            kept.prepared.update_claim(&seen);
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

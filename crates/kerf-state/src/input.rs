//! Builds the engine's input from the index, for one point in time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::conditions::{ConditionStatus, READY};
use kerf_api::labels::LabelRules;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_engine::catalogue::InstanceTypes;
use kerf_engine::{Input, NodeClaimInput, PoolAvailability, PoolInput, UnsupportedStorage};

use crate::claims::TrackedClaim;
use crate::cluster::Cluster;
use crate::node_classes::NodeClass;
use crate::pools::{NodeClassState, pool_of_other_provider, to_engine_pool};

/// Everything a decision needs besides the cluster's objects.
#[derive(Debug, Clone)]
pub struct InputContext {
    /// Time for which the decision is made.
    pub at: Timestamp,
    /// Instance types by pool. A pool without an entry could not be listed and launches nothing.
    pub instance_types: BTreeMap<Str, InstanceTypes>,
    /// The provider's rules about labels.
    pub label_rules: LabelRules,
    /// API groups of the node classes that the provider serves. Pools with a node class of another
    /// group belong to another provider.
    pub node_class_groups: Vec<Str>,
    /// Storage that the provider's instances cannot use.
    pub unsupported_storage: UnsupportedStorage,
}

impl Cluster {
    /// Returns the engine's input: all indexed objects with Kerf's own marks and nominations
    /// applied. Copies every object except pods and nodes, which are shared.
    pub fn input(&self, context: &InputContext) -> Input {
        let (pools, catalogues) = self.engine_pools(context);
        Input {
            at: context.at,
            pools,
            catalogues: catalogues.into_iter().cloned().collect(),
            label_rules: context.label_rules.clone(),
            node_claims: self.claims.values().map(|claim| self.engine_claim(claim)).collect(),
            nodes: self.nodes.values().cloned().collect(),
            pods: self.pods.values().cloned().collect(),
            daemon_sets: copies(self.daemon_sets.values()),
            volume_claims: copies(self.volume_claims.values()),
            volumes: copies(self.volumes.values()),
            storage_classes: copies(self.storage_classes.values()),
            csi_nodes: copies(self.csi_nodes.values()),
            namespaces: copies(self.namespaces.values()),
            disruption_budgets: self.budgets_with_own_evictions(context.at),
            services: copies(self.services.values()),
            replica_owners: self.replica_owners(),
            unsupported_storage: context.unsupported_storage.clone(),
            launch_backoffs: Vec::new(),
        }
    }

    /// Returns the pools in their current state, and the lists of instance types that they launch
    /// from.
    pub(crate) fn engine_pools<'a>(&self, context: &'a InputContext) -> (Vec<PoolInput>, Vec<&'a InstanceTypes>) {
        let mut catalogues: Vec<&'a InstanceTypes> = Vec::new();
        let pools: Vec<PoolInput> = self
            .pools
            .values()
            .map(|pool| {
                let catalogue = context.instance_types.get(pool.metadata.name.as_deref().unwrap_or_default());
                // Pools with the same list share one entry.
                let index = catalogue.map(|types| {
                    catalogues.iter().position(|known| known.is_same(types)).unwrap_or_else(|| {
                        catalogues.push(types);
                        catalogues.len() - 1
                    })
                });
                self.pool(pool, index, &context.node_class_groups)
            })
            .collect();
        (pools, catalogues)
    }

    /// Returns the claim with its current deletion mark and nomination.
    pub(crate) fn engine_claim(&self, claim: &TrackedClaim) -> NodeClaimInput {
        let mut input = claim.engine_claim.clone();
        input.is_marked_for_disruption = self.intents.is_marked(&input.provider_id);
        input.lifecycle.nominated_until = self.intents.nominated_until(&input.provider_id);
        input
    }

    /// Returns the pool in its current state. Only a pool whose `Ready` condition is True takes
    /// pods (spec 02 §5.1).
    fn pool(&self, object: &NodePool, catalogue: Option<usize>, served_groups: &[Str]) -> PoolInput {
        let group = &object.spec.template.spec.node_class_ref.group;
        if !served_groups.iter().any(|served| served == group) {
            return pool_of_other_provider(object);
        }
        let class = self.class_of(object).map_or(NodeClassState::Missing, |class| class.state());
        let mut pool = to_engine_pool(object, &class, catalogue);
        if pool.availability == PoolAvailability::Ready && !is_ready(object) {
            pool.availability = PoolAvailability::NotReady(Str::new_static("Ready=Unknown"));
        }
        if pool.availability == PoolAvailability::Ready
            && !pool.limits.is_empty()
            && let Some(claim) = self.unlaunched_claim_of(&pool.name)
        {
            pool.availability = PoolAvailability::AwaitingLaunch(claim.clone());
        }
        pool
    }

    /// Returns the first unlaunched claim of a pool.
    fn unlaunched_claim_of(&self, pool: &str) -> Option<&Str> {
        let is_of_pool = |claim: &&Str| self.claims.get(claim).is_some_and(|claim| claim.pool() == Some(pool));
        self.unlaunched.iter().find(is_of_pool)
    }

    /// Returns the node class that a pool refers to, or `None` if it does not exist.
    pub fn class_of(&self, pool: &NodePool) -> Option<&Arc<NodeClass>> {
        self.node_class(&pool.spec.template.spec.node_class_ref)
    }
}

/// Returns true if the pool's condition `Ready` is True.
fn is_ready(pool: &NodePool) -> bool {
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions.iter().any(|condition| condition.condition_type == READY && condition.status == ConditionStatus::True)
}

fn copies<'a, T: Clone + 'a>(objects: impl Iterator<Item = &'a Arc<T>>) -> Vec<T> {
    objects.map(|object| object.as_ref().clone()).collect()
}

//! The index: every object that some decision reads, found by what decisions ask for. It is told what happened and keeps its
//! cross-references true; that is all it does.
//!
//! Three things always hold. What we wrote ourselves is never undone by older news from a watch, nor does it bring back what is gone. A pod
//! counts on exactly one node, the one that its latest version names. And two nodes or claims with one machine are both kept: who cares says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::labels;
use kerf_api::nodepool::NodePool;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{
    CsiNode, DaemonSet, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, Service,
    StorageClass, Str, VolumeAttachment,
};

use crate::claims::TrackedClaim;
use crate::intents::Intents;
use crate::kinds::{NodeClass, Tracked};
use crate::nodes::StateNode;
use crate::object_table::{ObjectChange, ObjectTable};
use crate::replica_owners::{ReplicaSet, ReplicationController, StatefulSet};
use crate::solver_cache::SolverCache;

/// What pods on a node ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRequests {
    /// All of them.
    pub pods: BTreeMap<Str, Quantity>,
    /// Those of daemon sets alone.
    pub daemons: BTreeMap<Str, Quantity>,
}

/// The cluster as we know it.
#[derive(Debug, Default)]
pub struct Cluster {
    pub(crate) claims: ObjectTable<TrackedClaim>,
    pub(crate) pools: ObjectTable<NodePool>,
    pub(crate) node_classes: ObjectTable<NodeClass>,
    pub(crate) pods: ObjectTable<Pod>,
    pub(crate) nodes: ObjectTable<Node>,
    pub(crate) daemon_sets: ObjectTable<DaemonSet>,
    pub(crate) disruption_budgets: ObjectTable<PodDisruptionBudget>,
    pub(crate) volume_claims: ObjectTable<PersistentVolumeClaim>,
    pub(crate) volumes: ObjectTable<PersistentVolume>,
    pub(crate) storage_classes: ObjectTable<StorageClass>,
    pub(crate) csi_nodes: ObjectTable<CsiNode>,
    pub(crate) volume_attachments: ObjectTable<VolumeAttachment>,
    pub(crate) namespaces: ObjectTable<Namespace>,
    // These four are told of only where pods have default spread constraints.
    pub(crate) services: ObjectTable<Service>,
    pub(crate) replica_sets: ObjectTable<ReplicaSet>,
    pub(crate) stateful_sets: ObjectTable<StatefulSet>,
    pub(crate) replication_controllers: ObjectTable<ReplicationController>,

    pub(crate) intents: Intents,
    pub(crate) has_been_synced: bool,
    /// The engine's books, between decisions.
    pub(crate) solver_cache: Option<SolverCache>,
    pods_by_node: BTreeMap<Str, BTreeSet<Str>>,
    nodes_by_provider_id: BTreeMap<Str, BTreeSet<Str>>,
    claims_by_provider_id: BTreeMap<Str, BTreeSet<Str>>,
    /// Claims without a machine: as long as there are any, nothing may be decided.
    pub(crate) unlaunched: BTreeSet<Str>,
}

impl Cluster {
    /// An index that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The objects of a kind.
    pub fn all<T: Tracked>(&self) -> &ObjectTable<T> {
        T::table(self)
    }

    /// One object.
    pub fn get<T: Tracked>(&self, key: &str) -> Option<&Arc<T>> {
        T::table(self).get(key)
    }

    /// Takes note of an object that is new or has changed. Says what that changed: nothing, if we knew something newer. News of what we
    /// wrote ourselves is told although we know it, because others may wait for it.
    pub fn apply<T: Tracked>(&mut self, object: T) -> Option<ObjectChange<T>> {
        let key = object.key();
        if let Some(known) = T::table(self).get(&key) {
            if known.version() > object.version() {
                return None;
            }
            if **known == object {
                let same = || Some(known.clone());
                return object.version().map(|_| ObjectChange { before: same(), after: same() });
            }
        }
        let object = Arc::new(object);
        let before = T::table_mut(self).insert(key, object.clone());
        let change = ObjectChange { before, after: Some(object) };
        T::update_indexes(self, &change);
        Some(change)
    }

    /// Takes note of what the API server answered to a write of ours. The watch may have told more meanwhile: an object that is not known is
    /// gone, and nobody would ever tell again that it is.
    pub fn apply_own_write<T: Tracked>(&mut self, object: T) -> Option<ObjectChange<T>> {
        T::table(self).get(&object.key())?;
        self.apply(object)
    }

    /// Takes note of an object that is gone.
    pub fn delete<T: Tracked>(&mut self, object: &T) -> Option<ObjectChange<T>> {
        let before = T::table_mut(self).remove(&object.key())?;
        let change = ObjectChange { before: Some(before), after: None };
        T::update_indexes(self, &change);
        Some(change)
    }

    /// Takes note of all objects of a kind; what is not among them is gone.
    pub fn reset<T: Tracked>(&mut self, objects: Vec<T>) -> Vec<ObjectChange<T>> {
        let listed: BTreeSet<Str> = objects.iter().map(Tracked::key).collect();
        let gone: Vec<Arc<T>> = T::table(self)
            .iter()
            .filter(|(key, object)| !listed.contains(*key) && !object.survives_relist(self))
            .map(|(_, object)| object.clone())
            .collect();
        let mut changes: Vec<ObjectChange<T>> = gone.iter().filter_map(|object| self.delete(object.as_ref())).collect();
        changes.extend(objects.into_iter().filter_map(|object| self.apply(object)));
        T::table_mut(self).mark_listed();
        changes
    }

    /// Takes note of a claim that we have just created, before any watch tells of it: until it is launched or gone, nothing may be
    /// decided, for its room is spoken for.
    pub fn insert_created(&mut self, claim: TrackedClaim) {
        let name = claim.engine_claim.name.clone();
        if self.apply(claim).is_some() {
            self.intents.mark_created(name);
        }
    }

    /// The watch has told of a claim, or the API server says that it is gone.
    pub fn mark_observed(&mut self, claim: &str) {
        self.intents.mark_observed(claim);
    }

    /// Forgets a claim that we created and that is gone without any watch having told of it. One that has a machine, or that a
    /// watch knows, stays. Says whether it was forgotten.
    pub fn remove_unobserved(&mut self, claim: &str) -> bool {
        let Some(known) = self.claims.get(claim).cloned() else { return false };
        if !self.intents.is_unobserved(claim) || !known.engine_claim.provider_id.is_empty() {
            return false;
        }
        self.intents.mark_observed(claim);
        self.delete(known.as_ref()).is_some()
    }

    /// The pods that are bound to a node, in the order of their names; none for an empty name.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods_by_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    /// The nodes of a machine, in the order of their names; none for an empty provider id.
    pub fn nodes_of(&self, provider_id: &str) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes_by_provider_id.get(provider_id).into_iter().flatten().filter_map(|name| self.nodes.get(name))
    }

    /// The claims of a machine, in the order of their names; none for an empty provider id.
    pub fn claims_of(&self, provider_id: &str) -> impl Iterator<Item = &Arc<TrackedClaim>> {
        self.claims_by_provider_id.get(provider_id).into_iter().flatten().filter_map(|name| self.claims.get(name))
    }

    /// Nodes and claims joined by their machines: nodes first, in the order of their names, then claims that have no node yet.
    /// Claims that are not launched are not among them, nor are nodes of ours that nothing is known of yet.
    pub fn state_nodes(&self) -> impl Iterator<Item = StateNode<'_>> {
        let of_nodes = self.nodes.values().filter_map(|node| self.state_node(node));
        let alone = self.claims.values().filter(|claim| {
            let id = &claim.engine_claim.provider_id;
            !id.is_empty() && !self.nodes_by_provider_id.contains_key(id) && self.is_first_claim(claim)
        });
        of_nodes.chain(alone.map(|claim| StateNode {
            node: None,
            claim: Some(claim),
            is_marked: self.intents.is_marked(&claim.engine_claim.provider_id),
        }))
    }

    /// A node joined with its claim; none if it does not count yet.
    pub fn state_node<'c>(&'c self, node: &'c Node) -> Option<StateNode<'c>> {
        let id = &node.spec.provider_id;
        let claim = self.claims_of(id).next();
        (claim.is_some() || crate::nodes::is_tracked(node)).then(|| StateNode {
            node: Some(node),
            claim: claim.map(Arc::as_ref),
            is_marked: self.intents.is_marked(if id.is_empty() { &node.metadata.name } else { id }),
        })
    }

    fn is_first_claim(&self, claim: &TrackedClaim) -> bool {
        self.claims_of(&claim.engine_claim.provider_id)
            .next()
            .is_some_and(|first| first.engine_claim.name == claim.engine_claim.name)
    }

    /// What the pods on a node ask for, ended ones left out: all of them, and those of daemon sets.
    pub fn requests_on(&self, node: &str) -> NodeRequests {
        let mut requests = NodeRequests::default();
        for pod in self.pods_on(node).filter(|pod| !pod.is_terminal()) {
            let asked = kerf_engine::pod_requests(pod);
            for (name, amount) in asked.iter() {
                *requests.pods.entry(name.clone()).or_default() += amount;
                if pod.is_owned_by_daemonset() {
                    *requests.daemons.entry(name.clone()).or_default() += amount;
                }
            }
        }
        requests
    }

    /// What the nodes of a pool amount to, those that are about to go left out (spec 04 §4.7).
    pub fn pool_usage(&self, pool: &str) -> BTreeMap<Str, Quantity> {
        let mut usage: BTreeMap<Str, Quantity> = BTreeMap::new();
        for node in self.state_nodes().filter(|node| !node.is_marked_for_deletion()) {
            if node.labels().has_value(labels::NODEPOOL, pool) {
                for (name, amount) in node.capacity().iter() {
                    *usage.entry(name.clone()).or_default() += amount;
                }
            }
        }
        usage
    }

    /// Marks a machine as one that is about to go; a machine that is not known is ignored.
    pub fn mark_for_deletion(&mut self, provider_id: &str) {
        if self.is_known_provider_id(provider_id) {
            self.intents.mark(Str::from(provider_id));
            self.refresh_cached_claims(provider_id);
        }
    }

    /// Takes a mark back.
    pub fn unmark_for_deletion(&mut self, provider_id: &str) {
        self.intents.unmark(provider_id);
        self.refresh_cached_claims(provider_id);
    }

    /// Expects pods on a machine until an instant.
    pub fn nominate(&mut self, provider_id: &str, until: Timestamp) {
        if self.is_known_provider_id(provider_id) {
            self.intents.nominate(Str::from(provider_id), until);
        }
    }

    /// Notes that a claim was launched for a pod: until the pod is bound, further decisions offer it that machine first.
    pub fn record_launched_for(&mut self, pod: Str, claim: Str) {
        self.intents.record_launched_for(pod, claim);
    }

    /// The machines that were launched for pods that still wait, by provider id.
    pub(crate) fn launched_provider_ids(&mut self) -> BTreeMap<Str, Str> {
        let (pods, claims) = (&self.pods, &self.claims);
        let waits = |pod: &Str| pods.get(pod).is_some_and(|pod| pod.spec.node_name.is_none());
        let expected = self.intents.retain_launched_for(|pod, claim| waits(pod) && claims.get(claim).is_some());
        let machine = |claim| claims.get(claim).map(|claim| claim.engine_claim.provider_id.clone());
        let known = expected.iter().filter_map(|(pod, claim)| Some((pod.clone(), machine(claim)?)));
        known.filter(|(_, machine)| !machine.is_empty()).collect()
    }

    /// A pod that has lost its place: the machine that was launched for it took in another one, which has just been bound, and has no room left
    /// for all whom it was meant for.
    pub fn displaced_by(&self, change: &ObjectChange<Pod>) -> Option<Str> {
        let bound = change.after.as_ref()?;
        let name = bound.spec.node_name.as_ref()?;
        if change.before.as_ref().is_some_and(|before| before.spec.node_name.is_some()) {
            return None;
        }
        let node = self.nodes.get(name)?;
        let claims = self.claims_of(&node.spec.provider_id);
        let expected = claims.flat_map(|claim| self.intents.pods_launched_for(claim.name()));
        let mut waiting =
            expected.filter_map(|key| self.pods.get(key)).filter(|pod| pod.spec.node_name.is_none()).peekable();
        waiting.peek()?;
        let mut taken = self.requests_on(name).pods;
        waiting.find_map(|pod| {
            let asked = kerf_engine::pod_requests(pod);
            asked.iter().for_each(|(name, amount)| *taken.entry(name.clone()).or_default() += amount);
            let has_room = asked.iter().all(|(name, _)| {
                let all = node.status.allocatable.get(name).unwrap_or_default();
                taken.get(name).is_none_or(|taken| *taken <= all)
            });
            (!has_room).then(|| pod.key())
        })
    }

    /// Whether pods are expected on a machine.
    pub fn is_nominated(&self, provider_id: &str, now: Timestamp) -> bool {
        self.intents.nominated_until(provider_id).is_some_and(|until| now < until)
    }

    fn is_known_provider_id(&self, provider_id: &str) -> bool {
        self.nodes_by_provider_id.contains_key(provider_id)
            || self.claims_by_provider_id.contains_key(provider_id)
            || self.nodes.get(provider_id).is_some_and(|node| node.spec.provider_id.is_empty())
    }

    pub(crate) fn index_pod(&mut self, change: &ObjectChange<Pod>) {
        let place = |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| pod.spec.node_name.clone());
        let (before, after) = (place(&change.before), place(&change.after));
        let Some(key) = change.latest().map(|pod| pod.key()) else { return };
        relink(&mut self.pods_by_node, &key, before.as_ref(), after.as_ref());
        self.cache_pod_change(change);
    }

    pub(crate) fn index_node(&mut self, change: &ObjectChange<Node>) {
        let machine = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node.spec.provider_id.clone());
        let (before, after) = (machine(&change.before), machine(&change.after));
        let Some(key) = change.latest().map(|node| node.key()) else { return };
        relink(&mut self.nodes_by_provider_id, &key, before.as_ref(), after.as_ref());
        self.forget_if_unknown(before.as_ref());
        self.cache_node_change(change);
    }

    pub(crate) fn index_claim(&mut self, change: &ObjectChange<TrackedClaim>) {
        let machine =
            |claim: &Option<Arc<TrackedClaim>>| claim.as_ref().map(|claim| claim.engine_claim.provider_id.clone());
        let (before, after) = (machine(&change.before), machine(&change.after));
        let Some(key) = change.latest().map(|claim| claim.key()) else { return };
        relink(&mut self.claims_by_provider_id, &key, before.as_ref(), after.as_ref());
        // A claim that says that it was launched holds nobody up, even if somebody took its machine's name away.
        let is_awaited = |claim: &Arc<TrackedClaim>| {
            claim.engine_claim.provider_id.is_empty() && !claim.is_condition_true("Launched")
        };
        if change.after.as_ref().is_some_and(is_awaited) {
            self.unlaunched.insert(key);
        } else {
            self.unlaunched.remove(&key);
        }
        self.forget_if_unknown(before.as_ref());
        self.cache_claim_change(change);
    }

    fn forget_if_unknown(&mut self, before: Option<&Str>) {
        if let Some(id) = before.filter(|id| !self.is_known_provider_id(id)) {
            self.intents.forget_provider_id(id);
        }
    }
}

/// Moves a key from under one name to under another; empty names stand for nothing.
pub(crate) fn relink(links: &mut BTreeMap<Str, BTreeSet<Str>>, key: &Str, before: Option<&Str>, after: Option<&Str>) {
    if before == after {
        return;
    }
    if let Some(before) = before
        && let Some(keys) = links.get_mut(before)
    {
        keys.remove(key);
        if keys.is_empty() {
            links.remove(before);
        }
    }
    if let Some(after) = after.filter(|name| !name.is_empty()) {
        links.entry(after.clone()).or_default().insert(key.clone());
    }
}

#[cfg(test)]
mod tests;

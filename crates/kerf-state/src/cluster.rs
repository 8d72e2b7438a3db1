//! The index of every API object that some decision reads. It stores objects and keeps its
//! cross-references (pods by node, nodes and claims by provider ID) up to date. It decides nothing
//! and calls no API. A claim is a NodeClaim; PersistentVolumeClaims are called volume claims.
//!
//! Three invariants:
//! - An older watch event never undoes a write of Kerf's own, and the response to a write never
//!   re-adds an object that has been deleted.
//! - A pod counts on at most one node: the one that its latest version names.
//! - If two nodes or two claims have the same provider ID, both are kept. [`Cluster::state_nodes`]
//!   joins a node with the first claim by name. Callers that need uniqueness check for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::conditions::LAUNCHED;
use kerf_api::labels;
use kerf_api::nodepool::NodePool;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{
    CsiNode, DaemonSet, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, Service,
    StorageClass, Str, VolumeAttachment,
};

use crate::claims::TrackedClaim;
use crate::instance_ids::instance_key;
use crate::intents::Intents;
use crate::kinds::Tracked;
use crate::launch_attempts::LaunchAttempts;
use crate::node_classes::NodeClass;
use crate::nodes::StateNode;
use crate::object_table::{ObjectChange, ObjectTable};
use crate::own_evictions::OwnEvictions;
use crate::replica_owners::{ReplicaSet, ReplicationController, StatefulSet};
use crate::solver_cache::SolverCache;

/// Resources requested by the pods that are bound to one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRequests {
    /// Sum over all pods, DaemonSet pods included, by resource.
    pub total: BTreeMap<Str, Quantity>,
    /// Sum over the DaemonSet pods alone, by resource.
    pub daemons: BTreeMap<Str, Quantity>,
}

/// Index of the cluster's objects, plus what Kerf has done and the API server does not show yet.
#[derive(Debug, Default)]
pub struct Cluster {
    pub(crate) claims: ObjectTable<TrackedClaim>,
    pub(crate) pools: ObjectTable<NodePool>,
    pub(crate) node_classes: ObjectTable<NodeClass>,
    /// Group and kind of the node classes that have been listed.
    pub(crate) listed_node_class_kinds: BTreeSet<(Str, Str)>,
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
    // The next four kinds are watched only if default topology spread constraints are configured.
    pub(crate) services: ObjectTable<Service>,
    pub(crate) replica_sets: ObjectTable<ReplicaSet>,
    pub(crate) stateful_sets: ObjectTable<StatefulSet>,
    pub(crate) replication_controllers: ObjectTable<ReplicationController>,

    pub(crate) intents: Intents,
    pub(crate) launch_attempts: LaunchAttempts,
    pub(crate) own_evictions: OwnEvictions,
    /// True once cluster state has been synced. From then on only unlaunched claims make it
    /// unsynced.
    pub(crate) has_been_synced: bool,
    /// The prepared solver, kept between decisions. `None` until the first decision and after a
    /// change that the solver cannot follow.
    pub(crate) solver_cache: Option<SolverCache>,
    pods_by_node: BTreeMap<Str, BTreeSet<Str>>,
    nodes_by_provider_id: BTreeMap<Str, BTreeSet<Str>>,
    claims_by_provider_id: BTreeMap<Str, BTreeSet<Str>>,
    pub(crate) nodes_by_instance_id: BTreeMap<Str, BTreeSet<Str>>,
    pub(crate) claims_by_instance_id: BTreeMap<Str, BTreeSet<Str>>,
    /// Claims without a provider ID and without `Launched=True`. While there are any, cluster state
    /// is not synced (see [`Cluster::check_synced_for_provisioning`] for the exception).
    pub(crate) unlaunched: BTreeSet<Str>,
}

impl Cluster {
    /// Returns an empty index in which no kind is listed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns all objects of a kind.
    pub fn all<T: Tracked>(&self) -> &ObjectTable<T> {
        T::table(self)
    }

    /// Returns the object with this key (see [`Tracked::key`]).
    pub fn get<T: Tracked>(&self, key: &str) -> Option<&Arc<T>> {
        T::table(self).get(key)
    }

    /// Records a new or changed object and returns the change. Returns `None` if the stored version
    /// is newer, or if the object is unchanged and of a kind that Kerf does not write.
    ///
    /// For a kind that Kerf writes ([`Tracked::version`]), an unchanged object is returned as a
    /// change all the same: if the response to Kerf's own write has already updated the index, the
    /// event handlers have not seen this version yet.
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

    /// Records the object that the API server returned for a write of Kerf's own. An object that is
    /// not in the index is ignored: the watch has already reported its deletion, so a re-added
    /// object would stay in the index until the next list.
    pub fn apply_own_write<T: Tracked>(&mut self, object: T) -> Option<ObjectChange<T>> {
        T::table(self).get(&object.key())?;
        self.apply(object)
    }

    /// Removes an object and returns the change. Returns `None` if the object is not in the index.
    pub fn delete<T: Tracked>(&mut self, object: &T) -> Option<ObjectChange<T>> {
        let before = T::table_mut(self).remove(&object.key())?;
        let change = ObjectChange { before: Some(before), after: None };
        T::update_indexes(self, &change);
        Some(change)
    }

    /// Replaces all objects of a kind with a complete list and returns the changes. Objects that
    /// are not listed are removed, except those for which [`Tracked::survives_relist`] holds.
    pub fn reset<T: Tracked>(&mut self, objects: Vec<T>) -> Vec<ObjectChange<T>> {
        self.reset_matching(objects, |_| true)
    }

    /// Does the same for a list of only those objects of a kind for which `is_covered` holds. Other
    /// objects stay.
    pub(crate) fn reset_matching<T: Tracked>(
        &mut self,
        objects: Vec<T>,
        is_covered: impl Fn(&T) -> bool,
    ) -> Vec<ObjectChange<T>> {
        let listed: BTreeSet<Str> = objects.iter().map(Tracked::key).collect();
        let unlisted: Vec<Arc<T>> = T::table(self)
            .iter()
            .filter(|(key, object)| is_covered(object) && !listed.contains(*key) && !object.survives_relist(self))
            .map(|(_, object)| object.clone())
            .collect();
        let mut changes: Vec<ObjectChange<T>> =
            unlisted.iter().filter_map(|object| self.delete(object.as_ref())).collect();
        changes.extend(objects.into_iter().filter_map(|object| self.apply(object)));
        T::table_mut(self).mark_listed();
        changes
    }

    /// Inserts a claim that Kerf has just created, before a watch reports it. Cluster state is
    /// unsynced until the claim is launched or deleted, so that no decision launches capacity for
    /// the same pods again.
    pub fn insert_created(&mut self, claim: TrackedClaim) {
        let name = claim.engine_claim.name.clone();
        let is_applied = self.apply(claim).is_some();
        // A watch may have shown a newer version of the claim already.
        if self.claims.get(&name).is_some() {
            self.intents.mark_created_here(name.clone());
        }
        if is_applied {
            self.intents.mark_unobserved(name);
        }
    }

    /// Records that a watch has reported the claim, or that the API server no longer has it.
    pub fn mark_observed(&mut self, claim: &str) {
        self.intents.mark_observed(claim);
    }

    /// Removes a claim that Kerf created, after the caller has found that the API server no longer
    /// has it. A claim that has a provider ID, or that a watch has reported, stays. Returns true if
    /// the claim was removed.
    pub fn remove_unobserved(&mut self, claim: &str) -> bool {
        let Some(known) = self.claims.get(claim).cloned() else { return false };
        if !self.intents.is_unobserved(claim) || !known.engine_claim.provider_id.is_empty() {
            return false;
        }
        self.intents.mark_observed(claim);
        self.delete(known.as_ref()).is_some()
    }

    /// Returns the pods that are bound to a node, in the order of their keys. Returns none for
    /// an empty name.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods_by_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    /// Returns the nodes with this provider ID, in the order of their names. Returns none for an
    /// empty ID.
    pub fn nodes_of(&self, provider_id: &str) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes_by_provider_id.get(provider_id).into_iter().flatten().filter_map(|name| self.nodes.get(name))
    }

    /// Returns the claims with this provider ID, in the order of their names. Returns none for an
    /// empty ID.
    pub fn claims_of(&self, provider_id: &str) -> impl Iterator<Item = &Arc<TrackedClaim>> {
        self.claims_by_provider_id.get(provider_id).into_iter().flatten().filter_map(|name| self.claims.get(name))
    }

    /// Returns nodes and claims joined by provider ID: first the nodes, in the order of their
    /// names, then the claims that have a provider ID and no node yet. Omits claims without a
    /// provider ID and nodes that are not complete (see [`Cluster::state_node`]). Of several claims
    /// with one provider ID, the first by name is used.
    pub fn state_nodes(&self) -> impl Iterator<Item = StateNode<'_>> {
        let joined = self.nodes.values().filter_map(|node| self.state_node(node));
        let claims_without_node = self.claims.values().filter(|claim| {
            let id = &claim.engine_claim.provider_id;
            !id.is_empty() && !self.nodes_by_provider_id.contains_key(id) && self.is_first_with_its_provider_id(claim)
        });
        joined.chain(claims_without_node.map(|claim| StateNode {
            node: None,
            claim: Some(claim),
            is_marked: self.intents.is_marked(&claim.engine_claim.provider_id),
        }))
    }

    /// Joins a node with its claim; of several claims with its provider ID, with the first by name.
    /// Returns `None` if the node has no claim and is not complete (see
    /// [`crate::is_complete_node`]).
    pub fn state_node<'c>(&'c self, node: &'c Node) -> Option<StateNode<'c>> {
        let id = &node.spec.provider_id;
        let claim = self.claims_of(id).next();
        (claim.is_some() || crate::nodes::is_complete_node(node)).then(|| StateNode {
            node: Some(node),
            claim: claim.map(Arc::as_ref),
            is_marked: self.intents.is_marked(if id.is_empty() { &node.metadata.name } else { id }),
        })
    }

    fn is_first_with_its_provider_id(&self, claim: &TrackedClaim) -> bool {
        self.claims_of(&claim.engine_claim.provider_id)
            .next()
            .is_some_and(|first| first.engine_claim.name == claim.engine_claim.name)
    }

    /// Returns the resources that the pods on a node request. Succeeded and failed pods are left
    /// out.
    pub fn requests_on(&self, node: &str) -> NodeRequests {
        let mut requests = NodeRequests::default();
        for pod in self.pods_on(node).filter(|pod| !pod.is_terminal()) {
            let pod_requests = kerf_engine::pod_requests(pod);
            for (name, amount) in pod_requests.iter() {
                *requests.total.entry(name.clone()).or_default() += amount;
                if pod.is_owned_by_daemonset() {
                    *requests.daemons.entry(name.clone()).or_default() += amount;
                }
            }
        }
        requests
    }

    /// Returns the summed capacity of a pool's nodes, without those marked for deletion (spec 04
    /// §4.7).
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

    /// Marks an instance for deletion. `provider_id` is the name of the Node if the Node has no
    /// provider ID. An unknown one is ignored.
    pub fn mark_for_deletion(&mut self, provider_id: &str) {
        if self.is_known_provider_id(provider_id) {
            self.intents.mark(Str::from(provider_id));
            self.refresh_cached_claims(provider_id);
        }
    }

    /// Undoes [`mark_for_deletion`](Self::mark_for_deletion), when a command is rolled back.
    pub fn unmark_for_deletion(&mut self, provider_id: &str) {
        self.intents.unmark(provider_id);
        self.refresh_cached_claims(provider_id);
    }

    /// Records that pods are expected on an instance until the given time. An unknown provider ID
    /// is ignored.
    pub fn nominate(&mut self, provider_id: &str, until: Timestamp) {
        if self.is_known_provider_id(provider_id) {
            self.intents.nominate(Str::from(provider_id), until);
        }
    }

    /// Returns true if pods are expected on the instance at `now`.
    pub fn is_nominated(&self, provider_id: &str, now: Timestamp) -> bool {
        self.intents.nominated_until(provider_id).is_some_and(|until| now < until)
    }

    fn is_known_provider_id(&self, provider_id: &str) -> bool {
        self.nodes_by_provider_id.contains_key(provider_id)
            || self.claims_by_provider_id.contains_key(provider_id)
            || self.nodes.get(provider_id).is_some_and(|node| node.spec.provider_id.is_empty())
    }

    /// Updates `pods_by_node` and the solver cache.
    pub(crate) fn index_pod(&mut self, change: &ObjectChange<Pod>) {
        let node_of = |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| pod.spec.node_name.clone());
        let (before, after) = (node_of(&change.before), node_of(&change.after));
        let Some(key) = change.latest().map(|pod| pod.key()) else { return };
        move_key(&mut self.pods_by_node, &key, before.as_ref(), after.as_ref());
        self.follow_launched_pod(&key, change);
        self.cache_pod_change(change);
    }

    /// Passes a change of a pod on to [`LaunchAttempts`].
    fn follow_launched_pod(&mut self, key: &Str, change: &ObjectChange<Pod>) {
        if self.launch_attempts.is_empty() {
            return;
        }
        match (&change.before, &change.after) {
            (_, Some(pod)) => {
                let node = pod.spec.node_name.as_ref().and_then(|name| self.nodes.get(name));
                let claim = node.and_then(|node| self.claims_of(&node.spec.provider_id).next());
                let claim = claim.map(|claim| claim.name().clone());
                self.launch_attempts.on_pod(key, pod, claim.as_ref());
            }
            (Some(pod), None) => self.launch_attempts.on_pod_deleted(key, pod),
            (None, None) => {}
        }
    }

    /// Updates `nodes_by_provider_id`, the intents of an instance that no longer exists, and the
    /// solver cache.
    pub(crate) fn index_node(&mut self, change: &ObjectChange<Node>) {
        let provider_id_of = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node.spec.provider_id.clone());
        let (before, after) = (provider_id_of(&change.before), provider_id_of(&change.after));
        let Some(key) = change.latest().map(|node| node.key()) else { return };
        move_key(&mut self.nodes_by_provider_id, &key, before.as_ref(), after.as_ref());
        let (instance_before, instance_after) = (instance_key(before.as_ref()), instance_key(after.as_ref()));
        move_key(&mut self.nodes_by_instance_id, &key, instance_before.as_ref(), instance_after.as_ref());
        self.forget_if_unknown(before.as_ref());
        self.cache_node_change(change);
    }

    /// Updates `claims_by_provider_id`, `unlaunched`, the intents of an instance that no longer
    /// exists, and the solver cache.
    pub(crate) fn index_claim(&mut self, change: &ObjectChange<TrackedClaim>) {
        let provider_id_of =
            |claim: &Option<Arc<TrackedClaim>>| claim.as_ref().map(|claim| claim.engine_claim.provider_id.clone());
        let (before, after) = (provider_id_of(&change.before), provider_id_of(&change.after));
        let Some(key) = change.latest().map(|claim| claim.key()) else { return };
        move_key(&mut self.claims_by_provider_id, &key, before.as_ref(), after.as_ref());
        let (instance_before, instance_after) = (instance_key(before.as_ref()), instance_key(after.as_ref()));
        move_key(&mut self.claims_by_instance_id, &key, instance_before.as_ref(), instance_after.as_ref());
        // A claim with `Launched=True` does not block decisions, even if its provider ID was
        // removed.
        let is_unlaunched =
            |claim: &Arc<TrackedClaim>| claim.engine_claim.provider_id.is_empty() && !claim.is_condition_true(LAUNCHED);
        if change.after.as_ref().is_some_and(is_unlaunched) {
            self.unlaunched.insert(key.clone());
        } else {
            self.unlaunched.remove(&key);
        }
        if let Some(claim) = change.latest() {
            self.launch_attempts.on_claim(claim, change.after.is_none());
        }
        if change.after.is_none() {
            self.intents.forget_claim(&key);
        }
        self.forget_if_unknown(before.as_ref());
        self.cache_claim_change(change);
    }

    /// Removes mark and nomination of an instance if no node or claim has its provider ID any more.
    fn forget_if_unknown(&mut self, old_provider_id: Option<&Str>) {
        if let Some(id) = old_provider_id.filter(|id| !self.is_known_provider_id(id)) {
            self.intents.forget_provider_id(id);
        }
    }
}

/// Moves `key` from the set under `before` to the set under `after`, which are for example names of
/// nodes or provider IDs. Nothing is stored under an empty one.
pub(crate) fn move_key(sets: &mut BTreeMap<Str, BTreeSet<Str>>, key: &Str, before: Option<&Str>, after: Option<&Str>) {
    if before == after {
        return;
    }
    if let Some(before) = before
        && let Some(keys) = sets.get_mut(before)
    {
        keys.remove(key);
        if keys.is_empty() {
            sets.remove(before);
        }
    }
    if let Some(after) = after.filter(|name| !name.is_empty()) {
        sets.entry(after.clone()).or_default().insert(key.clone());
    }
}

#[cfg(test)]
mod tests;

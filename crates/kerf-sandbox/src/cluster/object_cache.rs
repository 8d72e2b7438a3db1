//! The objects that the control plane acts on, decoded once per change and indexed by controller,
//! namespace and node. The cache is up to date before each controller pass, so no controller has to
//! account for its own recent writes.
//!
//! Invariant: an index holds exactly the objects that it describes, in their current state, ordered
//! by key.

use std::collections::BTreeMap;
use std::sync::Arc;

use smol_str::SmolStr;

use super::kind::ControlPlaneKind;
use super::objects::{
    ControllerRevision, CronJob, HorizontalPodAutoscaler, Job, Meta, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, VolumeAttachment, Workload,
};
use crate::api::storage::ObjectKey;

pub(crate) trait HasMetadata {
    fn meta(&self) -> &Meta;
}

macro_rules! impl_has_metadata {
    ($($kind:ty),* $(,)?) => {
        $(impl HasMetadata for $kind {
            fn meta(&self) -> &Meta {
                &self.metadata
            }
        })*
    };
}
impl_has_metadata!(
    VolumeAttachment,
    HorizontalPodAutoscaler,
    PodDisruptionBudget,
    PersistentVolumeClaim,
    CronJob,
    Job,
    Namespace,
    Node,
    PersistentVolume,
    Pod,
    ControllerRevision,
    Workload
);

/// The objects of one kind, by key and by the uid of their controller.
#[derive(Debug)]
pub(crate) struct KindStore<T> {
    objects: BTreeMap<ObjectKey, Arc<T>>,
    by_controller: Index<T>,
    /// Objects without a controller, by namespace.
    without_controller: Index<T>,
}

/// Objects grouped by a common attribute, such as the node name.
type Index<T> = BTreeMap<SmolStr, BTreeMap<ObjectKey, Arc<T>>>;

/// Returns the objects with this attribute, ordered by key.
fn indexed_objects<T>(index: &Index<T>, attribute: &str) -> Vec<Arc<T>> {
    index.get(attribute).map(|objects| objects.values().cloned().collect()).unwrap_or_default()
}

impl<T> Default for KindStore<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), by_controller: BTreeMap::new(), without_controller: BTreeMap::new() }
    }
}

impl<T: HasMetadata> KindStore<T> {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.objects.get(key).cloned()
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.objects.keys().cloned().collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<T>)> {
        self.objects.iter()
    }

    /// Returns the objects of a namespace, ordered by key.
    pub(crate) fn of_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<T>)> {
        self.objects
            .range(ObjectKey::from_text(&format!("{namespace}/"))..)
            .take_while(move |(key, _)| key.is_in(namespace))
    }

    /// Returns the objects whose controller has this uid.
    pub(crate) fn managed_by(&self, uid: &str) -> Vec<Arc<T>> {
        indexed_objects(&self.by_controller, uid)
    }

    /// Returns the objects of a namespace that have no controller.
    pub(crate) fn unmanaged_in(&self, namespace: &str) -> Vec<Arc<T>> {
        indexed_objects(&self.without_controller, namespace)
    }

    /// Stores an object, or removes it if `now` is `None`. Returns the previous object.
    fn put(&mut self, key: &ObjectKey, now: Option<Arc<T>>) -> Option<Arc<T>> {
        let before = self.objects.get(key).cloned();
        if let Some(before) = &before {
            match before.meta().controller() {
                Some(owner) => remove_from_index(&mut self.by_controller, &owner.uid, key),
                None => remove_from_index(&mut self.without_controller, &before.meta().namespace, key),
            }
        }
        match now {
            Some(now) => {
                let meta = now.meta();
                let (index, attribute) = match meta.controller() {
                    Some(owner) => (&mut self.by_controller, &owner.uid),
                    None => (&mut self.without_controller, &meta.namespace),
                };
                index.entry(attribute.clone()).or_default().insert(key.clone(), now.clone());
                self.objects.insert(key.clone(), now);
            }
            None => drop(self.objects.remove(key)),
        }
        before
    }
}

/// Removes a key from an index, and the group if it is empty then.
fn remove_from_index<T>(index: &mut Index<T>, attribute: &SmolStr, key: &ObjectKey) {
    if let Some(objects) = index.get_mut(attribute) {
        objects.remove(key);
        if objects.is_empty() {
            index.remove(attribute);
        }
    }
}

/// All objects that the control plane acts on.
#[derive(Debug, Default)]
pub(crate) struct ObjectCache {
    pub(crate) pods: KindStore<Pod>,
    pub(crate) nodes: KindStore<Node>,
    pub(crate) deployments: KindStore<Workload>,
    pub(crate) replica_sets: KindStore<Workload>,
    pub(crate) stateful_sets: KindStore<Workload>,
    pub(crate) daemon_sets: KindStore<Workload>,
    pub(crate) controller_revisions: KindStore<ControllerRevision>,
    pub(crate) jobs: KindStore<Job>,
    pub(crate) cron_jobs: KindStore<CronJob>,
    pub(crate) horizontal_pod_autoscalers: KindStore<HorizontalPodAutoscaler>,
    pub(crate) pod_disruption_budgets: KindStore<PodDisruptionBudget>,
    pub(crate) namespaces: KindStore<Namespace>,
    pub(crate) volume_claims: KindStore<PersistentVolumeClaim>,
    pub(crate) volumes: KindStore<PersistentVolume>,
    pub(crate) attachments: KindStore<VolumeAttachment>,
    attachments_by_node: Index<VolumeAttachment>,
    pods_by_node: Index<Pod>,
}

/// State of one cached object before and after a change. `None` means that the object did not or
/// does not exist.
#[derive(Clone, Debug)]
pub(crate) struct CacheChange<T> {
    pub(crate) before: Option<Arc<T>>,
    pub(crate) now: Option<Arc<T>>,
}

impl<T: HasMetadata> CacheChange<T> {
    /// Returns the metadata before and after the change.
    pub(crate) fn metas(&self) -> (Option<Meta>, Option<Meta>) {
        let meta = |object: &Option<Arc<T>>| object.as_ref().map(|object| object.meta().clone());
        (meta(&self.before), meta(&self.now))
    }
}

impl<T> CacheChange<T> {
    /// Returns the states that exist, the earlier one first.
    pub(crate) fn both(&self) -> impl Iterator<Item = &Arc<T>> {
        self.before.iter().chain(&self.now)
    }
}

impl ObjectCache {
    /// Returns the keys of all cached objects of a kind. Empty for kinds that are not cached.
    pub(crate) fn keys(&self, kind: ControlPlaneKind) -> Vec<ObjectKey> {
        match kind {
            ControlPlaneKind::Pod => self.pods.keys(),
            ControlPlaneKind::Node => self.nodes.keys(),
            ControlPlaneKind::Deployment => self.deployments.keys(),
            ControlPlaneKind::ReplicaSet => self.replica_sets.keys(),
            ControlPlaneKind::StatefulSet => self.stateful_sets.keys(),
            ControlPlaneKind::DaemonSet => self.daemon_sets.keys(),
            ControlPlaneKind::ControllerRevision => self.controller_revisions.keys(),
            ControlPlaneKind::Job => self.jobs.keys(),
            ControlPlaneKind::CronJob => self.cron_jobs.keys(),
            ControlPlaneKind::HorizontalPodAutoscaler => self.horizontal_pod_autoscalers.keys(),
            ControlPlaneKind::PodDisruptionBudget => self.pod_disruption_budgets.keys(),
            ControlPlaneKind::Namespace => self.namespaces.keys(),
            ControlPlaneKind::PersistentVolumeClaim => self.volume_claims.keys(),
            ControlPlaneKind::PersistentVolume => self.volumes.keys(),
            ControlPlaneKind::VolumeAttachment => self.attachments.keys(),
            ControlPlaneKind::Event
            | ControlPlaneKind::ServiceAccount
            | ControlPlaneKind::ConfigMap
            | ControlPlaneKind::Lease
            | ControlPlaneKind::CsiNode => Vec::new(),
        }
    }

    /// Returns the pods that are bound to a node.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        indexed_objects(&self.pods_by_node, node)
    }

    /// Returns the VolumeAttachments of a node.
    pub(crate) fn attachments_on(&self, node: &str) -> Vec<Arc<VolumeAttachment>> {
        indexed_objects(&self.attachments_by_node, node)
    }

    pub(crate) fn put_attachment(
        &mut self,
        key: &ObjectKey,
        now: Option<VolumeAttachment>,
    ) -> CacheChange<VolumeAttachment> {
        let changed = put_object(&mut self.attachments, key, now);
        if let Some(before) = &changed.before {
            remove_from_index(&mut self.attachments_by_node, &before.spec.node_name, key);
        }
        if let Some(now) = &changed.now {
            self.attachments_by_node.entry(now.spec.node_name.clone()).or_default().insert(key.clone(), now.clone());
        }
        changed
    }

    pub(crate) fn put_pod(&mut self, key: &ObjectKey, now: Option<Pod>) -> CacheChange<Pod> {
        let now = now.map(Arc::new);
        let before = self.pods.put(key, now.clone());
        if let Some(before) = before.as_ref().filter(|pod| !pod.spec.node_name.is_empty()) {
            remove_from_index(&mut self.pods_by_node, &before.spec.node_name, key);
        }
        if let Some(now) = now.as_ref().filter(|pod| !pod.spec.node_name.is_empty()) {
            self.pods_by_node.entry(now.spec.node_name.clone()).or_default().insert(key.clone(), now.clone());
        }
        CacheChange { before, now }
    }
}

/// Stores an object of a kind that has no index by node.
pub(crate) fn put_object<T: HasMetadata>(store: &mut KindStore<T>, key: &ObjectKey, now: Option<T>) -> CacheChange<T> {
    let now = now.map(Arc::new);
    CacheChange { before: store.put(key, now.clone()), now }
}

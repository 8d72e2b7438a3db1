//! The cluster as its own parts see it: decoded once per change, indexed by what they ask for. It is always up to date before a
//! controller acts, because the controllers run in one thread with it; so none of them has to guess what it has done itself.
//! Invariant: an index holds exactly the objects that it describes, as they are now, and every order is that of the keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use smol_str::SmolStr;

use super::kind::ControlPlaneKind;
use super::objects::{
    Attachment, ControllerRevision, CronJob, Job, Meta, Namespace, Node, PersistentVolume, Pod, PodDisruptionBudget,
    VolumeClaim, Workload,
};
use crate::api::storage::ObjectKey;

/// Something with metadata.
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
    Attachment,
    PodDisruptionBudget,
    VolumeClaim,
    CronJob,
    Job,
    Namespace,
    Node,
    PersistentVolume,
    Pod,
    ControllerRevision,
    Workload
);

/// The objects of one kind, by key and by the uid of the owner that manages them.
#[derive(Debug)]
pub(crate) struct KindStore<T> {
    objects: BTreeMap<ObjectKey, Arc<T>>,
    by_controller: Index<T>,
    /// Those that nobody manages, by namespace.
    without_controller: Index<T>,
}

/// Objects by something that they share.
type Index<T> = BTreeMap<SmolStr, BTreeMap<ObjectKey, Arc<T>>>;

/// The objects that share this, in the order of their keys.
fn indexed_objects<T>(index: &Index<T>, shared: &str) -> Vec<Arc<T>> {
    index.get(shared).map(|found| found.values().cloned().collect()).unwrap_or_default()
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

    /// The objects of a namespace.
    pub(crate) fn of_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<T>)> {
        self.objects
            .range(ObjectKey::from_text(&format!("{namespace}/"))..)
            .take_while(move |(key, _)| key.is_in(namespace))
    }

    /// The objects that the owner of this uid manages.
    pub(crate) fn managed_by(&self, uid: &str) -> Vec<Arc<T>> {
        indexed_objects(&self.by_controller, uid)
    }

    /// The objects of a namespace that nobody manages.
    pub(crate) fn unmanaged_in(&self, namespace: &str) -> Vec<Arc<T>> {
        indexed_objects(&self.without_controller, namespace)
    }

    /// Puts an object in place of what was there, or takes it away. Returns what was there.
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
                let (index, shared) = match meta.controller() {
                    Some(owner) => (&mut self.by_controller, &owner.uid),
                    None => (&mut self.without_controller, &meta.namespace),
                };
                index.entry(shared.clone()).or_default().insert(key.clone(), now.clone());
                self.objects.insert(key.clone(), now);
            }
            None => drop(self.objects.remove(key)),
        }
        before
    }
}

/// Takes a key out of an index, and the entry with the last one.
fn remove_from_index<T>(index: &mut Index<T>, shared: &SmolStr, key: &ObjectKey) {
    if let Some(found) = index.get_mut(shared) {
        found.remove(key);
        if found.is_empty() {
            index.remove(shared);
        }
    }
}

/// The cluster.
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
    pub(crate) pod_disruption_budgets: KindStore<PodDisruptionBudget>,
    pub(crate) namespaces: KindStore<Namespace>,
    pub(crate) volume_claims: KindStore<VolumeClaim>,
    pub(crate) volumes: KindStore<PersistentVolume>,
    pub(crate) attachments: KindStore<Attachment>,
    attachments_by_node: Index<Attachment>,
    pods_by_node: Index<Pod>,
}

/// What a key stood for before a change and stands for now.
#[derive(Clone, Debug)]
pub(crate) struct CacheChange<T> {
    pub(crate) before: Option<Arc<T>>,
    pub(crate) now: Option<Arc<T>>,
}

impl<T: HasMetadata> CacheChange<T> {
    /// The metadata before and now.
    pub(crate) fn metas(&self) -> (Option<Meta>, Option<Meta>) {
        let meta = |object: &Option<Arc<T>>| object.as_ref().map(|object| object.meta().clone());
        (meta(&self.before), meta(&self.now))
    }
}

impl<T> CacheChange<T> {
    /// Both states, as far as there are any.
    pub(crate) fn both(&self) -> impl Iterator<Item = &Arc<T>> {
        self.before.iter().chain(&self.now)
    }
}

impl ObjectCache {
    /// The keys of all objects of a kind that are known.
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

    /// The pods on a node.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        indexed_objects(&self.pods_by_node, node)
    }

    /// The attachments to a node.
    pub(crate) fn attachments_on(&self, node: &str) -> Vec<Arc<Attachment>> {
        indexed_objects(&self.attachments_by_node, node)
    }

    pub(crate) fn put_attachment(&mut self, key: &ObjectKey, now: Option<Attachment>) -> CacheChange<Attachment> {
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

/// Puts an object of a kind that has no index of its own on its shelf.
pub(crate) fn put_object<T: HasMetadata>(shelf: &mut KindStore<T>, key: &ObjectKey, now: Option<T>) -> CacheChange<T> {
    let now = now.map(Arc::new);
    CacheChange { before: shelf.put(key, now.clone()), now }
}

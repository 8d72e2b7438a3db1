//! Applies changes of the store: updates the view, adds pods to the queue and removes them, and
//! requeues the unschedulable pods that a change may help.

use bytes::Bytes;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use serde::de::DeserializeOwned;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::Scheduler;
use super::node::NodeDescription;
use super::pod::{self, PodInfo, PodKey, gates};
use super::queueing_hints::{POD_REMOVAL_PLUGINS, POD_TO_POD_PLUGINS, PodTraits, SchedulingEvent};
use super::view::PodChange;
use super::workloads::OwnerKind;
use crate::cluster::in_process_client::{ChangeFeed, InProcessClient, RawChange};

/// The resources that the scheduler watches.
pub(super) struct Feeds {
    pods: ChangeFeed,
    nodes: ChangeFeed,
    namespaces: ChangeFeed,
    claims: ChangeFeed,
    volumes: ChangeFeed,
    classes: ChangeFeed,
    csi_nodes: ChangeFeed,
    attachments: ChangeFeed,
    budgets: ChangeFeed,
    services: ChangeFeed,
    replica_sets: ChangeFeed,
    stateful_sets: ChangeFeed,
    replication_controllers: ChangeFeed,
}

impl Feeds {
    pub(super) fn new(client: &InProcessClient) -> Self {
        Self {
            pods: client.feed("", "pods"),
            nodes: client.feed("", "nodes"),
            namespaces: client.feed("", "namespaces"),
            claims: client.feed("", "persistentvolumeclaims"),
            volumes: client.feed("", "persistentvolumes"),
            classes: client.feed("storage.k8s.io", "storageclasses"),
            csi_nodes: client.feed("storage.k8s.io", "csinodes"),
            attachments: client.feed("storage.k8s.io", "volumeattachments"),
            budgets: client.feed("policy", "poddisruptionbudgets"),
            services: client.feed("", "services"),
            replica_sets: client.feed("apps", "replicasets"),
            stateful_sets: client.feed("apps", "statefulsets"),
            replication_controllers: client.feed("", "replicationcontrollers"),
        }
    }

    pub(super) fn all(&self) -> [&ChangeFeed; 13] {
        [
            &self.pods,
            &self.nodes,
            &self.namespaces,
            &self.claims,
            &self.volumes,
            &self.classes,
            &self.csi_nodes,
            &self.attachments,
            &self.budgets,
            &self.services,
            &self.replica_sets,
            &self.stateful_sets,
            &self.replication_controllers,
        ]
    }
}

impl Scheduler {
    /// Applies all pending changes in the order of dependencies: namespaces and storage before
    /// nodes, nodes before pods.
    pub(super) fn apply_changes(&mut self) {
        let now = Instant::now();
        for change in self.feeds.namespaces.take_changes() {
            let labels =
                decode_change(&change).map(|namespace: Namespace| namespace.metadata.labels.unwrap_or_default());
            match labels {
                Some(labels) => drop(self.view.namespaces.insert(change.key.as_str().to_owned(), labels)),
                None => drop(self.view.namespaces.remove(change.key.as_str())),
            }
        }
        for change in self.feeds.services.take_changes() {
            self.view.workloads.put_service(object_key(&change), change.object.as_deref());
        }
        self.apply_owner_changes();
        for change in self.feeds.budgets.take_changes() {
            put_or_remove(&mut self.view.budgets, &change, decode_change::<PodDisruptionBudget>(&change));
        }
        self.apply_storage_changes(now);
        for change in self.feeds.nodes.take_changes() {
            self.node_changed(&change, now);
        }
        for change in self.feeds.pods.take_changes() {
            let pod = change.object.as_ref().map(|bytes| pod::decode_pod(bytes));
            match pod {
                Some(Some(pod)) => self.pod_changed(pod, now),
                Some(None) => tracing::warn!(pod = change.key.as_str(), "a stored pod cannot be read"),
                None => self.pod_removed(&object_key(&change), now),
            }
        }
    }

    fn apply_owner_changes(&mut self) {
        for (owner, changes) in [
            (OwnerKind::ReplicaSet, self.feeds.replica_sets.take_changes()),
            (OwnerKind::StatefulSet, self.feeds.stateful_sets.take_changes()),
            (OwnerKind::ReplicationController, self.feeds.replication_controllers.take_changes()),
        ] {
            for change in changes {
                self.view.workloads.put_owner(owner, object_key(&change), change.object.as_deref());
            }
        }
    }

    fn apply_storage_changes(&mut self, now: Instant) {
        let mut changed = false;
        for change in self.feeds.classes.take_changes() {
            put_or_remove(&mut self.view.storage.classes, &change, decode_change::<StorageClass>(&change));
            changed = true;
        }
        for change in self.feeds.volumes.take_changes() {
            put_or_remove(&mut self.view.storage.volumes, &change, decode_change::<PersistentVolume>(&change));
            changed = true;
        }
        for change in self.feeds.csi_nodes.take_changes() {
            self.view.storage.put_csi_node(object_key(&change), decode_change::<CSINode>(&change).as_ref());
            changed = true;
        }
        for change in self.feeds.attachments.take_changes() {
            self.view.storage.put_attachment(object_key(&change), decode_change::<VolumeAttachment>(&change).as_ref());
            changed |= change.object.is_none();
        }
        if changed {
            self.requeue_unschedulable(&SchedulingEvent::StorageChanged, now);
        }
        for change in self.feeds.claims.take_changes() {
            put_or_remove(&mut self.view.storage.claims, &change, decode_change::<PersistentVolumeClaim>(&change));
            self.requeue_unschedulable(&SchedulingEvent::ClaimChanged(change.key.as_str()), now);
        }
    }

    fn node_changed(&mut self, raw_change: &RawChange, now: Instant) {
        let description =
            raw_change.object.as_ref().map(|bytes| NodeDescription::decode(bytes, &mut self.view.resource_names));
        match description {
            Some(Some(description)) => {
                let (node, change) = self.view.put_node(description);
                if !change.is_empty() {
                    self.requeue_unschedulable(&SchedulingEvent::NodeChanged(node, change), now);
                }
            }
            Some(None) => tracing::warn!(node = raw_change.key.as_str(), "a stored node cannot be read"),
            None => {
                self.view.remove_node(raw_change.key.as_str());
                self.requeue_unschedulable(&SchedulingEvent::NodeRemoved, now);
            }
        }
    }

    fn pod_changed(&mut self, pod: Pod, now: Instant) {
        let is_gated = gates(&pod).next().is_some();
        let key = pod_key(&pod);
        let traits_before = if self.queue.has_rejected_by(POD_REMOVAL_PLUGINS) { self.pod_traits(&key) } else { None };
        let change = self.view.put_pod(pod);
        if change.before.as_ref().is_some_and(|before| before.uid != change.now.uid) {
            self.cancel_volume_wait(&key, now);
        }
        let needs_node = change.now.unscheduled_pod.is_some() && !change.now.is_deleting && !is_gated;
        if !needs_node {
            self.queue.remove(&key);
            self.cancel_volume_wait(&key, now);
        } else if !self.waiting_for_volumes.contains_key(&key) {
            self.queue.add(&key, &change.now.uid, change.now.priority, now);
            if has_spec_changed(&change) {
                self.queue.requeue_unschedulable_pod(&key, now);
            }
        }
        self.requeue_affected_pods(&change, traits_before, now);
    }

    fn pod_removed(&mut self, key: &PodKey, now: Instant) {
        let traits = self.pod_traits(key);
        self.queue.remove(key);
        self.cancel_volume_wait(key, now);
        if let Some(pod) = self.view.remove_pod(key).filter(|pod| pod.node.is_some() && !pod.is_terminal)
            && let Some(traits) = traits
        {
            self.requeue_unschedulable(&SchedulingEvent::PodRemoved(&pod, &traits), now);
        }
    }

    /// Requeues the unschedulable pods that may be helped because a pod was assigned to a node,
    /// removed from it, or changed.
    fn requeue_affected_pods(&mut self, change: &PodChange, traits_before: Option<PodTraits>, now: Instant) {
        let is_on_node = |pod: &PodInfo| pod.node.is_some() && !pod.is_terminal;
        let before = change.before.as_ref().filter(|before| is_on_node(before));
        let is_on_node_now = is_on_node(&change.now);
        let class_changed = before.is_some_and(|before| before.class != change.now.class);
        if let Some(before) = before {
            if !is_on_node_now || class_changed {
                if let Some(traits) = &traits_before {
                    self.requeue_unschedulable(&SchedulingEvent::PodRemoved(before, traits), now);
                }
            } else if has_reduced_requests(before, &change.now) {
                self.requeue_unschedulable(&SchedulingEvent::PodRequestsReduced, now);
            }
        }
        if is_on_node_now
            && (before.is_none() || class_changed)
            && self.queue.has_rejected_by(POD_TO_POD_PLUGINS)
            && let Some(traits) = self.pod_traits(&change.now.key)
        {
            self.requeue_unschedulable(&SchedulingEvent::PodAssigned(&traits), now);
        }
    }

    pub(super) fn requeue_unschedulable(&mut self, event: &SchedulingEvent<'_>, now: Instant) {
        let plugins = event.affected_plugins();
        if !self.queue.has_rejected_by(plugins) {
            return;
        }
        let view = &self.view;
        self.queue.requeue_if(plugins, now, |plugin, key| {
            let Some(info) = view.pod(key) else { return true };
            info.unscheduled_pod.as_ref().is_none_or(|pod| event.may_help(view, plugin, pod, info))
        });
    }

    /// Returns the properties of a pod that the rules of other pods depend on. Returns `None` if
    /// the pod is unknown.
    pub(super) fn pod_traits(&self, key: &PodKey) -> Option<PodTraits> {
        let class = self.view.classes.get(self.view.pod(key)?.class)?;
        Some(PodTraits {
            namespace: class.namespace.clone(),
            labels: class.labels.clone(),
            required_anti_affinity: class.terms.required_anti.clone(),
        })
    }
}

/// Returns true if the spec or class of an unscheduled pod has changed.
fn has_spec_changed(change: &PodChange) -> bool {
    let Some(before) = &change.before else { return false };
    let same_spec = match (&before.unscheduled_pod, &change.now.unscheduled_pod) {
        (Some(before), Some(now)) => before.spec == now.spec,
        _ => true,
    };
    before.uid == change.now.uid && (before.class != change.now.class || !same_spec)
}

fn has_reduced_requests(before: &PodInfo, now: &PodInfo) -> bool {
    before.requests.iter().any(|(resource, amount)| now.requests.get(resource) < amount)
}

fn pod_key(pod: &Pod) -> PodKey {
    let meta = &pod.metadata;
    let (namespace, name) = (meta.namespace.as_deref().unwrap_or("default"), meta.name.as_deref().unwrap_or_default());
    smol_str::format_smolstr!("{namespace}/{name}")
}

fn object_key(change: &RawChange) -> SmolStr {
    change.key.as_str().into()
}

fn decode_change<T: DeserializeOwned>(change: &RawChange) -> Option<T> {
    let bytes: &Bytes = change.object.as_ref()?;
    serde_json::from_slice(bytes)
        .inspect_err(|problem| tracing::warn!(object = change.key.as_str(), %problem, "a stored object cannot be read"))
        .ok()
}

fn put_or_remove<T>(map: &mut std::collections::BTreeMap<SmolStr, T>, change: &RawChange, object: Option<T>) {
    match object {
        Some(object) => drop(map.insert(object_key(change), object)),
        None => drop(map.remove(change.key.as_str())),
    }
}

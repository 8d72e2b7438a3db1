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
    pub(super) fn new(local: &InProcessClient) -> Self {
        Self {
            pods: local.feed("", "pods"),
            nodes: local.feed("", "nodes"),
            namespaces: local.feed("", "namespaces"),
            claims: local.feed("", "persistentvolumeclaims"),
            volumes: local.feed("", "persistentvolumes"),
            classes: local.feed("storage.k8s.io", "storageclasses"),
            csi_nodes: local.feed("storage.k8s.io", "csinodes"),
            attachments: local.feed("storage.k8s.io", "volumeattachments"),
            budgets: local.feed("policy", "poddisruptionbudgets"),
            services: local.feed("", "services"),
            replica_sets: local.feed("apps", "replicasets"),
            stateful_sets: local.feed("apps", "statefulsets"),
            replication_controllers: local.feed("", "replicationcontrollers"),
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
        for told in self.feeds.namespaces.take_changes() {
            let labels = decode_change(&told).map(|namespace: Namespace| namespace.metadata.labels.unwrap_or_default());
            match labels {
                Some(labels) => drop(self.view.namespaces.insert(told.key.as_str().to_owned(), labels)),
                None => drop(self.view.namespaces.remove(told.key.as_str())),
            }
        }
        for told in self.feeds.services.take_changes() {
            self.view.workloads.put_service(object_key(&told), told.object.as_deref());
        }
        self.apply_owner_changes();
        for told in self.feeds.budgets.take_changes() {
            put_or_remove(&mut self.view.budgets, &told, decode_change::<PodDisruptionBudget>(&told));
        }
        self.apply_storage_changes(now);
        for told in self.feeds.nodes.take_changes() {
            self.node_changed(&told, now);
        }
        for told in self.feeds.pods.take_changes() {
            let pod = told.object.as_ref().map(|bytes| pod::decode_pod(bytes));
            match pod {
                Some(Some(pod)) => self.pod_changed(pod, now),
                Some(None) => tracing::warn!(pod = told.key.as_str(), "a stored pod cannot be read"),
                None => self.pod_removed(&object_key(&told), now),
            }
        }
    }

    fn apply_owner_changes(&mut self) {
        for (owner, told) in [
            (OwnerKind::ReplicaSet, self.feeds.replica_sets.take_changes()),
            (OwnerKind::StatefulSet, self.feeds.stateful_sets.take_changes()),
            (OwnerKind::ReplicationController, self.feeds.replication_controllers.take_changes()),
        ] {
            for told in told {
                self.view.workloads.put_owner(owner, object_key(&told), told.object.as_deref());
            }
        }
    }

    fn apply_storage_changes(&mut self, now: Instant) {
        let mut changed = false;
        for told in self.feeds.classes.take_changes() {
            put_or_remove(&mut self.view.storage.classes, &told, decode_change::<StorageClass>(&told));
            changed = true;
        }
        for told in self.feeds.volumes.take_changes() {
            put_or_remove(&mut self.view.storage.volumes, &told, decode_change::<PersistentVolume>(&told));
            changed = true;
        }
        for told in self.feeds.csi_nodes.take_changes() {
            self.view.storage.put_csi_node(object_key(&told), decode_change::<CSINode>(&told).as_ref());
            changed = true;
        }
        for told in self.feeds.attachments.take_changes() {
            self.view.storage.put_attachment(object_key(&told), decode_change::<VolumeAttachment>(&told).as_ref());
            changed |= told.object.is_none();
        }
        if changed {
            self.requeue_unschedulable(&SchedulingEvent::StorageChanged, now);
        }
        for told in self.feeds.claims.take_changes() {
            put_or_remove(&mut self.view.storage.claims, &told, decode_change::<PersistentVolumeClaim>(&told));
            self.requeue_unschedulable(&SchedulingEvent::ClaimChanged(told.key.as_str()), now);
        }
    }

    fn node_changed(&mut self, told: &RawChange, now: Instant) {
        let described = told.object.as_ref().map(|bytes| NodeDescription::decode(bytes, &mut self.view.resource_names));
        match described {
            Some(Some(described)) => {
                let (node, change) = self.view.put_node(described);
                if !change.is_empty() {
                    self.requeue_unschedulable(&SchedulingEvent::NodeChanged(node, change), now);
                }
            }
            Some(None) => tracing::warn!(node = told.key.as_str(), "a stored node cannot be read"),
            None => {
                self.view.remove_node(told.key.as_str());
                self.requeue_unschedulable(&SchedulingEvent::NodeRemoved, now);
            }
        }
    }

    fn pod_changed(&mut self, pod: Pod, now: Instant) {
        let gated = gates(&pod).next().is_some();
        let key = pod_key(&pod);
        let traits_before = if self.queue.has_rejected_by(POD_REMOVAL_PLUGINS) { self.pod_traits(&key) } else { None };
        let change = self.view.put_pod(pod);
        if change.before.as_ref().is_some_and(|before| before.uid != change.now.uid) {
            self.cancel_volume_wait(&key, now);
        }
        let waits = change.now.unscheduled_pod.is_some() && !change.now.is_deleting && !gated;
        if !waits {
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
        let sits = |pod: &PodInfo| pod.node.is_some() && !pod.is_terminal;
        let before = change.before.as_ref().filter(|before| sits(before));
        let seated = sits(&change.now);
        let relabelled = before.is_some_and(|before| before.class != change.now.class);
        if let Some(before) = before {
            if !seated || relabelled {
                if let Some(traits) = &traits_before {
                    self.requeue_unschedulable(&SchedulingEvent::PodRemoved(before, traits), now);
                }
            } else if has_reduced_requests(before, &change.now) {
                self.requeue_unschedulable(&SchedulingEvent::PodRequestsReduced, now);
            }
        }
        if seated
            && (before.is_none() || relabelled)
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

fn object_key(told: &RawChange) -> SmolStr {
    told.key.as_str().into()
}

fn decode_change<T: DeserializeOwned>(told: &RawChange) -> Option<T> {
    let bytes: &Bytes = told.object.as_ref()?;
    serde_json::from_slice(bytes)
        .inspect_err(|problem| tracing::warn!(object = told.key.as_str(), %problem, "a stored object cannot be read"))
        .ok()
}

fn put_or_remove<T>(map: &mut std::collections::BTreeMap<SmolStr, T>, told: &RawChange, object: Option<T>) {
    match object {
        Some(object) => drop(map.insert(object_key(told), object)),
        None => drop(map.remove(told.key.as_str())),
    }
}

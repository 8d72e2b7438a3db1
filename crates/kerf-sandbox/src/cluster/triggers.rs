//! Enqueues the work items that follow from a change. This module decides nothing else: a
//! controller that runs without need finds nothing to do.

use tokio::time::Instant;

use super::WorkItem;
use super::control_plane::ControlPlane;
use super::object_cache::{CacheChange, HasMetadata, KindStore};
use super::objects::{Meta, Node, Pod, VolumeAttachment, Workload};
use crate::api::storage::ObjectKey;

impl ControlPlane {
    pub(super) fn pod_changed(&mut self, key: &ObjectKey, changed: &CacheChange<Pod>) {
        self.enqueue_owners(changed);
        if changed.now.is_none() {
            self.enqueue_deployment_of(changed);
        }
        let uncontrolled = changed.now.as_ref().filter(|pod| pod.metadata.controller().is_none());
        if let Some(pod) = uncontrolled {
            self.enqueue_adopters(pod);
        }
        self.enqueue_budgets(key.namespace(), changed);
        let Some(node) = changed.both().map(|pod| &pod.spec.node_name).find(|node| !node.is_empty()) else { return };
        let node = ObjectKey::new(None, node);
        self.queue.add(WorkItem::RunPod(key.clone()));
        if changed.both().any(|pod| pod.volume_claim_names().next().is_some()) {
            self.queue.add(WorkItem::Attachments(node.clone()));
        }
        let newly_bound =
            changed.now.is_some() && changed.before.as_ref().is_none_or(|pod| pod.spec.node_name.is_empty());
        if !newly_bound {
            return;
        }
        match self.cache.nodes.get(&node) {
            None => self.enqueue_orphaned_pod(key),
            Some(node) if has_no_execute_taint(&node) => self.queue.add(WorkItem::TaintEviction(key.clone())),
            Some(_) => {}
        }
    }

    /// Enqueues the controllers that own the object before and after the change.
    pub(super) fn enqueue_owners<T: HasMetadata>(&mut self, changed: &CacheChange<T>) {
        for object in changed.both() {
            self.enqueue_owner(object.meta());
        }
    }

    fn enqueue_owner(&mut self, meta: &Meta) {
        let Some(owner) = meta.controller() else { return };
        let key = ObjectKey::new(Some(&meta.namespace), &owner.name);
        let work = match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("apps/v1", "ReplicaSet") => WorkItem::ReplicaSet(key),
            ("apps/v1", "Deployment") => WorkItem::Deployment(key),
            ("apps/v1", "StatefulSet") => WorkItem::StatefulSet(key),
            ("apps/v1", "DaemonSet") => WorkItem::DaemonSet(key),
            ("batch/v1", "Job") => WorkItem::Job(key),
            ("batch/v1", "CronJob") => WorkItem::CronJob(key),
            _ => return,
        };
        self.queue.add(work);
    }

    /// Enqueues the Deployment of a deleted pod: the strategy `Recreate` waits until the last old
    /// pod is deleted.
    fn enqueue_deployment_of(&mut self, changed: &CacheChange<Pod>) {
        let set = changed.before.as_ref().and_then(|pod| {
            let owner = pod.metadata.controller().filter(|owner| owner.kind == "ReplicaSet")?;
            self.cache.replica_sets.get(&ObjectKey::new(Some(&pod.metadata.namespace), &owner.name))
        });
        if let Some(set) = set {
            self.enqueue_owner(&set.metadata);
        }
    }

    /// Enqueues the workloads whose selectors match a pod without a controller: they may adopt the
    /// pod.
    fn enqueue_adopters(&mut self, pod: &Pod) {
        let namespace = &pod.metadata.namespace;
        let labels = pod.metadata.labels.as_slice();
        let selects = |set: &Workload| set.selector().is_some_and(|selector| selector.matches(labels));
        let cache = &self.cache;
        let mut items = Vec::new();
        let mut enqueue = |store: &KindStore<Workload>, work: fn(ObjectKey) -> WorkItem| {
            let matching = store.of_namespace(namespace).filter(|(_, set)| selects(set));
            items.extend(matching.map(|(key, _)| work(key.clone())));
        };
        enqueue(&cache.replica_sets, WorkItem::ReplicaSet);
        enqueue(&cache.stateful_sets, WorkItem::StatefulSet);
        enqueue(&cache.daemon_sets, WorkItem::DaemonSet);
        for work in items {
            self.queue.add(work);
        }
    }

    fn enqueue_budgets(&mut self, namespace: &str, changed: &CacheChange<Pod>) {
        let covers = |selector: &crate::api::selector::LabelSelector| {
            changed.both().any(|pod| selector.matches(pod.metadata.labels.as_slice()))
        };
        let budgets = self.cache.pod_disruption_budgets.of_namespace(namespace);
        let keys: Vec<ObjectKey> = budgets
            .filter(|(_, budget)| budget.selector().is_some_and(|selector| covers(&selector)))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.queue.add(WorkItem::Budget(key));
        }
    }

    /// Enqueues the deletion of a pod on a node that does not exist, after the quarantine.
    fn enqueue_orphaned_pod(&mut self, pod: &ObjectKey) {
        let at = Instant::now() + self.config.timing.orphan_quarantine;
        self.queue.add_at(WorkItem::OrphanedPod(pod.clone()), at);
    }

    pub(super) fn node_changed(&mut self, key: &ObjectKey, changed: &CacheChange<Node>) {
        if changed.both().any(|node| self.kubelets.manages(node)) {
            self.queue.add(WorkItem::BootInstance(key.clone()));
        }
        if changed.now.as_ref().is_some_and(|node| self.kubelets.cloud_instances.has_ended(&node.spec.provider_id)) {
            self.queue.add(WorkItem::CloudNode(key.clone()));
        }
        self.queue.add(WorkItem::NodeHealth(key.clone()));
        if let Some(now) = &changed.now {
            let was_tainted = changed.before.as_ref().is_some_and(|node| has_no_execute_taint(node));
            if was_tainted || has_no_execute_taint(now) {
                self.for_each_pod_on(key, |plane, pod| plane.queue.add(WorkItem::TaintEviction(pod)));
            }
        } else {
            self.for_each_pod_on(key, |plane, pod| plane.enqueue_orphaned_pod(&pod));
            self.queue.add(WorkItem::Attachments(key.clone()));
        }
        let relevant_fields = |node: &Node| (node.metadata.labels.clone(), node.spec.taints.clone());
        if changed.before.as_ref().map(|node| relevant_fields(node))
            != changed.now.as_ref().map(|node| relevant_fields(node))
        {
            let sets: Vec<ObjectKey> = self.cache.daemon_sets.iter().map(|(key, _)| key.clone()).collect();
            for set in sets {
                self.queue.add(WorkItem::DaemonSet(set));
            }
        }
    }

    fn for_each_pod_on(&mut self, node: &ObjectKey, action: impl Fn(&mut Self, ObjectKey)) {
        for pod in self.cache.pods_on(node.name()) {
            action(self, pod.metadata.key());
        }
    }

    pub(super) fn workload_changed(
        &mut self,
        key: &ObjectKey,
        changed: &CacheChange<Workload>,
        work: fn(ObjectKey) -> WorkItem,
    ) {
        self.queue.add(work(key.clone()));
        self.enqueue_owners(changed);
        let replicas = |set: &Option<std::sync::Arc<Workload>>| set.as_ref().map(|set| set.replicas());
        if replicas(&changed.before) != replicas(&changed.now) {
            let budgets: Vec<ObjectKey> =
                self.cache.pod_disruption_budgets.of_namespace(key.namespace()).map(|(key, _)| key.clone()).collect();
            for budget in budgets {
                self.queue.add(WorkItem::Budget(budget));
            }
            let autoscalers = self.cache.horizontal_pod_autoscalers.of_namespace(key.namespace());
            let autoscalers: Vec<ObjectKey> = autoscalers.map(|(key, _)| key.clone()).collect();
            for autoscaler in autoscalers {
                self.queue.add(WorkItem::Autoscaler(autoscaler));
            }
        }
    }

    /// Enqueues pods that use this claim, because they may wait for its volume.
    pub(super) fn volume_claim_changed(&mut self, key: &ObjectKey) {
        let users: Vec<(ObjectKey, ObjectKey)> = self
            .cache
            .pods
            .of_namespace(key.namespace())
            .filter(|(_, pod_key)| {
                !pod_key.spec.node_name.is_empty() && pod_key.volume_claim_names().any(|claim| claim == key.name())
            })
            .map(|(pod_key, pod)| (pod_key.clone(), ObjectKey::new(None, &pod.spec.node_name)))
            .collect();
        for (pod_key, node) in users {
            self.queue.add(WorkItem::Attachments(node));
            self.queue.add(WorkItem::RunPod(pod_key));
        }
    }

    pub(super) fn attachment_changed(&mut self, key: &ObjectKey, changed: &CacheChange<VolumeAttachment>) {
        self.queue.add(WorkItem::Attach(key.clone()));
        let nodes: Vec<ObjectKey> =
            changed.both().map(|attachment| ObjectKey::new(None, &attachment.spec.node_name)).collect();
        for node in nodes {
            self.queue.add(WorkItem::Attachments(node.clone()));
            self.for_each_pod_on(&node, |plane, pod| plane.queue.add(WorkItem::RunPod(pod)));
        }
    }

    /// Enqueues a namespace that is being deleted and may wait until it is empty.
    pub(super) fn enqueue_terminating_namespace(&mut self, namespace: &str) {
        let key = ObjectKey::new(None, namespace);
        if self.cache.namespaces.get(&key).is_some_and(|namespace| namespace.metadata.is_deleting()) {
            self.queue.add(WorkItem::Namespace(key));
        }
    }
}

fn has_no_execute_taint(node: &Node) -> bool {
    node.spec.taints.iter().any(|taint| taint.effect == "NoExecute")
}

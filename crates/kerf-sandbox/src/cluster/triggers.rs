//! Which change is whose business. Nothing is decided here: a controller that is woken for nothing finds nothing to do.

use tokio::time::Instant;

use super::WorkItem;
use super::control_plane::ControlPlane;
use super::kubelet::is_simulated;
use super::object_cache::{CacheChange, HasMetadata, KindStore};
use super::objects::{Attachment, Meta, Node, Pod, Workload};
use crate::api::storage::ObjectKey;

impl ControlPlane {
    pub(super) fn pod_changed(&mut self, key: &ObjectKey, changed: &CacheChange<Pod>) {
        self.owned_changed(changed);
        if changed.now.is_none() {
            self.wake_deployment_of(changed);
        }
        let loose = changed.now.as_ref().filter(|pod| pod.metadata.controller().is_none());
        if let Some(pod) = loose {
            self.wake_adopters(pod);
        }
        self.wake_budgets(key.namespace(), changed);
        let Some(node) = changed.both().map(|pod| &pod.spec.node_name).find(|node| !node.is_empty()) else { return };
        let node = ObjectKey::new(None, node);
        self.queue.add(WorkItem::RunPod(key.clone()));
        if changed.both().any(|pod| pod.claims().next().is_some()) {
            self.queue.add(WorkItem::Attachments(node.clone()));
        }
        let newly_bound =
            changed.now.is_some() && changed.before.as_ref().is_none_or(|pod| pod.spec.node_name.is_empty());
        if !newly_bound {
            return;
        }
        match self.world.nodes.get(&node) {
            None => self.wake_collector(key),
            Some(node) if repels_running_pods(&node) => self.queue.add(WorkItem::TaintEviction(key.clone())),
            Some(_) => {}
        }
    }

    /// The controller that an object belongs to, or belonged to, has something to count.
    pub(super) fn owned_changed<T: HasMetadata>(&mut self, changed: &CacheChange<T>) {
        for object in changed.both() {
            self.wake_owner(object.meta());
        }
    }

    fn wake_owner(&mut self, meta: &Meta) {
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

    /// A Deployment that recreates its pods waits for the last of the old ones.
    fn wake_deployment_of(&mut self, changed: &CacheChange<Pod>) {
        let set = changed.before.as_ref().and_then(|pod| {
            let owner = pod.metadata.controller().filter(|owner| owner.kind == "ReplicaSet")?;
            self.world.replica_sets.get(&ObjectKey::new(Some(&pod.metadata.namespace), &owner.name))
        });
        if let Some(set) = set {
            self.wake_owner(&set.metadata);
        }
    }

    /// A pod that nobody manages may be taken on by whoever selects it.
    fn wake_adopters(&mut self, pod: &Pod) {
        let namespace = &pod.metadata.namespace;
        let labels = pod.metadata.labels.as_slice();
        let selects = |set: &Workload| set.selector().is_some_and(|selector| selector.matches(labels));
        let world = &self.world;
        let mut works = Vec::new();
        let mut wake = |shelf: &KindStore<Workload>, work: fn(ObjectKey) -> WorkItem| {
            let selecting = shelf.of_namespace(namespace).filter(|(_, set)| selects(set));
            works.extend(selecting.map(|(key, _)| work(key.clone())));
        };
        wake(&world.replica_sets, WorkItem::ReplicaSet);
        wake(&world.stateful_sets, WorkItem::StatefulSet);
        wake(&world.daemon_sets, WorkItem::DaemonSet);
        for work in works {
            self.queue.add(work);
        }
    }

    fn wake_budgets(&mut self, namespace: &str, changed: &CacheChange<Pod>) {
        let covers = |selector: &crate::api::selector::LabelSelector| {
            changed.both().any(|pod| selector.matches(pod.metadata.labels.as_slice()))
        };
        let budgets = self.world.budgets.of_namespace(namespace);
        let woken: Vec<ObjectKey> = budgets
            .filter(|(_, budget)| budget.selector().is_some_and(|selector| covers(&selector)))
            .map(|(key, _)| key.clone())
            .collect();
        for key in woken {
            self.queue.add(WorkItem::Budget(key));
        }
    }

    /// A pod on a node that does not exist is collected after a while.
    fn wake_collector(&mut self, pod: &ObjectKey) {
        let at = Instant::now() + self.config.timing.orphan_quarantine;
        self.queue.add_at(WorkItem::OrphanedPod(pod.clone()), at);
    }

    pub(super) fn node_changed(&mut self, key: &ObjectKey, changed: &CacheChange<Node>) {
        if changed.both().any(|node| is_simulated(node)) {
            self.queue.add(WorkItem::Machine(key.clone()));
        }
        self.queue.add(WorkItem::NodeHealth(key.clone()));
        if let Some(now) = &changed.now {
            let was_tainted = changed.before.as_ref().is_some_and(|node| repels_running_pods(node));
            if was_tainted || repels_running_pods(now) {
                self.for_pods_on(key, |plane, pod| plane.queue.add(WorkItem::TaintEviction(pod)));
            }
        } else {
            self.for_pods_on(key, |plane, pod| plane.wake_collector(&pod));
            self.queue.add(WorkItem::Attachments(key.clone()));
        }
        let matters = |node: &Node| (node.metadata.labels.clone(), node.spec.taints.clone());
        if changed.before.as_ref().map(|node| matters(node)) != changed.now.as_ref().map(|node| matters(node)) {
            let sets: Vec<ObjectKey> = self.world.daemon_sets.iter().map(|(key, _)| key.clone()).collect();
            for set in sets {
                self.queue.add(WorkItem::DaemonSet(set));
            }
        }
    }

    fn for_pods_on(&mut self, node: &ObjectKey, wake: impl Fn(&mut Self, ObjectKey)) {
        for pod in self.world.pods_on(node.name()) {
            wake(self, pod.metadata.key());
        }
    }

    pub(super) fn workload_changed(
        &mut self,
        key: &ObjectKey,
        changed: &CacheChange<Workload>,
        work: fn(ObjectKey) -> WorkItem,
    ) {
        self.queue.add(work(key.clone()));
        self.owned_changed(changed);
        let replicas = |set: &Option<std::sync::Arc<Workload>>| set.as_ref().map(|set| set.replicas());
        if replicas(&changed.before) != replicas(&changed.now) {
            let budgets: Vec<ObjectKey> =
                self.world.budgets.of_namespace(key.namespace()).map(|(key, _)| key.clone()).collect();
            for budget in budgets {
                self.queue.add(WorkItem::Budget(budget));
            }
        }
    }

    /// A claim may have become what a pod waits for.
    pub(super) fn claim_changed(&mut self, key: &ObjectKey) {
        let users: Vec<(ObjectKey, ObjectKey)> = self
            .world
            .pods
            .of_namespace(key.namespace())
            .filter(|(_, pod)| !pod.spec.node_name.is_empty() && pod.claims().any(|claim| claim == key.name()))
            .map(|(pod, found)| (pod.clone(), ObjectKey::new(None, &found.spec.node_name)))
            .collect();
        for (pod, node) in users {
            self.queue.add(WorkItem::Attachments(node));
            self.queue.add(WorkItem::RunPod(pod));
        }
    }

    pub(super) fn attachment_changed(&mut self, key: &ObjectKey, changed: &CacheChange<Attachment>) {
        self.queue.add(WorkItem::Attach(key.clone()));
        let nodes: Vec<ObjectKey> = changed.both().map(|found| ObjectKey::new(None, &found.spec.node_name)).collect();
        for node in nodes {
            self.queue.add(WorkItem::Attachments(node.clone()));
            self.for_pods_on(&node, |plane, pod| plane.queue.add(WorkItem::RunPod(pod)));
        }
    }

    /// Something has gone from a namespace, which may be waiting for just that.
    pub(super) fn left_namespace(&mut self, namespace: &str) {
        let key = ObjectKey::new(None, namespace);
        if self.world.namespaces.get(&key).is_some_and(|namespace| namespace.metadata.is_deleting()) {
            self.queue.add(WorkItem::Namespace(key));
        }
    }
}

fn repels_running_pods(node: &Node) -> bool {
    node.spec.taints.iter().any(|taint| taint.effect == "NoExecute")
}

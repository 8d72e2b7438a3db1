//! Event handlers: which watch event enqueues which keys (spec 04 §3). Events are handled one at a
//! time. Each is first applied to cluster state; then the keys that it concerns are enqueued.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use k8s_openapi::api::{apps, core, policy, storage};
use kerf_api::nodepool::{NodeClassReference, NodePool};
use kerf_api::slim::{
    CsiNode, DaemonSet, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, Service,
    StorageClass, Str, VolumeAttachment,
};
use kerf_cloud::NodeClassKind;
use kerf_operator::logs::reference;
use kerf_operator::{SINGLETON_KEY, instrument_event};
use kerf_runtime::{WatchHandle, WatchSettings, WatchUpdate, WatchedKind, watch};
use kerf_state::{NodeClass, ObjectChange, ReplicaSet, ReplicationController, StatefulSet, Tracked, TrackedClaim};
use serde::de::DeserializeOwned;
use tracing::info;

use super::Controllers;
use crate::disruption::{self, DisruptionTrigger};
use crate::nodeclaim::stale;

/// Controller name of the pod metrics. They are updated in the event handler, without a queue.
const POD_METRICS_CONTROLLER: &str = "metrics.pod";

/// Returns the controller name under which dashboards know the handler of a kind (spec 07 §1.3).
/// Returns `None` for kinds without such a name. These controllers have no queue, because events
/// are handled as they arrive.
fn state_controller_name(kind: &str) -> Option<&'static str> {
    match kind {
        "DaemonSet" => Some("state.daemonset"),
        "Node" => Some("state.node"),
        "NodeClaim" => Some("state.nodeclaim"),
        "NodePool" => Some("state.nodepool"),
        "Pod" => Some("state.pod"),
        _ => None,
    }
}

/// Logs once per process that a NodePool belongs to another provider, and again if its node class
/// changes. No controller reads or writes such a pool.
fn log_pool_of_other_provider(before: Option<&NodePool>, pool: &NodePool) {
    let group = &pool.spec.template.spec.node_class_ref.group;
    if before.is_none_or(|before| before.spec.template.spec.node_class_ref.group != *group) {
        info!(
            NodePool = %reference(&pool.key()),
            "node-class-group" = group,
            "ignoring nodepool, its node class belongs to another provider"
        );
    }
}

impl Controllers {
    /// Enqueues a disruption pass if the change can affect what may be disrupted.
    fn notify_disruption<T: DisruptionTrigger>(&self, change: &ObjectChange<T>) {
        if T::is_relevant(change) {
            self.disruption.controller.mark_unconsolidated();
            self.disruption.enqueue_after(&SINGLETON_KEY, disruption::CHANGE_COALESCE_DELAY);
        }
    }

    /// Creates the watches that feed cluster state and enqueue keys. Returns a handle per watch,
    /// which reports its progress, and a future that runs all of them for as long as it is polled.
    ///
    /// The watches may run before [`Controllers::run`], so that the cluster state of a standby
    /// process is synced when it becomes the leader.
    pub fn watches(self: &Arc<Self>, seed: u64) -> (Vec<WatchHandle>, BoxFuture<'static, ()>) {
        let mut watches = WatchBuilder { controllers: self.clone(), seed, handles: Vec::new(), tasks: Vec::new() };
        if self.ctx.settings.cluster_state_observability {
            self.ctx.metrics.controllers.init_controller_series(POD_METRICS_CONTROLLER, 1);
        }
        watches.add(WatchedKind::of::<kerf_api::nodeclaim::NodeClaim>(), Self::on_claim);
        watches.add(WatchedKind::of::<NodePool>(), Self::on_pool);
        for class in self.ctx.cloud.node_classes() {
            let class = *class;
            let kind =
                WatchedKind { group: class.group, version: class.version, plural: class.plural, name: class.kind };
            watches.add(kind, move |controllers, update| controllers.on_class(class, update));
        }
        watches.add(WatchedKind::of::<core::v1::Node>(), Self::on_node);
        watches.add(WatchedKind::of::<core::v1::Pod>(), Self::on_pod);
        watches.add(WatchedKind::of::<apps::v1::DaemonSet>(), Self::on_other::<DaemonSet>);
        watches.add(WatchedKind::of::<policy::v1::PodDisruptionBudget>(), Self::on_budget);
        watches.add(WatchedKind::of::<core::v1::PersistentVolumeClaim>(), Self::on_other::<PersistentVolumeClaim>);
        watches.add(WatchedKind::of::<core::v1::PersistentVolume>(), Self::on_other::<PersistentVolume>);
        watches.add(WatchedKind::of::<storage::v1::StorageClass>(), Self::on_other::<StorageClass>);
        watches.add(WatchedKind::of::<storage::v1::CSINode>(), Self::on_other::<CsiNode>);
        watches.add(WatchedKind::of::<storage::v1::VolumeAttachment>(), Self::on_other::<VolumeAttachment>);
        watches.add(WatchedKind::of::<core::v1::Namespace>(), Self::on_other::<Namespace>);
        // Clusters have many of these objects, and only default topology spread constraints read
        // them.
        if !self.ctx.settings.engine.default_spread.is_empty() {
            watches.add(WatchedKind::of::<core::v1::Service>(), Self::on_other::<Service>);
            watches.add(WatchedKind::of::<apps::v1::ReplicaSet>(), Self::on_other::<ReplicaSet>);
            watches.add(WatchedKind::of::<apps::v1::StatefulSet>(), Self::on_other::<StatefulSet>);
            watches.add(WatchedKind::of::<core::v1::ReplicationController>(), Self::on_other::<ReplicationController>);
        }
        self.disruption.controller.set_watches(&watches.handles);
        (watches.handles, watches.tasks.into_iter().collect::<FuturesUnordered<_>>().collect::<()>().boxed())
    }

    /// Applies an event to cluster state and returns the resulting changes.
    fn apply_event<T: Tracked>(&self, update: WatchUpdate<T>) -> Vec<ObjectChange<T>> {
        let mut cluster = self.ctx.cluster.lock();
        match update {
            WatchUpdate::Reset(objects) => cluster.reset(objects),
            WatchUpdate::Applied(object) => cluster.apply(object).into_iter().collect(),
            WatchUpdate::Deleted(object) => cluster.delete(&object).into_iter().collect(),
        }
    }

    fn on_other<T: Tracked>(&self, update: WatchUpdate<T>) {
        self.apply_event(update);
    }

    fn on_budget(&self, update: WatchUpdate<PodDisruptionBudget>) {
        for change in self.apply_event(update) {
            self.notify_disruption(&change);
        }
    }

    /// Removes claims of other providers from an event. Returns `None` if the event is about one
    /// claim of another provider. Such claims must not be in cluster state: it would wait for their
    /// launch forever and never be synced.
    fn only_managed(&self, update: WatchUpdate<TrackedClaim>) -> Option<WatchUpdate<TrackedClaim>> {
        let is_managed = |claim: &TrackedClaim| self.ctx.manages_claim(claim);
        match update {
            WatchUpdate::Reset(mut claims) => {
                claims.retain(is_managed);
                Some(WatchUpdate::Reset(claims))
            }
            WatchUpdate::Applied(claim) => is_managed(&claim).then_some(WatchUpdate::Applied(claim)),
            WatchUpdate::Deleted(claim) => is_managed(&claim).then_some(WatchUpdate::Deleted(claim)),
        }
    }

    fn on_claim(&self, update: WatchUpdate<TrackedClaim>) {
        let Some(update) = self.only_managed(update) else { return };
        {
            let mut cluster = self.ctx.cluster.lock();
            let observed = match &update {
                WatchUpdate::Reset(claims) => claims.as_slice(),
                WatchUpdate::Applied(claim) | WatchUpdate::Deleted(claim) => std::slice::from_ref(claim),
            };
            for claim in observed {
                cluster.mark_observed(claim.name());
            }
        }
        for change in self.apply_event(update) {
            self.notify_disruption(&change);
            self.controller_set.handlers().run(&change);
            let Some(claim) = change.latest() else { continue };
            let name = claim.name();
            self.lifecycle.enqueue(name);
            self.claim_status.enqueue(name);
            if change.after.is_some() {
                self.consistency.enqueue(name);
                self.claim_disruption.enqueue(name);
                self.expiration.enqueue(name);
                self.claim_hydration.enqueue(name);
            } else if let Some(command) = self.commands.controller.command_of_replacement(name) {
                // Roll back the command before another controller replaces the claim.
                self.commands.enqueue(&command);
            }
            let changes_claim_count = change.before.is_none() || change.after.is_none() || claim.is_terminating();
            if let Some(pool) = claim.pool().filter(|_| changes_claim_count) {
                self.enqueue_static_capacity(&Str::from(pool));
            }
            if change.before.is_none() {
                self.stale_claims.enqueue_after(name, stale::EXISTENCE_CHECK_DELAY);
            }
            let cluster = self.ctx.cluster.lock();
            for node in cluster.nodes_of(&claim.engine_claim.provider_id) {
                self.node_hydration.enqueue(&node.metadata.name);
                if change.before.is_none() {
                    self.node_health.enqueue(&node.metadata.name);
                }
            }
        }
    }

    fn on_pool(&self, update: WatchUpdate<NodePool>) {
        for change in self.apply_event(update) {
            self.notify_disruption(&change);
            self.controller_set.handlers().run(&change);
            if let Some(pool) = change.latest() {
                self.pool_status.enqueue(&pool.key());
                self.cost.enqueue(&pool.key());
                if change.after.is_none() {
                    self.claim_disruption.controller.forget_pool(&pool.key());
                }
            }
            if let (Some(pool), None) = (&change.before, &change.after) {
                disruption::remove_pool_metrics(&self.ctx, pool);
            }
            let Some(pool) = change.after.as_ref() else { continue };
            if !self.ctx.manages_pool(pool) {
                log_pool_of_other_provider(change.before.as_deref(), pool);
                continue;
            }
            let name = &pool.key();
            if self.claim_disruption.controller.update_pool_version(pool) {
                self.enqueue_claim_disruption(|claim| claim.pool() == Some(name.as_str()));
            }
            if pool.spec.replicas.is_some() {
                self.enqueue_static_capacity(name);
            }
            self.hash.enqueue(name);
            self.readiness.enqueue(name);
            self.pool_health.enqueue(name);
            self.validation.enqueue(name);
            if change.before.is_none() {
                self.counter.enqueue(name);
            }
        }
    }

    fn on_class(&self, kind: NodeClassKind, update: WatchUpdate<NodeClass>) {
        let is_list = matches!(update, WatchUpdate::Reset(_));
        let with_kind = |class: NodeClass| class.with_kind(kind.group, kind.version, kind.kind);
        let changes = {
            let mut cluster = self.ctx.cluster.lock();
            match update {
                WatchUpdate::Reset(classes) => {
                    cluster.reset_node_classes(kind.group, kind.kind, classes.into_iter().map(with_kind).collect())
                }
                WatchUpdate::Applied(class) => cluster.apply(with_kind(class)).into_iter().collect(),
                WatchUpdate::Deleted(class) => cluster.delete(&with_kind(class)).into_iter().collect(),
            }
        };
        let changed_classes: Vec<NodeClassReference> =
            changes.iter().filter_map(ObjectChange::latest).map(|class| class.reference()).collect();
        self.enqueue_claim_disruption(|claim| changed_classes.contains(&claim.object.spec.node_class_ref));
        for change in &changes {
            self.controller_set.handlers().run(change);
        }
        let cluster = self.ctx.cluster.lock();
        for (name, pool) in cluster.all::<NodePool>().iter() {
            // A full list also shows which node classes are missing.
            if is_list || changed_classes.contains(&pool.spec.template.spec.node_class_ref) {
                self.readiness.enqueue(name);
                self.pool_health.enqueue(name);
            }
        }
    }

    /// Enqueues the claims for which `is_affected` holds, to check again if they have drifted or
    /// may be consolidated.
    fn enqueue_claim_disruption(&self, is_affected: impl Fn(&TrackedClaim) -> bool) {
        let cluster = self.ctx.cluster.lock();
        for claim in cluster.all::<TrackedClaim>().values().filter(|claim| is_affected(claim)) {
            self.claim_disruption.enqueue(claim.name());
        }
    }

    /// Enqueues a NodePool for the static capacity controllers. They ignore NodePools without
    /// `replicas`.
    fn enqueue_static_capacity(&self, pool: &Str) {
        self.static_provisioning.enqueue(pool);
        self.static_deprovisioning.enqueue(pool);
    }

    fn on_node(&self, update: WatchUpdate<Node>) {
        for change in self.apply_event(update) {
            self.notify_disruption(&change);
            self.controller_set.handlers().run(&change);
            if let Some(node) = change.latest() {
                self.node_status.enqueue(&node.metadata.name);
            }
            let cluster = self.ctx.cluster.lock();
            for node in [&change.before, &change.after].into_iter().flatten() {
                for claim in cluster.claims_of(&node.spec.provider_id) {
                    self.lifecycle.enqueue(claim.name());
                    self.consistency.enqueue(claim.name());
                }
            }
            if let Some(node) = &change.after {
                self.node_hydration.enqueue(&node.metadata.name);
                self.node_trigger.enqueue(&node.metadata.name);
                let before = change.before.as_ref().map(|node| &node.status.conditions);
                if before != Some(&node.status.conditions) {
                    self.node_health.enqueue(&node.metadata.name);
                }
                if node.metadata.is_terminating() {
                    self.termination.enqueue(&node.metadata.name);
                }
            } else if let Some(node) = &change.before {
                self.termination.controller.forget(node);
            }
        }
    }

    fn on_pod(&self, update: WatchUpdate<Pod>) {
        let changes = self.apply_event(update);
        if self.ctx.settings.cluster_state_observability {
            instrument_event(&self.ctx.metrics.controllers, self.ctx.clock, POD_METRICS_CONTROLLER, || {
                for change in &changes {
                    self.ctx.metrics.pod_changed(change, self.ctx.now());
                }
            });
        }
        for change in changes {
            self.notify_disruption(&change);
            self.controller_set.handlers().run(&change);
            if let Some(pod) = change.after.as_ref().filter(|pod| pod.spec.node_name.is_none()) {
                self.pod_trigger.enqueue(&pod.key());
            }
            // If the bound pod took the capacity that was launched for another pod, trigger a batch
            // for the displaced pod now instead of after its retrigger interval.
            if let Some(pod) = self.ctx.cluster.lock().displaced_by(&change) {
                self.pod_trigger.enqueue(&pod);
            }
            if let Some(node) = self.pod_events.controller.node_to_update(&change) {
                self.pod_events.enqueue(&node);
            }
        }
    }
}

/// Command that installs Kerf's CRDs, for the log.
const INSTALL_CRDS_COMMAND: &str = "kerf crds | kubectl apply --server-side -f -";

/// Watches under construction.
struct WatchBuilder {
    controllers: Arc<Controllers>,
    seed: u64,
    handles: Vec<WatchHandle>,
    tasks: Vec<BoxFuture<'static, ()>>,
}

impl WatchBuilder {
    fn add<T>(&mut self, kind: WatchedKind, handler: impl Fn(&Controllers, WatchUpdate<T>) + Send + Sync + 'static)
    where
        T: DeserializeOwned + Send + 'static,
    {
        let controllers = self.controllers.clone();
        let client = controllers.ctx.client.clone();
        let name = state_controller_name(kind.name);
        if let Some(name) = name {
            controllers.ctx.metrics.controllers.init_controller_series(name, 1);
        }
        let on_update = move |update| match name {
            Some(name) => instrument_event(&controllers.ctx.metrics.controllers, controllers.ctx.clock, name, || {
                handler(&controllers, update);
            }),
            None => handler(&controllers, update),
        };
        // The CRDs of Kerf install these groups; all others belong to Kubernetes.
        let install_command = kind.group.starts_with("karpenter.").then_some(INSTALL_CRDS_COMMAND);
        let settings = WatchSettings { install_command, ..WatchSettings::new(kind, self.seed) };
        let (handle, task) = watch(client, settings, on_update);
        self.handles.push(handle);
        self.tasks.push(task.boxed());
    }
}

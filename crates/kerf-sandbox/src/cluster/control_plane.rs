//! The control plane: one loop that reads every change, keeps the object cache up to date, and runs
//! one work item after another.
//!
//! ```text
//! storage ── changes ──► ObjectCache ── triggers ──► WorkQueue ──► controller pass
//!    ▲                                                                   │
//!    └───────────────────────────── requests ────────────────────────────┘
//! ```
//!
//! A real cluster spreads these controllers over processes. Here they run in one task: then the
//! order of all writes is a function of the seed, and no controller acts on a stale cache. A pass
//! is synchronous: it reads the cache, writes through the API server, and returns when to run
//! again.
//!
//! Invariant: every change that was stored before a pass began is in the cache when the pass runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use kerf_runtime::{Clock, Rng};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cluster_events::{ClusterEvent, ClusterEventSender};
use super::component_client::ComponentClient;
use super::events::EventCounts;
use super::garbage_collector::OwnerGraph;
use super::instance_commands::InstanceCommand;
use super::kind::ControlPlaneKind;
use super::kubelet::Kubelets;
use super::object_cache::{ObjectCache, put_object};
use super::objects::{AnyObject, Meta};
use super::work_queue::WorkQueue;
use super::{
    ClusterConfig, ObjectRef, WorkItem, attachments, autoscaler, cronjob, daemonset, deployment, disruption,
    garbage_collector, job, kubelet, namespace, node_health, pod_gc, replicaset, statefulset, taint_eviction,
};
use crate::api::ApiServer;
use crate::api::registry::{Registry, Resource};
use crate::api::selector::Selection;
use crate::api::storage::{MAX_BATCH_EVENTS, ObjectKey, PageQuery, TableChanges, TableIx};
use crate::cloud::Cloud;

/// Number of work items after which the loop yields to other tasks of the thread.
const MAX_ITEMS_BEFORE_YIELD: usize = 64;

/// Result of a controller pass: when to run it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunAgain {
    /// Runs again only after a relevant change.
    WhenChanged,
    /// Runs again after this time, even if nothing changes.
    After(Duration),
}

impl RunAgain {
    /// Returns when to run again if a further delay is due: after the shorter of the two.
    pub(crate) fn or_after(self, delay: Duration) -> Self {
        match self {
            Self::WhenChanged => Self::After(delay),
            Self::After(other) => Self::After(other.min(delay)),
        }
    }
}

/// The control plane with its cache, queue and clients.
pub(crate) struct ControlPlane {
    pub(crate) server: ApiServer,
    pub(crate) clock: Clock,
    pub(crate) config: ClusterConfig,
    pub(crate) cache: ObjectCache,
    pub(crate) queue: WorkQueue<WorkItem>,
    pub(crate) kubelets: Kubelets,
    /// Client with the user agent `kube-controller-manager`.
    pub(crate) controller_client: ComponentClient,
    /// Client with the user agent `kubelet`, for all kubelets.
    pub(crate) kubelet_client: ComponentClient,
    pub(crate) event_counts: EventCounts,
    pub(crate) event_sender: ClusterEventSender,
    pub(crate) owner_graph: OwnerGraph,
    /// Time since which each pod tolerates the `NoExecute` taints of its node for a limited time.
    pub(crate) tainted_since: BTreeMap<ObjectKey, Instant>,
    /// Time at which each VolumeAttachment will be attached.
    pub(crate) attach_done_at: BTreeMap<ObjectKey, Instant>,
    pub(crate) rng: Rng,
    pub(crate) cloud: Cloud,
    followed_tables: BTreeMap<TableIx, FollowedTable>,
    tables: BTreeMap<ControlPlaneKind, TableIx>,
    /// Registry at the last search for new tables; `None` before the first.
    registry: Option<Arc<Registry>>,
    seen_revision: u64,
    /// Time by which the wall clock had jumped at the last work item.
    seen_jump: Duration,
    /// Wall time right after the last jump; `None` if the clock has not jumped.
    pub(crate) last_jump_at: Option<Timestamp>,
}

/// A table whose changes the control plane reads.
struct FollowedTable {
    resource: Arc<Resource>,
    kind: Option<ControlPlaneKind>,
    last_revision: u64,
}

impl ControlPlane {
    pub(crate) fn new(
        server: ApiServer,
        config: &ClusterConfig,
        cloud: Cloud,
        sender: Option<mpsc::UnboundedSender<ClusterEvent>>,
    ) -> Self {
        Self {
            clock: server.clock(),
            cache: ObjectCache::default(),
            queue: WorkQueue::new(),
            kubelets: Kubelets::new(config.seed),
            controller_client: ComponentClient::new(server.clone(), "kube-controller-manager"),
            kubelet_client: ComponentClient::new(server.clone(), "kubelet"),
            event_counts: EventCounts::default(),
            event_sender: ClusterEventSender::new(sender),
            owner_graph: OwnerGraph::default(),
            tainted_since: BTreeMap::new(),
            attach_done_at: BTreeMap::new(),
            rng: Rng::new(config.seed).fork("controllers"),
            tables: BTreeMap::new(),
            cloud,
            followed_tables: BTreeMap::new(),
            registry: None,
            seen_revision: 0,
            seen_jump: server.clock().jumped(),
            last_jump_at: None,
            server,
            config: *config,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Runs until the task is aborted or the sender of commands is dropped.
    pub(crate) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<InstanceCommand>) {
        let change_notify = self.server.inner.storage.any_change_notify();
        let cloud_changes = self.server.cloud_changes().clone();
        // `None`: an attached cloud is read at the start, even if it reports no change.
        let mut seen_cloud_changes = None;
        loop {
            let mut notified = std::pin::pin!(change_notify.notified());
            let mut cloud_notified = std::pin::pin!(cloud_changes.notified());
            // Register before reading changes, so that a change in between is not missed.
            notified.as_mut().enable();
            cloud_notified.as_mut().enable();
            let cloud_change = Some(cloud_changes.count());
            if cloud_change != seen_cloud_changes && self.server.attached_cloud().is_some() {
                self.queue.add(WorkItem::CloudInstances);
            }
            seen_cloud_changes = cloud_change;
            for _ in 0..MAX_ITEMS_BEFORE_YIELD {
                self.catch_up();
                let Some(work) = self.queue.next(Instant::now()) else { break };
                self.do_work(work);
            }
            self.catch_up();
            if self.queue.has_ready() {
                tokio::task::yield_now().await;
                continue;
            }
            let due = self.queue.next_due();
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.apply_instance_command(command),
                    None => return,
                },
                () = notified => {}
                () = cloud_notified => {}
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Runs one work item, and enqueues it again if the result demands that or if it failed.
    fn do_work(&mut self, work: WorkItem) {
        let jumped = self.clock.jumped();
        if jumped != self.seen_jump {
            self.seen_jump = jumped;
            self.last_jump_at = Some(self.now());
        }
        let outcome = match &work {
            WorkItem::Namespace(key) => namespace::sync(self, key),
            WorkItem::Garbage(object) => garbage_collector::sync(self, object),
            WorkItem::Deployment(key) => deployment::sync(self, key),
            WorkItem::ReplicaSet(key) => replicaset::sync(self, key),
            WorkItem::StatefulSet(key) => statefulset::sync(self, key),
            WorkItem::DaemonSet(key) => daemonset::sync(self, key),
            WorkItem::Job(key) => job::sync(self, key),
            WorkItem::CronJob(key) => cronjob::sync(self, key),
            WorkItem::Autoscaler(key) => autoscaler::sync(self, key),
            WorkItem::Budget(key) => disruption::sync(self, key),
            WorkItem::NodeHealth(key) => node_health::sync(self, key),
            WorkItem::TaintEviction(key) => taint_eviction::sync(self, key),
            WorkItem::OrphanedPod(key) => pod_gc::sync(self, key),
            WorkItem::Attachments(node) => attachments::sync(self, node),
            WorkItem::Attach(key) => attachments::attach(self, key),
            WorkItem::BootInstance(key) => kubelet::node::sync(self, key),
            WorkItem::Heartbeat(key) => kubelet::node::heartbeat(self, key),
            WorkItem::KubeletDeath(key) => Ok(kubelet::faults::die(self, key)),
            WorkItem::ReadinessFlap(key) => Ok(kubelet::faults::flap(self, key)),
            WorkItem::Interruption(key) => Ok(kubelet::node::interrupt(self, key)),
            WorkItem::CloudInstances => Ok(kubelet::registration::sync(self)),
            WorkItem::RegisterNode(provider_id) => kubelet::registration::register(self, provider_id),
            WorkItem::CloudInterruption(provider_id) => Ok(kubelet::registration::interrupt(self, provider_id)),
            WorkItem::CloudNode(key) => node_health::cloud_node::sync(self, key),
            WorkItem::RunPod(key) => kubelet::pod::sync(self, key),
        };
        match outcome {
            Ok(RunAgain::WhenChanged) => self.queue.forget_failures(&work),
            Ok(RunAgain::After(delay)) => {
                self.queue.forget_failures(&work);
                self.queue.add_at(work, Instant::now() + delay);
            }
            Err(error) => {
                tracing::debug!(?work, error = error.message(), "a pass failed and will be tried again");
                self.queue.add_after_failure(work, Instant::now());
            }
        }
    }

    /// Applies all changes up to the last write to the cache.
    fn catch_up(&mut self) {
        loop {
            let (changed, revision) = self.server.inner.storage.tables_changed_since(self.seen_revision);
            if revision == self.seen_revision && self.registry.is_some() {
                return;
            }
            self.follow_new_tables();
            let (mut events, mut has_more) = (Vec::new(), false);
            for table in changed {
                let Some(followed) = self.followed_tables.get_mut(&table) else { continue };
                match self.server.inner.storage.changes_after(table, followed.last_revision) {
                    Ok(TableChanges::Events(batch)) => {
                        has_more |= batch.len() >= MAX_BATCH_EVENTS;
                        followed.last_revision = batch.last().map_or(followed.last_revision, |event| event.revision);
                        events.extend(batch.into_iter().map(|event| (table, event)));
                    }
                    Ok(TableChanges::Nothing { .. } | TableChanges::Closed) => {}
                    Err(_) => self.relist_table(table),
                }
            }
            if !has_more {
                self.seen_revision = revision;
            }
            // Each table returns its changes in batches, so one table may be ahead of another.
            // Within a batch, events are applied in the order of the writes.
            events.sort_by_key(|(_, event)| event.revision);
            for (table, event) in events {
                let now = event.now.as_ref().map(|stored| stored.bytes().clone());
                let before = event.before.as_ref().map(|stored| stored.bytes().clone());
                self.apply_change(table, &event.key, before, now);
            }
        }
    }

    /// Starts to follow tables that were added to the registry, and drops tables that were removed.
    fn follow_new_tables(&mut self) {
        let registry = self.server.inner.registry();
        if self.registry.as_ref().is_some_and(|known| Arc::ptr_eq(known, &registry)) {
            return;
        }
        self.registry = Some(registry.clone());
        let mut tables = BTreeMap::new();
        for resource in registry.all() {
            tables.entry(resource.table).or_insert_with(|| resource.clone());
        }
        self.followed_tables.retain(|table, _| tables.contains_key(table));
        for (table, resource) in tables {
            if self.followed_tables.contains_key(&table) {
                continue;
            }
            let kind = ControlPlaneKind::ALL
                .into_iter()
                .find(|kind| kind.group() == resource.group && kind.plural() == resource.plural);
            if let Some(kind) = kind {
                self.tables.insert(kind, table);
            }
            self.followed_tables.insert(table, FollowedTable { resource, kind, last_revision: 0 });
            self.relist_table(table);
        }
    }

    /// Reads a whole table: at the start, and after its history was compacted.
    fn relist_table(&mut self, table: TableIx) {
        let everything = Selection::default();
        let query = PageQuery { namespace: None, selection: &everything, from: None, at_revision: None, limit: None };
        let Ok(page) = self.server.inner.storage.page(table, query) else { return };
        let mut removed: Vec<ObjectKey> = match self.followed_tables.get_mut(&table) {
            Some(followed) => {
                followed.last_revision = page.revision;
                followed.kind.map(|kind| self.cache.keys(kind)).unwrap_or_default()
            }
            None => return,
        };
        for stored in page.objects {
            let Some(object) = decode::<AnyObject>(stored.bytes()) else { continue };
            let key = object.metadata.key();
            removed.retain(|removed_key| *removed_key != key);
            self.apply_change(table, &key, None, Some(stored.bytes().clone()));
        }
        for key in removed {
            self.apply_change(table, &key, None, None);
        }
    }

    /// Returns the table that stores a kind, or `None` if the registry does not have the kind yet.
    pub(crate) fn table(&self, kind: ControlPlaneKind) -> Option<TableIx> {
        self.tables.get(&kind).copied()
    }

    /// Returns the resource whose objects a table stores, or `None` for an unknown table.
    pub(crate) fn resource(&self, table: TableIx) -> Option<Arc<Resource>> {
        self.followed_tables.get(&table).map(|followed| followed.resource.clone())
    }

    /// Applies one change to the cache, and enqueues the work that follows from it.
    fn apply_change(&mut self, table: TableIx, key: &ObjectKey, before: Option<Bytes>, now: Option<Bytes>) {
        let Some(followed) = self.followed_tables.get(&table) else { return };
        let (kind, resource) = (followed.kind, followed.resource.clone());
        // Events have no owners and no dependents. Renewing a Lease does not change its owners.
        let is_renewal = kind == Some(ControlPlaneKind::Lease) && before.is_some() && now.is_some();
        if kind == Some(ControlPlaneKind::Event) || is_renewal {
            if let (Some(ControlPlaneKind::Event), None, Some(now)) = (kind, &before, &now) {
                self.report_launch_failure(now);
            }
            return;
        }
        if let (true, None, Some(now)) = (resource.is_custom(), &before, &now) {
            self.report_custom(&resource.plural, now);
        }
        let cache = &mut self.cache;
        let (old, new) = match kind {
            Some(ControlPlaneKind::Pod) => {
                let changed = cache.put_pod(key, decode_optional(now));
                self.report_pod(&changed);
                self.pod_changed(key, &changed);
                changed.metas()
            }
            Some(ControlPlaneKind::Node) => {
                let changed = put_object(&mut cache.nodes, key, decode_optional(now));
                self.report_node(key, &changed);
                self.node_changed(key, &changed);
                changed.metas()
            }
            Some(ControlPlaneKind::Deployment) => {
                let changed = put_object(&mut cache.deployments, key, decode_optional(now));
                self.workload_changed(key, &changed, WorkItem::Deployment);
                changed.metas()
            }
            Some(ControlPlaneKind::ReplicaSet) => {
                let changed = put_object(&mut cache.replica_sets, key, decode_optional(now));
                self.workload_changed(key, &changed, WorkItem::ReplicaSet);
                changed.metas()
            }
            Some(ControlPlaneKind::StatefulSet) => {
                let changed = put_object(&mut cache.stateful_sets, key, decode_optional(now));
                self.workload_changed(key, &changed, WorkItem::StatefulSet);
                changed.metas()
            }
            Some(ControlPlaneKind::DaemonSet) => {
                let changed = put_object(&mut cache.daemon_sets, key, decode_optional(now));
                self.workload_changed(key, &changed, WorkItem::DaemonSet);
                changed.metas()
            }
            Some(ControlPlaneKind::ControllerRevision) => {
                let changed = put_object(&mut cache.controller_revisions, key, decode_optional(now));
                self.enqueue_owners(&changed);
                changed.metas()
            }
            Some(ControlPlaneKind::Job) => {
                let changed = put_object(&mut cache.jobs, key, decode_optional(now));
                self.queue.add(WorkItem::Job(key.clone()));
                self.enqueue_owners(&changed);
                changed.metas()
            }
            Some(ControlPlaneKind::CronJob) => {
                let changed = put_object(&mut cache.cron_jobs, key, decode_optional(now));
                self.queue.add(WorkItem::CronJob(key.clone()));
                changed.metas()
            }
            Some(ControlPlaneKind::HorizontalPodAutoscaler) => {
                let changed = put_object(&mut cache.horizontal_pod_autoscalers, key, decode_optional(now));
                self.queue.add(WorkItem::Autoscaler(key.clone()));
                changed.metas()
            }
            Some(ControlPlaneKind::PodDisruptionBudget) => {
                let changed = put_object(&mut cache.pod_disruption_budgets, key, decode_optional(now));
                self.queue.add(WorkItem::Budget(key.clone()));
                changed.metas()
            }
            Some(ControlPlaneKind::Namespace) => {
                let changed = put_object(&mut cache.namespaces, key, decode_optional(now));
                self.queue.add(WorkItem::Namespace(key.clone()));
                changed.metas()
            }
            Some(ControlPlaneKind::PersistentVolumeClaim) => {
                let changed = put_object(&mut cache.volume_claims, key, decode_optional(now));
                self.volume_claim_changed(key);
                changed.metas()
            }
            Some(ControlPlaneKind::PersistentVolume) => {
                put_object(&mut cache.volumes, key, decode_optional(now)).metas()
            }
            Some(ControlPlaneKind::VolumeAttachment) => {
                let changed = cache.put_attachment(key, decode_optional(now));
                self.attachment_changed(key, &changed);
                changed.metas()
            }
            Some(
                ControlPlaneKind::Event
                | ControlPlaneKind::ServiceAccount
                | ControlPlaneKind::ConfigMap
                | ControlPlaneKind::Lease
                | ControlPlaneKind::CsiNode,
            )
            | None => (decode_meta(before), decode_meta(now)),
        };
        let is_deleted = old.is_some() && new.is_none();
        self.ownership_changed(ObjectRef { table, key: key.clone() }, old.as_ref(), new.as_ref());
        if is_deleted && !key.namespace().is_empty() {
            self.enqueue_terminating_namespace(key.namespace());
        }
    }
}

fn decode_meta(bytes: Option<Bytes>) -> Option<Meta> {
    decode_optional::<AnyObject>(bytes).map(|object| object.metadata)
}

/// Decodes a stored object. Returns `None` if there is none or if it cannot be decoded.
fn decode_optional<T: DeserializeOwned>(bytes: Option<Bytes>) -> Option<T> {
    bytes.and_then(|bytes| decode(&bytes))
}

fn decode<T: DeserializeOwned>(bytes: &Bytes) -> Option<T> {
    serde_json::from_slice(bytes)
        .map_err(|problem| tracing::warn!(%problem, "an object cannot be read and is passed over"))
        .ok()
}

//! The control plane: one loop that hears of every change, keeps the world up to date, and does one piece of work after the other.
//!
//! ```text
//! storage ── changes ──► world ──► triggers ──► queue ──► a controller's pass ──► requests ──► storage
//! ```
//! Everything that a real cluster spreads over processes runs here in one task, because then the order of things is a function of the
//! seed and nobody acts on a stale cache. A pass is synchronous: it reads the world, writes through the API, and says when it wants to
//! come back. What always holds: every change that was stored before a pass began is in the world when it runs.

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
    ClusterConfig, ObjectRef, WorkItem, attachments, cronjob, daemonset, deployment, disruption, garbage_collector,
    job, kubelet, namespace, node_health, pod_gc, replicaset, statefulset, taint_eviction,
};
use crate::api::ApiServer;
use crate::api::registry::{Registry, Resource};
use crate::api::selector::Selection;
use crate::api::storage::{MAX_BATCH_EVENTS, ObjectKey, PageQuery, TableChanges, TableIx};
use crate::cloud::Cloud;

/// How many pieces of work are done before others in the same thread get their turn.
const MAX_ITEMS_BEFORE_YIELD: usize = 64;

/// What a pass wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunAgain {
    /// Nothing until something changes.
    WhenChanged,
    /// To come back after this time, whatever happens.
    After(Duration),
}

/// The control plane and everything that it works with.
pub(crate) struct ControlPlane {
    pub(crate) server: ApiServer,
    pub(crate) clock: Clock,
    pub(crate) config: ClusterConfig,
    pub(crate) cache: ObjectCache,
    pub(crate) queue: WorkQueue<WorkItem>,
    pub(crate) kubelets: Kubelets,
    /// The controllers' and the kubelets' ways to write.
    pub(crate) controller_client: ComponentClient,
    pub(crate) kubelet_client: ComponentClient,
    pub(crate) event_counts: EventCounts,
    pub(crate) event_sender: ClusterEventSender,
    pub(crate) owner_graph: OwnerGraph,
    /// Since when pods put up with the taints of their nodes.
    pub(crate) tainted_since: BTreeMap<ObjectKey, Instant>,
    /// When attachments will be there.
    pub(crate) attach_done_at: BTreeMap<ObjectKey, Instant>,
    pub(crate) rng: Rng,
    pub(crate) cloud: Cloud,
    followed_tables: BTreeMap<TableIx, FollowedTable>,
    tables: BTreeMap<ControlPlaneKind, TableIx>,
    /// What was served when we last looked for new tables.
    registry: Option<Arc<Registry>>,
    seen_revision: u64,
}

/// One table that the plane follows.
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
        reporter: Option<mpsc::UnboundedSender<ClusterEvent>>,
    ) -> Self {
        Self {
            clock: server.clock(),
            cache: ObjectCache::default(),
            queue: WorkQueue::new(),
            kubelets: Kubelets::new(config.seed),
            controller_client: ComponentClient::new(server.clone(), "kube-controller-manager"),
            kubelet_client: ComponentClient::new(server.clone(), "kubelet"),
            event_counts: EventCounts::default(),
            event_sender: ClusterEventSender::new(reporter),
            owner_graph: OwnerGraph::default(),
            tainted_since: BTreeMap::new(),
            attach_done_at: BTreeMap::new(),
            rng: Rng::new(config.seed).fork("controllers"),
            tables: BTreeMap::new(),
            cloud,
            followed_tables: BTreeMap::new(),
            registry: None,
            seen_revision: 0,
            server,
            config: *config,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Works until it is dropped, or told to stop.
    pub(crate) async fn run(mut self, mut orders: mpsc::UnboundedReceiver<InstanceCommand>) {
        let bell = self.server.inner.storage.any_change_notify();
        loop {
            let mut rung = std::pin::pin!(bell.notified());
            // Registered before we look, so that nothing is missed in between.
            rung.as_mut().enable();
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
                order = orders.recv() => match order {
                    Some(order) => self.apply_instance_command(order),
                    None => return,
                },
                () = rung => {}
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Does one piece of work, and notes when it is to be done again.
    fn do_work(&mut self, work: WorkItem) {
        let outcome = match &work {
            WorkItem::Namespace(key) => namespace::sync(self, key),
            WorkItem::Garbage(object) => garbage_collector::sync(self, object),
            WorkItem::Deployment(key) => deployment::sync(self, key),
            WorkItem::ReplicaSet(key) => replicaset::sync(self, key),
            WorkItem::StatefulSet(key) => statefulset::sync(self, key),
            WorkItem::DaemonSet(key) => daemonset::sync(self, key),
            WorkItem::Job(key) => job::sync(self, key),
            WorkItem::CronJob(key) => cronjob::sync(self, key),
            WorkItem::Budget(key) => disruption::sync(self, key),
            WorkItem::NodeHealth(key) => node_health::sync(self, key),
            WorkItem::TaintEviction(key) => taint_eviction::sync(self, key),
            WorkItem::OrphanedPod(key) => pod_gc::sync(self, key),
            WorkItem::Attachments(node) => attachments::sync(self, node),
            WorkItem::Attach(key) => attachments::attach(self, key),
            WorkItem::Machine(key) => kubelet::node::sync(self, key),
            WorkItem::Heartbeat(key) => kubelet::node::heartbeat(self, key),
            WorkItem::Interruption(key) => Ok(kubelet::node::interrupt(self, key)),
            WorkItem::RunPod(key) => kubelet::pod::sync(self, key),
        };
        match outcome {
            Ok(RunAgain::WhenChanged) => self.queue.forget_failures(&work),
            Ok(RunAgain::After(pause)) => {
                self.queue.forget_failures(&work);
                self.queue.add_at(work, Instant::now() + pause);
            }
            Err(refusal) => {
                tracing::debug!(?work, refusal = refusal.message(), "a pass failed and will be tried again");
                self.queue.add_after_failure(work, Instant::now());
            }
        }
    }

    /// Brings the world up to the last write.
    fn catch_up(&mut self) {
        loop {
            let (changed, revision) = self.server.inner.storage.tables_changed_since(self.seen_revision);
            if revision == self.seen_revision && self.registry.is_some() {
                return;
            }
            self.follow_new_tables();
            let (mut events, mut more) = (Vec::new(), false);
            for table in changed {
                let Some(feed) = self.followed_tables.get_mut(&table) else { continue };
                match self.server.inner.storage.changes_after(table, feed.last_revision) {
                    Ok(TableChanges::Events(some)) => {
                        more |= some.len() >= MAX_BATCH_EVENTS;
                        feed.last_revision = some.last().map_or(feed.last_revision, |event| event.revision);
                        events.extend(some.into_iter().map(|event| (table, event)));
                    }
                    Ok(TableChanges::Nothing { .. } | TableChanges::Closed) => {}
                    Err(_) => self.relist_table(table),
                }
            }
            if !more {
                self.seen_revision = revision;
            }
            // Tables are told in batches, so one may be ahead of another; within a batch the order is that of the writes.
            events.sort_by_key(|(_, event)| event.revision);
            for (table, event) in events {
                let now = event.now.as_ref().map(|stored| stored.bytes().clone());
                let before = event.before.as_ref().map(|stored| stored.bytes().clone());
                self.apply_change(table, &event.key, before, now);
            }
        }
    }

    /// Follows tables that have come since we last looked, and forgets those that are gone.
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

    /// Reads a whole table: at the start, and if we were left behind.
    fn relist_table(&mut self, table: TableIx) {
        let everything = Selection::default();
        let window = PageQuery { namespace: None, selection: &everything, from: None, at_revision: None, limit: None };
        let Ok(page) = self.server.inner.storage.page(table, window) else { return };
        let mut gone: Vec<ObjectKey> = match self.followed_tables.get_mut(&table) {
            Some(feed) => {
                feed.last_revision = page.revision;
                feed.kind.map(|kind| self.cache.keys(kind)).unwrap_or_default()
            }
            None => return,
        };
        for stored in page.objects {
            let Some(object) = decode::<AnyObject>(stored.bytes()) else { continue };
            let key = object.metadata.key();
            gone.retain(|old| *old != key);
            self.apply_change(table, &key, None, Some(stored.bytes().clone()));
        }
        for key in gone {
            self.apply_change(table, &key, None, None);
        }
    }

    /// The table of a kind.
    pub(crate) fn table(&self, kind: ControlPlaneKind) -> Option<TableIx> {
        self.tables.get(&kind).copied()
    }

    /// The resource whose objects a table holds.
    pub(crate) fn resource(&self, table: TableIx) -> Option<Arc<Resource>> {
        self.followed_tables.get(&table).map(|feed| feed.resource.clone())
    }

    /// Takes one change into the world, and notes what is to be done about it.
    fn apply_change(&mut self, table: TableIx, key: &ObjectKey, before: Option<Bytes>, now: Option<Bytes>) {
        let Some(feed) = self.followed_tables.get(&table) else { return };
        let (kind, resource) = (feed.kind, feed.resource.clone());
        // Events own nothing and are owned by nobody; a lease that is renewed has the owner that it had.
        let is_renewal = kind == Some(ControlPlaneKind::Lease) && before.is_some() && now.is_some();
        if kind == Some(ControlPlaneKind::Event) || is_renewal {
            return;
        }
        if let (true, None, Some(now)) = (resource.is_custom(), &before, &now) {
            self.report_custom(&resource.plural, now);
        }
        let world = &mut self.cache;
        let (old, new) = match kind {
            Some(ControlPlaneKind::Pod) => {
                let changed = world.put_pod(key, decode_optional(now));
                self.report_pod(&changed);
                self.pod_changed(key, &changed);
                changed.metas()
            }
            Some(ControlPlaneKind::Node) => {
                let changed = put_object(&mut world.nodes, key, decode_optional(now));
                self.report_node(key, &changed);
                self.node_changed(key, &changed);
                changed.metas()
            }
            Some(ControlPlaneKind::Deployment) => {
                let changed = put_object(&mut world.deployments, key, decode_optional(now));
                self.workload_changed(key, &changed, WorkItem::Deployment);
                changed.metas()
            }
            Some(ControlPlaneKind::ReplicaSet) => {
                let changed = put_object(&mut world.replica_sets, key, decode_optional(now));
                self.workload_changed(key, &changed, WorkItem::ReplicaSet);
                changed.metas()
            }
            Some(ControlPlaneKind::StatefulSet) => {
                let changed = put_object(&mut world.stateful_sets, key, decode_optional(now));
                self.workload_changed(key, &changed, WorkItem::StatefulSet);
                changed.metas()
            }
            Some(ControlPlaneKind::DaemonSet) => {
                let changed = put_object(&mut world.daemon_sets, key, decode_optional(now));
                self.workload_changed(key, &changed, WorkItem::DaemonSet);
                changed.metas()
            }
            Some(ControlPlaneKind::ControllerRevision) => {
                let changed = put_object(&mut world.controller_revisions, key, decode_optional(now));
                self.enqueue_owners(&changed);
                changed.metas()
            }
            Some(ControlPlaneKind::Job) => {
                let changed = put_object(&mut world.jobs, key, decode_optional(now));
                self.queue.add(WorkItem::Job(key.clone()));
                self.enqueue_owners(&changed);
                changed.metas()
            }
            Some(ControlPlaneKind::CronJob) => {
                let changed = put_object(&mut world.cron_jobs, key, decode_optional(now));
                self.queue.add(WorkItem::CronJob(key.clone()));
                changed.metas()
            }
            Some(ControlPlaneKind::PodDisruptionBudget) => {
                let changed = put_object(&mut world.pod_disruption_budgets, key, decode_optional(now));
                self.queue.add(WorkItem::Budget(key.clone()));
                changed.metas()
            }
            Some(ControlPlaneKind::Namespace) => {
                let changed = put_object(&mut world.namespaces, key, decode_optional(now));
                self.queue.add(WorkItem::Namespace(key.clone()));
                changed.metas()
            }
            Some(ControlPlaneKind::PersistentVolumeClaim) => {
                let changed = put_object(&mut world.volume_claims, key, decode_optional(now));
                self.volume_claim_changed(key);
                changed.metas()
            }
            Some(ControlPlaneKind::PersistentVolume) => {
                put_object(&mut world.volumes, key, decode_optional(now)).metas()
            }
            Some(ControlPlaneKind::VolumeAttachment) => {
                let changed = world.put_attachment(key, decode_optional(now));
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
        let gone = old.is_some() && new.is_none();
        self.ownership_changed(ObjectRef { table, key: key.clone() }, old.as_ref(), new.as_ref());
        if gone && !key.namespace().is_empty() {
            self.enqueue_terminating_namespace(key.namespace());
        }
    }
}

/// The metadata of any object.
fn decode_meta(bytes: Option<Bytes>) -> Option<Meta> {
    decode_optional::<AnyObject>(bytes).map(|object| object.metadata)
}

/// Decodes what is stored; nothing if nothing is, or if it cannot be read.
fn decode_optional<T: DeserializeOwned>(bytes: Option<Bytes>) -> Option<T> {
    bytes.and_then(|bytes| decode(&bytes))
}

fn decode<T: DeserializeOwned>(bytes: &Bytes) -> Option<T> {
    serde_json::from_slice(bytes)
        .map_err(|problem| tracing::warn!(%problem, "an object cannot be read and is passed over"))
        .ok()
}

//! Reads every change of a cluster in the order of the writes, across all kinds and clients.
//! Watches of several kinds cannot promise that order: one watch may deliver a change that is older
//! than one already delivered by another. So changes are read from the store, merged by revision,
//! and passed to an [`InvariantChecker`], which checks the invariants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::invariant_checker::{InvariantChecker, TrackedKind};
use super::invariants;
use super::report::Violation;
use crate::api::registry::Registry;
use crate::api::{ApiServer, ObjectKey, PageQuery, Selection, TableChanges, TableIx};
use crate::cluster::Cluster;

/// A checker that one task writes while others read it.
#[derive(Clone, Debug)]
pub(super) struct SharedChecker(Arc<Mutex<InvariantChecker>>);

impl SharedChecker {
    pub(super) fn lock(&self) -> MutexGuard<'_, InvariantChecker> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks the invariants of a cluster until it is dropped.
#[derive(Debug)]
pub struct InvariantWatcher {
    checker: SharedChecker,
    task: JoinHandle<()>,
}

impl InvariantWatcher {
    /// Starts to watch a cluster. Must be called on a tokio runtime.
    pub fn start(cluster: &Cluster) -> Self {
        let server = cluster.api().clone();
        let checker = SharedChecker(Arc::new(Mutex::new(InvariantChecker::new(server.clock().now()))));
        let observer = Observer {
            server,
            checker: checker.clone(),
            watched_tables: BTreeMap::new(),
            registry: None,
            seen_revision: 0,
            seen_cloud_changes: None,
            cloud_check_due: None,
            has_claim_changed: false,
        };
        Self { checker, task: tokio::spawn(observer.run()) }
    }

    /// Returns all violations so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.checker.lock().violations.clone()
    }

    /// Returns the number of pods that were evicted so far.
    pub fn evictions(&self) -> usize {
        self.checker.lock().evictions
    }

    /// Returns the number of pods so far that ran on an instance of the attached cloud when it
    /// ended, without pods of DaemonSets.
    pub fn killed_pods(&self) -> usize {
        self.checker.lock().killed
    }

    pub(super) fn checker(&self) -> MutexGuard<'_, InvariantChecker> {
        self.checker.lock()
    }

    /// Stops watching, and returns the records.
    pub(super) fn into_checker(self, now: Timestamp) -> InvariantChecker {
        self.task.abort();
        std::mem::replace(&mut *self.checker.lock(), InvariantChecker::new(now))
    }
}

impl Drop for InvariantWatcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task that reads the store.
struct Observer {
    server: ApiServer,
    checker: SharedChecker,
    watched_tables: BTreeMap<TableIx, WatchedTable>,
    /// Registry at the last search for new tables; `None` before the first.
    registry: Option<Arc<Registry>>,
    seen_revision: u64,
    /// Number of reported changes of the cloud at the last check of its list; `None` before the
    /// first.
    seen_cloud_changes: Option<u64>,
    /// Time at which an instance without a claim becomes too old; `None` if there is none.
    cloud_check_due: Option<Timestamp>,
    /// True if a NodeClaim has changed since the last check of the cloud's list.
    has_claim_changed: bool,
}

/// A table whose changes are read.
struct WatchedTable {
    kind: TrackedKind,
    last_revision: u64,
}

impl Observer {
    async fn run(mut self) {
        let change_notify = self.server.inner.storage.any_change_notify();
        let cloud_changes = self.server.cloud_changes().clone();
        loop {
            let mut notified = std::pin::pin!(change_notify.notified());
            let mut cloud_notified = std::pin::pin!(cloud_changes.notified());
            // Register before reading changes, so that a change in between is not missed.
            notified.as_mut().enable();
            cloud_notified.as_mut().enable();
            self.catch_up();
            self.check_cloud();
            let due = self.cloud_check_due.and_then(|due| self.server.clock().instant_of(due));
            tokio::select! {
                biased;
                () = notified => {}
                () = cloud_notified => {}
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Checks the list of the attached cloud if the cloud or a claim has changed, or if an instance
    /// without a claim has become too old.
    fn check_cloud(&mut self) {
        let Some(cloud) = self.server.attached_cloud() else { return };
        let (now, changes) = (self.server.clock().now(), Some(self.server.cloud_changes().count()));
        let is_due = self.cloud_check_due.is_some_and(|due| due <= now);
        if is_due || self.has_claim_changed || changes != self.seen_cloud_changes {
            self.seen_cloud_changes = changes;
            self.has_claim_changed = false;
            self.cloud_check_due = invariants::check_cloud(&mut self.checker.lock(), cloud.as_ref(), now);
        }
    }

    fn catch_up(&mut self) {
        loop {
            let (changed, revision) = self.server.inner.storage.tables_changed_since(self.seen_revision);
            if revision == self.seen_revision && self.registry.is_some() {
                return;
            }
            self.follow_new_tables();
            let mut events = Vec::new();
            for table in changed {
                let Some(watched) = self.watched_tables.get_mut(&table) else { continue };
                match self.server.inner.storage.changes_after(table, watched.last_revision) {
                    Ok(TableChanges::Events(batch)) => {
                        watched.last_revision = batch.last().map_or(watched.last_revision, |event| event.revision);
                        events.extend(batch.into_iter().map(|event| (watched.kind, event)));
                    }
                    Ok(TableChanges::Nothing { .. } | TableChanges::Closed) => {}
                    Err(_) => self.relist_table(table),
                }
            }
            if events.is_empty() {
                self.seen_revision = revision;
                continue;
            }
            events.sort_by_key(|(_, event)| event.revision);
            for (kind, event) in events {
                let object = event.now.as_ref().map(|stored| stored.bytes().clone());
                self.apply_change(kind, &event.key, object);
            }
        }
    }

    fn apply_change(&mut self, kind: TrackedKind, key: &ObjectKey, object: Option<Bytes>) {
        let now = self.server.clock().now();
        self.has_claim_changed |= kind == TrackedKind::Claim;
        self.checker.lock().apply_change(kind, key, object.as_deref(), now);
    }

    fn follow_new_tables(&mut self) {
        let registry = self.server.inner.registry();
        if self.registry.as_ref().is_some_and(|known| Arc::ptr_eq(known, &registry)) {
            return;
        }
        for resource in registry.all() {
            let kind = TrackedKind::ALL
                .into_iter()
                .find(|kind| kind.resource() == (resource.group.as_str(), resource.plural.as_str()));
            if let Some(kind) = kind {
                self.watched_tables.entry(resource.table).or_insert(WatchedTable { kind, last_revision: 0 });
            }
        }
        self.registry = Some(registry);
    }

    /// Reads a whole table, after its history was compacted.
    fn relist_table(&mut self, table: TableIx) {
        let everything = Selection::default();
        let query = PageQuery { namespace: None, selection: &everything, from: None, at_revision: None, limit: None };
        let Ok(page) = self.server.inner.storage.page(table, query) else { return };
        let Some(watched) = self.watched_tables.get_mut(&table) else { return };
        watched.last_revision = page.revision;
        let kind = watched.kind;
        let mut removed = self.checker.lock().keys(kind);
        for stored in page.objects {
            let Some(key) = super::invariant_checker::key_of(stored.bytes()) else { continue };
            removed.retain(|known| *known != key);
            self.apply_change(kind, &key, Some(stored.bytes().clone()));
        }
        for key in removed {
            self.apply_change(kind, &key, None);
        }
    }
}

//! The sandbox's etcd: objects in memory, with one revision counter for all, and one ordered map
//! and one bounded history per resource. A watcher is a position in the history and has no queue of
//! its own, so a slow watcher costs nothing. It gets 410 if the history no longer contains its
//! position.
//!
//! Invariants:
//! - A revision belongs to exactly one change.
//! - The history of a table is ordered by revision and has no gap above the `compacted` revision.
//! - Undoing the history from the current state gives every state since `compacted`. Paged lists
//!   stay consistent and stale reads are served in this way.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash as _, Hasher as _};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustc_hash::FxHasher;
use smol_str::SmolStr;
use tokio::sync::Notify;

use super::encode::{EncodedObject, VersionedObject};
use super::selector::Selection;

/// The key of an object in its table: `namespace/name`, or `name` alone. It is one string, so that
/// objects are listed in etcd's order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey(SmolStr);

impl ObjectKey {
    pub(crate) fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => Self(smol_str::format_smolstr!("{namespace}/{name}")),
            None => Self(name.into()),
        }
    }

    /// Returns the key from a continue token.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns namespace and name. The namespace is empty for cluster-scoped objects.
    pub(crate) fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or(("", &self.0))
    }

    pub(crate) fn namespace(&self) -> &str {
        self.parts().0
    }

    pub(crate) fn name(&self) -> &str {
        self.parts().1
    }

    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        self.0.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Labels and selectable fields, extracted when an object is written, so that a list of 100,000
/// objects needs no parsing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectorAttributes {
    /// Labels, sorted by key.
    pub(crate) labels: Box<[(SmolStr, SmolStr)]>,
    /// The values of the resource's selectable fields, in the resource's order.
    pub(crate) fields: Box<[SmolStr]>,
}

/// One version of one object. It never changes, and the table, the history and readers share it.
#[derive(Debug)]
pub(crate) struct StoredObject {
    text: VersionedObject,
    pub(crate) revision: u64,
    pub(crate) attributes: Arc<SelectorAttributes>,
}

impl StoredObject {
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.text.bytes
    }

    /// Returns the object with another resource version. A watch reports a deleted object with the
    /// revision of the deletion.
    pub(crate) fn bytes_as_of(&self, revision: u64) -> Bytes {
        self.text.with_version(revision).bytes
    }
}

/// One change of one object: `before` is the version before it, `now` the version after it.
#[derive(Debug)]
pub(crate) struct StorageEvent {
    pub(crate) revision: u64,
    pub(crate) key: ObjectKey,
    pub(crate) before: Option<Arc<StoredObject>>,
    pub(crate) now: Option<Arc<StoredObject>>,
}

/// The index of a resource's table. An index is never reused for another resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableIx(u32);

/// The error of a write whose expected version is not the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevisionConflict;

/// The error of a read of a revision that is older than the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// The oldest revision from which the history is complete.
    pub(crate) oldest: u64,
}

/// One page of a table.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<StoredObject>>,
    /// The revision at which the page was read.
    pub(crate) revision: u64,
    /// The first key of the next page and the number of objects from there.
    pub(crate) rest: Option<(ObjectKey, usize)>,
}

/// The part of a table to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageQuery<'a> {
    pub(crate) namespace: Option<&'a str>,
    /// Only objects that match count towards the limit.
    pub(crate) selection: &'a Selection,
    /// The first key of the page.
    pub(crate) from: Option<&'a ObjectKey>,
    /// The revision at which to read. `None`: the current one.
    pub(crate) at_revision: Option<u64>,
    /// The maximum number of objects. `None`: all.
    pub(crate) limit: Option<usize>,
}

/// The changes of a table after a revision.
#[derive(Debug)]
pub(crate) enum TableChanges {
    /// At least one change, in order of revision.
    Events(Vec<Arc<StorageEvent>>),
    /// There are no changes up to this revision.
    Nothing { revision: u64 },
    /// The resource no longer exists because its CRD was deleted.
    Closed,
}

#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<ObjectKey, Arc<StoredObject>>,
    history: VecDeque<Arc<StorageEvent>>,
    /// The newest revision that is no longer in the history.
    compacted: u64,
    closed: bool,
    change_notify: Arc<Notify>,
}

struct StorageState {
    revision: u64,
    fingerprint: FxHasher,
    tables: Vec<Table>,
    /// The tables of the last revisions, the newest at the end. Readers that follow all tables need
    /// not check each table.
    recent_tables: VecDeque<TableIx>,
}

/// The objects of all resources.
pub(crate) struct ObjectStore {
    inner: Mutex<StorageState>,
    /// Notified after every change of any table.
    change_notify: Arc<Notify>,
    /// The number of changes that each table's history holds.
    max_history_events: usize,
}

/// The maximum number of changes per batch of a watcher: enough to amortise the lock, few enough to
/// keep buffers small.
pub(crate) const MAX_BATCH_EVENTS: usize = 256;
/// The number of revisions in [`StorageState::recent_tables`].
const MAX_RECENT_REVISIONS: usize = 1024;

impl ObjectStore {
    /// Returns an empty store whose tables keep a history of `history` changes each (at least one).
    pub(crate) fn new(history: usize) -> Self {
        Self {
            inner: Mutex::new(StorageState {
                revision: 1,
                fingerprint: FxHasher::default(),
                tables: Vec::new(),
                recent_tables: VecDeque::new(),
            }),
            change_notify: Arc::new(Notify::new()),
            max_history_events: history.max(1),
        }
    }

    /// Returns a copy with the same objects and revisions and an empty history.
    pub(crate) fn fork(&self) -> Self {
        let inner = self.lock();
        let tables = inner.tables.iter().map(|table| Table {
            objects: table.objects.clone(),
            compacted: inner.revision,
            closed: table.closed,
            ..Table::default()
        });
        let copy = StorageState {
            revision: inner.revision,
            fingerprint: inner.fingerprint.clone(),
            tables: tables.collect(),
            recent_tables: inner.recent_tables.clone(),
        };
        Self {
            inner: Mutex::new(copy),
            change_notify: Arc::new(Notify::new()),
            max_history_events: self.max_history_events,
        }
    }

    /// Adds an empty table.
    pub(crate) fn create_table(&self) -> TableIx {
        let mut inner = self.lock();
        let compacted = inner.revision;
        inner.tables.push(Table { compacted, ..Table::default() });
        TableIx(inner.tables.len() as u32 - 1)
    }

    /// Closes a table: its watchers end, and writes to it fail.
    pub(crate) fn close_table(&self, table: TableIx) {
        let mut inner = self.lock();
        let table = &mut inner.tables[table.0 as usize];
        *table = Table {
            closed: true,
            compacted: table.compacted,
            change_notify: table.change_notify.clone(),
            ..Table::default()
        };
        table.change_notify.notify_waiters();
    }

    pub(crate) fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub(crate) fn get(&self, table: TableIx, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        self.lock().tables[table.0 as usize].objects.get(key).cloned()
    }

    /// Returns the object at `key` at `revision`, or at the oldest revision in the history.
    pub(crate) fn get_at(&self, table: TableIx, key: &ObjectKey, revision: u64) -> Option<Arc<StoredObject>> {
        let inner = self.lock();
        let table = &inner.tables[table.0 as usize];
        let later = table.history.iter().find(|event| event.revision > revision && event.key == *key);
        later.map_or_else(|| table.objects.get(key).cloned(), |event| event.before.clone())
    }

    /// Writes one object if the stored revision is `expected` (`None`: the key must not exist).
    pub(crate) fn put(
        &self,
        table: TableIx,
        key: &ObjectKey,
        expected: Option<u64>,
        object: &EncodedObject,
        attributes: SelectorAttributes,
    ) -> Result<Arc<StoredObject>, RevisionConflict> {
        let attributes = Arc::new(attributes);
        self.commit(table, key, expected, |revision, _| {
            Some(Arc::new(StoredObject { text: object.with_version(revision), revision, attributes }))
        })
        .map(|event| event.now.clone().expect("a put leaves an object"))
    }

    /// Writes a copy of the object at `key` with some bytes changed, if its revision is `expected`,
    /// and returns the new revision. It is for writers that would spend most of their time on
    /// decoding and encoding. `change` must not alter labels or selectable fields.
    pub(crate) fn update_bytes(
        &self,
        table: TableIx,
        key: &ObjectKey,
        expected: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<u64, RevisionConflict> {
        let event = self.commit(table, key, Some(expected), |revision, before| {
            let text = before?.text.with_bytes_changed(revision, change);
            Some(Arc::new(StoredObject { text, revision, attributes: before?.attributes.clone() }))
        })?;
        Ok(event.revision)
    }

    /// Deletes one object if its revision is `expected`. Returns its last state with the revision
    /// of the deletion.
    pub(crate) fn delete(&self, table: TableIx, key: &ObjectKey, expected: u64) -> Result<Bytes, RevisionConflict> {
        let event = self.commit(table, key, Some(expected), |_, _| None)?;
        let before = event.before.as_ref().expect("a deleted object existed before");
        Ok(before.bytes_as_of(event.revision))
    }

    fn commit(
        &self,
        table: TableIx,
        key: &ObjectKey,
        expected: Option<u64>,
        build: impl FnOnce(u64, Option<&StoredObject>) -> Option<Arc<StoredObject>>,
    ) -> Result<Arc<StorageEvent>, RevisionConflict> {
        let mut inner = self.lock();
        let revision = inner.revision + 1;
        let table_ix = table;
        let table = &mut inner.tables[table_ix.0 as usize];
        let current_object = table.objects.get_mut(key);
        if current_object.as_ref().map(|stored| stored.revision) != expected || table.closed {
            return Err(RevisionConflict);
        }
        let now = build(revision, current_object.as_ref().map(|stored| &***stored));
        let before = match (current_object, &now) {
            (Some(current_object), Some(now)) => Some(std::mem::replace(current_object, now.clone())),
            (None, Some(now)) => table.objects.insert(key.clone(), now.clone()),
            (_, None) => table.objects.remove(key),
        };
        let event = Arc::new(StorageEvent { revision, key: key.clone(), before, now });
        table.history.push_back(event.clone());
        while table.history.len() > self.max_history_events {
            if let Some(oldest) = table.history.pop_front() {
                table.compacted = oldest.revision;
            }
        }
        table.change_notify.notify_waiters();
        self.change_notify.notify_waiters();
        inner.revision = revision;
        inner.recent_tables.push_back(table_ix);
        if inner.recent_tables.len() > MAX_RECENT_REVISIONS {
            inner.recent_tables.pop_front();
        }
        event.key.as_str().hash(&mut inner.fingerprint);
        event.now.as_ref().map(|stored| stored.bytes().as_ref()).hash(&mut inner.fingerprint);
        Ok(event)
    }

    /// Returns the revision `writes_ago` writes before the current one, or the oldest revision in
    /// the table's history.
    pub(crate) fn revision_before(&self, table: TableIx, writes_ago: u64) -> u64 {
        let inner = self.lock();
        inner.revision.saturating_sub(writes_ago).max(inner.tables[table.0 as usize].compacted)
    }

    /// Returns a hash of all writes in order. Two runs with equal fingerprints have written the
    /// same.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.lock().fingerprint.finish()
    }

    /// Reads a part of a table at one revision.
    pub(crate) fn page(&self, table: TableIx, query: PageQuery<'_>) -> Result<Page, Compacted> {
        let inner = self.lock();
        let revision = query.at_revision.unwrap_or(inner.revision);
        let table = &inner.tables[table.0 as usize];
        if revision < table.compacted {
            return Err(Compacted { oldest: table.compacted });
        }
        let prefix = query.namespace.map(|namespace| ObjectKey(smol_str::format_smolstr!("{namespace}/")));
        let start = match (&prefix, query.from) {
            (_, Some(from)) => Bound::Included(from),
            (Some(prefix), None) => Bound::Included(prefix),
            (None, None) => Bound::Unbounded,
        };
        let range = table.objects.range::<ObjectKey, _>((start, Bound::Unbounded));
        let is_in_namespace = |key: &ObjectKey| query.namespace.is_none_or(|namespace| key.is_in(namespace));
        let is_selected = |key: &ObjectKey, stored: &StoredObject| query.selection.matches(key, &stored.attributes);
        let current =
            range.take_while(|(key, _)| is_in_namespace(key)).filter(|(key, stored)| is_selected(key, stored));
        let limit = query.limit.unwrap_or(usize::MAX);

        let changed_since = table.values_at(revision);
        if changed_since.is_empty() {
            let mut current = current.peekable();
            let objects = current.by_ref().take(limit).map(|(_, stored)| stored.clone()).collect();
            let next = current.peek().map(|(key, _)| (*key).clone());
            let rest = next.map(|key| (key, current.count()));
            return Ok(Page { objects, revision, rest });
        }
        let mut past: BTreeMap<&ObjectKey, &Arc<StoredObject>> = current.collect();
        for (key, before) in changed_since {
            let is_in_page = is_in_namespace(key) && query.from.is_none_or(|from| key >= from);
            match before {
                Some(before) if is_in_page && is_selected(key, before) => past.insert(key, before),
                _ => past.remove(key),
            };
        }
        let rest = past.keys().nth(limit).map(|key| ((*key).clone(), past.len() - limit));
        Ok(Page { objects: past.into_values().take(limit).cloned().collect(), revision, rest })
    }

    /// Returns one batch of changes of a table after the revision `after`.
    pub(crate) fn changes_after(&self, table: TableIx, after: u64) -> Result<TableChanges, Compacted> {
        let inner = self.lock();
        let table = &inner.tables[table.0 as usize];
        if table.closed {
            return Ok(TableChanges::Closed);
        }
        if after < table.compacted {
            return Err(Compacted { oldest: table.compacted });
        }
        // Most watchers have missed few events, so the search starts at the end.
        let missed =
            table.history.iter().rev().take(MAX_BATCH_EVENTS).take_while(|event| event.revision > after).count();
        if missed == 0 {
            return Ok(TableChanges::Nothing { revision: inner.revision.max(after) });
        }
        let start = if missed < MAX_BATCH_EVENTS {
            table.history.len() - missed
        } else {
            table.history.partition_point(|event| event.revision <= after)
        };
        Ok(TableChanges::Events(table.history.range(start..).take(MAX_BATCH_EVENTS).cloned().collect()))
    }

    /// Returns the tables that have changed after `revision`, in order, and the current revision.
    pub(crate) fn tables_changed_since(&self, revision: u64) -> (Vec<TableIx>, u64) {
        let inner = self.lock();
        if inner.revision <= revision {
            return (Vec::new(), inner.revision);
        }
        let missed = (inner.revision - revision) as usize;
        let changed: Vec<TableIx> = if missed <= inner.recent_tables.len() {
            let mut changed: Vec<TableIx> =
                inner.recent_tables.range(inner.recent_tables.len() - missed..).copied().collect();
            changed.sort_unstable();
            changed.dedup();
            changed
        } else {
            let has_newer =
                |table: &Table| table.history.back().map_or(table.compacted, |event| event.revision) > revision;
            let changed = inner.tables.iter().enumerate().filter(|(_, table)| has_newer(table));
            changed.map(|(index, _)| TableIx(index as u32)).collect()
        };
        (changed, inner.revision)
    }

    /// Returns the notification of changes of any table. Use it like
    /// [`ObjectStore::table_change_notify`].
    pub(crate) fn any_change_notify(&self) -> Arc<Notify> {
        self.change_notify.clone()
    }

    /// Returns the notification of changes of a table. A waiter must register before it reads the
    /// changes. Waiters wake in the order in which they registered, and simulations rely on that
    /// order.
    pub(crate) fn table_change_notify(&self, table: TableIx) -> Arc<Notify> {
        self.lock().tables[table.0 as usize].change_notify.clone()
    }

    pub(crate) fn count(&self, table: TableIx) -> usize {
        self.lock().tables[table.0 as usize].objects.len()
    }

    /// Locks the state. A poisoned lock is ignored: no code that holds the lock can leave the
    /// tables half changed, so the data are still complete.
    fn lock(&self) -> MutexGuard<'_, StorageState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns the value at `revision` of each key that has changed since.
    fn values_at(&self, revision: u64) -> BTreeMap<&ObjectKey, Option<&Arc<StoredObject>>> {
        let mut changed_since = BTreeMap::new();
        for event in self.history.iter().rev().take_while(|event| event.revision > revision) {
            changed_since.insert(&event.key, event.before.as_ref());
        }
        changed_since
    }
}

#[cfg(test)]
mod tests;

//! Where the objects live: in memory, one revision counter for all of them, one ordered map and one bounded history for each
//! resource. A watcher is a position in that history and has no queue of its own, so a slow reader costs nothing and learns
//! that it is too late (410) when the history has moved past it.
//!
//! Invariants: a revision is given to exactly one change; the history of a table is in order of revision and has no gap above
//! its `compacted` revision; undoing the history backwards from now gives every state since then, which is how a paged list
//! stays consistent and how a stale read is served.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash as _, Hasher as _};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustc_hash::FxHasher;
use smol_str::SmolStr;
use tokio::sync::Notify;

use super::encode::{Encoded, Versioned};
use super::selector::Selection;

/// The place of an object in its table: `namespace/name`, or `name` alone. One string, so that objects are listed in the order
/// in which etcd lists them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey(SmolStr);

impl ObjectKey {
    pub(crate) fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => Self(smol_str::format_smolstr!("{namespace}/{name}")),
            None => Self(name.into()),
        }
    }

    /// A key as a continue token carries it.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Namespace and name; the namespace is empty if there is none.
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

/// What selectors ask about, taken out of an object when it is written so that a list of 100,000 needs no parsing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectorAttributes {
    /// Labels, by key.
    pub(crate) labels: Box<[(SmolStr, SmolStr)]>,
    /// The values of the resource's selectable fields, in the resource's order.
    pub(crate) fields: Box<[SmolStr]>,
}

/// One version of one object. Never changed; shared by the table, the history and whoever reads.
#[derive(Debug)]
pub(crate) struct StoredObject {
    text: Versioned,
    pub(crate) revision: u64,
    pub(crate) attributes: Arc<SelectorAttributes>,
}

impl StoredObject {
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.text.bytes
    }

    /// The object as it was, told as of `revision`: what the watch says of an object that is gone.
    pub(crate) fn bytes_as_of(&self, revision: u64) -> Bytes {
        self.text.with_version(revision).bytes
    }
}

/// One change. `now` is what stands there after it, `before` what stood there.
#[derive(Debug)]
pub(crate) struct StorageEvent {
    pub(crate) revision: u64,
    pub(crate) key: ObjectKey,
    pub(crate) before: Option<Arc<StoredObject>>,
    pub(crate) now: Option<Arc<StoredObject>>,
}

/// A resource's table, by number. Numbers are never used for another resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableIx(u32);

/// Why a write did not happen: the object is not at the version that the writer had read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevisionConflict;

/// Why something cannot be read: it is older than the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// The oldest revision from which the history is whole.
    pub(crate) oldest: u64,
}

/// A part of a table.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<StoredObject>>,
    /// Of what revision the page is.
    pub(crate) revision: u64,
    /// Where the next page begins, and how many objects are left from there.
    pub(crate) rest: Option<(ObjectKey, usize)>,
}

/// Which part of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageQuery<'a> {
    pub(crate) namespace: Option<&'a str>,
    /// Only what this selects, which also counts towards the limit.
    pub(crate) selection: &'a Selection,
    /// Begin at this key.
    pub(crate) from: Option<&'a ObjectKey>,
    /// The state at this revision; now, if none is given.
    pub(crate) at_revision: Option<u64>,
    /// At most so many; all, if none is given.
    pub(crate) limit: Option<usize>,
}

/// What a watcher gets when it asks for what came next.
#[derive(Debug)]
pub(crate) enum TableChanges {
    /// These changes, in order, at least one; they end at this revision.
    Events(Vec<Arc<StorageEvent>>),
    /// Nothing yet. The table as of this revision has nothing newer.
    Nothing { revision: u64 },
    /// The resource is gone (its definition was deleted).
    Closed,
}

#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<ObjectKey, Arc<StoredObject>>,
    history: VecDeque<Arc<StorageEvent>>,
    /// The newest revision that has left the history.
    compacted: u64,
    closed: bool,
    change_notify: Arc<Notify>,
}

struct StorageState {
    revision: u64,
    fingerprint: FxHasher,
    tables: Vec<Table>,
    /// Of which tables the last revisions were, the newest at the end: who follows all tables need not look into each.
    recent_tables: VecDeque<TableIx>,
}

/// The store.
pub(crate) struct ObjectStore {
    inner: Mutex<StorageState>,
    /// Rung after every change of any table.
    change_notify: Arc<Notify>,
    /// How many changes a table remembers.
    max_history_events: usize,
}

/// How many changes a watcher is given at once: enough to amortise the lock, few enough to keep buffers small.
pub(crate) const MAX_BATCH_EVENTS: usize = 256;
/// For how many revisions it is known of which table they were.
const MAX_RECENT_REVISIONS: usize = 1024;

impl ObjectStore {
    /// An empty store whose tables remember `history` changes each (at least one).
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

    /// A copy with the same objects at the same revisions, and no history: what was before is not known there.
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

    /// A new table, empty.
    pub(crate) fn create_table(&self) -> TableIx {
        let mut inner = self.lock();
        let compacted = inner.revision;
        inner.tables.push(Table { compacted, ..Table::default() });
        TableIx(inner.tables.len() as u32 - 1)
    }

    /// Ends a table: its watchers are told, and nothing can be written any more.
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

    /// What stood at `key` when the store was at `revision`, or at the earliest revision that is still known.
    pub(crate) fn get_at(&self, table: TableIx, key: &ObjectKey, revision: u64) -> Option<Arc<StoredObject>> {
        let inner = self.lock();
        let table = &inner.tables[table.0 as usize];
        let later = table.history.iter().find(|event| event.revision > revision && event.key == *key);
        later.map_or_else(|| table.objects.get(key).cloned(), |event| event.before.clone())
    }

    /// Writes one object, if what stands at `key` is still what the writer has read (`expected`, none for nothing).
    pub(crate) fn put(
        &self,
        table: TableIx,
        key: &ObjectKey,
        expected: Option<u64>,
        object: &Encoded,
        facets: SelectorAttributes,
    ) -> Result<Arc<StoredObject>, RevisionConflict> {
        let facets = Arc::new(facets);
        self.commit(table, key, expected, |revision, _| {
            Some(Arc::new(StoredObject { text: object.with_version(revision), revision, attributes: facets }))
        })
        .map(|event| event.now.clone().expect("a put leaves an object"))
    }

    /// Writes what stands at `key` once more with some of its bytes changed, if it is still at `expected`: for writers for whom reading and
    /// encoding it would be most of the work. `change` leaves alone what selectors ask about. Returns the revision that it is at then.
    pub(crate) fn update_bytes_in_place(
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

    /// Takes one object away, if it is still at `expected`. Returns its last state, told as of the deletion.
    pub(crate) fn delete(&self, table: TableIx, key: &ObjectKey, expected: u64) -> Result<Bytes, RevisionConflict> {
        let event = self.commit(table, key, Some(expected), |_, _| None)?;
        let before = event.before.as_ref().expect("what was deleted stood there before");
        Ok(before.bytes_as_of(event.revision))
    }

    fn commit(
        &self,
        table: TableIx,
        key: &ObjectKey,
        expected: Option<u64>,
        make: impl FnOnce(u64, Option<&StoredObject>) -> Option<Arc<StoredObject>>,
    ) -> Result<Arc<StorageEvent>, RevisionConflict> {
        let mut inner = self.lock();
        let revision = inner.revision + 1;
        let place = table;
        let table = &mut inner.tables[place.0 as usize];
        let standing = table.objects.get_mut(key);
        if standing.as_ref().map(|stored| stored.revision) != expected || table.closed {
            return Err(RevisionConflict);
        }
        let now = make(revision, standing.as_ref().map(|stored| &***stored));
        let before = match (standing, &now) {
            (Some(standing), Some(now)) => Some(std::mem::replace(standing, now.clone())),
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
        inner.recent_tables.push_back(place);
        if inner.recent_tables.len() > MAX_RECENT_REVISIONS {
            inner.recent_tables.pop_front();
        }
        event.key.as_str().hash(&mut inner.fingerprint);
        event.now.as_ref().map(|stored| stored.bytes().as_ref()).hash(&mut inner.fingerprint);
        Ok(event)
    }

    /// The revision that was `back` writes ago, as far as a table still knows it.
    pub(crate) fn revision_before(&self, table: TableIx, back: u64) -> u64 {
        let inner = self.lock();
        inner.revision.saturating_sub(back).max(inner.tables[table.0 as usize].compacted)
    }

    /// A number that stands for everything that was ever written, in order: two runs that agree on it have written the same.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.lock().fingerprint.finish()
    }

    /// Reads a part of a table as it was at one revision.
    pub(crate) fn page(&self, table: TableIx, window: PageQuery<'_>) -> Result<Page, Compacted> {
        let inner = self.lock();
        let revision = window.at_revision.unwrap_or(inner.revision);
        let table = &inner.tables[table.0 as usize];
        if revision < table.compacted {
            return Err(Compacted { oldest: table.compacted });
        }
        let prefix = window.namespace.map(|namespace| ObjectKey(smol_str::format_smolstr!("{namespace}/")));
        let start = match (&prefix, window.from) {
            (_, Some(from)) => Bound::Included(from),
            (Some(prefix), None) => Bound::Included(prefix),
            (None, None) => Bound::Unbounded,
        };
        let range = table.objects.range::<ObjectKey, _>((start, Bound::Unbounded));
        let inside = |key: &ObjectKey| window.namespace.is_none_or(|namespace| key.is_in(namespace));
        let selected = |key: &ObjectKey, stored: &StoredObject| window.selection.matches(key, &stored.attributes);
        let current = range.take_while(|(key, _)| inside(key)).filter(|(key, stored)| selected(key, stored));
        let limit = window.limit.unwrap_or(usize::MAX);

        let undone = table.values_at(revision);
        if undone.is_empty() {
            let mut current = current.peekable();
            let objects = current.by_ref().take(limit).map(|(_, stored)| stored.clone()).collect();
            let next = current.peek().map(|(key, _)| (*key).clone());
            let rest = next.map(|key| (key, current.count()));
            return Ok(Page { objects, revision, rest });
        }
        let mut then: BTreeMap<&ObjectKey, &Arc<StoredObject>> = current.collect();
        for (key, before) in undone {
            let wanted = inside(key) && window.from.is_none_or(|from| key >= from);
            match before {
                Some(before) if wanted && selected(key, before) => then.insert(key, before),
                _ => then.remove(key),
            };
        }
        let rest = then.keys().nth(limit).map(|key| ((*key).clone(), then.len() - limit));
        Ok(Page { objects: then.into_values().take(limit).cloned().collect(), revision, rest })
    }

    /// The changes of a table after `after`, a batch of them.
    pub(crate) fn changes_after(&self, table: TableIx, after: u64) -> Result<TableChanges, Compacted> {
        let inner = self.lock();
        let table = &inner.tables[table.0 as usize];
        if table.closed {
            return Ok(TableChanges::Closed);
        }
        if after < table.compacted {
            return Err(Compacted { oldest: table.compacted });
        }
        // Most of those who ask have missed little: they are answered from the end.
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

    /// Which tables have changed after `revision`, in order, and the revision now.
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
            let newer = |table: &Table| table.history.back().map_or(table.compacted, |event| event.revision) > revision;
            let changed = inner.tables.iter().enumerate().filter(|(_, table)| newer(table));
            changed.map(|(place, _)| TableIx(place as u32)).collect()
        };
        (changed, inner.revision)
    }

    /// Rung after every change of any table; to be used as [`Storage::bell`] is.
    pub(crate) fn any_change_notify(&self) -> Arc<Notify> {
        self.change_notify.clone()
    }

    /// Rung after every change of a table. Whoever waits must register before asking what is new. Waiters are woken in the
    /// order in which they came, which a simulation relies on.
    pub(crate) fn table_change_notify(&self, table: TableIx) -> Arc<Notify> {
        self.lock().tables[table.0 as usize].change_notify.clone()
    }

    pub(crate) fn count(&self, table: TableIx) -> usize {
        self.lock().tables[table.0 as usize].objects.len()
    }

    /// The lock is only held for the few lines above, none of which can leave the tables half changed; a panic elsewhere in a
    /// thread that holds it would be one of ours, and the data are still whole.
    fn lock(&self) -> MutexGuard<'_, StorageState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// What stood, at `revision`, at each key that has changed since.
    fn values_at(&self, revision: u64) -> BTreeMap<&ObjectKey, Option<&Arc<StoredObject>>> {
        let mut undone = BTreeMap::new();
        for event in self.history.iter().rev().take_while(|event| event.revision > revision) {
            undone.insert(&event.key, event.before.as_ref());
        }
        undone
    }
}

#[cfg(test)]
mod tests;

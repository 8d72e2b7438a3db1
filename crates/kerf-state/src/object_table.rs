//! The objects of one kind by key, and the change that an event makes to one of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::slim::Str;

/// One object before and after a change. At least one of the two is present.
#[derive(Debug)]
pub struct ObjectChange<T> {
    /// The object before the change; `None` if it is new.
    pub before: Option<Arc<T>>,
    /// The object after the change; `None` if it was deleted.
    pub after: Option<Arc<T>>,
}

impl<T> ObjectChange<T> {
    /// Returns the object after the change, or the last known version if it was deleted.
    pub fn latest(&self) -> Option<&Arc<T>> {
        self.after.as_ref().or(self.before.as_ref())
    }
}

/// The objects of one kind, ordered by key.
#[derive(Debug)]
pub struct ObjectTable<T> {
    objects: BTreeMap<Str, Arc<T>>,
    /// True once a complete list has been received.
    is_listed: bool,
}

impl<T> Default for ObjectTable<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), is_listed: false }
    }
}

impl<T> ObjectTable<T> {
    /// Returns the object with this key.
    pub fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.objects.get(key)
    }

    /// Returns all keys and objects, ordered by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, &Arc<T>)> {
        self.objects.iter()
    }

    /// Returns all objects, ordered by key.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Arc<T>> {
        self.objects.values()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns true if the table holds no object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns true once a complete list has been received. An empty table that is not listed says
    /// nothing about the cluster.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    pub(crate) fn mark_listed(&mut self) {
        self.is_listed = true;
    }

    pub(crate) fn insert(&mut self, key: Str, object: Arc<T>) -> Option<Arc<T>> {
        self.objects.insert(key, object)
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<T>> {
        self.objects.remove(key)
    }
}

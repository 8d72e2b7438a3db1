//! A cache whose entries expire, with a bound (spec 05 §3).
//!
//! Invariants: an expired entry is never returned. The cache never holds more entries than its
//! bound: a further entry replaces the one that expires first.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_runtime::Clock;

use crate::cache_metrics::{CacheSize, OptionalCacheSize};

/// Smallest time between two removals of expired entries.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// A cache whose entries expire after a fixed time, or after a time of their own. It can be shared
/// between tasks; no call waits.
#[derive(Debug)]
pub(crate) struct TtlCache<K, V> {
    clock: Clock,
    ttl: Duration,
    entries_max: usize,
    state: Mutex<CacheState<K, V>>,
    size: OptionalCacheSize,
}

#[derive(Debug)]
struct CacheState<K, V> {
    entries: BTreeMap<K, CacheEntry<V>>,
    next_sweep: Timestamp,
}

#[derive(Debug, Clone)]
struct CacheEntry<V> {
    value: V,
    expires: Timestamp,
}

impl<K: Ord + Clone, V: Clone> TtlCache<K, V> {
    /// Creates an empty cache whose entries live for `ttl`. `entries_max` must not be zero.
    pub(crate) fn new(clock: Clock, ttl: Duration, entries_max: usize) -> Self {
        let state = CacheState { entries: BTreeMap::new(), next_sweep: clock.now() };
        Self {
            clock,
            ttl,
            entries_max: entries_max.max(1),
            state: Mutex::new(state),
            size: OptionalCacheSize::default(),
        }
    }

    /// Publishes the number of entries from now on. Does nothing if the cache is measured already.
    pub(crate) fn measure(&self, size: CacheSize) {
        self.size.measure(size, self.lock().entries.len());
    }

    /// Returns the value of a key. Returns `None` if there is none or it has expired.
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let now = self.clock.now();
        self.lock().entries.get(key).filter(|entry| entry.expires > now).map(|entry| entry.value.clone())
    }

    /// Returns true if the key has a value that has not expired.
    pub(crate) fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let now = self.clock.now();
        self.lock().entries.get(key).is_some_and(|entry| entry.expires > now)
    }

    /// Sets the value of a key, from now on for the cache's time.
    pub(crate) fn insert(&self, key: K, value: V) {
        self.insert_for(key, value, self.ttl);
    }

    /// Sets the value of a key, from now on for a time of its own.
    pub(crate) fn insert_for(&self, key: K, value: V, ttl: Duration) {
        let now = self.clock.now();
        let mut state = self.lock();
        if now >= state.next_sweep {
            state.next_sweep = after(now, SWEEP_INTERVAL);
            state.entries.retain(|_, entry| entry.expires > now);
        }
        if state.entries.len() >= self.entries_max && !state.entries.contains_key(&key) {
            let first = state.entries.iter().min_by_key(|(_, entry)| entry.expires).map(|(key, _)| key.clone());
            if let Some(first) = first {
                state.entries.remove(&first);
            }
        }
        state.entries.insert(key, CacheEntry { value, expires: after(now, ttl) });
        self.size.set(state.entries.len());
    }

    /// Removes a key and returns its value. Returns `None` if there was none or it had expired.
    pub(crate) fn remove<Q: Ord + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let now = self.clock.now();
        let mut state = self.lock();
        let removed = state.entries.remove(key);
        self.size.set(state.entries.len());
        removed.filter(|entry| entry.expires > now).map(|entry| entry.value)
    }

    /// Removes all keys for which the function returns true.
    pub(crate) fn remove_where(&self, mut is_removed: impl FnMut(&K, &V) -> bool) {
        let mut state = self.lock();
        state.entries.retain(|key, entry| !is_removed(key, &entry.value));
        self.size.set(state.entries.len());
    }

    /// Returns all keys and values that have not expired, in the order of the keys.
    pub(crate) fn entries(&self) -> Vec<(K, V)> {
        let now = self.clock.now();
        let state = self.lock();
        let live = state.entries.iter().filter(|(_, entry)| entry.expires > now);
        live.map(|(key, entry)| (key.clone(), entry.value.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, CacheState<K, V>> {
        // Every change is complete when the lock is released, so a panic elsewhere leaves it valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries_max: usize) -> TtlCache<String, u32> {
        TtlCache::new(Clock::starting_at(Timestamp::UNIX_EPOCH), Duration::from_mins(1), entries_max)
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_returned_until_it_expires() {
        let cache = cache(10);
        cache.insert("a".to_owned(), 1);
        cache.insert_for("b".to_owned(), 2, Duration::from_mins(5));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!((cache.get("a"), cache.contains("a")), (Some(1), true));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((cache.get("a"), cache.contains("a"), cache.remove("a")), (None, false, None));
        assert_eq!(cache.entries(), [("b".to_owned(), 2)]);
        cache.insert("a".to_owned(), 3);
        cache.remove_where(|_, value| *value == 2);
        assert_eq!(cache.entries(), [("a".to_owned(), 3)]);
        assert_eq!(cache.remove("a"), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_cache_drops_the_entry_that_expires_first() {
        let cache = cache(2);
        cache.insert_for("long".to_owned(), 1, Duration::from_hours(1));
        cache.insert("short".to_owned(), 2);
        cache.insert("new".to_owned(), 3);
        cache.insert("new".to_owned(), 4);
        assert_eq!(cache.entries(), [("long".to_owned(), 1), ("new".to_owned(), 4)]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_entries_is_a_metric() {
        let registry = kerf_operator::Registry::default();
        let cache = cache(2);
        cache.insert("a".to_owned(), 1);
        cache.measure(crate::cache_metrics::CacheMetrics::new(&registry).of("letters"));
        let size = || {
            let text = registry.text(Timestamp::UNIX_EPOCH);
            let line = text.lines().find(|line| line.starts_with("kerf_aws_cache_entries{cache=\"letters\"} "));
            line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
        };
        assert_eq!(size().as_deref(), Some("1"));
        for key in ["b", "c", "d"] {
            cache.insert(key.to_owned(), 1);
        }
        assert_eq!(size().as_deref(), Some("2"), "the bound");
        cache.remove_where(|_, _| true);
        assert_eq!(size().as_deref(), Some("0"));
    }

    #[tokio::test(start_paused = true)]
    async fn expired_entries_are_removed_from_memory() {
        let cache = cache(10);
        cache.insert("a".to_owned(), 1);
        tokio::time::advance(Duration::from_mins(2)).await;
        cache.insert("b".to_owned(), 2);
        assert_eq!(cache.lock().entries.len(), 1);
    }
}

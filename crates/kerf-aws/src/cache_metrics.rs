//! The metric of the provider's caches.

use std::sync::{Arc, OnceLock};

use kerf_operator::Registry;
use kerf_operator::metrics::Gauge;

/// Number of entries of each cache.
#[derive(Debug, Clone)]
pub(crate) struct CacheMetrics(Gauge);

/// Number of entries of one cache.
#[derive(Debug, Clone)]
pub(crate) struct CacheSize {
    gauge: Gauge,
    cache: &'static str,
}

impl CacheMetrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        let help = "Number of entries in a cache of the AWS provider, expired ones included until they are removed";
        Self(registry.gauge("kerf_aws_cache_entries", help, &["cache"]))
    }

    /// Returns the size of a cache, which starts at 0.
    pub(crate) fn of(&self, cache: &'static str) -> CacheSize {
        let size = CacheSize { gauge: self.0.clone(), cache };
        size.set(0);
        size
    }
}

/// Number of entries of a cache. Caches of tests and of trials are not measured.
#[derive(Debug)]
pub(crate) struct OptionalCacheSize(Arc<OnceLock<CacheSize>>);

impl Default for OptionalCacheSize {
    fn default() -> Self {
        let size = Arc::default();
        #[cfg(test)]
        tracking::track(&size);
        Self(size)
    }
}

impl OptionalCacheSize {
    /// Publishes the number of entries from now on. Keeps the first metric of a cache.
    pub(crate) fn measure(&self, size: CacheSize, entries: usize) {
        self.0.get_or_init(|| size).set(entries);
    }

    /// Publishes the number of entries, if the cache is measured.
    pub(crate) fn set(&self, entries: usize) {
        if let Some(size) = self.0.get() {
            size.set(entries);
        }
    }
}

impl CacheSize {
    fn set(&self, entries: usize) {
        self.gauge.set(&[self.cache], entries as f64);
    }
}

/// Finds the caches without a metric.
#[cfg(test)]
pub(crate) mod tracking {
    use std::cell::RefCell;
    use std::sync::Weak;

    use super::{Arc, CacheSize, OnceLock};

    thread_local! {
        static SIZES: RefCell<Vec<Weak<OnceLock<CacheSize>>>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn track(size: &Arc<OnceLock<CacheSize>>) {
        SIZES.with_borrow_mut(|sizes| sizes.push(Arc::downgrade(size)));
    }

    /// Returns the number of caches with and without a metric that this thread has created since
    /// [`forget`] and that still exist.
    pub(crate) fn counts() -> (usize, usize) {
        SIZES.with_borrow(|sizes| {
            let existing: Vec<Arc<OnceLock<CacheSize>>> = sizes.iter().filter_map(Weak::upgrade).collect();
            let measured = existing.iter().filter(|size| size.get().is_some()).count();
            (measured, existing.len() - measured)
        })
    }

    /// Forgets the caches that this thread has created.
    pub(crate) fn forget() {
        SIZES.with_borrow_mut(Vec::clear);
    }
}

//! The metric of the provider's caches.

use std::sync::OnceLock;

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

/// Number of entries of a cache that may not be measured.
#[derive(Debug, Default)]
pub(crate) struct OptionalCacheSize(OnceLock<CacheSize>);

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

//! The metric of the provider's caches.

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

impl CacheSize {
    pub(crate) fn set(&self, entries: usize) {
        self.gauge.set(&[self.cache], entries as f64);
    }
}

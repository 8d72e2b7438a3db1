//! Memory that nodes have reported (spec 05 §4.12). It replaces the estimate for classes with the
//! same images.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use kerf_api::ec2nodeclass::{Ami, EC2NodeClass};
use kerf_runtime::Clock;

use crate::cache_metrics::CacheMetrics;
use crate::ttl_cache::TtlCache;

/// Time for which a reported value is used.
const MEMORY_TTL: Duration = Duration::from_hours(60 * 24);
/// Largest number of values: some sets of images for all types of EC2.
const VALUES_MAX: usize = 20_000;

/// The smallest memory that nodes have reported, by instance type and set of images.
#[derive(Debug)]
pub(crate) struct DiscoveredMemory(TtlCache<(ImagesKey, String), i64>);

/// Stands for a set of images, with all their status fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ImagesKey(u64);

impl ImagesKey {
    /// Returns the key of the images of a class. The order of the images has no meaning.
    pub(crate) fn of(class: &EC2NodeClass) -> Self {
        let amis = class.status.as_ref().and_then(|status| status.amis.as_deref()).unwrap_or_default();
        let mut texts: Vec<String> = amis.iter().map(|ami: &Ami| serde_json::json!(ami).to_string()).collect();
        texts.sort_unstable();
        let mut hasher = DefaultHasher::new();
        texts.hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl DiscoveredMemory {
    pub(crate) fn new(clock: Clock) -> Self {
        Self(TtlCache::new(clock, MEMORY_TTL, VALUES_MAX))
    }

    /// Publishes the number of entries from now on.
    pub(super) fn measure(&self, metrics: &CacheMetrics) {
        self.0.measure(metrics.of("discovered_memory"));
    }

    /// Returns the memory of a type in bytes. Returns `None` if no node has reported it.
    pub(crate) fn get(&self, images: ImagesKey, instance_type: &str) -> Option<i64> {
        self.0.get(&(images, instance_type.to_owned()))
    }

    /// Records what a node has reported. A larger value than the known one is ignored; an equal one
    /// is known for another 60 days. Returns true if the value is new or smaller.
    pub(crate) fn record(&self, images: ImagesKey, instance_type: &str, bytes: i64) -> bool {
        let key = (images, instance_type.to_owned());
        let known = self.0.get(&key);
        if known.is_some_and(|known| known < bytes) {
            return false;
        }
        self.0.insert(key, bytes);
        known != Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(images: &[&str]) -> EC2NodeClass {
        let amis: Vec<_> = images.iter().map(|id| json!({ "id": id, "requirements": [] })).collect();
        serde_json::from_value(json!({ "metadata": {}, "spec": null, "status": { "amis": amis } })).unwrap()
    }

    // spec 05 §4.12
    #[tokio::test(start_paused = true)]
    async fn the_smallest_value_is_kept_for_60_days() {
        let memory = DiscoveredMemory::new(Clock::system());
        let images = ImagesKey::of(&class(&["ami-1", "ami-2"]));
        assert_eq!(images, ImagesKey::of(&class(&["ami-2", "ami-1"])));
        assert_ne!(images, ImagesKey::of(&class(&["ami-1"])));
        assert!(memory.record(images, "m5.large", 100));
        assert!(!memory.record(images, "m5.large", 101), "larger");
        assert!(memory.record(images, "m5.large", 90));
        tokio::time::advance(MEMORY_TTL / 2).await;
        assert!(!memory.record(images, "m5.large", 90), "equal");
        tokio::time::advance(MEMORY_TTL * 3 / 4).await;
        assert_eq!(memory.get(images, "m5.large"), Some(90), "an equal value refreshes the time");
        assert_eq!(memory.get(ImagesKey::of(&class(&["ami-1"])), "m5.large"), None);
        tokio::time::advance(MEMORY_TTL).await;
        assert_eq!(memory.get(images, "m5.large"), None);
    }
}

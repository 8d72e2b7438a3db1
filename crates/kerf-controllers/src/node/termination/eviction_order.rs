//! Evicts larger pods first when several nodes are drained to save money. The pods move into the
//! free capacity of other nodes, and the cluster's scheduler places them in any order. If small
//! pods arrive first, they can take the only capacity that fits a large pod. The large pod then
//! stays pending, and an instance that was not planned is launched for it. Therefore small pods
//! wait until larger pods are placed again.
//!
//! Invariants: a pod waits only for pods that request about twice as much or more, and never longer
//! than [`LARGER_PODS_WAIT_MAX`].

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Pod, Str};
use kerf_engine::pod_requests;

/// The longest time that a pod waits for larger pods.
const LARGER_PODS_WAIT_MAX: SignedDuration = SignedDuration::from_secs(10);
/// Delay between two checks whether the larger pods are placed.
pub(super) const LARGER_PODS_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Time for which the result of a scan over all pods is reused.
const LARGEST_UNPLACED_TTL: SignedDuration = SignedDuration::from_millis(200);
/// Usual ratio of memory to CPU, in MiB per CPU. It makes memory requests comparable with CPU
/// requests.
const MEBIBYTES_PER_CPU: i64 = 4096;

/// Size class of a pod: the binary logarithm, rounded down, of its CPU request in millicores or of
/// its memory request converted to millicores, whichever is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodSize(u32);

impl PodSize {
    pub(super) fn of(pod: &Pod) -> Self {
        let requests = pod_requests(pod);
        let thousandths = |resource: &str| requests.get(resource).map_or(0, Quantity::milli_value);
        let memory = thousandths("memory") / (MEBIBYTES_PER_CPU << 20);
        let size = u64::try_from(thousandths("cpu").max(memory)).unwrap_or(0);
        Self(size.checked_ilog2().unwrap_or(0))
    }
}

/// Evicted pods of one owner. Their owner is expected to create as many pods again.
#[derive(Debug)]
struct EvictedPods {
    size: PodSize,
    first: Timestamp,
    last: Timestamp,
    pods: usize,
}

/// The evicted pods that are not placed again yet.
#[derive(Debug, Default)]
pub(super) struct EvictionOrder {
    /// By the owner's uid.
    unplaced: BTreeMap<Str, EvictedPods>,
    /// The time of the last scan, and the largest size it found. The size is `None` if all pods are
    /// placed.
    largest_cache: Option<(Timestamp, Option<PodSize>)>,
}

impl EvictionOrder {
    /// Records an evicted pod. Pods without a controlling owner are ignored: nothing recreates
    /// them.
    pub(super) fn record_evicted(&mut self, pod: &Pod, now: Timestamp) {
        let Some(owner) = pod.metadata.controller() else { return };
        let size = PodSize::of(pod);
        let evicted =
            self.unplaced.entry(owner.uid.clone()).or_insert(EvictedPods { size, first: now, last: now, pods: 0 });
        evicted.pods += 1;
        evicted.last = now;
        evicted.size = evicted.size.max(size);
        self.largest_cache = None;
    }

    /// Returns true if a pod of this size, queued since `since`, has to wait for larger pods: those
    /// that are queued (`largest_queued`) or evicted and not placed again. `pods` returns all pods
    /// of the cluster.
    pub(super) fn must_wait<'p>(
        &mut self,
        size: PodSize,
        since: Timestamp,
        now: Timestamp,
        largest_queued: Option<PodSize>,
        pods: impl FnOnce() -> Vec<&'p Pod>,
    ) -> bool {
        if now.duration_since(since) >= LARGER_PODS_WAIT_MAX {
            return false;
        }
        largest_queued > Some(size) || self.largest_unplaced(now, pods) > Some(size)
    }

    fn largest_unplaced<'p>(&mut self, now: Timestamp, pods: impl FnOnce() -> Vec<&'p Pod>) -> Option<PodSize> {
        if let Some((_, largest)) = self.largest_cache.filter(|(at, _)| now.duration_since(*at) < LARGEST_UNPLACED_TTL)
        {
            return largest;
        }
        self.unplaced.retain(|_, evicted| now.duration_since(evicted.last) < LARGER_PODS_WAIT_MAX);
        if !self.unplaced.is_empty() {
            let mut placed: BTreeMap<&str, usize> = BTreeMap::new();
            for pod in pods() {
                let Some(owner) = pod.metadata.controller() else { continue };
                let Some(evicted) = self.unplaced.get(&owner.uid) else { continue };
                // Creation timestamps of objects are whole seconds.
                let created = pod.metadata.creation_timestamp.map(Timestamp::as_second);
                if pod.spec.node_name.is_some() && created >= Some(evicted.first.as_second()) {
                    *placed.entry(owner.uid.as_str()).or_default() += 1;
                }
            }
            self.unplaced.retain(|uid, evicted| placed.get(uid.as_str()).is_none_or(|placed| *placed < evicted.pods));
        }
        let largest = self.unplaced.values().map(|evicted| evicted.size).max();
        self.largest_cache = Some((now, largest));
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, cpu: &str, owner: &str, created: i64, node: Option<&str>) -> Pod {
        let json = serde_json::json!({
            "metadata": {"name": name, "namespace": "n", "uid": name,
                "creationTimestamp": Timestamp::from_second(created).unwrap_or_default().to_string(),
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
        });
        serde_json::from_value(json).expect("the JSON is a pod")
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1000 + seconds).unwrap_or_default()
    }

    #[test]
    fn the_larger_of_cpu_and_memory_request_determines_the_size() {
        let size = |cpu: &str| PodSize::of(&pod("p", cpu, "o", 0, None));
        assert!(size("3500m") > size("900m"));
        assert_eq!(size("600m"), size("900m"), "sizes that differ by less than a factor of two are equal");
        assert_eq!(size("1m"), size("200m"), "a gibibyte counts as a quarter of a CPU");
    }

    #[test]
    fn small_pods_wait_until_evicted_large_pods_are_placed_again() {
        let (small, large) = (PodSize::of(&pod("s", "900m", "s", 0, None)), pod("l", "3500m", "l", 900, Some("a")));
        let mut order = EvictionOrder::default();
        assert!(
            order.must_wait(small, at(0), at(0), Some(PodSize::of(&large)), Vec::new),
            "the large pod is not evicted yet"
        );
        order.record_evicted(&large, at(0));
        let old = pod("other", "3500m", "l", 900, Some("b"));
        assert!(
            order.must_wait(small, at(0), at(1), None, || vec![&large, &old]),
            "the large pod is evicted and has no successor"
        );
        let waiting = pod("new", "3500m", "l", 1001, None);
        assert!(order.must_wait(small, at(0), at(2), None, || vec![&old, &waiting]), "the successor is pending");
        let back = pod("new", "3500m", "l", 1001, Some("b"));
        assert!(!order.must_wait(small, at(0), at(3), None, || vec![&old, &back]));
    }

    #[test]
    fn a_pod_waits_at_most_ten_seconds_and_not_for_pods_of_equal_size() {
        let large = pod("l", "3500m", "l", 900, Some("a"));
        let small = PodSize::of(&pod("s", "900m", "s", 0, None));
        let mut order = EvictionOrder::default();
        order.record_evicted(&large, at(0));
        assert!(!order.must_wait(PodSize::of(&large), at(0), at(1), Some(PodSize::of(&large)), Vec::new));
        assert!(order.must_wait(small, at(0), at(9), None, Vec::new));
        assert!(!order.must_wait(small, at(0), at(10), Some(PodSize::of(&large)), Vec::new));
        assert!(
            !order.must_wait(small, at(11), at(11), None, Vec::new),
            "a pod without a successor is waited for ten seconds at most"
        );
    }
}

//! Largest first. When several nodes are emptied to save money, their pods go into what room is left on others, and the cluster's scheduler
//! spreads them as it likes. Small pods that come first then stand where only a large one would have fitted, the large one finds no
//! place, and a machine is launched for it that nobody had planned. So small pods wait until the larger ones that leave with them
//! have found their places.
//!
//! Always: a pod waits only for pods that ask for at least about twice as much, and never longer than [`PATIENCE`], whatever becomes of those.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Pod, Str};
use kerf_engine::pod_requests;

/// How long a pod waits for larger ones at most.
const LARGER_PODS_WAIT_MAX: SignedDuration = SignedDuration::from_secs(10);
/// How often it is looked whether they have come.
pub(super) const LARGER_PODS_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long what was seen of the cluster's pods is good for.
const LARGEST_UNPLACED_TTL: SignedDuration = SignedDuration::from_millis(200);
/// As much memory as usually comes with a CPU.
const MEBIBYTES_PER_CPU: i64 = 4096;

/// How large a pod is: the power of two below its thousandths of a CPU, or of what comes with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodSize(u32);

impl PodSize {
    pub(super) fn of(pod: &Pod) -> Self {
        let wanted = pod_requests(pod);
        let thousandths = |resource: &str| wanted.get(resource).map_or(0, Quantity::milli_value);
        let memory = thousandths("memory") / (MEBIBYTES_PER_CPU << 20);
        let size = u64::try_from(thousandths("cpu").max(memory)).unwrap_or(0);
        Self(size.checked_ilog2().unwrap_or(0))
    }
}

/// Pods of one owner that were sent away, and are expected back elsewhere.
#[derive(Debug)]
struct EvictedPods {
    size: PodSize,
    first: Timestamp,
    last: Timestamp,
    pods: usize,
}

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct EvictionOrder {
    /// By the owner's uid.
    unplaced: BTreeMap<Str, EvictedPods>,
    /// The largest that is still away, and when that was looked up.
    largest_cache: Option<(Timestamp, Option<PodSize>)>,
}

impl EvictionOrder {
    /// A pod was sent away.
    pub(super) fn record_evicted(&mut self, pod: &Pod, now: Timestamp) {
        let Some(owner) = pod.metadata.controller() else { return };
        let size = PodSize::of(pod);
        let away =
            self.unplaced.entry(owner.uid.clone()).or_insert(EvictedPods { size, first: now, last: now, pods: 0 });
        away.pods += 1;
        away.last = now;
        away.size = away.size.max(size);
        self.largest_cache = None;
    }

    /// Whether a pod of this size, which is to leave since an instant, waits for larger ones: those that are yet to be sent away,
    /// and those that have not come back. `pods` are all pods there are.
    pub(super) fn must_wait<'p>(
        &mut self,
        size: PodSize,
        since: Timestamp,
        now: Timestamp,
        largest_to_go: Option<PodSize>,
        pods: impl FnOnce() -> Vec<&'p Pod>,
    ) -> bool {
        if now.duration_since(since) >= LARGER_PODS_WAIT_MAX {
            return false;
        }
        largest_to_go > Some(size) || self.largest_unplaced(now, pods) > Some(size)
    }

    fn largest_unplaced<'p>(&mut self, now: Timestamp, pods: impl FnOnce() -> Vec<&'p Pod>) -> Option<PodSize> {
        if let Some((_, largest)) = self.largest_cache.filter(|(at, _)| now.duration_since(*at) < LARGEST_UNPLACED_TTL)
        {
            return largest;
        }
        self.unplaced.retain(|_, away| now.duration_since(away.last) < LARGER_PODS_WAIT_MAX);
        if !self.unplaced.is_empty() {
            let mut back: BTreeMap<&str, usize> = BTreeMap::new();
            for pod in pods() {
                let Some(owner) = pod.metadata.controller() else { continue };
                let Some(away) = self.unplaced.get(&owner.uid) else { continue };
                // Times of objects are whole seconds.
                let made = pod.metadata.creation_timestamp.map(Timestamp::as_second);
                if pod.spec.node_name.is_some() && made >= Some(away.first.as_second()) {
                    *back.entry(owner.uid.as_str()).or_default() += 1;
                }
            }
            self.unplaced.retain(|uid, away| back.get(uid.as_str()).is_none_or(|back| *back < away.pods));
        }
        let largest = self.unplaced.values().map(|away| away.size).max();
        self.largest_cache = Some((now, largest));
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, cpu: &str, owner: &str, made: i64, node: Option<&str>) -> Pod {
        let json = serde_json::json!({
            "metadata": {"name": name, "namespace": "n", "uid": name,
                "creationTimestamp": Timestamp::from_second(made).unwrap_or_default().to_string(),
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
        });
        serde_json::from_value(json).expect("a pod")
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1000 + seconds).unwrap_or_default()
    }

    #[test]
    fn a_pod_is_as_large_as_what_it_asks_most_of() {
        let size = |cpu: &str| PodSize::of(&pod("p", cpu, "o", 0, None));
        assert!(size("3500m") > size("900m"));
        assert_eq!(size("600m"), size("900m"), "less than twice as much is about the same");
        assert_eq!(size("1m"), size("200m"), "a gibibyte comes with a quarter of a CPU");
    }

    #[test]
    fn small_pods_wait_until_the_large_ones_are_back() {
        let (small, large) = (PodSize::of(&pod("s", "900m", "s", 0, None)), pod("l", "3500m", "l", 900, Some("a")));
        let mut turns = EvictionOrder::default();
        assert!(
            turns.must_wait(small, at(0), at(0), Some(PodSize::of(&large)), Vec::new),
            "the large one has not gone yet"
        );
        turns.record_evicted(&large, at(0));
        let old = pod("other", "3500m", "l", 900, Some("b"));
        assert!(turns.must_wait(small, at(0), at(1), None, || vec![&large, &old]), "it has gone and is not back");
        let waiting = pod("new", "3500m", "l", 1001, None);
        assert!(turns.must_wait(small, at(0), at(2), None, || vec![&old, &waiting]), "it waits for a node");
        let back = pod("new", "3500m", "l", 1001, Some("b"));
        assert!(!turns.must_wait(small, at(0), at(3), None, || vec![&old, &back]));
    }

    #[test]
    fn nobody_waits_for_ever_or_for_its_like() {
        let large = pod("l", "3500m", "l", 900, Some("a"));
        let small = PodSize::of(&pod("s", "900m", "s", 0, None));
        let mut turns = EvictionOrder::default();
        turns.record_evicted(&large, at(0));
        assert!(!turns.must_wait(PodSize::of(&large), at(0), at(1), Some(PodSize::of(&large)), Vec::new));
        assert!(turns.must_wait(small, at(0), at(9), None, Vec::new));
        assert!(!turns.must_wait(small, at(0), at(10), Some(PodSize::of(&large)), Vec::new));
        assert!(!turns.must_wait(small, at(11), at(11), None, Vec::new), "what has not come back by now may never");
    }
}

//! An ordered queue of distinct work items, with delayed items and exponential back-off, like
//! client-go's rate-limited work queue. Adding an item that is already ready has no effect.
//!
//! Invariant: the order of the items depends only on the order of the calls and on the clock, never
//! on a hash.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use tokio::time::Instant;

/// First and longest delay after a failure, as in kube-controller-manager.
const BASE_RETRY_DELAY: Duration = Duration::from_millis(5);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1000);

/// Ordered queue of distinct work items.
#[derive(Debug)]
pub(crate) struct WorkQueue<W> {
    ready: VecDeque<W>,
    /// Items in `ready`. The hashed collections serve lookups only; iterating over them would make
    /// the order depend on a hash.
    ready_set: FxHashSet<W>,
    later: BTreeMap<(Instant, u64), W>,
    due: FxHashMap<W, (Instant, u64)>,
    failures: FxHashMap<W, u32>,
    serial: u64,
}

impl<W: Clone + Eq + Hash> WorkQueue<W> {
    pub(crate) fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            ready_set: FxHashSet::default(),
            later: BTreeMap::new(),
            due: FxHashMap::default(),
            failures: FxHashMap::default(),
            serial: 0,
        }
    }

    /// Adds an item that is ready now. An entry of the same item for a later time stays.
    pub(crate) fn add(&mut self, work: W) {
        if self.ready_set.insert(work.clone()) {
            self.ready.push_back(work);
        }
    }

    /// Adds an item that becomes ready at `at`, or earlier if it already has an earlier time.
    pub(crate) fn add_at(&mut self, work: W, at: Instant) {
        if let Some(position) = self.due.get(&work).copied() {
            if position.0 <= at {
                return;
            }
            self.later.remove(&position);
        }
        self.serial += 1;
        let position = (at, self.serial);
        self.due.insert(work.clone(), position);
        self.later.insert(position, work);
    }

    /// Adds an item that failed. Its delay doubles with each failure.
    pub(crate) fn add_after_failure(&mut self, work: W, now: Instant) {
        let failures = self.failures.entry(work.clone()).or_default();
        let delay = BASE_RETRY_DELAY.saturating_mul(1 << (*failures).min(20)).min(MAX_RETRY_DELAY);
        *failures += 1;
        self.add_at(work, now + delay);
    }

    /// Resets the failure count of an item, so that the next failure starts with the shortest
    /// delay.
    pub(crate) fn forget_failures(&mut self, work: &W) {
        self.failures.remove(work);
    }

    /// Removes and returns the next item that is ready at `now`. Returns `None` if there is none.
    pub(crate) fn next(&mut self, now: Instant) -> Option<W> {
        while let Some(entry) = self.later.first_entry()
            && entry.key().0 <= now
        {
            let work = entry.remove();
            self.due.remove(&work);
            self.add(work);
        }
        let work = self.ready.pop_front()?;
        self.ready_set.remove(&work);
        Some(work)
    }

    /// Returns true if an item is ready now.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the time at which the next delayed item becomes ready.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.later.first_key_value().map(|((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn items_are_distinct_and_ordered_by_time() {
        let now = Instant::now();
        let mut queue = WorkQueue::new();
        for work in ["b", "a", "b", "c"] {
            queue.add(work);
        }
        queue.add_at("d", now + Duration::from_secs(2));
        queue.add_at("e", now + Duration::from_secs(1));
        queue.add_at("d", now + Duration::from_millis(500));
        queue.add_at("d", now + Duration::from_secs(9));
        let items: Vec<_> = std::iter::from_fn(|| queue.next(now)).collect();
        assert_eq!(items, ["b", "a", "c"]);
        assert_eq!(queue.next_due(), Some(now + Duration::from_millis(500)));
        let later = now + Duration::from_secs(3);
        let items: Vec<_> = std::iter::from_fn(|| queue.next(later)).collect();
        assert_eq!(items, ["d", "e"], "a later date does not put off an earlier one");
        assert_eq!(queue.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_doubles_the_delay() {
        let now = Instant::now();
        let mut queue = WorkQueue::new();
        let delays: Vec<Duration> = (0..3)
            .map(|_| {
                queue.add_after_failure("w", now);
                let due = queue.next_due().unwrap();
                assert_eq!(queue.next(due), Some("w"));
                due - now
            })
            .collect();
        assert_eq!(delays, [5, 10, 20].map(Duration::from_millis));
        queue.forget_failures(&"w");
        queue.add_after_failure("w", now);
        assert_eq!(queue.next_due(), Some(now + BASE_RETRY_DELAY));
        for _ in 0..40 {
            queue.add_after_failure("x", now);
        }
        assert!(queue.next_due().unwrap() <= now + MAX_RETRY_DELAY);
    }
}

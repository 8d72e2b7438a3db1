//! Ordered work queue of a controller. A reconcile takes a key from the queue and returns when the
//! key must be reconciled again.
//!
//! Kerf has its own queue because the order of work must be repeatable: keys are processed in the
//! order in which they become due, and keys with equal due times in the order of their insertion.
//!
//! Invariants: a key waits at most once, at the earliest requested time. A key is never processed
//! twice at the same time. A key that is added while it is being processed is processed again.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::{Backoff, Rate, TokenBucket};
use crate::shutdown::ShutdownSignal;

/// Result of a reconcile: when its key must be reconciled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileAction {
    /// Reconcile when the key is added again. Resets the failure count.
    Done,
    /// Reconcile after exactly this delay. Resets the failure count.
    RequeueAfter(Duration),
    /// Reconcile after the back-off delay, which grows with each failure in a row.
    RequeueWithBackoff,
}

impl ReconcileAction {
    /// Returns the action that reconciles sooner. [`Self::RequeueWithBackoff`] counts as the
    /// soonest.
    #[must_use]
    pub fn soonest(self, other: Self) -> Self {
        match (self, other) {
            (Self::RequeueWithBackoff, _) | (_, Self::RequeueWithBackoff) => Self::RequeueWithBackoff,
            (Self::RequeueAfter(a), Self::RequeueAfter(b)) => Self::RequeueAfter(a.min(b)),
            (Self::RequeueAfter(a), Self::Done) | (Self::Done, Self::RequeueAfter(a)) => Self::RequeueAfter(a),
            (Self::Done, Self::Done) => Self::Done,
        }
    }
}

/// Concurrency and retry delays of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Largest number of keys that are processed at the same time.
    pub workers: usize,
    /// Delays of keys whose reconcile failed.
    pub backoff: Backoff,
    /// Limit on the retries of all keys together. `None` means no limit.
    pub retry_rate: Option<Rate>,
}

/// Work queue of distinct keys. Clones share one queue.
#[derive(Debug)]
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

#[derive(Debug)]
struct Shared<K> {
    state: Mutex<WorkQueueState<K>>,
    changed: Notify,
    settings: QueueSettings,
}

#[derive(Debug)]
struct WorkQueueState<K> {
    /// Waiting keys by due time and insertion number.
    due: BTreeMap<(Instant, u64), K>,
    /// Position of each waiting key in `due`.
    position_by_key: BTreeMap<K, (Instant, u64)>,
    /// Keys that are being processed, with the earliest time for which they were added since.
    processing: BTreeMap<K, Option<Instant>>,
    /// Start time of each reconcile that is running.
    started: BTreeMap<K, Instant>,
    /// Failures in a row, by key.
    failures: BTreeMap<K, u32>,
    bucket: Option<TokenBucket>,
    adds: u64,
    retries: u64,
}

/// Statistics of a queue, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Number of waiting keys that are due.
    pub depth: usize,
    /// Total number of keys inserted into the queue.
    pub adds: u64,
    /// Total number of retries after a failure.
    pub retries: u64,
    /// Sum of the run times of all reconciles that are running.
    pub unfinished_work: Duration,
    /// Run time of the longest reconcile that is running.
    pub longest_running: Duration,
}

impl<K: Ord + Clone> Queue<K> {
    /// Creates an empty queue.
    pub fn new(settings: QueueSettings) -> Self {
        let state = WorkQueueState {
            due: BTreeMap::new(),
            position_by_key: BTreeMap::new(),
            processing: BTreeMap::new(),
            started: BTreeMap::new(),
            failures: BTreeMap::new(),
            bucket: settings.retry_rate.map(|rate| TokenBucket::new(rate, Instant::now())),
            adds: 0,
            retries: 0,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changed: Notify::new(), settings }) }
    }

    /// Adds a key that is due now.
    pub fn add(&self, key: K) {
        self.add_after(key, Duration::ZERO);
    }

    /// Adds a key that is due after `delay`. If the key already waits for an earlier time, nothing
    /// changes.
    pub fn add_after(&self, key: K, delay: Duration) {
        let due = saturating_deadline(Instant::now(), delay);
        self.state().schedule(key, due);
        self.shared.changed.notify_one();
    }

    /// Returns the largest number of keys that are processed at the same time.
    pub fn workers(&self) -> usize {
        self.shared.settings.workers
    }

    /// Returns the number of waiting keys, due or not.
    pub fn len(&self) -> usize {
        self.state().due.len()
    }

    /// Returns true if no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of waiting keys that are due.
    pub fn depth(&self) -> usize {
        let now = Instant::now();
        self.state().due.range(..=(now, u64::MAX)).count()
    }

    /// Returns the current statistics.
    pub fn stats(&self) -> QueueStats {
        let (depth, now, state) = (self.depth(), Instant::now(), self.state());
        let running = || state.started.values().map(|started| now.saturating_duration_since(*started));
        QueueStats {
            depth,
            adds: state.adds,
            retries: state.retries,
            unfinished_work: running().sum(),
            longest_running: running().max().unwrap_or_default(),
        }
    }

    /// Processes keys until shutdown is requested, then waits for the running reconciles to finish.
    /// `reconcile` receives the key and the time since it became due. A panic in a reconcile counts
    /// as a failure.
    pub async fn run<F, R>(&self, mut stop: ShutdownSignal, reconcile: F)
    where
        F: Fn(K, Duration) -> R,
        R: Future<Output = ReconcileAction>,
    {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = stop.requested() => break,
                Some((key, action)) = running.next(), if !running.is_empty() => self.finish(key, action),
                (key, waited) = self.next_due(), if running.len() < self.shared.settings.workers => {
                    let work = AssertUnwindSafe(reconcile(key.clone(), waited)).catch_unwind();
                    running.push(async move { (key, work.await.unwrap_or(ReconcileAction::RequeueWithBackoff)) });
                }
            }
        }
        while let Some((key, action)) = running.next().await {
            self.finish(key, action);
        }
    }

    /// Waits until a key is due and removes it. Returns the key and the time since it became due.
    async fn next_due(&self) -> (K, Duration) {
        loop {
            let wait = match self.state().pop_due(Instant::now()) {
                Ok(due_key) => return due_key,
                Err(wait) => wait,
            };
            let changed = self.shared.changed.notified();
            match wait {
                None => changed.await,
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
            }
        }
    }

    fn finish(&self, key: K, action: ReconcileAction) {
        let now = Instant::now();
        let mut state = self.state();
        let added_for = state.processing.remove(&key).flatten();
        state.started.remove(&key);
        let requeue_at = match action {
            ReconcileAction::Done => {
                state.failures.remove(&key);
                None
            }
            ReconcileAction::RequeueAfter(delay) => {
                state.failures.remove(&key);
                Some(saturating_deadline(now, delay))
            }
            ReconcileAction::RequeueWithBackoff => {
                state.retries += 1;
                let failures = state.failures.entry(key.clone()).or_insert(0);
                *failures = failures.saturating_add(1);
                let key_delay = self.shared.settings.backoff.delay(*failures);
                let shared_delay = state.bucket.as_mut().map_or(Duration::ZERO, |bucket| bucket.reserve(now));
                Some(saturating_deadline(now, key_delay.max(shared_delay)))
            }
        };
        if let Some(due) = [added_for, requeue_at].into_iter().flatten().min() {
            state.schedule(key, due);
            drop(state);
            self.shared.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, WorkQueueState<K>> {
        // The state is consistent between any two statements, so it is safe to use after a panic.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> WorkQueueState<K> {
    fn schedule(&mut self, key: K, due: Instant) {
        if let Some(added_for) = self.processing.get_mut(&key) {
            *added_for = Some(added_for.map_or(due, |earlier| earlier.min(due)));
            return;
        }
        if let Some(position) = self.position_by_key.get(&key) {
            if position.0 <= due {
                return;
            }
            self.due.remove(position);
        }
        self.adds += 1;
        let position = (due, self.adds);
        self.due.insert(position, key.clone());
        self.position_by_key.insert(key, position);
    }

    /// Removes the first due key and returns it with the time since it became due. Otherwise
    /// returns the due time of the next key, or `None` if no key waits.
    fn pop_due(&mut self, now: Instant) -> Result<(K, Duration), Option<Instant>> {
        match self.due.first_key_value() {
            None => Err(None),
            Some(((due, _), _)) if *due > now => Err(Some(*due)),
            Some(_) => {
                let ((due, _), key) = self.due.pop_first().ok_or(None)?;
                self.position_by_key.remove(&key);
                self.processing.insert(key.clone(), None);
                self.started.insert(key.clone(), now);
                Ok((key, now.saturating_duration_since(due)))
            }
        }
    }
}

fn saturating_deadline(now: Instant, delay: Duration) -> Instant {
    // Thirty years count as never, and tokio's timers accept that delay.
    now + delay.min(Duration::from_hours(24 * 365 * 30))
}

#[cfg(test)]
mod tests;

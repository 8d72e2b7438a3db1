//! The ordered work queue of a controller: keys wait in it, are worked on one reconcile at a time each, and come back when their
//! reconcile says so. It is ours because the order of work must be repeatable: keys leave in the order in which they became due,
//! ties in the order in which they came.
//! Invariants: a key waits at most once, at the earliest time that anybody asked for; a key is never worked on twice at the same
//! time; what is added while its key is being worked on is not lost.

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

/// When a key is to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileAction {
    /// When somebody adds it again. Failures are forgotten.
    Done,
    /// After exactly this long. Failures are forgotten.
    RequeueAfter(Duration),
    /// After the back-off, which grows with each such answer in a row.
    RequeueWithBackoff,
}

impl ReconcileAction {
    /// The one of two that wants to run sooner.
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

/// What a queue is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// How many keys are worked on at the same time.
    pub workers: usize,
    /// Delays of keys that failed.
    pub backoff: Backoff,
    /// How many failed keys come back at most, all together.
    pub retry_rate: Option<Rate>,
}

/// A queue of keys. Copies are the same queue.
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
    /// Keys by when they are due and by when they came.
    due: BTreeMap<(Instant, u64), K>,
    /// Where each waiting key stands in `due`.
    position_by_key: BTreeMap<K, (Instant, u64)>,
    /// Keys that are being worked on, with the earliest time at which somebody wants them again.
    processing: BTreeMap<K, Option<Instant>>,
    /// Since when each of them is.
    started: BTreeMap<K, Instant>,
    /// Failures in a row.
    failures: BTreeMap<K, u32>,
    bucket: Option<TokenBucket>,
    adds: u64,
    retries: u64,
}

/// What a queue has to do and has done, for whoever watches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Keys that are due and wait.
    pub depth: usize,
    /// Keys that came to wait, ever.
    pub adds: u64,
    /// Keys that came back because they failed, ever.
    pub retries: u64,
    /// For how long keys have been worked on that still are, all together.
    pub unfinished_work: Duration,
    /// For how long the one has been worked on that takes longest.
    pub longest_running: Duration,
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue.
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

    /// Wants a key looked at as soon as possible.
    pub fn add(&self, key: K) {
        self.add_after(key, Duration::ZERO);
    }

    /// Wants a key looked at after a while; sooner, if it waits for a sooner time already.
    pub fn add_after(&self, key: K, delay: Duration) {
        let due = saturating_deadline(Instant::now(), delay);
        self.state().schedule(key, due);
        self.shared.changed.notify_one();
    }

    /// How many keys are worked on at the same time.
    pub fn workers(&self) -> usize {
        self.shared.settings.workers
    }

    /// How many keys wait, due or not.
    pub fn len(&self) -> usize {
        self.state().due.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many waiting keys are due.
    pub fn depth(&self) -> usize {
        let now = Instant::now();
        self.state().due.range(..=(now, u64::MAX)).count()
    }

    /// What there is to do, and what has been done.
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

    /// Works on keys until told to stop, then lets what is running finish. A reconcile is told for how long its key was due; one that
    /// panics counts as one that failed.
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
                Some((key, next)) = running.next(), if !running.is_empty() => self.finish(key, next),
                (key, waited) = self.next_due(), if running.len() < self.shared.settings.workers => {
                    let work = AssertUnwindSafe(reconcile(key.clone(), waited)).catch_unwind();
                    running.push(async move { (key, work.await.unwrap_or(ReconcileAction::RequeueWithBackoff)) });
                }
            }
        }
        while let Some((key, next)) = running.next().await {
            self.finish(key, next);
        }
    }

    /// Waits for the next key that is due and takes it; says for how long it was.
    async fn next_due(&self) -> (K, Duration) {
        loop {
            let wait = match self.state().pop_due(Instant::now()) {
                Ok(taken) => return taken,
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

    fn finish(&self, key: K, next: ReconcileAction) {
        let now = Instant::now();
        let mut state = self.state();
        let wanted = state.processing.remove(&key).flatten();
        state.started.remove(&key);
        let again = match next {
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
                let own = self.shared.settings.backoff.delay(*failures);
                let of_all = state.bucket.as_mut().map_or(Duration::ZERO, |bucket| bucket.reserve(now));
                Some(saturating_deadline(now, own.max(of_all)))
            }
        };
        if let Some(due) = [wanted, again].into_iter().flatten().min() {
            state.schedule(key, due);
            drop(state);
            self.shared.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, WorkQueueState<K>> {
        // What the lock guards is whole between any two statements, so a panic elsewhere does not spoil it.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> WorkQueueState<K> {
    fn schedule(&mut self, key: K, due: Instant) {
        if let Some(wanted) = self.processing.get_mut(&key) {
            *wanted = Some(wanted.map_or(due, |earlier| earlier.min(due)));
            return;
        }
        if let Some(place) = self.position_by_key.get(&key) {
            if place.0 <= due {
                return;
            }
            self.due.remove(place);
        }
        self.adds += 1;
        let place = (due, self.adds);
        self.due.insert(place, key.clone());
        self.position_by_key.insert(key, place);
    }

    /// The first key that is due, and for how long it was; else when the next one is, if any waits.
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
    // Thirty years from now is as good as never, and timers can hold it.
    now + delay.min(Duration::from_hours(24 * 365 * 30))
}

#[cfg(test)]
mod tests;

//! The pods without a node: ready to be tried, backing off after a failure, or unschedulable until
//! an event may help.
//!
//! The order is kube-scheduler's: higher priority first, then the longest wait. An unschedulable
//! pod is stored with the plug-ins that rejected it. An event that may resolve one of these
//! rejections requeues the pod, but not before the end of its back-off (1 s, doubled with each
//! failure, at most 10 s). After five minutes an unschedulable pod is retried in any case.
//!
//! Invariant: a pod is in exactly one of the three sets, or popped and in none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use smol_str::SmolStr;
use tokio::time::Instant;

use super::filter::Plugin;
use super::pod::PodKey;

const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// Maximum time that a pod stays unschedulable without a retry.
const MAX_UNSCHEDULABLE_WAIT: Duration = Duration::from_mins(5);

#[derive(Clone, Debug)]
pub(super) struct QueuedPod {
    pub(super) uid: SmolStr,
    priority: i32,
    /// Time at which the current wait began.
    since: Instant,
    /// Number of rejected attempts. `errors` counts consecutive errors separately.
    failures: u32,
    errors: u32,
    /// Plug-ins that rejected the last attempt.
    rejectors: BTreeSet<Plugin>,
    state: QueuedPodState,
}

#[derive(Clone, Copy, Debug)]
enum QueuedPodState {
    Ready { serial: u64 },
    BackingOff { until: Instant, serial: u64 },
    Unschedulable,
}

#[derive(Debug, Default)]
pub(super) struct SchedulingQueue {
    entries: BTreeMap<PodKey, QueuedPod>,
    ready: BTreeSet<(Reverse<i32>, Instant, u64, PodKey)>,
    backing_off: BTreeSet<(Instant, u64, PodKey)>,
    unschedulable: BTreeSet<(Instant, PodKey)>,
    /// Unschedulable pods by rejecting plug-in, because most events concern few pods.
    by_rejecting_plugin: BTreeMap<Plugin, BTreeSet<PodKey>>,
    serial: u64,
}

impl SchedulingQueue {
    /// Adds a pod as ready. A pod with the same uid that is already queued stays unchanged.
    pub(super) fn add(&mut self, key: &PodKey, uid: &SmolStr, priority: i32, now: Instant) {
        if self.entries.get(key).is_some_and(|entry| entry.uid == *uid) {
            return;
        }
        self.remove(key);
        let entry = QueuedPod {
            uid: uid.clone(),
            priority,
            since: now,
            failures: 0,
            errors: 0,
            rejectors: BTreeSet::new(),
            state: QueuedPodState::Unschedulable,
        };
        self.make_ready(key.clone(), entry);
    }

    /// Removes a pod that needs no node any more.
    pub(super) fn remove(&mut self, key: &PodKey) -> Option<QueuedPod> {
        let entry = self.entries.remove(key)?;
        match entry.state {
            QueuedPodState::Ready { serial } => {
                self.ready.remove(&(Reverse(entry.priority), entry.since, serial, key.clone()));
            }
            QueuedPodState::BackingOff { until, serial } => {
                self.backing_off.remove(&(until, serial, key.clone()));
            }
            QueuedPodState::Unschedulable => {
                self.unschedulable.remove(&(entry.since, key.clone()));
                for plugin in &entry.rejectors {
                    if let Some(pods) = self.by_rejecting_plugin.get_mut(plugin) {
                        pods.remove(key);
                    }
                }
            }
        }
        Some(entry)
    }

    /// Removes and returns the next pod. [`SchedulingQueue::add_unschedulable`] or
    /// [`SchedulingQueue::add_failed`] adds it again.
    pub(super) fn pop(&mut self) -> Option<(PodKey, QueuedPod)> {
        let (_, _, _, key) = self.ready.pop_first()?;
        let entry = self.entries.remove(&key)?;
        Some((key, entry))
    }

    /// Adds a popped pod as unschedulable. It waits for an event that may resolve one of the
    /// rejections.
    pub(super) fn add_unschedulable(
        &mut self,
        key: PodKey,
        mut entry: QueuedPod,
        rejectors: BTreeSet<Plugin>,
        now: Instant,
    ) {
        entry.failures += 1;
        entry.errors = 0;
        entry.since = now;
        self.unschedulable.insert((now, key.clone()));
        for plugin in &rejectors {
            self.by_rejecting_plugin.entry(*plugin).or_default().insert(key.clone());
        }
        entry.rejectors = rejectors;
        entry.state = QueuedPodState::Unschedulable;
        self.entries.insert(key, entry);
    }

    /// Adds a popped pod whose attempt failed with an error that is no rejection. It is retried
    /// after a back-off.
    pub(super) fn add_failed(&mut self, key: PodKey, mut entry: QueuedPod, now: Instant) {
        entry.errors += 1;
        entry.since = now;
        entry.rejectors.clear();
        self.back_off(key, entry);
    }

    /// Returns true if a pod is ready to be tried.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns true if one of these plug-ins rejected an unschedulable pod.
    pub(super) fn has_rejected_by(&self, plugins: &[Plugin]) -> bool {
        plugins.iter().any(|plugin| self.by_rejecting_plugin.get(plugin).is_some_and(|pods| !pods.is_empty()))
    }

    /// Requeues the unschedulable pods for which `may_help` returns true. `may_help` is called for
    /// each plug-in in `plugins` that rejected the pod.
    pub(super) fn requeue_if(
        &mut self,
        plugins: &[Plugin],
        now: Instant,
        mut may_help: impl FnMut(Plugin, &PodKey) -> bool,
    ) {
        let mut helped = BTreeSet::new();
        for plugin in plugins {
            for key in self.by_rejecting_plugin.get(plugin).into_iter().flatten() {
                if !helped.contains(key) && may_help(*plugin, key) {
                    helped.insert(key.clone());
                }
            }
        }
        for key in helped {
            self.requeue(&key, now);
        }
    }

    /// Requeues one unschedulable pod because the pod itself changed.
    pub(super) fn requeue_unschedulable_pod(&mut self, key: &PodKey, now: Instant) {
        if self.entries.get(key).is_some_and(|entry| matches!(entry.state, QueuedPodState::Unschedulable)) {
            self.requeue(key, now);
        }
    }

    /// Moves pods whose back-off or maximum wait has ended.
    pub(super) fn advance(&mut self, now: Instant) {
        while self.backing_off.first().is_some_and(|(until, _, _)| *until <= now) {
            let Some((_, _, key)) = self.backing_off.pop_first() else { break };
            if let Some(entry) = self.entries.remove(&key) {
                self.make_ready(key, entry);
            }
        }
        while let Some((since, key)) = self.unschedulable.first().cloned()
            && since + MAX_UNSCHEDULABLE_WAIT <= now
        {
            self.requeue(&key, now);
        }
    }

    /// Returns the time at which [`SchedulingQueue::advance`] next has an effect; `None` if never.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let back_off = self.backing_off.first().map(|(until, _, _)| *until);
        let retry = self.unschedulable.first().map(|(since, _)| *since + MAX_UNSCHEDULABLE_WAIT);
        [back_off, retry].into_iter().flatten().min()
    }

    fn requeue(&mut self, key: &PodKey, now: Instant) {
        let Some(entry) = self.remove(key) else { return };
        if entry.since + backoff_duration(entry.failures) > now {
            self.back_off(key.clone(), entry);
        } else {
            self.make_ready(key.clone(), entry);
        }
    }

    fn back_off(&mut self, key: PodKey, mut entry: QueuedPod) {
        let count = if entry.errors > 0 { entry.errors } else { entry.failures };
        let until = entry.since + backoff_duration(count);
        let serial = self.next_serial();
        self.backing_off.insert((until, serial, key.clone()));
        entry.state = QueuedPodState::BackingOff { until, serial };
        self.entries.insert(key, entry);
    }

    fn make_ready(&mut self, key: PodKey, mut entry: QueuedPod) {
        let serial = self.next_serial();
        self.ready.insert((Reverse(entry.priority), entry.since, serial, key.clone()));
        entry.state = QueuedPodState::Ready { serial };
        self.entries.insert(key, entry);
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

/// Returns the back-off after `count` failures.
fn backoff_duration(count: u32) -> Duration {
    if count == 0 {
        return Duration::ZERO;
    }
    let doubled = INITIAL_BACKOFF.checked_mul(1 << (count - 1).min(16));
    doubled.unwrap_or(MAX_BACKOFF).min(MAX_BACKOFF)
}

//! Measures how long pods take until they are decided, bound and started (spec 04 §4.11 and §13.3).
//! A pod is tracked from when it is first seen pending until it is bound and ready. A pod that was
//! running when first seen is not measured.
//!
//! The first time of each step counts: a second decision on a pod does not restart its time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kerf_api::slim::{Pod, PodPhase, Str};
use kerf_state::{ObjectChange, Tracked as _};

use super::{Metrics, PodDurations};

/// The tracked pods, by `namespace/name`.
#[derive(Debug, Default)]
pub struct PodTimes(Mutex<BTreeMap<Str, PodTimeline>>);

/// The times at which one tracked pod reached each step.
#[derive(Debug, Clone)]
pub(super) struct PodTimeline {
    uid: Str,
    created: Timestamp,
    /// True from the first time the pod is seen pending until it is ready.
    is_unstarted: bool,
    /// True from the first time the pod is seen pending until it is seen bound in a later phase.
    is_unbound: bool,
    /// The time at which the pod was seen bound while still pending. The unbound time stops
    /// counting then.
    bound: Option<Timestamp>,
    /// The time at which the pod was first seen as provisionable.
    acknowledged: Option<Timestamp>,
    /// The time of the first decision on the pod.
    decided: Option<Timestamp>,
    /// The time at which a decision first placed the pod. Reset to `None` when a later decision
    /// does not place it.
    schedulable: Option<Timestamp>,
}

/// A gauge of tracked pods: name, help text, and the function for its value (`None`: no series).
pub(super) type PodGauge = (&'static str, &'static str, fn(&PodTimeline, Timestamp) -> Option<f64>);

/// All gauges of tracked pods.
pub(super) const POD_GAUGES: [PodGauge; 5] = [
    ("karpenter_pods_unstarted_time_seconds", "The time from pod creation until the pod is running.", |times, now| {
        times.is_unstarted.then(|| seconds(times.created, now))
    }),
    ("karpenter_pods_unbound_time_seconds", "The time from pod creation until the pod is bound.", |times, now| {
        times.is_unbound.then(|| seconds(times.created, times.bound.unwrap_or(now)))
    }),
    (
        "karpenter_pods_provisioning_unstarted_time_seconds",
        "The time from when Karpenter first thinks the pod can schedule until it is running.",
        |times, now| Some(seconds(times.schedulable.filter(|_| times.is_unstarted)?, now)),
    ),
    (
        "karpenter_pods_provisioning_unbound_time_seconds",
        "The time from when Karpenter first thinks the pod can schedule until it binds.",
        |times, now| Some(seconds(times.schedulable.filter(|_| times.is_unbound)?, times.bound.unwrap_or(now))),
    ),
    (
        "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
        "The time that Karpenter has seen a pod without making a scheduling decision for it.",
        |times, now| {
            let is_open = times.decided.is_none() && times.bound.is_none() && times.is_unbound;
            Some(seconds(times.acknowledged.filter(|_| is_open)?, now))
        },
    ),
];

impl PodTimes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Str, PodTimeline>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of all tracked pods.
    pub(super) fn all(&self) -> Vec<(Str, PodTimeline)> {
        self.lock().iter().map(|(key, times)| (key.clone(), times.clone())).collect()
    }
}

impl Metrics {
    /// Updates the timeline of a pod that was created, changed or deleted, and observes the
    /// durations of completed steps.
    pub(crate) fn pod_changed(&self, change: &ObjectChange<Pod>, now: Timestamp) {
        let Some(pod) = change.latest() else { return };
        let (key, mut all) = (pod.key(), self.pod_times.lock());
        if change.after.is_none() || pod.is_terminal() || all.get(&key).is_some_and(|t| t.uid != pod.metadata.uid) {
            all.remove(&key);
        }
        if change.after.is_none() || pod.is_terminal() {
            return;
        }
        let is_scheduled = pod.condition("PodScheduled").filter(|condition| condition.status == "True");
        if pod.status.phase == PodPhase::Pending {
            let Some(created) = pod.metadata.creation_timestamp else { return };
            let times = all.entry(key).or_insert_with(|| PodTimeline::new(pod.metadata.uid.clone(), created));
            if times.bound.is_none() && (is_scheduled.is_some() || pod.spec.node_name.is_some()) {
                times.bound = Some(now);
            }
            return;
        }
        let Some(times) = all.get_mut(&key) else { return };
        let PodDurations { startup, bound, provisioning_startup, provisioning_bound } = &self.pod_durations;
        if let Some(condition) = is_scheduled.filter(|_| times.is_unbound) {
            let at = condition.last_transition_time.unwrap_or(now);
            bound.observe(&[], seconds(times.created, at));
            if let Some(schedulable) = times.schedulable {
                provisioning_bound.observe(&[], seconds(schedulable, at));
            }
            times.is_unbound = false;
        }
        if let Some(condition) = pod.condition("Ready").filter(|condition| condition.status == "True") {
            let at = condition.last_transition_time.unwrap_or(now);
            startup.observe(&[], seconds(times.created, at), now);
            if let Some(schedulable) = times.schedulable {
                provisioning_startup.observe(&[], seconds(schedulable, at));
            }
            all.remove(&key);
        }
    }

    /// Records that a pod was seen as provisionable.
    pub(crate) fn pod_acknowledged(&self, pod: &str, now: Timestamp) {
        if let Some(times) = self.pod_times.lock().get_mut(pod) {
            times.acknowledged.get_or_insert(now);
        }
    }

    /// Records a decision: `placed` pods can be scheduled, `unplaced` pods cannot.
    pub(crate) fn pods_decided<'p>(
        &self,
        placed: impl Iterator<Item = &'p Str>,
        unplaced: impl Iterator<Item = &'p Str>,
        now: Timestamp,
    ) {
        let mut all = self.pod_times.lock();
        for (pod, is_placed) in placed.map(|pod| (pod, true)).chain(unplaced.map(|pod| (pod, false))) {
            let Some(times) = all.get_mut(pod) else { continue };
            if !is_placed {
                times.schedulable = None;
            } else if times.bound.is_none() && times.is_unbound {
                times.schedulable.get_or_insert(now);
            }
            if times.decided.is_none() {
                times.decided = Some(now);
                if let Some(acknowledged) = times.acknowledged {
                    self.pods_scheduling_decision_duration.observe(&[], seconds(acknowledged, now));
                }
            }
        }
    }
}

impl PodTimeline {
    fn new(uid: Str, created: Timestamp) -> Self {
        Self {
            uid,
            created,
            is_unstarted: true,
            is_unbound: true,
            bound: None,
            acknowledged: None,
            decided: None,
            schedulable: None,
        }
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

//! How long pods take to be decided on, bound and started (spec 04 §4.11 and §13.3). A pod is followed from when it is first seen pending
//! until it is bound and has started; one that ran before we looked says nothing of how long that took.
//!
//! What was first, stays: a pod that is decided on twice has waited since the first time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kerf_api::slim::{Pod, PodPhase, Str};
use kerf_state::{ObjectChange, Tracked as _};

use super::{Metrics, PodDurations};

/// The pods that are followed, by key.
#[derive(Debug, Default)]
pub struct PodTimes(Mutex<BTreeMap<Str, PodTimeline>>);

/// What is known of a pod on its way.
#[derive(Debug, Clone)]
pub(super) struct PodTimeline {
    uid: Str,
    created: Timestamp,
    /// It has been seen pending, and not ready since.
    is_unstarted: bool,
    /// It has been seen pending, and not both bound and past it since.
    is_unbound: bool,
    /// When it was seen bound while it was still pending: from then on the time without a node stands still.
    bound: Option<Timestamp>,
    /// When it was first seen as one that capacity could help.
    acknowledged: Option<Timestamp>,
    /// When the first decision on it fell.
    decided: Option<Timestamp>,
    /// When it was first found a place; taken back when it is found none.
    schedulable: Option<Timestamp>,
}

/// A gauge of pods on their way: its name, what it says, and its value for one.
pub(super) type PodGauge = (&'static str, &'static str, fn(&PodTimeline, Timestamp) -> Option<f64>);

/// All of them.
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

    /// The pods that are followed.
    pub(super) fn all(&self) -> Vec<(Str, PodTimeline)> {
        self.lock().iter().map(|(key, times)| (key.clone(), times.clone())).collect()
    }
}

impl Metrics {
    /// A pod is new, has changed, or is gone.
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

    /// A pod was seen that capacity could help.
    pub(crate) fn pod_acknowledged(&self, pod: &str, now: Timestamp) {
        if let Some(times) = self.pod_times.lock().get_mut(pod) {
            times.acknowledged.get_or_insert(now);
        }
    }

    /// A decision fell: these pods were found a place, those were not.
    pub(crate) fn pods_decided<'p>(
        &self,
        placed: impl Iterator<Item = &'p Str>,
        refused: impl Iterator<Item = &'p Str>,
        now: Timestamp,
    ) {
        let mut all = self.pod_times.lock();
        for (pod, is_placed) in placed.map(|pod| (pod, true)).chain(refused.map(|pod| (pod, false))) {
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

//! Metrics of scheduling simulations (spec 02 §17.3, spec 07 §6.4): their duration, the pods they
//! leave unscheduled, and the simulation that is running.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kerf_engine::EffectiveZone;

use super::DURATION_BUCKETS;
use kerf_operator::metrics::{Gauge, Histogram, Registry};

/// The metrics of scheduling simulations.
#[derive(Debug)]
pub struct SchedulerMetrics {
    /// Seconds per simulation, by controller.
    pub scheduling_duration: Histogram,
    /// Pods waiting in the last simulation, by controller and simulation.
    queue_depth: Gauge,
    /// Seconds since the running simulation began, by controller and simulation.
    unfinished_work: Gauge,
    /// Pods rejected before the simulation.
    pub ignored_pods: Gauge,
    /// Pods that could not be scheduled, by controller.
    pub unschedulable_pods: Gauge,
    /// Pending pods, by controller and effective zone.
    pending_by_zone: Gauge,
    /// The zones that have a series, by controller.
    zones: Mutex<BTreeMap<&'static str, BTreeSet<String>>>,
    /// By controller, the ID of its last simulation and the time since which it runs. `None` if it
    /// has ended.
    last_simulations: Mutex<BTreeMap<&'static str, (String, Option<Timestamp>)>>,
}

impl SchedulerMetrics {
    pub(super) fn new(r: &Registry) -> Self {
        let of_simulation = ["controller", "scheduling_id"];
        Self {
            scheduling_duration: r.histogram(
                "karpenter_scheduler_scheduling_duration_seconds",
                "Duration of one scheduling simulation.",
                &["controller"],
                &DURATION_BUCKETS,
            ),
            queue_depth: r.gauge(
                "karpenter_scheduler_queue_depth",
                "The number of pods currently waiting to be scheduled.",
                &of_simulation,
            ),
            unfinished_work: r.gauge(
                "karpenter_scheduler_unfinished_work_seconds",
                "How many seconds of work has been done that is in progress and has not been observed by scheduling_duration_seconds.",
                &of_simulation,
            ),
            ignored_pods: r.gauge("karpenter_scheduler_ignored_pods_count", "Pods ignored in scheduling.", &[]),
            unschedulable_pods: r.gauge(
                "karpenter_scheduler_unschedulable_pods_count",
                "Pods that could not be scheduled.",
                &["controller"],
            ),
            pending_by_zone: r.gauge(
                "karpenter_scheduler_pending_pods_by_effective_zone_count",
                "Pending pods by the zone that their requirements, volumes and topology allow: a zone's name, 'flexible' or 'none'.",
                &["controller", "zone"],
            ),
            zones: Mutex::default(),
            last_simulations: Mutex::default(),
        }
    }

    /// Sets the number of pending pods by effective zone, and removes the series of zones that are
    /// not in `counts`.
    pub(crate) fn set_pending_by_zone(&self, controller: &'static str, counts: &BTreeMap<EffectiveZone, usize>) {
        let names = counts.iter().map(|(zone, count)| {
            let name = match zone {
                EffectiveZone::One(name) => name.to_string(),
                EffectiveZone::Flexible => "flexible".to_owned(),
                EffectiveZone::Nowhere => "none".to_owned(),
            };
            self.pending_by_zone.set(&[controller, &name], *count as f64);
            name
        });
        let zones: BTreeSet<String> = names.collect();
        let before = self.zones.lock().unwrap_or_else(PoisonError::into_inner).insert(controller, zones.clone());
        for removed in before.iter().flat_map(|before| before.difference(&zones)) {
            self.pending_by_zone.remove(&[controller, removed]);
        }
    }

    fn last_simulations(&self) -> MutexGuard<'_, BTreeMap<&'static str, (String, Option<Timestamp>)>> {
        self.last_simulations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start of a simulation with this number of pods. It ends when the returned value
    /// is dropped.
    pub(crate) fn begin_simulation(
        &self,
        controller: &'static str,
        id: String,
        pods: usize,
        now: Timestamp,
    ) -> RunningSimulation<'_> {
        self.queue_depth.set(&[controller, &id], pods as f64);
        if let Some((before, _)) = self.last_simulations().insert(controller, (id, Some(now))) {
            self.queue_depth.remove(&[controller, &before]);
        }
        RunningSimulation { metrics: self, controller }
    }

    /// Updates the time that running simulations have taken.
    pub(super) fn refresh(&self, now: Timestamp) {
        for (controller, (id, since)) in self.last_simulations().iter() {
            if let Some(since) = since {
                self.unfinished_work.set(&[controller, id], now.duration_since(*since).as_secs_f64());
            }
        }
    }
}

/// Ends the simulation in the metrics when dropped.
pub(crate) struct RunningSimulation<'m> {
    metrics: &'m SchedulerMetrics,
    controller: &'static str,
}

impl RunningSimulation<'_> {
    /// Sets the number of pods that are not scheduled yet.
    pub(crate) fn set_remaining(&self, pods: usize) {
        if let Some((id, _)) = self.metrics.last_simulations().get(self.controller) {
            self.metrics.queue_depth.set(&[self.controller, id], pods as f64);
        }
    }
}

impl Drop for RunningSimulation<'_> {
    fn drop(&mut self) {
        if let Some((id, since)) = self.metrics.last_simulations().get_mut(self.controller) {
            *since = None;
            self.metrics.unfinished_work.remove(&[self.controller, id]);
        }
    }
}

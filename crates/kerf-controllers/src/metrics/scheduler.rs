//! What is measured of simulations (spec 02 §17.3, spec 07 §6.4): how long they take, what they leave, and the one that is running now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kerf_engine::EffectiveZone;

use super::DURATION_BUCKETS;
use super::registry::{Gauge, Histogram, Registry};

/// The metrics of simulations.
#[derive(Debug)]
pub struct SchedulerMetrics {
    /// One simulation, by controller.
    pub scheduling_duration: Histogram,
    /// Pods that wait in the last simulation, by controller and simulation.
    queue_depth: Gauge,
    /// For how long the running simulation has been, by controller and simulation.
    unfinished_work: Gauge,
    /// Pods rejected before simulation.
    pub ignored_pods: Gauge,
    /// Pods with errors, by controller.
    pub unschedulable_pods: Gauge,
    /// Pods that wait, by controller and the zone that they can use.
    pending_by_zone: Gauge,
    /// The zones that are shown, by controller.
    zones: Mutex<BTreeMap<&'static str, BTreeSet<String>>>,
    /// Which simulation was the last of a controller, and since when it runs if it does.
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
                "Pending pods by the zone that their own demands, their volumes and their topology leave: its name, 'flexible' or 'none'.",
                &["controller", "zone"],
            ),
            zones: Mutex::default(),
            last_simulations: Mutex::default(),
        }
    }

    /// The pods that wait can use these zones; what was shown before is not shown any more.
    pub(crate) fn set_pending_by_zone(&self, controller: &'static str, counts: &BTreeMap<EffectiveZone, usize>) {
        let shown = counts.iter().map(|(zone, count)| {
            let name = match zone {
                EffectiveZone::One(name) => name.to_string(),
                EffectiveZone::Flexible => "flexible".to_owned(),
                EffectiveZone::Nowhere => "none".to_owned(),
            };
            self.pending_by_zone.set(&[controller, &name], *count as f64);
            name
        });
        let now: BTreeSet<String> = shown.collect();
        let before = self.zones.lock().unwrap_or_else(PoisonError::into_inner).insert(controller, now.clone());
        for gone in before.iter().flat_map(|before| before.difference(&now)) {
            self.pending_by_zone.remove(&[controller, gone]);
        }
    }

    fn last_simulations(&self) -> MutexGuard<'_, BTreeMap<&'static str, (String, Option<Timestamp>)>> {
        self.last_simulations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A simulation begins, with so many pods. It is over when what this gives is dropped.
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

    /// Looks at what is running.
    pub(super) fn refresh(&self, now: Timestamp) {
        for (controller, (id, since)) in self.last_simulations().iter() {
            if let Some(since) = since {
                self.unfinished_work.set(&[controller, id], now.duration_since(*since).as_secs_f64());
            }
        }
    }
}

/// A simulation that is running.
pub(crate) struct RunningSimulation<'m> {
    metrics: &'m SchedulerMetrics,
    controller: &'static str,
}

impl RunningSimulation<'_> {
    /// So many pods still wait.
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

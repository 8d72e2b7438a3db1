//! The scheduler: kube-scheduler's default profile, for pods whose `schedulerName` is
//! `default-scheduler`.
//!
//! ```text
//! store ─► event_handlers ─┬─► view (nodes, pods, classes, storage)
//!                          └─► scheduling_queue (ready, backing off, unschedulable)
//!                                   └─► attempt ─┬─► filter ─► score ─► writer (bind)
//!                                                └─► preempt ─► writer (evict, nominate, event)
//! ```
//! `view` holds the known state of the cluster, and `scheduling_queue` the pods without a node.
//! `attempt` finds a node for one pod. `queueing_hints` decides which events may help a pod that no
//! node accepted.
//!
//! Invariants:
//! - The same changes of the store in the same order lead to the same writes. Ties are drawn from
//!   the seed, and no order comes from a hash map.
//! - Every decision is in the store, so a scheduler can be stopped at any time and another started.
//! - A pod is bound only to a node that all filters accept in the current state of the store.

mod amounts;
mod attempt;
mod classes;
mod event_handlers;
mod filter;
mod message;
mod node;
mod pod;
mod preempt;
mod queueing_hints;
mod scheduling_queue;
mod score;
mod storage;
mod view;
mod volume_binding;
mod workloads;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_runtime::Rng;
use tokio::time::Instant;

use self::attempt::{AttemptOutcome, Rotation, attempt};
use self::event_handlers::Feeds;
use self::filter::{Plugin, VolumeBindings};
use self::message::Diagnosis;
use self::pod::{PodInfo, PodKey};
use self::preempt::{Preemption, preempt};
use self::scheduling_queue::{QueuedPod, SchedulingQueue};
use self::view::{NodeIx, View};
use self::volume_binding::WaitingForVolumes;
use self::writer::{NominationChange, SchedulerWriter};
use super::in_process_client::{InProcessClient, wait_for_changes};
use crate::api::ApiServer;

/// Attempts without a pause. After these the scheduler yields to other tasks of its thread.
const MAX_ATTEMPTS_BEFORE_YIELD: usize = 32;

/// The scheduler of a cluster.
///
/// It reads and writes through the store of its [`ApiServer`], in this process. A cluster should
/// have only one.
pub struct Scheduler {
    feeds: Feeds,
    view: View,
    queue: SchedulingQueue,
    writer: SchedulerWriter,
    rng: Rng,
    rotation: Rotation,
    /// Pods that have a node and wait until their volumes are bound.
    waiting_for_volumes: BTreeMap<PodKey, WaitingForVolumes>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("nodes", &self.view.node_count()).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Returns a scheduler for the cluster that `server` serves. Ties between nodes are drawn from
    /// `seed`.
    pub fn new(server: &ApiServer, seed: u64) -> Self {
        let client = InProcessClient::new(server, "kube-scheduler");
        Self {
            feeds: Feeds::new(&client),
            view: View::new(),
            queue: SchedulingQueue::default(),
            writer: SchedulerWriter::new(client),
            rng: Rng::new(seed).fork("scheduler"),
            rotation: Rotation::default(),
            waiting_for_volumes: BTreeMap::new(),
        }
    }

    /// Schedules pods until the future is dropped. It can be dropped at any time: all its results
    /// are in the store.
    pub async fn run(mut self) {
        loop {
            for _ in 0..MAX_ATTEMPTS_BEFORE_YIELD {
                if !self.schedule_next() {
                    break;
                }
            }
            if self.has_ready_pods() {
                tokio::task::yield_now().await;
                continue;
            }
            let next = [self.queue.next_due(), self.next_volume_timeout()].into_iter().flatten().min();
            let feeds = self.feeds.all();
            match next {
                Some(at) => tokio::select! {
                    biased;
                    () = wait_for_changes(&feeds) => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => wait_for_changes(&feeds).await,
            }
        }
    }

    /// Applies pending changes and tries the next pod. Returns false if no pod was ready.
    fn schedule_next(&mut self) -> bool {
        self.apply_changes();
        let now = Instant::now();
        self.queue.advance(now);
        self.bind_pods_with_bound_volumes(now);
        let Some((key, entry)) = self.queue.pop() else { return false };
        self.schedule_pod(key, entry, now);
        true
    }

    fn has_ready_pods(&self) -> bool {
        self.queue.has_ready()
    }

    fn schedule_pod(&mut self, key: PodKey, entry: QueuedPod, now: Instant) {
        let Some(info) = self.view.pod(&key).filter(|info| info.uid == entry.uid).cloned() else { return };
        let Some(pod) = info.unscheduled_pod.clone() else { return };
        match attempt(&mut self.view, &pod, &info, &mut self.rotation, &mut self.rng) {
            AttemptOutcome::Node(node, bindings) => self.bind_or_wait_for_volumes(&info, entry, node, bindings, now),
            AttemptOutcome::NoNodes => {
                let message = "no nodes available to schedule pods";
                self.writer.mark_unschedulable(&pod, &info, "Unschedulable", message, &NominationChange::Keep);
                self.queue.add_unschedulable(key, entry, BTreeSet::from([Plugin::NoNodes]), now);
            }
            AttemptOutcome::Unschedulable(diagnosis) => {
                self.handle_unschedulable(&info, &diagnosis, now);
                self.queue.add_unschedulable(key, entry, diagnosis.rejectors(), now);
            }
        }
    }

    /// Binds a pod to a node. If volumes must be bound first, it starts that instead.
    fn bind_or_wait_for_volumes(
        &mut self,
        info: &Arc<PodInfo>,
        entry: QueuedPod,
        node: NodeIx,
        bindings: VolumeBindings,
        now: Instant,
    ) {
        let name = self.view.node(node).name.clone();
        if !bindings.is_empty() {
            self.start_volume_binding(info, entry, name, bindings, now);
            return;
        }
        if let Err(error) = self.writer.bind(info, &name) {
            // Another client changed or deleted the pod; the next changes contain its new state.
            tracing::debug!(pod = %info.key, node = %name, %error, "a pod was not bound");
            self.queue.add_failed(info.key.clone(), entry, now);
        }
    }

    /// Preempts other pods for a pod that no node accepts, if that helps, and records the reason
    /// why the pod stays pending.
    fn handle_unschedulable(&mut self, info: &Arc<PodInfo>, diagnosis: &Diagnosis, now: Instant) {
        let Some(pod) = info.unscheduled_pod.clone() else { return };
        let preemption = preempt(&mut self.view, &pod, info, diagnosis, &mut self.rng);
        let mut message = diagnosis.message();
        if let Some(suffix) = preemption.message_suffix() {
            message.push(' ');
            message.push_str(&suffix);
        }
        let nomination = match preemption {
            Preemption::Victims { node, victims } => {
                self.evict_victims(info, &node, &victims, now);
                NominationChange::Set(node)
            }
            Preemption::NoCandidates(_) => NominationChange::Clear,
            Preemption::NotEligible(_) | Preemption::NotAttempted => NominationChange::Keep,
        };
        self.writer.mark_unschedulable(&pod, info, "Unschedulable", &message, &nomination);
    }

    fn evict_victims(&mut self, info: &PodInfo, node: &str, victims: &[Arc<PodInfo>], now: Instant) {
        let lower_priority: Vec<Arc<PodInfo>> =
            self.view.nominated_to(node).filter(|other| other.priority < info.priority).cloned().collect();
        for other in lower_priority {
            self.writer.clear_nomination(&other);
        }
        for victim in victims.iter().filter(|victim| !victim.is_deleting) {
            if !self.requeue_waiting_pod(&victim.key, now) {
                self.writer.evict(victim, node, info);
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Pods that have a node and wait for their volumes. Each claim gets a reserved volume, or the
//! annotation with the node for which a volume must be provisioned. The pod is bound once all its
//! claims are bound. Until then it is assumed on its node, so that no other pod takes its capacity.

use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;
use tokio::time::Instant;

use super::Scheduler;
use super::filter::VolumeBindings;
use super::pod::{PodInfo, PodKey};
use super::queueing_hints::SchedulingEvent;
use super::scheduling_queue::QueuedPod;
use super::writer::NominationChange;
use crate::cluster::volumes::{CLAIM_SELECTED_NODE, is_bound};

/// Maximum wait for volumes.
const VOLUME_BIND_TIMEOUT: Duration = Duration::from_mins(10);

#[derive(Debug)]
pub(super) struct WaitingForVolumes {
    entry: QueuedPod,
    node: SmolStr,
    bindings: VolumeBindings,
    until: Instant,
}

enum VolumeBindProgress {
    Done,
    NotYet,
    Failed(String),
}

impl Scheduler {
    /// Writes the volume bindings of a pod and assumes the pod on the node.
    pub(super) fn start_volume_binding(
        &mut self,
        info: &Arc<PodInfo>,
        entry: QueuedPod,
        node: SmolStr,
        bindings: VolumeBindings,
        now: Instant,
    ) {
        for (claim, volume) in &bindings.existing {
            let uid = self.view.storage.claims.get(claim).and_then(|claim| claim.metadata.uid.clone());
            if self.writer.reserve_volume(volume, claim, &uid.unwrap_or_default()).is_err() {
                self.queue.add_failed(info.key.clone(), entry, now);
                return;
            }
        }
        for claim in &bindings.provisioned {
            if self.writer.select_node(claim, &node).is_err() {
                self.queue.add_failed(info.key.clone(), entry, now);
                return;
            }
        }
        // The nomination tells autoscalers where the pod will run.
        self.writer.nominate(info, &node);
        self.view.assume_pod(info, &node);
        self.waiting_for_volumes
            .insert(info.key.clone(), WaitingForVolumes { entry, node, bindings, until: now + VOLUME_BIND_TIMEOUT });
    }

    /// Binds the pods whose volumes are bound, and requeues the pods whose binding has failed.
    pub(super) fn bind_pods_with_bound_volumes(&mut self, now: Instant) {
        if self.waiting_for_volumes.is_empty() {
            return;
        }
        let finished: Vec<(PodKey, VolumeBindProgress)> = self
            .waiting_for_volumes
            .iter()
            .map(|(key, waiting)| (key.clone(), self.volume_progress(waiting, now)))
            .filter(|(_, progress)| !matches!(progress, VolumeBindProgress::NotYet))
            .collect();
        for (key, progress) in finished {
            let Some(waiting) = self.waiting_for_volumes.remove(&key) else { continue };
            let Some(info) = self.view.pod(&key).cloned() else { continue };
            match progress {
                VolumeBindProgress::Done => {
                    if self.writer.bind(&info, &waiting.node).is_err() {
                        self.release_assumed_node(&key, now);
                        self.queue.add_failed(key, waiting.entry, now);
                    }
                }
                VolumeBindProgress::Failed(reason) => {
                    self.release_assumed_node(&key, now);
                    let message = format!("running PreBind plugin \"VolumeBinding\": binding volumes: {reason}");
                    if let Some(pod) = &info.unscheduled_pod {
                        self.writer.mark_unschedulable(
                            pod,
                            &info,
                            "SchedulerError",
                            &message,
                            &NominationChange::Clear,
                        );
                    }
                    self.queue.add_failed(key, waiting.entry, now);
                }
                VolumeBindProgress::NotYet => {}
            }
        }
    }

    /// Returns the time at which the next wait for volumes ends; `None` if no pod waits.
    pub(super) fn next_volume_timeout(&self) -> Option<Instant> {
        self.waiting_for_volumes.values().map(|waiting| waiting.until).min()
    }

    /// Stops a pod's wait for volumes and frees its assumed node. The pod is not requeued.
    pub(super) fn cancel_volume_wait(&mut self, key: &PodKey, now: Instant) {
        if self.waiting_for_volumes.remove(key).is_some() {
            self.release_assumed_node(key, now);
        }
    }

    /// Requeues a pod that waits for volumes, because another pod preempts it. The pod is not
    /// deleted. Returns false if the pod did not wait.
    pub(super) fn requeue_waiting_pod(&mut self, key: &PodKey, now: Instant) -> bool {
        let Some(waiting) = self.waiting_for_volumes.remove(key) else { return false };
        self.release_assumed_node(key, now);
        self.queue.add_failed(key.clone(), waiting.entry, now);
        true
    }

    fn release_assumed_node(&mut self, key: &PodKey, now: Instant) {
        if let Some(pod) = self.view.forget_assumed_pod(key)
            && let Some(traits) = self.pod_traits(key)
        {
            self.requeue_unschedulable(&SchedulingEvent::PodRemoved(&pod, &traits), now);
        }
    }

    fn volume_progress(&self, waiting: &WaitingForVolumes, now: Instant) -> VolumeBindProgress {
        let storage = &self.view.storage;
        let mut done = true;
        if self.view.find_node(&waiting.node).is_none() {
            return VolumeBindProgress::Failed(format!(
                "failed to get node {0:?}: node {0:?} not found",
                waiting.node.as_str()
            ));
        }
        for (key, _) in &waiting.bindings.existing {
            let Some(claim) = storage.claims.get(key) else {
                return VolumeBindProgress::Failed(format!(
                    "failed to check binding: persistentvolumeclaim {key:?} not found"
                ));
            };
            done &= is_bound(claim);
        }
        for key in &waiting.bindings.provisioned {
            let Some(claim) = storage.claims.get(key) else {
                return VolumeBindProgress::Failed(format!("failed to check provisioning pvc: {key:?} not found"));
            };
            let selected = claim.metadata.annotations.as_ref().and_then(|a| a.get(CLAIM_SELECTED_NODE));
            if selected.is_none_or(|selected| *selected != waiting.node) {
                // A provisioner reports its failure by removing the annotation.
                let name = claim.metadata.name.as_deref().unwrap_or_default();
                return VolumeBindProgress::Failed(format!("provisioning failed for PVC {name:?}"));
            }
            done &= is_bound(claim);
        }
        if done {
            VolumeBindProgress::Done
        } else if now >= waiting.until {
            VolumeBindProgress::Failed("context deadline exceeded".to_owned())
        } else {
            VolumeBindProgress::NotYet
        }
    }
}

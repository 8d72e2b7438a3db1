//! Faults of kubelets that were drawn when their instances were launched: kubelets that die, and
//! Nodes that are never ready or only from time to time. A fault whose rule no longer applies when
//! it is due does not happen.

use tokio::time::Instant;

use super::{InstancePhase, Kubelets, Readiness};
use crate::api::storage::ObjectKey;
use crate::cloud::{CloudFault, FlapTimes, InstanceFaults};
use crate::cluster::WorkItem;
use crate::cluster::control_plane::{ControlPlane, RunAgain};

/// Plans the faults of a new instance that has booted at `booted_at`. Returns the readiness with
/// which its kubelet begins.
pub(super) fn schedule(
    plane: &mut ControlPlane,
    key: &ObjectKey,
    faults: &InstanceFaults,
    booted_at: Instant,
) -> Readiness {
    if let Some(after) = faults.kubelet_dies_after {
        plane.queue.add_at(WorkItem::KubeletDeath(key.clone()), booted_at + after);
    }
    match faults.flaps {
        _ if faults.never_ready => Readiness::NeverReady,
        Some(times) => {
            let ready_for = plane.kubelets.draw_ready_time(times);
            plane.queue.add_at(WorkItem::ReadinessFlap(key.clone()), booted_at + ready_for);
            Readiness::FlappingReady(times)
        }
        None => Readiness::Ready,
    }
}

impl Kubelets {
    pub(super) fn readiness_of(&self, key: &ObjectKey) -> Readiness {
        self.instances.get(key).map_or(Readiness::Ready, |instance| instance.readiness)
    }

    fn draw_ready_time(&mut self, times: FlapTimes) -> std::time::Duration {
        let millis = u64::try_from(times.ready_for.as_millis()).unwrap_or(u64::MAX).max(1);
        times.ready_for + std::time::Duration::from_millis(self.rng.below(millis))
    }
}

/// Kills the kubelet of a node.
pub(crate) fn die(plane: &mut ControlPlane, key: &ObjectKey) -> RunAgain {
    if plane.cloud.has_fault_now(|fault| matches!(fault, CloudFault::KubeletDeath { .. })) {
        plane.kill_kubelet(key.name());
    }
    RunAgain::WhenChanged
}

/// Changes the readiness of a node whose readiness flaps.
pub(crate) fn flap(plane: &mut ControlPlane, key: &ObjectKey) -> RunAgain {
    let Some(instance) = plane.kubelets.instances.get_mut(key) else { return RunAgain::WhenChanged };
    if instance.phase != InstancePhase::Running {
        return RunAgain::WhenChanged;
    }
    let is_active = plane.cloud.has_fault_now(|fault| matches!(fault, CloudFault::FlappingReadiness { .. }));
    let next = match instance.readiness {
        Readiness::Ready | Readiness::NeverReady => return RunAgain::WhenChanged,
        Readiness::FlappingReady(times) if is_active => {
            instance.readiness = Readiness::FlappingNotReady(times);
            Some(times.not_ready_for)
        }
        Readiness::FlappingReady(_) => {
            instance.readiness = Readiness::Ready;
            None
        }
        Readiness::FlappingNotReady(times) => {
            instance.readiness = Readiness::FlappingReady(times);
            Some(plane.kubelets.draw_ready_time(times))
        }
    };
    // The heartbeat reports the new readiness.
    if let Some(instance) = plane.kubelets.instances.get_mut(key) {
        instance.last_report = None;
    }
    plane.queue.add(WorkItem::Heartbeat(key.clone()));
    next.map_or(RunAgain::WhenChanged, RunAgain::After)
}

//! Plans the faults of a kubelet that were drawn when its instance was launched.

use tokio::time::Instant;

use super::{Kubelets, Readiness};
use crate::api::storage::ObjectKey;
use crate::cloud::{FlapTimes, InstanceFaults};
use crate::cluster::WorkItem;
use crate::cluster::control_plane::ControlPlane;

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

    pub(super) fn draw_ready_time(&mut self, times: FlapTimes) -> std::time::Duration {
        let millis = u64::try_from(times.ready_for.as_millis()).unwrap_or(u64::MAX).max(1);
        times.ready_for + std::time::Duration::from_millis(self.rng.below(millis))
    }
}

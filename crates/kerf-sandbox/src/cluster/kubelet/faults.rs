//! Faults of kubelets, carried out at their time: kubelets that die, and Nodes that are ready only
//! from time to time. A fault whose rule no longer applies when it is due does not happen.

use super::{InstancePhase, Readiness, node};
use crate::api::storage::ObjectKey;
use crate::cloud::CloudFault;
use crate::cluster::control_plane::{ControlPlane, RunAgain};

/// Kills the kubelet of a node.
pub(crate) fn die(plane: &mut ControlPlane, key: &ObjectKey) -> RunAgain {
    if plane.cloud.has_fault_now(|fault| matches!(fault, CloudFault::KubeletDeath { .. })) {
        plane.kill_kubelet(key.name());
    }
    RunAgain::WhenChanged
}

/// Changes the readiness of a node whose readiness flaps, and reports it.
pub(crate) fn flap(plane: &mut ControlPlane, key: &ObjectKey) -> RunAgain {
    let Some(node) = plane.cache.nodes.get(key) else { return RunAgain::WhenChanged };
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
    // The next heartbeat repeats a write that fails.
    if let Some(instance) = plane.kubelets.instances.get_mut(key) {
        instance.last_report = None;
    }
    let _ = node::write_status(plane, key, &node);
    next.map_or(RunAgain::WhenChanged, RunAgain::After)
}

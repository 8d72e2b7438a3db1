//! Waits until the volumes of a drained node are detached (spec 04 §7.7). It detaches nothing
//! itself: that is the task of the attach-detach controller.

use std::collections::BTreeSet;

use kerf_api::slim::{PersistentVolumeClaim, Pod, Str, VolumeAttachment, VolumeClaimSource};
use kerf_runtime::ReconcileAction;
use kerf_state::Cluster;

use super::pods::is_drainable;
use super::{NODE_POLL_INTERVAL, NodeTermination, TerminatingNode, TerminationStep, VOLUMES_DETACHED};
use crate::events;

const AWAITING_DETACHMENT_REASON: &str = "AwaitingVolumeDetachment";
const GRACE_PERIOD_ELAPSED_REASON: &str = "TerminationGracePeriodElapsed";

impl NodeTermination {
    pub(super) fn await_volume_detachment(&self, terminating: &mut TerminatingNode) -> TerminationStep {
        let attachments = blocking_attachments(&self.ctx.cluster.lock(), terminating);
        let now = terminating.now;
        if attachments.is_empty() {
            if let Some(conditions) = &mut terminating.conditions {
                conditions.set_true(VOLUMES_DETACHED, now);
            }
            return TerminationStep::Complete;
        }
        if terminating.deadline.is_some_and(|deadline| now > deadline) {
            if let Some(conditions) = &mut terminating.conditions {
                conditions.set_false(VOLUMES_DETACHED, GRACE_PERIOD_ELAPSED_REASON, GRACE_PERIOD_ELAPSED_REASON, now);
            }
            return TerminationStep::Complete;
        }
        if let Some(conditions) = &mut terminating.conditions {
            conditions.set_unknown(VOLUMES_DETACHED, AWAITING_DETACHMENT_REASON, AWAITING_DETACHMENT_REASON, now);
        }
        let names: Vec<&str> = attachments.iter().map(Str::as_str).collect();
        self.ctx.publish(events::awaiting_volume_detachment(&terminating.node, &names));
        TerminationStep::Requeue(ReconcileAction::RequeueAfter(NODE_POLL_INTERVAL))
    }
}

/// Returns the names of the VolumeAttachments that block termination. Attachments of pods that the
/// drain ignores do not block.
fn blocking_attachments(cluster: &Cluster, terminating: &TerminatingNode) -> Vec<Str> {
    let node = &terminating.node.metadata.name;
    let ignored_pods = cluster.pods_on(node).filter(|pod| !is_drainable(pod, terminating.now));
    let ignored_volumes: BTreeSet<Str> = ignored_pods.flat_map(|pod| persistent_volumes(cluster, pod)).collect();
    let attachments = cluster.all::<VolumeAttachment>().values().filter(|attachment| attachment.node_name == *node);
    attachments
        .filter(|attachment| {
            attachment.persistent_volume_name.as_ref().is_some_and(|volume| !ignored_volumes.contains(volume))
        })
        .map(|attachment| attachment.metadata.name.clone())
        .collect()
}

/// Returns the names of a pod's persistent volumes. Claims that do not exist or are not bound are
/// skipped.
fn persistent_volumes<'c>(cluster: &'c Cluster, pod: &'c Pod) -> impl Iterator<Item = Str> + 'c {
    pod.spec.volumes.iter().filter_map(|volume| {
        let claim = match &volume.source {
            VolumeClaimSource::Claim(name) => name.to_string(),
            VolumeClaimSource::Ephemeral => format!("{}-{}", pod.metadata.name, volume.name),
        };
        let claim = cluster.get::<PersistentVolumeClaim>(&format!("{}/{claim}", pod.metadata.namespace))?;
        (!claim.volume_name.is_empty()).then(|| claim.volume_name.clone())
    })
}

//! Drains a node (spec 04 §7.5): adds its pods to the eviction queue tier by tier. The node is
//! reconciled again until no pod is left.

use std::sync::Arc;
use std::time::Duration;

use kerf_api::conditions::ConditionStatus;
use kerf_api::slim::Pod;
use kerf_runtime::ReconcileAction;

use super::pods::{blocks_drain, must_be_deleted_now, tier, time_until_deletion};
use super::{DRAINED, NODE_POLL_INTERVAL, NodeTermination, TerminatingNode, TerminationStep};
use crate::events;

/// Pods that were bound just before the taint was set appear within this time.
const LATE_POD_WAIT: Duration = Duration::from_secs(5);

impl NodeTermination {
    pub(super) fn drain(&self, terminating: &mut TerminatingNode) -> TerminationStep {
        let now = terminating.now;
        if let Some(conditions) = &mut terminating.conditions
            && conditions.get(DRAINED).is_none()
        {
            conditions.set_unknown(DRAINED, "Draining", "Draining", now);
        }
        let waiting: Vec<Arc<Pod>> = {
            let cluster = self.ctx.cluster.lock();
            cluster.pods_on(&terminating.node.metadata.name).filter(|pod| blocks_drain(pod, now)).cloned().collect()
        };
        if !waiting.is_empty() {
            for pod in pods_to_evict(&waiting, terminating) {
                self.evictions.add(pod, terminating.deadline);
            }
            let why = format!("{} pods are waiting to be evicted", waiting.len());
            self.ctx.publish(events::failed_draining(&terminating.node, &why));
            // Pods of later tiers are not in the eviction queue yet, so only this requeue can wake
            // the drain when they must be deleted.
            let forced = waiting.iter().filter_map(|pod| time_until_deletion(pod, terminating.deadline, now)).min();
            return TerminationStep::Requeue(ReconcileAction::RequeueAfter(
                forced.map_or(NODE_POLL_INTERVAL, |until| until.min(NODE_POLL_INTERVAL)),
            ));
        }
        let Some(conditions) = &mut terminating.conditions else { return TerminationStep::Complete };
        if let Some(drained) = conditions.get(DRAINED)
            && drained.status == ConditionStatus::Unknown
            && now.duration_since(drained.last_transition_time.0).unsigned_abs() < LATE_POD_WAIT
        {
            return TerminationStep::Requeue(ReconcileAction::RequeueAfter(NODE_POLL_INTERVAL));
        }
        conditions.set_true(DRAINED, now);
        TerminationStep::Complete
    }
}

/// Returns the pods to evict now: all that must be deleted because of the deadline, and of the rest
/// the pods of the first tier that has any.
fn pods_to_evict<'p>(waiting: &'p [Arc<Pod>], terminating: &TerminatingNode) -> Vec<&'p Pod> {
    let (forced, others): (Vec<&Pod>, Vec<&Pod>) = waiting
        .iter()
        .map(Arc::as_ref)
        .partition(|pod| must_be_deleted_now(pod, terminating.deadline, terminating.now));
    let first = others.iter().map(|pod| tier(pod)).min();
    forced.into_iter().chain(others.into_iter().filter(|pod| Some(tier(pod)) == first)).collect()
}

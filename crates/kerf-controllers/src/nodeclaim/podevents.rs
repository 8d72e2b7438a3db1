//! `nodeclaim.podevents`: records on a claim when a pod was last bound to or removed from its node.
//! `consolidateAfter` counts from that time (spec 04 §6.4).

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_api::conditions::INITIALIZED;
use kerf_api::slim::{Node, Pod, Str};
use kerf_runtime::{MergePatch, OptimisticLock, PatchTarget, ReconcileAction};
use kerf_state::{ObjectChange, TrackedClaim};

use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted, api_result};
use kerf_operator::Reconcile;

/// Time after a recorded pod event in which no other is recorded.
const POD_EVENT_DEDUPE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct PodEvents {
    ctx: Context,
}

impl PodEvents {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }

    /// Returns the node whose claim must record the change of a pod, or `None` if the change is no
    /// pod event.
    pub(crate) fn node_to_update(&self, change: &ObjectChange<Pod>) -> Option<Str> {
        let pod = change.latest()?;
        let node = pod.spec.node_name.clone()?;
        if pod.is_owned_by_daemonset() {
            return None;
        }
        let is_pod_event = match (change.before.as_deref(), change.after.as_deref()) {
            (None, Some(pod)) => self.is_bound_after_last_event(pod, &node),
            // A pod that was terminating or terminal before has left its node already.
            (Some(before), None) => !before.is_terminating() && !before.is_terminal(),
            (Some(before), Some(after)) => {
                before.spec.node_name.is_none()
                    || (!before.is_terminal() && after.is_terminal())
                    || (!before.is_terminating() && after.is_terminating())
            }
            (None, None) => false,
        };
        is_pod_event.then_some(node)
    }

    /// Returns true if a new pod was bound after the recorded pod event. After a restart every pod
    /// is new, which is no pod event.
    fn is_bound_after_last_event(&self, pod: &Pod, node: &str) -> bool {
        let cluster = self.ctx.cluster.lock();
        let Some(node) = cluster.get::<Node>(node) else { return true };
        let Some(claim) = cluster.claims_of(&node.spec.provider_id).next() else { return true };
        let Some(status) = &claim.object.status else { return true };
        let initialized = status.conditions.iter().find(|c| c.condition_type == INITIALIZED);
        let last_event = status.last_pod_event_time.as_ref().map(|time| time.0).or_else(|| {
            initialized
                .filter(|c| c.status == kerf_api::conditions::ConditionStatus::True)
                .map(|c| c.last_transition_time.0)
        });
        let bound = pod.condition("PodScheduled").and_then(|condition| condition.last_transition_time);
        match (bound, last_event) {
            (Some(bound), Some(last_event)) => bound > last_event,
            (_, None) => true,
            (None, Some(_)) => false,
        }
    }
}

impl Reconcile for PodEvents {
    type Error = Error;

    async fn reconcile(&self, node: &Str) -> Result<ReconcileAction, Error> {
        let claim = {
            let cluster = self.ctx.cluster.lock();
            let Some(node) = cluster.get::<Node>(node) else { return Ok(ReconcileAction::Done) };
            let mut claims = cluster.claims_of(&node.spec.provider_id);
            let first = claims.next().cloned();
            first
                .filter(|claim: &std::sync::Arc<TrackedClaim>| claims.next().is_none() && self.ctx.manages_claim(claim))
        };
        let Some(claim) = claim else { return Ok(ReconcileAction::Done) };
        let now = self.ctx.now();
        let last_event = claim.object.status.as_ref().and_then(|status| status.last_pod_event_time.as_ref());
        let is_recent = last_event.is_some_and(|time| {
            Duration::try_from(now.duration_since(time.0)).unwrap_or_default() < POD_EVENT_DEDUPE_TIMEOUT
        });
        if is_recent {
            return Ok(ReconcileAction::Done);
        }
        let mut updated = claim.object.clone();
        updated.status.get_or_insert_default().last_pod_event_time = Some(Time(now));
        let patch = MergePatch { target: PatchTarget::Status, lock: OptimisticLock::None };
        let written = actions::claim::update(&self.ctx, patch, &claim.object, &updated).await;
        Interrupted::into_result(api_result("patching nodeclaim status", written).map(|_| ReconcileAction::Done))
    }
}

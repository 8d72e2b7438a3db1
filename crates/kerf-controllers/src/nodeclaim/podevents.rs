//! `nodeclaim.podevents`: records on a claim the time at which a pod was last bound to its node or
//! left it. `consolidateAfter` counts from this time (spec 04 §6.4).

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_api::slim::{Node, Pod, Str};
use kerf_runtime::{MergePatch, OptimisticLock, PatchTarget, ReconcileAction};
use kerf_state::{ObjectChange, TrackedClaim};

use crate::actions;
use crate::context::Context;
use crate::controllers::Reconcile;
use crate::error::{Error, Interrupted, api_result};

/// After a recorded pod event, further events are not recorded for this long.
const POD_EVENT_DEDUPE_TIMEOUT: Duration = Duration::from_secs(10);

/// The controller. Its keys are names of Nodes.
pub(crate) struct PodEvents {
    ctx: Context,
}

impl PodEvents {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }

    /// Returns the node whose claim must record a change of a pod. Returns `None` if the change is
    /// not a pod event.
    pub(crate) fn node_to_update(&self, change: &ObjectChange<Pod>) -> Option<Str> {
        let pod = change.latest()?;
        let node = pod.spec.node_name.clone()?;
        if pod.is_owned_by_daemonset() {
            return None;
        }
        let is_pod_event = match (change.before.as_deref(), change.after.as_deref()) {
            (None, Some(pod)) => self.is_bound_after_last_event(pod, &node),
            // A pod that was terminating or terminal caused its event at that time.
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

    /// Returns true if a pod that the watch shows for the first time was bound after the last
    /// recorded event. After a restart the watch shows every pod for the first time, which is not
    /// an event.
    fn is_bound_after_last_event(&self, pod: &Pod, node: &str) -> bool {
        let cluster = self.ctx.cluster.lock();
        let Some(node) = cluster.get::<Node>(node) else { return true };
        let Some(claim) = cluster.claims_of(&node.spec.provider_id).next() else { return true };
        let Some(status) = &claim.object.status else { return true };
        let initialized = status.conditions.iter().find(|c| c.condition_type == "Initialized");
        let recorded = status.last_pod_event_time.as_ref().map(|time| time.0).or_else(|| {
            initialized
                .filter(|c| c.status == kerf_api::conditions::ConditionStatus::True)
                .map(|c| c.last_transition_time.0)
        });
        let bound = pod.condition("PodScheduled").and_then(|condition| condition.last_transition_time);
        match (bound, recorded) {
            (Some(bound), Some(recorded)) => bound > recorded,
            (_, None) => true,
            (None, Some(_)) => false,
        }
    }
}

impl Reconcile for PodEvents {
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
        let recorded = claim.object.status.as_ref().and_then(|status| status.last_pod_event_time.as_ref());
        let is_recent = recorded.is_some_and(|time| {
            Duration::try_from(now.duration_since(time.0)).unwrap_or_default() < POD_EVENT_DEDUPE_TIMEOUT
        });
        if is_recent {
            return Ok(ReconcileAction::Done);
        }
        let mut updated = claim.object.clone();
        updated.status.get_or_insert_default().last_pod_event_time = Some(Time(now));
        let write = MergePatch { target: PatchTarget::Status, lock: OptimisticLock::None };
        let written = actions::claim::update(&self.ctx, write, &claim.object, &updated).await;
        Interrupted::into_result(api_result("patching nodeclaim status", written).map(|_| ReconcileAction::Done))
    }
}

//! Deployments: one ReplicaSet for each template that ever was, and the way from the old ones to the newest. One step at a time:
//! whatever a pass writes comes back as a change and wakes the next.

mod revision;
mod rollout;
mod status;

pub(crate) use revision::hash_of;

use std::sync::Arc;

use serde_json::json;

use super::control_plane::{ControlPlane, RunAgain};
use super::events::{EventComponent, EventType};
use super::kind::ControlPlaneKind;
use super::objects::{Workload, share};
use super::pods::{controller_reference, ignore_gone};
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("deployment-controller");
/// How many replicas the Deployment wanted when a ReplicaSet was last sized, and how many it allowed at most: by these a later size is
/// shared out in proportion.
const DESIRED_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/max-replicas";

/// A Deployment and its ReplicaSets.
pub(super) struct Rollout {
    key: ObjectKey,
    deployment: Arc<Workload>,
    /// The set of the current template, if there is one.
    new: Option<Arc<Workload>>,
    /// All others, oldest first.
    old: Vec<Arc<Workload>>,
}

impl Rollout {
    fn wanted(&self) -> i64 {
        self.deployment.replicas()
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Workload>> {
        self.old.iter().chain(&self.new)
    }

    /// How many more than wanted there may be, and how many fewer available: never both zero, or nothing could move.
    fn bounds(&self) -> (i64, i64) {
        if self.deployment.spec.strategy.kind == "Recreate" {
            return (0, 0);
        }
        let update = &self.deployment.spec.strategy.rolling_update;
        let surge = share(&update.max_surge, self.wanted(), true);
        let unavailable = share(&update.max_unavailable, self.wanted(), false);
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        (surge, unavailable.min(self.wanted()))
    }
}

/// Takes a Deployment one step on.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(deployment) = plane.world.deployments.get(key) else { return Ok(RunAgain::WhenChanged) };
    let sets = claim_sets(plane, &deployment)?;
    let rollout = revision::sort(key, deployment, sets);
    if rollout.deployment.metadata.is_deleting() {
        return status::report(plane, &rollout, None);
    }
    let paused = rollout.deployment.spec.paused;
    status::note_paused(plane, &rollout)?;
    if paused || rollout::is_resized(&rollout) {
        if revision::keep_annotations(plane, &rollout)? || rollout::resize(plane, &rollout)? {
            return Ok(RunAgain::WhenChanged);
        }
        if paused {
            revision::forget_old(plane, &rollout)?;
            return status::report(plane, &rollout, None);
        }
    }
    if let Some(created) = revision::ensure_new(plane, &rollout)? {
        return status::report(plane, &rollout, Some(created));
    }
    let moved = match rollout.deployment.spec.strategy.kind.as_str() {
        "Recreate" => rollout::recreate(plane, &rollout)?,
        _ => rollout::roll(plane, &rollout)?,
    };
    if !moved && status::is_complete(&rollout) {
        revision::forget_old(plane, &rollout)?;
    }
    status::report(plane, &rollout, None)
}

/// The ReplicaSets of a Deployment; loose ones that it selects are taken on.
fn claim_sets(plane: &ControlPlane, deployment: &Workload) -> ApiResult<Vec<Arc<Workload>>> {
    let meta = &deployment.metadata;
    let mut sets = plane.world.replica_sets.managed_by(&meta.uid);
    if meta.is_deleting() {
        return Ok(sets);
    }
    let selector = deployment.selector();
    for set in plane.world.replica_sets.loose_in(&meta.namespace) {
        let selected = selector.as_ref().is_some_and(|selector| selector.matches(set.metadata.labels.as_slice()));
        if selected && !set.metadata.is_deleting() {
            let patch = json!({
                "metadata": {"uid": set.metadata.uid, "ownerReferences": [controller_reference(ControlPlaneKind::Deployment, meta)]},
            });
            ignore_gone(plane.controllers.patch(ControlPlaneKind::ReplicaSet, &set.metadata.key(), &patch))?;
            sets.push(set);
        }
    }
    Ok(sets)
}

impl Rollout {
    /// Sets the size of a ReplicaSet and what is to be remembered with it. Returns whether anything had to be written.
    fn scale(&self, plane: &mut ControlPlane, set: &Workload, to: i64) -> ApiResult<bool> {
        let (surge, _) = self.bounds();
        let (desired, maximum) = (self.wanted().to_string(), (self.wanted() + surge).to_string());
        let from = set.replicas();
        let annotations = &set.metadata.annotations;
        let remembered = annotations.get(DESIRED_REPLICAS_ANNOTATION) == Some(desired.as_str())
            && annotations.get(MAX_REPLICAS_ANNOTATION) == Some(maximum.as_str());
        if from == to && remembered {
            return Ok(false);
        }
        let patch = json!({"spec": {"replicas": to}, "metadata": {"annotations": {DESIRED_REPLICAS_ANNOTATION: desired, MAX_REPLICAS_ANNOTATION: maximum}}});
        plane.controllers.patch(ControlPlaneKind::ReplicaSet, &set.metadata.key(), &patch)?;
        if from != to {
            let way = if to > from { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {} from {from} to {to}", set.metadata.name);
            let about = self.deployment.clone();
            plane.tell(
                EVENT_COMPONENT,
                (ControlPlaneKind::Deployment, &about.metadata),
                EventType::Normal,
                "ScalingReplicaSet",
                message,
            );
        }
        Ok(true)
    }
}

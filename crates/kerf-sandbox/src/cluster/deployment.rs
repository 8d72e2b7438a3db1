//! The Deployment controller: one ReplicaSet per pod template, and the rollout from old ReplicaSets
//! to the newest. Each pass makes one step. Its writes are changes that enqueue the next pass.

mod revision;
mod rollout;
mod status;

pub(crate) use revision::template_hash;

use std::sync::Arc;

use serde_json::json;

use super::control_plane::{ControlPlane, RunAgain};
use super::events::{EventComponent, EventType};
use super::kind::ControlPlaneKind;
use super::objects::{Workload, resolve_int_or_percent};
use super::pods::{controller_reference, ignore_not_found_or_conflict};
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("deployment-controller");
/// Annotations of a ReplicaSet: the Deployment's replicas, and replicas plus surge, at the last
/// scaling. Later scaling is proportional to them.
const DESIRED_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/max-replicas";

/// A Deployment and its ReplicaSets.
pub(super) struct Rollout {
    key: ObjectKey,
    deployment: Arc<Workload>,
    /// The ReplicaSet of the current template, if it exists.
    new: Option<Arc<Workload>>,
    /// All other ReplicaSets, oldest first.
    old: Vec<Arc<Workload>>,
}

impl Rollout {
    fn desired_replicas(&self) -> i64 {
        self.deployment.replicas()
    }

    fn all_sets(&self) -> impl Iterator<Item = &Arc<Workload>> {
        self.old.iter().chain(&self.new)
    }

    /// Returns the number of pods allowed above the desired number, and the number of pods that may
    /// be unavailable. They are never both zero during a rolling update, because it could not make
    /// progress.
    fn max_surge_and_unavailable(&self) -> (i64, i64) {
        if self.deployment.spec.strategy.kind == "Recreate" {
            return (0, 0);
        }
        let update = &self.deployment.spec.strategy.rolling_update;
        let surge = resolve_int_or_percent(&update.max_surge, self.desired_replicas(), true);
        let unavailable = resolve_int_or_percent(&update.max_unavailable, self.desired_replicas(), false);
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        (surge, unavailable.min(self.desired_replicas()))
    }
}

/// Advances a Deployment by one step.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(deployment) = plane.cache.deployments.get(key) else { return Ok(RunAgain::WhenChanged) };
    let sets = claim_sets(plane, &deployment)?;
    let rollout = revision::build_rollout(key, deployment, sets);
    if rollout.deployment.metadata.is_deleting() {
        return status::write_status(plane, &rollout, None);
    }
    let paused = rollout.deployment.spec.paused;
    status::write_paused_condition(plane, &rollout)?;
    if paused || rollout::is_scaling_event(&rollout) {
        if revision::sync_annotations(plane, &rollout)? || rollout::scale_sets(plane, &rollout)? {
            return Ok(RunAgain::WhenChanged);
        }
        if paused {
            revision::delete_old_replica_sets(plane, &rollout)?;
            return status::write_status(plane, &rollout, None);
        }
    }
    if let Some(created) = revision::ensure_new_replica_set(plane, &rollout)? {
        return status::write_status(plane, &rollout, Some(created));
    }
    let has_written = match rollout.deployment.spec.strategy.kind.as_str() {
        "Recreate" => rollout::recreate(plane, &rollout)?,
        _ => rollout::rolling_update_step(plane, &rollout)?,
    };
    if !has_written && status::is_complete(&rollout) {
        revision::delete_old_replica_sets(plane, &rollout)?;
    }
    status::write_status(plane, &rollout, None)
}

/// Returns the ReplicaSets of a Deployment. It adopts matching ReplicaSets that have no controller.
fn claim_sets(plane: &ControlPlane, deployment: &Workload) -> ApiResult<Vec<Arc<Workload>>> {
    let meta = &deployment.metadata;
    let mut sets = plane.cache.replica_sets.managed_by(&meta.uid);
    if meta.is_deleting() {
        return Ok(sets);
    }
    let selector = deployment.selector();
    for set in plane.cache.replica_sets.unmanaged_in(&meta.namespace) {
        let selected = selector.as_ref().is_some_and(|selector| selector.matches(set.metadata.labels.as_slice()));
        if selected && !set.metadata.is_deleting() {
            let patch = json!({
                "metadata": {"uid": set.metadata.uid, "ownerReferences": [controller_reference(ControlPlaneKind::Deployment, meta)]},
            });
            ignore_not_found_or_conflict(plane.controller_client.patch(
                ControlPlaneKind::ReplicaSet,
                &set.metadata.key(),
                &patch,
            ))?;
            sets.push(set);
        }
    }
    Ok(sets)
}

impl Rollout {
    /// Sets the size of a ReplicaSet and the annotations that record it. Returns true if a write
    /// was needed.
    fn scale(&self, plane: &mut ControlPlane, set: &Workload, to: i64) -> ApiResult<bool> {
        let (surge, _) = self.max_surge_and_unavailable();
        let (desired, maximum) = (self.desired_replicas().to_string(), (self.desired_replicas() + surge).to_string());
        let from = set.replicas();
        let annotations = &set.metadata.annotations;
        let is_recorded = annotations.get(DESIRED_REPLICAS_ANNOTATION) == Some(desired.as_str())
            && annotations.get(MAX_REPLICAS_ANNOTATION) == Some(maximum.as_str());
        if from == to && is_recorded {
            return Ok(false);
        }
        let patch = json!({"spec": {"replicas": to}, "metadata": {"annotations": {DESIRED_REPLICAS_ANNOTATION: desired, MAX_REPLICAS_ANNOTATION: maximum}}});
        plane.controller_client.patch(ControlPlaneKind::ReplicaSet, &set.metadata.key(), &patch)?;
        if from != to {
            let direction = if to > from { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {} from {from} to {to}", set.metadata.name);
            let deployment = self.deployment.clone();
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::Deployment, &deployment.metadata),
                EventType::Normal,
                "ScalingReplicaSet",
                message,
            );
        }
        Ok(true)
    }
}

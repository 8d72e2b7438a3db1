//! The StatefulSet controller: pods with stable names and volumes, created in order and replaced
//! from the last to the first.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::control_plane::{ControlPlane, RunAgain};
use super::events::{EventComponent, EventType};
use super::kind::ControlPlaneKind;
use super::objects::{Pod, Workload};
use super::pods::{available_at, controller_reference, count_ready, from_template, ignore_not_found_or_conflict};
use super::replicaset::status_differs;
use super::revisions::{self, REVISION_HASH};
use crate::api::object;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("statefulset-controller");

/// A StatefulSet, its pods and its revisions.
struct StatefulSetState<'a> {
    set: &'a Workload,
    /// Pods by ordinal.
    pods: BTreeMap<i64, Arc<Pod>>,
    /// Name of the current template's revision.
    update_revision: String,
    /// Name of the revision before the current rollout; equal to `update_revision` if there is
    /// none.
    current_revision: String,
}

/// Creates, replaces and deletes pods, one after another unless the policy is `Parallel`.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(set) = plane.cache.stateful_sets.get(key) else { return Ok(RunAgain::WhenChanged) };
    let pods = plane.claim_pods(ControlPlaneKind::StatefulSet, &set.metadata, set.selector().as_ref())?;
    if set.metadata.is_deleting() {
        return Ok(RunAgain::WhenChanged);
    }
    let update_revision = revisions::ensure_current(plane, ControlPlaneKind::StatefulSet, &set)?;
    let known = set.status.get("currentRevision").and_then(Value::as_str).unwrap_or_default();
    let current_revision = if known.is_empty() { update_revision.clone() } else { known.to_string() };
    let pods = pods.into_iter().filter_map(|pod| Some((ordinal(&set, &pod)?, pod))).collect();
    let state = StatefulSetState { set: &set, pods, update_revision, current_revision };
    manage_pods(plane, &state)?;
    let in_use: Vec<String> = state
        .pods
        .values()
        .map(|pod| revision_of(pod))
        .chain([state.update_revision.clone(), state.current_revision.clone()])
        .collect();
    revisions::delete_old_revisions(plane, &set, &in_use.iter().map(String::as_str).collect::<Vec<_>>())?;
    write_status(plane, key, &state)
}

/// Returns the ordinal in a pod's name, or `None` if the name does not belong to the set.
fn ordinal(set: &Workload, pod: &Pod) -> Option<i64> {
    pod.metadata.name.strip_prefix(set.metadata.name.as_str())?.strip_prefix('-')?.parse().ok()
}

fn revision_of(pod: &Pod) -> String {
    pod.metadata.labels.get(REVISION_HASH).unwrap_or_default().to_string()
}

impl StatefulSetState<'_> {
    fn desired_ordinals(&self) -> std::ops::Range<i64> {
        let start = self.set.spec.ordinals.start;
        start..start + self.set.replicas()
    }

    fn is_parallel(&self) -> bool {
        self.set.spec.pod_management_policy == "Parallel"
    }

    /// Returns the revision whose template a new pod with this ordinal gets.
    fn revision_for(&self, ordinal: i64) -> &str {
        let partition = self.set.spec.update_strategy.rolling_update.partition;
        let rolls = self.set.spec.update_strategy.kind != "OnDelete";
        if rolls && ordinal - self.set.spec.ordinals.start < partition {
            &self.current_revision
        } else {
            &self.update_revision
        }
    }
}

/// Makes one pass. Unless the policy is `Parallel`, it changes a pod only if all pods before it are
/// available.
fn manage_pods(plane: &mut ControlPlane, state: &StatefulSetState<'_>) -> ApiResult<()> {
    let (set, desired_ordinals) = (state.set, state.desired_ordinals());
    let is_available = |plane: &ControlPlane, pod: &Pod| {
        pod.is_active() && available_at(pod, set.spec.min_ready_seconds).is_some_and(|at| at <= plane.now())
    };
    for ordinal in desired_ordinals.clone() {
        match state.pods.get(&ordinal) {
            None => create(plane, state, ordinal)?,
            Some(pod) if pod.is_terminal() && !pod.metadata.is_deleting() => {
                let message = format!(
                    "StatefulSet {}/{} is recreating failed Pod {}",
                    set.metadata.namespace, set.metadata.name, pod.metadata.name
                );
                plane.publish_event(
                    EVENT_COMPONENT,
                    (ControlPlaneKind::StatefulSet, &set.metadata),
                    EventType::Warning,
                    "RecreatingFailedPod",
                    message,
                );
                plane.controller_client.delete(ControlPlaneKind::Pod, &pod.metadata.key(), &pod.metadata.uid)?;
            }
            Some(pod) if is_available(plane, pod) => continue,
            Some(_) => {}
        }
        if !state.is_parallel() {
            return Ok(());
        }
    }
    // Scale down, highest ordinal first.
    for (_, pod) in state.pods.iter().rev().filter(|(ordinal, _)| !desired_ordinals.contains(ordinal)) {
        if !pod.metadata.is_deleting() {
            delete(plane, set, pod)?;
        }
        if !state.is_parallel() {
            return Ok(());
        }
    }
    if set.spec.update_strategy.kind == "OnDelete" {
        return Ok(());
    }
    // Replace outdated pods from the highest ordinal down, each once all pods after it are
    // available.
    for ordinal in desired_ordinals.rev() {
        let Some(pod) = state.pods.get(&ordinal) else { return Ok(()) };
        if revision_of(pod) != state.revision_for(ordinal) {
            if !pod.metadata.is_deleting() {
                delete(plane, set, pod)?;
            }
            return Ok(());
        }
        if !is_available(plane, pod) {
            return Ok(());
        }
    }
    Ok(())
}

fn delete(plane: &mut ControlPlane, set: &Workload, pod: &Pod) -> ApiResult<()> {
    plane.controller_client.delete(ControlPlaneKind::Pod, &pod.metadata.key(), &pod.metadata.uid)?;
    let message = format!("delete Pod {} in StatefulSet {} successful", pod.metadata.name, set.metadata.name);
    plane.publish_event(
        EVENT_COMPONENT,
        (ControlPlaneKind::StatefulSet, &set.metadata),
        EventType::Normal,
        "SuccessfulDelete",
        message,
    );
    Ok(())
}

/// Creates the pod with an ordinal, after its claims.
fn create(plane: &mut ControlPlane, state: &StatefulSetState<'_>, ordinal: i64) -> ApiResult<()> {
    let set = state.set;
    let name = format!("{}-{ordinal}", set.metadata.name);
    let revision = state.revision_for(ordinal).to_string();
    let stored_revision =
        plane.cache.controller_revisions.get(&ObjectKey::new(Some(&set.metadata.namespace), &revision));
    let template =
        stored_revision.as_deref().map_or_else(|| set.spec.template.clone(), revisions::template_of_revision);
    let mut pod = from_template(&template, (ControlPlaneKind::StatefulSet, &set.metadata));
    object::remove(&mut pod, &["metadata", "generateName"]);
    object::set_meta(&mut pod, "name", name.as_str());
    let labels = object::ensure_object(&mut pod, &["metadata", "labels"]);
    labels.insert("statefulset.kubernetes.io/pod-name".into(), name.as_str().into());
    labels.insert("apps.kubernetes.io/pod-index".into(), ordinal.to_string().into());
    labels.insert(REVISION_HASH.into(), revision.as_str().into());
    let spec = object::ensure_object(&mut pod, &["spec"]);
    spec.insert("hostname".into(), name.as_str().into());
    if !set.spec.service_name.is_empty() {
        spec.insert("subdomain".into(), set.spec.service_name.as_str().into());
    }
    for claim in &set.spec.volume_claim_templates {
        let volume = object::name(claim).to_string();
        let claim_name = format!("{volume}-{name}");
        create_claim(plane, set, claim, &claim_name)?;
        let volumes = object::ensure_object(&mut pod, &["spec"]).entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.retain(|known| object::text(known, &["name"]) != volume);
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim_name}}));
        }
    }
    match plane.controller_client.create(ControlPlaneKind::Pod, &set.metadata.namespace, &pod) {
        Ok(_) => {
            let message = format!("create Pod {name} in StatefulSet {} successful", set.metadata.name);
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::StatefulSet, &set.metadata),
                EventType::Normal,
                "SuccessfulCreate",
                message,
            );
            Ok(())
        }
        Err(error) => {
            let message =
                format!("create Pod {name} in StatefulSet {} failed error: {}", set.metadata.name, error.message());
            plane.publish_event(
                EVENT_COMPONENT,
                (ControlPlaneKind::StatefulSet, &set.metadata),
                EventType::Warning,
                "FailedCreate",
                message,
            );
            Err(error)
        }
    }
}

/// Creates a pod's claim, unless it exists from an earlier pod of the same name.
fn create_claim(plane: &ControlPlane, set: &Workload, template: &Value, name: &str) -> ApiResult<()> {
    if plane.cache.volume_claims.get(&ObjectKey::new(Some(&set.metadata.namespace), name)).is_some() {
        return Ok(());
    }
    let mut claim = json!({"metadata": {"name": name}, "spec": template.get("spec")});
    for field in ["labels", "annotations"] {
        if let Some(value) = object::at(template, &["metadata", field]) {
            object::set_meta(&mut claim, field, value.clone());
        }
    }
    let selector = set.spec.selector.as_ref().and_then(|selector| object::at(selector, &["matchLabels"]));
    for (key, value) in selector.and_then(Value::as_object).into_iter().flatten() {
        object::ensure_object(&mut claim, &["metadata", "labels"]).insert(key.clone(), value.clone());
    }
    if set.spec.persistent_volume_claim_retention_policy.when_deleted == "Delete" {
        object::set_meta(
            &mut claim,
            "ownerReferences",
            json!([controller_reference(ControlPlaneKind::StatefulSet, &set.metadata)]),
        );
    }
    match plane.controller_client.create(ControlPlaneKind::PersistentVolumeClaim, &set.metadata.namespace, &claim) {
        Err(error) if error.code() != 409 => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn write_status(plane: &ControlPlane, key: &ObjectKey, state: &StatefulSetState<'_>) -> ApiResult<RunAgain> {
    let set = state.set;
    let pods: Vec<Arc<Pod>> = state.pods.values().filter(|pod| !pod.is_terminal()).cloned().collect();
    let (ready, available, next) = count_ready(&pods, set.spec.min_ready_seconds, plane.now());
    let count_of_revision =
        |revision: &str| pods.iter().filter(|pod| pod.is_active() && revision_of(pod) == revision).count() as i64;
    let updated = count_of_revision(&state.update_revision);
    let is_complete = updated == set.replicas() && ready == set.replicas() && pods.len() as i64 == set.replicas();
    let current_revision = if is_complete { &state.update_revision } else { &state.current_revision };
    let status = json!({
        "observedGeneration": set.metadata.generation, "replicas": pods.len(), "readyReplicas": ready,
        "availableReplicas": available, "currentReplicas": count_of_revision(current_revision), "updatedReplicas": updated,
        "currentRevision": current_revision, "updateRevision": state.update_revision, "collisionCount": set.status_count("collisionCount"),
    });
    if status_differs(&set.status, &status) {
        ignore_not_found_or_conflict(plane.controller_client.merge_patch_status(
            ControlPlaneKind::StatefulSet,
            key,
            &status,
        ))?;
    }
    Ok(next.map_or(RunAgain::WhenChanged, RunAgain::After))
}

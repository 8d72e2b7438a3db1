//! The ReplicaSet of each pod template, and the revision numbers that `kubectl rollout` shows.

use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use rustc_hash::FxHasher;
use serde_json::{Map, Value, json};

use super::{DESIRED_REPLICAS_ANNOTATION, EVENT_COMPONENT, MAX_REPLICAS_ANNOTATION, Rollout, rollout};
use crate::api::object;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;
use crate::cluster::control_plane::ControlPlane;
use crate::cluster::events::EventType;
use crate::cluster::kind::ControlPlaneKind;
use crate::cluster::objects::Workload;
use crate::cluster::pods::{controller_reference, ignore_not_found_or_conflict};

pub(super) const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
const REVISION_ANNOTATION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY_ANNOTATION: &str = "deployment.kubernetes.io/revision-history";
/// Annotations of a Deployment that are not copied to its ReplicaSets.
const UNCOPIED_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION_ANNOTATION,
    REVISION_HISTORY_ANNOTATION,
    DESIRED_REPLICAS_ANNOTATION,
    MAX_REPLICAS_ANNOTATION,
    "deprecated.deployment.rollback.to",
];

/// Sorts the ReplicaSets of a Deployment by age, and finds the one of the current template.
pub(super) fn build_rollout(key: &ObjectKey, deployment: Arc<Workload>, mut sets: Vec<Arc<Workload>>) -> Rollout {
    sets.sort_by_key(|set| (set.metadata.creation_timestamp, set.metadata.name.clone()));
    let current = without_hash(&deployment.spec.template);
    let position = sets.iter().position(|set| without_hash(&set.spec.template) == current);
    let new = position.map(|position| sets.remove(position));
    Rollout { key: key.clone(), deployment, new, old: sets }
}

/// Returns a template without the label that holds its hash.
fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    object::remove(&mut template, &["metadata", "labels", TEMPLATE_HASH_LABEL]);
    template
}

fn revision_of(set: &Workload) -> i64 {
    set.metadata.annotations.get(REVISION_ANNOTATION).and_then(|revision| revision.parse().ok()).unwrap_or_default()
}

/// Returns the annotations of a ReplicaSet that have to change, or `None` if all are up to date.
fn annotation_changes(rollout: &Rollout, set: Option<&Workload>) -> Option<Map<String, Value>> {
    let newest_revision = rollout.old.iter().map(|old| revision_of(old)).max().unwrap_or_default() + 1;
    let own_revision = set.map(revision_of).unwrap_or_default();
    let mut changes = Map::new();
    for (key, value) in rollout.deployment.metadata.annotations.as_slice() {
        if !UNCOPIED_ANNOTATIONS.contains(&key.as_str()) {
            changes.insert(key.to_string(), value.as_str().into());
        }
    }
    if own_revision < newest_revision {
        changes.insert(REVISION_ANNOTATION.into(), newest_revision.to_string().into());
        if let Some(set) = set.filter(|_| own_revision > 0) {
            // The ReplicaSet was the newest before: record its former revision.
            let history = set
                .metadata
                .annotations
                .get(REVISION_HISTORY_ANNOTATION)
                .map(|history| format!("{history},{own_revision}"));
            changes
                .insert(REVISION_HISTORY_ANNOTATION.into(), history.unwrap_or_else(|| own_revision.to_string()).into());
        }
    }
    let current = |key: &str| set.and_then(|set| set.metadata.annotations.get(key));
    changes.retain(|key, value| current(key) != value.as_str());
    (!changes.is_empty()).then_some(changes)
}

/// Updates the annotations of the new ReplicaSet and the revision of the Deployment. Returns true
/// if a write was needed.
pub(super) fn sync_annotations(plane: &ControlPlane, rollout: &Rollout) -> ApiResult<bool> {
    let Some(new) = &rollout.new else { return Ok(false) };
    if let Some(changes) = annotation_changes(rollout, Some(new)) {
        let patch = json!({"metadata": {"annotations": changes}});
        plane.controller_client.patch(ControlPlaneKind::ReplicaSet, &new.metadata.key(), &patch)?;
        return Ok(true);
    }
    if new.spec.min_ready_seconds != rollout.deployment.spec.min_ready_seconds {
        let patch = json!({"spec": {"minReadySeconds": rollout.deployment.spec.min_ready_seconds}});
        plane.controller_client.patch(ControlPlaneKind::ReplicaSet, &new.metadata.key(), &patch)?;
        return Ok(true);
    }
    let revision = revision_of(new).to_string();
    if rollout.deployment.metadata.annotations.get(REVISION_ANNOTATION) != Some(revision.as_str()) {
        let patch = json!({"metadata": {"annotations": {REVISION_ANNOTATION: revision}}});
        plane.controller_client.patch(ControlPlaneKind::Deployment, &rollout.key, &patch)?;
        return Ok(true);
    }
    Ok(false)
}

/// Creates the ReplicaSet of the current template if it does not exist. Returns its name if it was
/// created.
pub(super) fn ensure_new_replica_set(plane: &mut ControlPlane, rollout: &Rollout) -> ApiResult<Option<String>> {
    if rollout.new.is_some() {
        sync_annotations(plane, rollout)?;
        return Ok(None);
    }
    if rollout.deployment.spec.strategy.kind == "Recreate" && rollout::has_running_old_pods(plane, rollout) {
        return Ok(None);
    }
    let meta = &rollout.deployment.metadata;
    let collisions = rollout.deployment.status_count("collisionCount");
    let hash = template_hash(&rollout.deployment.spec.template, collisions);
    let name = format!("{}-{hash}", meta.name);
    let mut template = rollout.deployment.spec.template.clone();
    object::ensure_object(&mut template, &["metadata", "labels"])
        .insert(TEMPLATE_HASH_LABEL.into(), hash.as_str().into());
    let mut selector = rollout.deployment.spec.selector.clone().unwrap_or_default();
    object::ensure_object(&mut selector, &["matchLabels"]).insert(TEMPLATE_HASH_LABEL.into(), hash.as_str().into());
    let (surge, _) = rollout.max_surge_and_unavailable();
    let size = rollout::new_set_size(rollout, 0);
    let mut annotations = annotation_changes(rollout, None).unwrap_or_default();
    annotations.insert(DESIRED_REPLICAS_ANNOTATION.into(), rollout.desired_replicas().to_string().into());
    annotations.insert(MAX_REPLICAS_ANNOTATION.into(), (rollout.desired_replicas() + surge).to_string().into());
    let set = json!({
        "metadata": {
            "name": name, "labels": object::at(&template, &["metadata", "labels"]), "annotations": annotations,
            "ownerReferences": [controller_reference(ControlPlaneKind::Deployment, meta)],
        },
        "spec": {
            "replicas": size, "minReadySeconds": rollout.deployment.spec.min_ready_seconds, "selector": selector, "template": template,
        },
    });
    match plane.controller_client.create(ControlPlaneKind::ReplicaSet, &meta.namespace, &set) {
        Ok(_) => {}
        Err(error) if error.code() == 409 => {
            // Hash collision with another template: change the hash by incrementing the collision
            // count, and retry.
            let status = json!({"collisionCount": collisions + 1});
            plane.controller_client.patch_status(ControlPlaneKind::Deployment, &rollout.key, &status)?;
            return Err(error);
        }
        Err(error) => return Err(error),
    }
    if size > 0 {
        let message = format!("Scaled up replica set {name} from 0 to {size}");
        plane.publish_event(
            EVENT_COMPONENT,
            (ControlPlaneKind::Deployment, meta),
            EventType::Normal,
            "ScalingReplicaSet",
            message,
        );
    }
    Ok(Some(name))
}

/// Deletes the oldest ReplicaSets without pods, until `revisionHistoryLimit` of them are left.
pub(super) fn delete_old_replica_sets(plane: &ControlPlane, rollout: &Rollout) -> ApiResult<()> {
    let Some(limit) = rollout.deployment.spec.revision_history_limit else { return Ok(()) };
    let mut candidates: Vec<_> = rollout.old.iter().filter(|set| !set.metadata.is_deleting()).collect();
    let excess = candidates.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    candidates.sort_by_key(|set| (revision_of(set), set.metadata.name.clone()));
    for set in candidates.into_iter().take(excess) {
        if set.replicas() == 0 && set.status_count("replicas") == 0 {
            ignore_not_found_or_conflict(plane.controller_client.delete(
                ControlPlaneKind::ReplicaSet,
                &set.metadata.key(),
                &set.metadata.uid,
            ))?;
        }
    }
    Ok(())
}

/// Returns a hash of a template: ten characters of the alphabet of generated names.
pub(crate) fn template_hash(template: &Value, collisions: i64) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hasher = FxHasher::default();
    without_hash(template).to_string().hash(&mut hasher);
    collisions.hash(&mut hasher);
    let mut hash = hasher.finish();
    (0..10)
        .map(|_| {
            let letter = LETTERS[(hash % 27) as usize];
            hash /= 27;
            char::from(letter)
        })
        .collect()
}

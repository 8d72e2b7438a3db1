//! ControllerRevisions: the pod templates of a StatefulSet or DaemonSet. `kubectl rollout` reads
//! them for its history and for undo. Their names tell pods of different templates apart.

use std::sync::Arc;

use serde_json::{Value, json};

use super::control_plane::ControlPlane;
use super::deployment::template_hash;
use super::kind::ControlPlaneKind;
use super::objects::{ControllerRevision, Workload};
use super::pods::{controller_reference, ignore_not_found_or_conflict};
use crate::api::status::ApiResult;

/// Label of a pod that names its revision.
pub(crate) const REVISION_HASH: &str = "controller-revision-hash";

/// Returns the name of the current template's revision. Creates the revision if it is new. A
/// template that was current before gets a new, highest number.
pub(crate) fn ensure_current(plane: &ControlPlane, kind: ControlPlaneKind, owner: &Workload) -> ApiResult<String> {
    let template = json!({"spec": {"template": as_revision_data(&owner.spec.template)}});
    let revisions = sorted(plane, owner);
    let newest = revisions.last().map_or(0, |revision| revision.revision);
    if let Some(existing) = revisions.iter().rev().find(|revision| revision.data == template) {
        if existing.revision < newest {
            let patch = json!({"revision": newest + 1});
            ignore_not_found_or_conflict(plane.controller_client.patch(
                ControlPlaneKind::ControllerRevision,
                &existing.metadata.key(),
                &patch,
            ))?;
        }
        return Ok(existing.metadata.name.to_string());
    }
    let hash = template_hash(&owner.spec.template, owner.status_count("collisionCount"));
    let name = format!("{}-{hash}", owner.metadata.name);
    let mut labels = owner.spec.template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    labels[REVISION_HASH] = hash.into();
    let revision = json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": [controller_reference(kind, &owner.metadata)]},
        "data": template, "revision": newest + 1,
    });
    match plane.controller_client.create(ControlPlaneKind::ControllerRevision, &owner.metadata.namespace, &revision) {
        Err(error) if error.code() != 409 => Err(error),
        Ok(_) | Err(_) => Ok(name),
    }
}

/// Returns the form in which a revision stores a template, which `kubectl rollout undo` sends as a
/// patch.
fn as_revision_data(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(template) = template.as_object_mut() {
        template.insert("$patch".into(), "replace".into());
    }
    template
}

/// Returns the template that a revision stores.
pub(crate) fn template_of_revision(revision: &ControllerRevision) -> Value {
    let mut template = revision.data.pointer("/spec/template").cloned().unwrap_or_default();
    if let Some(template) = template.as_object_mut() {
        template.remove("$patch");
    }
    template
}

/// Returns the revisions of a workload, oldest first.
fn sorted(plane: &ControlPlane, owner: &Workload) -> Vec<Arc<ControllerRevision>> {
    let mut revisions = plane.cache.controller_revisions.managed_by(&owner.metadata.uid);
    revisions.sort_by_key(|revision| (revision.revision, revision.metadata.name.clone()));
    revisions
}

/// Deletes the oldest revisions that no pod uses, until `revisionHistoryLimit` of them are left.
pub(crate) fn delete_old_revisions(plane: &ControlPlane, owner: &Workload, in_use: &[&str]) -> ApiResult<()> {
    let limit = usize::try_from(owner.spec.revision_history_limit.unwrap_or(10)).unwrap_or_default();
    let unused: Vec<Arc<ControllerRevision>> = sorted(plane, owner)
        .into_iter()
        .filter(|revision| !in_use.contains(&revision.metadata.name.as_str()))
        .collect();
    for revision in unused.iter().take(unused.len().saturating_sub(limit)) {
        let key = revision.metadata.key();
        ignore_not_found_or_conflict(plane.controller_client.delete(
            ControlPlaneKind::ControllerRevision,
            &key,
            &revision.metadata.uid,
        ))?;
    }
    Ok(())
}

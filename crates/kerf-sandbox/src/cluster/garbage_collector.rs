//! The garbage collector, for owners and dependents of any kind. It deletes objects whose owners no
//! longer exist. An object deleted in the foreground waits for its dependents. An object deleted
//! with orphaning first loses its dependents' owner references.
//!
//! Invariant: the graph holds the owner references of every stored object that has any. The
//! collector reads from the store whether an owner still exists, and never caches that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use smol_str::SmolStr;

use super::component_client::Propagation;
use super::control_plane::{ControlPlane, RunAgain};
use super::kind::{collection_path, escape_path_segment};
use super::objects::{AnyObject, Meta, OwnerReference};
use super::pods::ignore_not_found_or_conflict;
use super::{ObjectRef, WorkItem};
use crate::api::registry::Resource;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
const ORPHAN_FINALIZER: &str = "orphan";

/// Owner references of all stored objects, in both directions.
#[derive(Debug, Default)]
pub(crate) struct OwnerGraph {
    owners: BTreeMap<ObjectRef, Vec<OwnerReference>>,
    dependents: BTreeMap<SmolStr, BTreeSet<ObjectRef>>,
}

impl OwnerGraph {
    /// Records the current owners of an object. Returns true if they have changed.
    fn set_owners(&mut self, object: &ObjectRef, owners: &[OwnerReference]) -> bool {
        if self.owners.get(object).map_or(owners.is_empty(), |known| known == owners) {
            return false;
        }
        for owner in self.owners.remove(object).unwrap_or_default() {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(object);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        for owner in owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(object.clone());
        }
        if !owners.is_empty() {
            self.owners.insert(object.clone(), owners.to_vec());
        }
        true
    }

    fn dependents_of(&self, uid: &str) -> Vec<ObjectRef> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Returns true if an object blocks the foreground deletion of an owner.
    fn blocks_owner_deletion(&self, object: &ObjectRef, owner: &str) -> bool {
        self.owners.get(object).into_iter().flatten().any(|known| known.uid == owner && known.block_owner_deletion)
    }
}

impl ControlPlane {
    /// Updates the graph after a change, and enqueues the objects that the garbage collector has to
    /// check.
    pub(super) fn ownership_changed(&mut self, object: ObjectRef, before: Option<&Meta>, now: Option<&Meta>) {
        let changed = self.owner_graph.set_owners(&object, now.map_or(&[], |meta| meta.owner_references.as_slice()));
        match now {
            Some(meta) => {
                let is_waiting = meta.is_deleting()
                    && meta.finalizers.iter().any(|name| name == FOREGROUND_FINALIZER || name == ORPHAN_FINALIZER);
                if is_waiting || (changed && !meta.owner_references.is_empty()) {
                    self.queue.add(WorkItem::Garbage(object));
                }
            }
            None => {
                let Some(before) = before else { return };
                for dependent in self.owner_graph.dependents_of(&before.uid) {
                    self.queue.add(WorkItem::Garbage(dependent));
                }
                // An owner may wait for the deletion of this object.
                for owner in &before.owner_references {
                    if let Some((owner, meta)) = self.find_owner(owner, &before.namespace)
                        && meta.is_deleting()
                    {
                        self.queue.add(WorkItem::Garbage(owner));
                    }
                }
            }
        }
    }

    /// Returns the metadata of any stored object.
    fn stored_meta(&self, object: &ObjectRef) -> Option<Meta> {
        let stored = self.server.inner.storage.get(object.table, &object.key)?;
        serde_json::from_slice::<AnyObject>(stored.bytes()).ok().map(|object| object.metadata)
    }

    /// Returns the resource that an owner reference names.
    fn owner_resource(&self, owner: &OwnerReference) -> Option<Arc<Resource>> {
        let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
        let registry = self.server.inner.registry();
        registry.resources_in(group, version).find(|resource| resource.kind == owner.kind).cloned()
    }

    /// Returns the owner with the uid of a reference, or `None` if it does not exist.
    fn find_owner(&self, owner: &OwnerReference, namespace: &str) -> Option<(ObjectRef, Meta)> {
        let resource = self.owner_resource(owner)?;
        let namespace = resource.namespaced.then_some(namespace).filter(|namespace| !namespace.is_empty());
        let object = ObjectRef { table: resource.table, key: ObjectKey::new(namespace, &owner.name) };
        let meta = self.stored_meta(&object).filter(|meta| meta.uid == owner.uid)?;
        Some((object, meta))
    }

    /// Returns the path of any object.
    fn path_of(&self, object: &ObjectRef) -> Option<String> {
        let resource = self.resource(object.table)?;
        let (namespace, name) = object.key.parts();
        let path = collection_path(&resource.group, &resource.version, &resource.plural, namespace);
        Some(format!("{path}/{}", escape_path_segment(name)))
    }
}

/// Deletes or updates an object whose owners have changed, and processes an object that waits for
/// its dependents.
pub(crate) fn sync(plane: &mut ControlPlane, object: &ObjectRef) -> ApiResult<RunAgain> {
    let (Some(meta), Some(path)) = (plane.stored_meta(object), plane.path_of(object)) else {
        return Ok(RunAgain::WhenChanged);
    };
    if meta.is_deleting() {
        if meta.finalizers.iter().any(|finalizer| finalizer == ORPHAN_FINALIZER) {
            orphan_dependents(plane, &meta, &path)?;
        } else if meta.finalizers.iter().any(|finalizer| finalizer == FOREGROUND_FINALIZER) {
            delete_dependents(plane, &meta, &path)?;
        }
        return Ok(RunAgain::WhenChanged);
    }
    let (mut existing, mut waiting, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for owner in &meta.owner_references {
        match plane.find_owner(owner, &meta.namespace) {
            // The owner's kind is not served here, so the owner may exist elsewhere.
            None if plane.owner_resource(owner).is_none() => existing.push(owner),
            None => missing.push(owner),
            Some((_, owner_meta))
                if owner_meta.is_deleting()
                    && owner.block_owner_deletion
                    && owner_meta.finalizers.iter().any(|finalizer| finalizer == FOREGROUND_FINALIZER) =>
            {
                waiting.push(owner);
            }
            Some(_) => existing.push(owner),
        }
    }
    if existing.is_empty() && !(waiting.is_empty() && missing.is_empty()) {
        let has_dependents = !plane.owner_graph.dependents_of(&meta.uid).is_empty();
        let policy =
            if !waiting.is_empty() && has_dependents { Propagation::Foreground } else { Propagation::Background };
        plane.controller_client.delete_with_propagation(&path, &meta.uid, policy)?;
    } else if !(waiting.is_empty() && missing.is_empty()) {
        let remaining = owner_references_json(existing.into_iter());
        let patch = json!({"metadata": {"uid": meta.uid, "ownerReferences": remaining}});
        ignore_not_found_or_conflict(plane.controller_client.merge_patch(&path, &patch))?;
    }
    Ok(RunAgain::WhenChanged)
}

/// Returns owner references as JSON, or null if there are none.
fn owner_references_json<'a>(owners: impl Iterator<Item = &'a OwnerReference>) -> Value {
    let references: Vec<Value> = owners
        .map(|owner| {
            json!({
                "apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid,
                "controller": owner.controller, "blockOwnerDeletion": owner.block_owner_deletion,
            })
        })
        .collect();
    if references.is_empty() { Value::Null } else { references.into() }
}

/// Removes the owner from all its dependents, then removes the owner's finalizer.
fn orphan_dependents(plane: &mut ControlPlane, meta: &Meta, path: &str) -> ApiResult<()> {
    for dependent in plane.owner_graph.dependents_of(&meta.uid) {
        let (Some(dependent_meta), Some(dependent_path)) = (plane.stored_meta(&dependent), plane.path_of(&dependent))
        else {
            continue;
        };
        let remaining =
            owner_references_json(dependent_meta.owner_references.iter().filter(|owner| owner.uid != meta.uid));
        let patch = json!({"metadata": {"uid": dependent_meta.uid, "ownerReferences": remaining}});
        ignore_not_found_or_conflict(plane.controller_client.merge_patch(&dependent_path, &patch))?;
    }
    remove_finalizer(plane, meta, path, ORPHAN_FINALIZER)
}

/// Enqueues the dependents of an object for deletion. Removes the object's finalizer once no
/// dependent blocks it.
fn delete_dependents(plane: &mut ControlPlane, meta: &Meta, path: &str) -> ApiResult<()> {
    let dependents = plane.owner_graph.dependents_of(&meta.uid);
    for dependent in &dependents {
        plane.queue.add(WorkItem::Garbage(dependent.clone()));
    }
    if dependents.iter().any(|dependent| plane.owner_graph.blocks_owner_deletion(dependent, &meta.uid)) {
        return Ok(());
    }
    remove_finalizer(plane, meta, path, FOREGROUND_FINALIZER)
}

fn remove_finalizer(plane: &ControlPlane, meta: &Meta, path: &str, finalizer: &str) -> ApiResult<()> {
    let patch = json!({
        "metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": meta.finalizers_without(finalizer),
        },
    });
    match plane.controller_client.merge_patch(path, &patch) {
        Err(error) if error.code() == 404 => Ok(()),
        outcome => outcome.map(drop),
    }
}

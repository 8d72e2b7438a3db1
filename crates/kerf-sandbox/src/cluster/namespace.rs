//! The namespace controller: creates the default objects of each namespace, and deletes the
//! contents of a namespace that is being deleted.

use std::collections::BTreeMap;

use serde_json::json;

use super::control_plane::{ControlPlane, RunAgain};
use super::kind::{ControlPlaneKind, collection_path};
use super::objects::Namespace;
use crate::api::selector::Selection;
use crate::api::status::ApiResult;
use crate::api::storage::{ObjectKey, PageQuery};

const FINALIZER: &str = "kubernetes";

/// Creates the default objects of a namespace, or deletes its contents if it is being deleted.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(namespace) = plane.cache.namespaces.get(key) else { return Ok(RunAgain::WhenChanged) };
    if namespace.metadata.is_deleting() {
        delete_contents(plane, key, &namespace)?;
    } else {
        create_namespace_defaults(plane, key.name())?;
    }
    Ok(RunAgain::WhenChanged)
}

/// Creates the `ServiceAccount` `default` and the `ConfigMap` `kube-root-ca.crt`.
fn create_namespace_defaults(plane: &ControlPlane, namespace: &str) -> ApiResult<()> {
    let account = json!({"metadata": {"name": "default"}});
    let certificate = json!({
        "metadata": {
            "name": "kube-root-ca.crt",
            "annotations": {"kubernetes.io/description": "Contains the CA bundle with which clients in this namespace verify the API server."},
        },
        "data": {"ca.crt": ""},
    });
    for (kind, object) in [(ControlPlaneKind::ServiceAccount, account), (ControlPlaneKind::ConfigMap, certificate)] {
        match plane.controller_client.create(kind, namespace, &object) {
            Err(error) if error.code() != 409 => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Deletes all objects in a namespace. Removes the namespace's own finalizer once no object is
/// left.
fn delete_contents(plane: &ControlPlane, key: &ObjectKey, namespace: &Namespace) -> ApiResult<()> {
    let name = key.name();
    let registry = plane.server.inner.registry();
    let mut tables = BTreeMap::new();
    for resource in registry.all().filter(|resource| resource.namespaced) {
        tables.entry(resource.table).or_insert_with(|| resource.clone());
    }
    let everything = Selection::default();
    let query =
        PageQuery { namespace: Some(name), selection: &everything, from: None, at_revision: None, limit: Some(1) };
    let has_objects = |table| plane.server.inner.storage.page(table, query).is_ok_and(|page| !page.objects.is_empty());
    let mut is_occupied = false;
    for (table, resource) in &tables {
        if has_objects(*table) {
            let path = collection_path(&resource.group, &resource.version, &resource.plural, name);
            plane.controller_client.delete_collection(&path)?;
            is_occupied |= has_objects(*table);
        }
    }
    if is_occupied || !namespace.spec.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return Ok(());
    }
    let others: Vec<_> = namespace.spec.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
    let body =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": others}});
    plane.controller_client.replace(&format!("{}/finalize", ControlPlaneKind::Namespace.path(key)), &body).map(drop)
}

//! Creation, update and deletion of CRDs. Custom resources are served as soon as their CRD is
//! stored. The deletion of a CRD deletes its objects, and the CRD stays until the last object is
//! deleted.

use serde_json::Value;

use super::crd::resources;
use crate::api::call::{Call, parse_stored};
use crate::api::delete::{DeleteOptions, delete_object};
use crate::api::object;
use crate::api::registry::{Resource, ResourceOrigin};
use crate::api::selector::Selection;
use crate::api::storage::{ObjectKey, PageQuery};
use crate::api::subresources::update_directly;

/// Keeps a CRD until all its objects are deleted.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Updates the served resources after a CRD was created or changed.
pub(crate) fn on_crd_changed(call: &Call<'_>, crd: &Value) {
    let (group, plural) = (object::text(crd, &["spec", "group"]), object::text(crd, &["spec", "names", "plural"]));
    let table = call.server.custom_table(group, plural);
    let revision = call.server.storage.revision();
    call.server.change_registry(|registry| {
        registry.remove(group, plural);
        for resource in resources(crd, table, revision) {
            registry.insert(resource);
        }
    });
    if object::is_deleting(crd) {
        delete_objects(call, group, plural);
        finish_crd_deletion(call, object::name(crd));
    }
}

/// Stops serving the resources of a deleted CRD.
pub(crate) fn on_crd_deleted(call: &Call<'_>, crd: &Value) {
    let (group, plural) = (object::text(crd, &["spec", "group"]), object::text(crd, &["spec", "names", "plural"]));
    call.server.change_registry(|registry| registry.remove(group, plural));
    call.server.close_custom_table(group, plural);
}

/// Completes the deletion of a CRD if this was its last object.
pub(crate) fn on_custom_object_deleted(call: &Call<'_>) {
    let ResourceOrigin::Custom(kind) = &call.resource.origin else { return };
    let is_crd_terminating = call.server.registry().find(&call.resource.group, &call.resource.plural).is_some_and(
        |resource| match &resource.origin {
            ResourceOrigin::Custom(kind) => kind.is_crd_terminating,
            ResourceOrigin::BuiltIn(_) => false,
        },
    );
    if is_crd_terminating {
        finish_crd_deletion(call, &kind.crd_name);
    }
}

fn delete_objects(call: &Call<'_>, group: &str, plural: &str) {
    let registry = call.server.registry();
    let Some(resource) = registry.find(group, plural) else { return };
    let select_all = Selection::default();
    let query = PageQuery { namespace: None, selection: &select_all, from: None, at_revision: None, limit: None };
    let Ok(page) = call.server.storage.page(resource.table, query) else { return };
    for stored in page.objects {
        let Ok(object) = parse_stored(&stored) else { continue };
        let inner = call_for_object(call, resource, &object);
        // Objects with finalizers stay, and so does the CRD.
        let _ = delete_object(&inner, &inner.key(), inner.name(), &DeleteOptions::default());
    }
}

/// Returns the call of the same client for an object of another resource.
fn call_for_object<'a>(call: &Call<'a>, resource: &std::sync::Arc<Resource>, object: &Value) -> Call<'a> {
    let namespace = object::namespace(object);
    call.for_object(resource.clone(), (!namespace.is_empty()).then_some(namespace), object::name(object))
}

/// Removes a CRD that is being deleted if it has no objects left.
pub(crate) fn finish_crd_deletion(call: &Call<'_>, name: &str) {
    let registry = call.server.registry();
    let Some(crds) = registry.find("apiextensions.k8s.io", "customresourcedefinitions").cloned() else { return };
    let key = ObjectKey::new(None, name);
    let Some(crd) = call.server.storage.get(crds.table, &key).and_then(|stored| parse_stored(&stored).ok()) else {
        return;
    };
    let (group, plural) = (object::text(&crd, &["spec", "group"]), object::text(&crd, &["spec", "names", "plural"]));
    let remaining = registry.find(group, plural).map_or(0, |resource| call.server.storage.count(resource.table));
    if remaining > 0 || !object::is_deleting(&crd) {
        return;
    }
    let updated = update_directly(call, &crds, &key, name, |crd| {
        let remaining: Vec<Value> =
            object::finalizers(crd).iter().filter(|finalizer| *finalizer != CLEANUP_FINALIZER).cloned().collect();
        if remaining.is_empty() {
            object::remove(crd, &["metadata", "finalizers"]);
        } else {
            object::set_meta(crd, "finalizers", remaining);
        }
        Ok(())
    });
    let Ok(crd) = updated else { return };
    if !object::finalizers(&crd).is_empty() {
        return;
    }
    if let Some(stored) = call.server.storage.get(crds.table, &key)
        && call.server.storage.delete(crds.table, &key, stored.revision).is_ok()
    {
        on_crd_deleted(call, &crd);
    }
}

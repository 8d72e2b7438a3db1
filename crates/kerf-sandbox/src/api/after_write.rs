//! Effects of a write beyond the object itself. Namespaces terminate in two steps, CRDs change what
//! the server serves, and Events expire after an hour.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::call::Call;
use super::custom;
use super::object;
use super::server::ServerState;
use super::status::{ApiResult, StatusError};
use super::storage::ObjectKey;

/// The time after its last write at which an Event is deleted.
const EVENT_TTL: Duration = Duration::from_hours(1);
/// Namespaces that cannot be deleted.
const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Returns an error if the object must not be deleted.
pub(crate) fn check_may_delete(call: &Call<'_>, object: &Value) -> ApiResult<()> {
    let name = object::name(object);
    if call.resource.is("", "namespaces") && IMMORTAL_NAMESPACES.contains(&name) {
        return Err(StatusError::forbidden(
            call.resource.group_resource(),
            name,
            "this namespace may not be deleted",
            Vec::new(),
        ));
    }
    Ok(())
}

/// Marks an object whose content must be deleted first (namespaces, CRDs) as terminating. Returns
/// whether it stays until then, or `None` for all other kinds.
pub(crate) fn mark_held_for_cleanup(call: &Call<'_>, object: &mut Value) -> Option<bool> {
    if call.resource.is("", "namespaces") {
        let is_held = !object::list(object, &["spec", "finalizers"]).is_empty();
        if is_held {
            object::ensure_object(object, &["status"]).insert("phase".into(), "Terminating".into());
        }
        return Some(is_held);
    }
    if is_crd(call) {
        // The objects of the CRD are deleted first.
        if !object::finalizers(object).iter().any(|finalizer| finalizer == custom::CLEANUP_FINALIZER) {
            let mut finalizers = object::finalizers(object).to_vec();
            finalizers.push(custom::CLEANUP_FINALIZER.into());
            object::set_meta(object, "finalizers", finalizers);
        }
        return Some(true);
    }
    None
}

fn is_crd(call: &Call<'_>) -> bool {
    call.resource.is("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Returns true if an object is being deleted and nothing keeps it: no finalizers and no grace
/// period.
pub(crate) fn can_be_removed(call: &Call<'_>, object: &Value) -> bool {
    let grace = object::number(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
    let is_held = call.resource.is("", "namespaces") && !object::list(object, &["spec", "finalizers"]).is_empty();
    object::is_deleting(object) && object::finalizers(object).is_empty() && grace == 0 && !is_held
}

/// Handles the effects of a create.
pub(crate) fn on_created(call: &Call<'_>, object: &Value) {
    if call.resource.plural == "events" {
        call.server.delete_expired_events();
        schedule_event_expiry(call, object);
    }
    if is_crd(call) {
        custom::on_crd_changed(call, object);
    }
}

/// Handles the effects of an update.
pub(crate) fn on_updated(call: &Call<'_>, object: &Value) {
    if call.resource.plural == "events" {
        // An Event that is updated lives for another TTL.
        schedule_event_expiry(call, object);
    }
    if is_crd(call) {
        custom::on_crd_changed(call, object);
    }
}

/// Handles the effects of a deletion.
pub(crate) fn on_deleted(call: &Call<'_>, object: &Value) {
    if is_crd(call) {
        custom::on_crd_deleted(call, object);
    }
    if call.resource.is_custom() {
        custom::on_custom_object_deleted(call);
    }
}

fn schedule_event_expiry(call: &Call<'_>, event: &Value) {
    let namespace = object::namespace(event);
    let key = ObjectKey::new((!namespace.is_empty()).then_some(namespace), object::name(event));
    call.server.push_event_expiry(call.resource.table, key, call.now());
}

impl ServerState {
    /// Records the time at which an Event was last written.
    fn push_event_expiry(&self, table: super::storage::TableIx, key: ObjectKey, now: Timestamp) {
        let Some(stored) = self.storage.get(table, &key) else { return };
        self.event_expiries().push_back(super::server::EventExpiry {
            table,
            key,
            revision: stored.revision,
            written_at: now,
        });
    }

    /// Deletes Events that have not been written for an hour. It runs when an Event is created, so
    /// that an idle cluster writes nothing.
    fn delete_expired_events(&self) {
        let now = self.clock.now();
        loop {
            let expired = {
                let mut events = self.event_expiries();
                match events.front() {
                    Some(event) if now.duration_since(event.written_at).unsigned_abs() >= EVENT_TTL => {
                        events.pop_front()
                    }
                    _ => return,
                }
            };
            // An Event that was written later has another revision and a later entry in the queue.
            if let Some(event) = expired {
                let _ = self.storage.delete(event.table, &event.key, event.revision);
            }
        }
    }
}

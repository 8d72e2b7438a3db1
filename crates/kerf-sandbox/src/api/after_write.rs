//! What follows from a write, for the few kinds where something does: namespaces empty themselves before they go, definitions of
//! custom resources change what the server serves, events are forgotten after an hour.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::call::Call;
use super::custom;
use super::object;
use super::server::ServerState;
use super::status::{ApiResult, StatusError};
use super::storage::ObjectKey;

/// How long an event is kept.
const EVENT_TTL: Duration = Duration::from_hours(1);
/// Namespaces that are always there.
const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Whether an object may be deleted at all.
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

/// For kinds that others must empty first: whether the object stays until that is done. Notes on the object that it is going.
pub(crate) fn mark_held_for_cleanup(call: &Call<'_>, object: &mut Value) -> Option<bool> {
    if call.resource.is("", "namespaces") {
        let held = !object::list(object, &["spec", "finalizers"]).is_empty();
        if held {
            object::ensure_object(object, &["status"]).insert("phase".into(), "Terminating".into());
        }
        return Some(held);
    }
    if is_crd(call) {
        // The objects go first.
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

/// Whether an object that is being deleted has nothing left that holds it.
pub(crate) fn can_be_removed(call: &Call<'_>, object: &Value) -> bool {
    let grace = object::number(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
    let held = call.resource.is("", "namespaces") && !object::list(object, &["spec", "finalizers"]).is_empty();
    object::is_deleting(object) && object::finalizers(object).is_empty() && grace == 0 && !held
}

/// An object was created.
pub(crate) fn on_created(call: &Call<'_>, object: &Value) {
    if call.resource.plural == "events" {
        call.server.delete_expired_events();
        schedule_event_expiry(call, object);
    }
    if is_crd(call) {
        custom::on_crd_changed(call, object);
    }
}

/// An object was changed.
pub(crate) fn on_updated(call: &Call<'_>, object: &Value) {
    if call.resource.plural == "events" {
        // An event that is seen again lives on.
        schedule_event_expiry(call, object);
    }
    if is_crd(call) {
        custom::on_crd_changed(call, object);
    }
}

/// An object is gone.
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
    /// Notes when an event was last written.
    fn push_event_expiry(&self, table: super::storage::TableIx, key: ObjectKey, now: Timestamp) {
        let Some(stored) = self.storage.get(table, &key) else { return };
        self.event_expiries().push_back(super::server::EventExpiry {
            table,
            key,
            revision: stored.revision,
            written_at: now,
        });
    }

    /// Takes away events that nobody has written for an hour. Done when new ones come, so that a quiet cluster stays quiet.
    fn delete_expired_events(&self) {
        let now = self.clock.now();
        loop {
            let old = {
                let mut events = self.event_expiries();
                match events.front() {
                    Some(event) if now.duration_since(event.written_at).unsigned_abs() >= EVENT_TTL => {
                        events.pop_front()
                    }
                    _ => return,
                }
            };
            // One that was written since is no longer at that revision, and stands further back in the queue.
            if let Some(event) = old {
                let _ = self.storage.delete(event.table, &event.key, event.revision);
            }
        }
    }
}

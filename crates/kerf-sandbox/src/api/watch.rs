//! Watches: streams of the changes of a collection. A watcher is a position in the table's history
//! and keeps no events, so ten thousand watchers cost little and a slow one costs nothing. A
//! watcher that falls behind the history gets 410 and has to list again.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Response;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::call::{Call, to_served_bytes};
use super::field::{self, FieldError};
use super::read::{invalid_version_error, parse_version, partial_object_metadata, selection};
use super::registry::Resource;
use super::respond::{Body, JSON, ResponseForm, respond};
use super::route::InjectedFaults;
use super::selector::Selection;
use super::server::ServerState;
use super::status::{ApiResult, StatusError};
use super::storage::{PageQuery, StorageEvent, StoredObject, TableChanges};
use super::table;

/// The interval at which a watcher without events gets a bookmark.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// The minimum duration of a watch without `timeoutSeconds`. The real server uses between one and
/// two times this duration.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_mins(30);
/// The size from which on a chunk takes no further event. A watcher that reads nothing holds one
/// chunk.
pub(super) const CHUNK_BYTES: usize = 16 * 1024;

/// Handles `GET` with `?watch=true`.
pub(crate) fn watch(call: &Call<'_>, injected_faults: InjectedFaults) -> ApiResult<Response<Body>> {
    let mut selection = selection(call)?;
    if let Some(name) = &call.target.name {
        // A watch of one object is a watch of the collection, selected by name.
        selection.fields = super::selector::FieldSelector::named(name);
    }
    let start = start(call)?;
    let server = call.server.clone();
    let table = call.resource.table;
    let (initial, last_revision) = match start {
        WatchStart::Initial { .. } => {
            let query = PageQuery {
                namespace: call.namespace(),
                selection: &selection,
                from: None,
                at_revision: None,
                limit: None,
            };
            let page = server
                .storage
                .page(table, query)
                .map_err(|_| StatusError::internal("the present is never compacted"))?;
            (page.objects, page.revision)
        }
        WatchStart::After(revision) => (Vec::new(), revision),
        WatchStart::Now => (Vec::new(), server.storage.revision()),
    };
    let seconds = call.query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
    let duration =
        seconds.map_or_else(|| server.watch_duration(MIN_WATCH_TIMEOUT), |seconds| Duration::from_secs(seconds as u64));
    let duration = injected_faults.drop_watch_after.map_or(duration, |max_duration| duration.min(max_duration));
    let notify = server.storage.table_change_notify(table);
    let now = Instant::now();
    let watcher = Watcher {
        selection,
        namespace: call.target.namespace.clone(),
        form: call.form,
        resource: call.resource.clone(),
        change_notify: notify,
        last_revision,
        initial: initial.into_iter(),
        sends_end_bookmark: matches!(start, WatchStart::Initial { sends_end_bookmark: true }),
        bookmark_at: call.query.flag("allowWatchBookmarks").then(|| now + BOOKMARK_INTERVAL),
        // A duration too long for a timer becomes a month.
        ends_at: now.checked_add(duration).unwrap_or(now + Duration::from_hours(24 * 30)),
        silent_from: injected_faults.silence_watch_after.and_then(|after| now.checked_add(after)),
        injected_faults,
        has_sent_columns: false,
        has_ended: false,
        server,
    };
    let stream =
        futures::stream::unfold(
            watcher,
            |mut watcher| async move { watcher.next().await.map(|chunk| (chunk, watcher)) },
        );
    Ok(respond(200, JSON, Body::stream(stream), &[]))
}

enum WatchStart {
    /// With the current objects as `ADDED` events, and optionally a bookmark after them.
    Initial { sends_end_bookmark: bool },
    /// With the changes after a revision.
    After(u64),
    /// With the next change.
    Now,
}

fn start(call: &Call<'_>) -> ApiResult<WatchStart> {
    let version = call.query.text("resourceVersion");
    let match_rule = call.query.text("resourceVersionMatch");
    let reject = |error: FieldError| Err(StatusError::invalid("meta.k8s.io", "ListOptions", "", &[error]));
    let revision =
        if version.is_empty() { 0 } else { parse_version(version).map_err(|_| invalid_version_error(version))? };
    if !call.query.has("sendInitialEvents") {
        if !match_rule.is_empty() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            return reject(field::forbidden("resourceVersionMatch", detail));
        }
        return Ok(if revision == 0 {
            WatchStart::Initial { sends_end_bookmark: false }
        } else {
            WatchStart::After(revision)
        });
    }
    if match_rule != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return reject(field::forbidden("resourceVersionMatch", detail));
    }
    let current = call.server.storage.revision();
    if revision > current {
        return Err(StatusError::version_too_large(revision, current));
    }
    match (call.query.flag("sendInitialEvents"), revision) {
        (true, _) => Ok(WatchStart::Initial { sends_end_bookmark: call.query.flag("allowWatchBookmarks") }),
        (false, 0) => Ok(WatchStart::Now),
        (false, revision) => Ok(WatchStart::After(revision)),
    }
}

struct Watcher {
    server: Arc<ServerState>,
    resource: Arc<Resource>,
    selection: Selection,
    namespace: Option<String>,
    form: ResponseForm,
    change_notify: Arc<Notify>,
    /// The last revision that was sent or skipped.
    last_revision: u64,
    initial: std::vec::IntoIter<Arc<StoredObject>>,
    sends_end_bookmark: bool,
    bookmark_at: Option<Instant>,
    ends_at: Instant,
    /// Time from which nothing is delivered any more and the stream does not end; `None`: no fault.
    silent_from: Option<Instant>,
    injected_faults: InjectedFaults,
    /// Tables contain their columns in the first event only.
    has_sent_columns: bool,
    has_ended: bool,
}

impl Watcher {
    /// Returns the next chunk of the stream, or `None` at its end. Never returns once the watch has
    /// fallen silent.
    async fn next(&mut self) -> Option<Bytes> {
        let Some(silent_from) = self.silent_from else { return self.next_chunk().await };
        if Instant::now() < silent_from
            && let Ok(chunk) = tokio::time::timeout_at(silent_from, self.next_chunk()).await
        {
            return chunk;
        }
        std::future::pending().await
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if self.injected_faults.expire_watch {
            self.has_ended = true;
            return Some(expired(self.last_revision, self.server.storage.revision()));
        }
        if let Some(chunk) = self.initial_chunk() {
            return Some(chunk);
        }
        loop {
            let notify = self.change_notify.clone();
            let mut notified = std::pin::pin!(notify.notified());
            // Register before reading the changes, so that no change between is missed.
            notified.as_mut().enable();
            match self.server.storage.changes_after(self.resource.table, self.last_revision) {
                Err(compacted) => {
                    self.has_ended = true;
                    return Some(expired(self.last_revision, compacted.oldest));
                }
                Ok(TableChanges::Closed) => return None,
                Ok(TableChanges::Events(events)) => {
                    if let Some(delay) = self.injected_faults.watch_delay {
                        tokio::time::sleep(delay).await;
                    }
                    if let Some(chunk) = self.encode_events(&events) {
                        return Some(chunk);
                    }
                    if Instant::now() >= self.ends_at {
                        return None;
                    }
                }
                Ok(TableChanges::Nothing { revision }) => {
                    // The table has no events up to this revision, so a bookmark may report it.
                    self.last_revision = revision;
                    let wake_at = self.bookmark_at.map_or(self.ends_at, |at| at.min(self.ends_at));
                    tokio::select! {
                        biased;
                        () = notified => {}
                        () = tokio::time::sleep_until(wake_at) => {
                            if wake_at == self.ends_at {
                                return None;
                            }
                            self.bookmark_at = Some(wake_at + BOOKMARK_INTERVAL);
                            return Some(self.bookmark(false));
                        }
                    }
                }
            }
        }
    }

    /// Returns a chunk of the initial state, with the bookmark after the last one.
    fn initial_chunk(&mut self) -> Option<Bytes> {
        let mut chunk = BytesMut::new();
        while chunk.len() < CHUNK_BYTES
            && let Some(stored) = self.initial.next()
        {
            self.write(&mut chunk, "ADDED", stored.bytes().clone());
        }
        if self.initial.len() == 0 && std::mem::take(&mut self.sends_end_bookmark) {
            chunk.extend_from_slice(&self.bookmark(true));
        }
        (!chunk.is_empty()).then(|| chunk.freeze())
    }

    /// Returns the first events for this watcher, or `None` if it has none. The rest is read again
    /// for the next chunk.
    fn encode_events(&mut self, events: &[Arc<StorageEvent>]) -> Option<Bytes> {
        let mut chunk = BytesMut::new();
        for event in events {
            if chunk.len() >= CHUNK_BYTES {
                break;
            }
            self.last_revision = event.revision;
            if let Some((kind, object)) = self.event_for_watcher(event) {
                self.write(&mut chunk, kind, object);
            }
        }
        (!chunk.is_empty()).then(|| chunk.freeze())
    }

    /// Returns the event for this watcher. An object that becomes selected is `ADDED`, one that is
    /// no longer selected is `DELETED`, whatever the change was.
    fn event_for_watcher(&self, event: &StorageEvent) -> Option<(&'static str, Bytes)> {
        if self.namespace.as_ref().is_some_and(|namespace| !event.key.is_in(namespace)) {
            return None;
        }
        let selects = |stored: &Arc<StoredObject>| self.selection.matches(&event.key, &stored.attributes);
        let before = event.before.as_ref().filter(|stored| selects(stored));
        let now = event.now.as_ref().filter(|stored| selects(stored));
        match (before, now) {
            (None, None) => None,
            (None, Some(now)) => Some(("ADDED", now.bytes().clone())),
            (Some(_), Some(now)) => Some(("MODIFIED", now.bytes().clone())),
            (Some(before), None) => Some(("DELETED", before.bytes_as_of(event.revision))),
        }
    }

    fn write(&mut self, chunk: &mut BytesMut, kind: &str, object: Bytes) {
        chunk.extend_from_slice(b"{\"type\":\"");
        chunk.extend_from_slice(kind.as_bytes());
        chunk.extend_from_slice(b"\",\"object\":");
        match self.form {
            ResponseForm::FullObject => chunk.extend_from_slice(&to_served_bytes(&self.resource, object)),
            ResponseForm::Metadata => chunk.extend_from_slice(partial_object_metadata(&object).to_string().as_bytes()),
            ResponseForm::Table => {
                let columns = !std::mem::replace(&mut self.has_sent_columns, true);
                let row = table::of_event(&self.resource, &object, self.server.clock.now(), columns);
                chunk.extend_from_slice(row.to_string().as_bytes());
            }
        }
        chunk.extend_from_slice(b"}\n");
    }

    fn bookmark(&self, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.last_revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            ResponseForm::FullObject => {
                json!({"kind": self.resource.kind.as_str(), "apiVersion": self.resource.api_version(), "metadata": metadata})
            }
            ResponseForm::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            ResponseForm::Table => json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": self.last_revision.to_string()},
                "columnDefinitions": null,
                "rows": [{"cells": null, "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}}],
            }),
        };
        line("BOOKMARK", &object)
    }
}

fn expired(requested: u64, oldest: u64) -> Bytes {
    line("ERROR", &StatusError::expired(format!("too old resource version: {requested} ({oldest})")).to_value())
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": kind, "object": object})).into()
}

//! Client of components in this process. It reads changes directly from the store and writes
//! through the server's handlers, without sockets, HTTP clients or copies. A scheduler that pays
//! for an HTTP round trip for each of 10,000 pods spends its time there; this way it pays for the
//! handler alone.
//!
//! Invariants: the next [`ChangeFeed::take_changes`] returns every write that has completed, of any
//! component (read your writes). Changes of one resource are complete and ordered. After a
//! compaction, objects that were deleted meanwhile are reported as deleted. Injected faults do not
//! affect this client; they apply to HTTP requests only.

use std::collections::BTreeSet;
use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::{Method, StatusCode};
use kerf_runtime::Clock;
use serde_json::Value;
use tokio::sync::Notify;

use super::component_client::ComponentClient;
use crate::api::{ApiServer, ObjectKey, PageQuery, Selection, ServerState, TableChanges, TableIx};

/// Client of one component: requests and change feeds.
#[derive(Clone, Debug)]
pub(crate) struct InProcessClient {
    server: ApiServer,
    client: ComponentClient,
}

/// A write that the API server rejected, with the status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server answered {0}")]
pub(crate) struct WriteRejected(pub(crate) StatusCode);

impl InProcessClient {
    /// Returns a client whose writes carry `agent` in managed fields and audit.
    pub(crate) fn new(server: &ApiServer, agent: &'static str) -> Self {
        Self { server: server.clone(), client: ComponentClient::new(server.clone(), agent) }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.server.clock()
    }

    /// Returns the changes of a built-in resource. The first call of [`ChangeFeed::take_changes`]
    /// returns all existing objects.
    pub(crate) fn feed(&self, group: &str, plural: &str) -> ChangeFeed {
        let inner = self.server.inner.clone();
        let registry = inner.registry();
        let table = registry.find(group, plural).map(|resource| resource.table);
        let change_notify = table.map(|table| inner.storage.table_change_notify(table)).unwrap_or_default();
        ChangeFeed { inner, table, last_revision: None, change_notify, known: BTreeSet::new() }
    }

    /// Creates an object, or calls a subresource such as `binding`.
    pub(crate) fn create(&self, path: &str, object: &Value) -> Result<(), WriteRejected> {
        self.request(Method::POST, path, "application/json", object)
    }

    /// Changes fields of an object by a JSON merge patch.
    pub(crate) fn merge_patch(&self, path: &str, patch: &Value) -> Result<(), WriteRejected> {
        self.request(Method::PATCH, path, "application/merge-patch+json", patch)
    }

    /// Changes fields of an object by a strategic merge patch, which merges lists such as
    /// conditions by key.
    pub(crate) fn strategic_merge_patch(&self, path: &str, patch: &Value) -> Result<(), WriteRejected> {
        self.request(Method::PATCH, path, "application/strategic-merge-patch+json", patch)
    }

    /// Deletes an object with these `DeleteOptions`.
    pub(crate) fn delete(&self, path: &str, options: &Value) -> Result<(), WriteRejected> {
        self.request(Method::DELETE, path, "application/json", options)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: &Value,
    ) -> Result<(), WriteRejected> {
        let result = self.client.send(method, path, content_type, body);
        // Every error of the server has a valid status code; any other code would be an error of
        // the server.
        result.map(drop).map_err(|error| {
            WriteRejected(StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        })
    }
}

/// One change of one object, not decoded.
#[derive(Clone, Debug)]
pub(crate) struct RawChange {
    pub(crate) key: ObjectKey,
    /// The current object; `None` if it was deleted.
    pub(crate) object: Option<Bytes>,
}

/// Ordered changes of one resource, read directly from the store.
pub(crate) struct ChangeFeed {
    inner: Arc<ServerState>,
    /// `None` if the server does not serve the resource.
    table: Option<TableIx>,
    /// Last revision whose changes were returned; `None` before the first list.
    last_revision: Option<u64>,
    change_notify: Arc<Notify>,
    /// Objects that were returned as existing. A relist compares with them to report deletions.
    known: BTreeSet<ObjectKey>,
}

impl ChangeFeed {
    /// Returns the changes since the last call. The first call returns all existing objects.
    pub(crate) fn take_changes(&mut self) -> Vec<RawChange> {
        let Some(table) = self.table else { return Vec::new() };
        let mut changes = Vec::new();
        let Some(mut last_revision) = self.last_revision else { return self.relist(table) };
        loop {
            match self.inner.storage.changes_after(table, last_revision) {
                Ok(TableChanges::Events(events)) => {
                    for event in events {
                        last_revision = event.revision;
                        let object = event.now.as_ref().map(|stored| stored.bytes().clone());
                        match object {
                            Some(_) => self.known.insert(event.key.clone()),
                            None => self.known.remove(&event.key),
                        };
                        changes.push(RawChange { key: event.key.clone(), object });
                    }
                }
                Ok(TableChanges::Nothing { revision }) => {
                    self.last_revision = Some(revision);
                    return changes;
                }
                Ok(TableChanges::Closed) => return changes,
                // The history after `last_revision` was compacted: list again.
                Err(_) => {
                    changes.extend(self.relist(table));
                    return changes;
                }
            }
        }
    }

    fn relist(&mut self, table: TableIx) -> Vec<RawChange> {
        let all = Selection::default();
        let query = PageQuery { namespace: None, selection: &all, from: None, at_revision: None, limit: None };
        // A list at the current revision never fails with a compaction error.
        let Ok(page) = self.inner.storage.page(table, query) else { return Vec::new() };
        self.last_revision = Some(page.revision);
        let mut changes = Vec::with_capacity(page.objects.len());
        let mut present = BTreeSet::new();
        for stored in &page.objects {
            let key = key_of(stored.bytes());
            present.insert(key.clone());
            changes.push(RawChange { key, object: Some(stored.bytes().clone()) });
        }
        let removed = self.known.difference(&present).map(|key| RawChange { key: key.clone(), object: None });
        changes.extend(removed);
        self.known = present;
        changes
    }

    fn has_changes(&self) -> bool {
        let (Some(table), Some(last_revision)) = (self.table, self.last_revision) else { return self.table.is_some() };
        !matches!(
            self.inner.storage.changes_after(table, last_revision),
            Ok(TableChanges::Nothing { .. } | TableChanges::Closed)
        )
    }
}

/// Waits until one of the feeds has changes.
pub(crate) async fn wait_for_changes(feeds: &[&ChangeFeed]) {
    let notifies: Vec<Arc<Notify>> = feeds.iter().map(|feed| feed.change_notify.clone()).collect();
    let mut futures: Vec<_> = notifies.iter().map(|notify| Box::pin(notify.notified())).collect();
    // Register before checking for changes, so that a change in between is not missed.
    for future in &mut futures {
        future.as_mut().enable();
    }
    if feeds.iter().any(|feed| feed.has_changes()) {
        return;
    }
    poll_fn(|context| {
        if futures.iter_mut().any(|future| future.as_mut().poll(context).is_ready()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Returns the key of a stored object, read from its metadata.
fn key_of(object: &[u8]) -> ObjectKey {
    #[derive(serde::Deserialize)]
    struct StoredHeader<'a> {
        #[serde(borrow)]
        metadata: StoredHeaderMeta<'a>,
    }
    #[derive(serde::Deserialize)]
    struct StoredHeaderMeta<'a> {
        #[serde(borrow)]
        name: std::borrow::Cow<'a, str>,
        #[serde(borrow, default)]
        namespace: Option<std::borrow::Cow<'a, str>>,
    }
    // Every stored object has metadata with a name.
    serde_json::from_slice(object).map_or_else(
        |_| ObjectKey::new(None, ""),
        |header: StoredHeader<'_>| ObjectKey::new(header.metadata.namespace.as_deref(), &header.metadata.name),
    )
}

//! List and watch of one kind. Objects are decoded once, into a type that the caller chooses, and
//! delivered in order.
//!
//! The caller receives three kinds of update ([`WatchUpdate`]): the whole list (at the start, and
//! whenever the watch history is lost), an applied object, a deleted object. This module handles
//! everything else. After 410 Gone it lists again. It resumes a watch that breaks, ends or becomes
//! silent from the last version. Errors back off with seeded jitter. A kind that the API server
//! does not serve is listed again until it is installed.
//!
//! Invariants: every wait for the server has a time limit. A list is delivered as a whole or not at
//! all. An object that cannot be decoded is
//! logged and skipped, and does not affect other objects.

mod requests;

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::watch as signal;
use tokio::time::Instant;
use tracing::{debug, error, info};

use crate::backoff::Backoff;
use crate::rng::Rng;
use requests::{DecodedWatchEvent, ListFailure, WatchFailure};

/// Time limit of one page of a list.
const LIST_PAGE_TIMEOUT: Duration = Duration::from_mins(1);
/// Time limit of opening a watch, up to the head of the response.
const WATCH_OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest silence of a watch on which a bookmark has arrived. API servers send bookmarks about
/// once per minute, so a longer silence means that the connection is dead.
const SILENCE_AFTER_BOOKMARK_MAX: Duration = Duration::from_mins(2);
/// A watch that lasted this long without expiring ends a series of expired watches.
const WATCH_HEALTHY_AFTER: Duration = Duration::from_secs(10);

/// API names of a watched kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedKind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version, such as `v1`.
    pub version: &'static str,
    /// Plural resource name in URL paths, such as `pods`.
    pub plural: &'static str,
    /// Kind name for log messages, such as `Pod`.
    pub name: &'static str,
}

impl WatchedKind {
    /// Returns the names of a type of `k8s_openapi`.
    pub const fn of<K: k8s_openapi::Resource>() -> Self {
        Self { group: K::GROUP, version: K::VERSION, plural: K::URL_PATH_SEGMENT, name: K::KIND }
    }
}

/// Update that a watch delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchUpdate<T> {
    /// All objects that exist now. Objects that are missing from the list were deleted.
    Reset(Vec<T>),
    /// Object that was created or changed.
    Applied(T),
    /// Last state of an object that was deleted.
    Deleted(T),
}

/// Current state of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchPhase {
    /// The first list has not been received yet.
    Starting,
    /// The API server does not serve the kind. The watch lists again about once per second.
    NotInstalled,
    /// The API server forbids the list, with this message. The watch lists again with back-off.
    Forbidden(String),
    /// The list was delivered and changes are being watched.
    Watching,
    /// The last list failed with this error and will be retried. Earlier updates remain the best
    /// known state.
    Failing(String),
}

/// State of a watch as callers observe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchProgress {
    /// Current state of the watch.
    pub phase: WatchPhase,
    /// True if a list has been delivered since the start.
    pub is_synced: bool,
    /// Resource version of the last update. All changes of this kind up to this version have been
    /// delivered.
    pub version: u64,
    /// The time since which neither a list nor a watch has succeeded; `None` while a watch is open,
    /// or if the last list succeeded. A server that answers that the kind is not installed or
    /// forbidden counts as success: it answers, and another attempt would not help.
    pub unanswered_since: Option<Instant>,
    /// The time at which the last successful list was requested. `None` before the first.
    pub listed_at: Option<Instant>,
    /// The time at which a list, an event or a bookmark last arrived. `None` before the first.
    pub delivered_at: Option<Instant>,
}

impl WatchProgress {
    /// Returns true if a list was delivered, or the server has answered that the kind is not
    /// installed or forbidden.
    pub fn is_answered(&self) -> bool {
        match &self.phase {
            WatchPhase::NotInstalled | WatchPhase::Forbidden(_) => true,
            WatchPhase::Starting | WatchPhase::Watching | WatchPhase::Failing(_) => self.is_synced,
        }
    }

    /// Returns true if the last list was requested at `since` or later, or if there is nothing to
    /// list.
    fn is_listed_since(&self, since: Instant) -> bool {
        let has_nothing = matches!(&self.phase, WatchPhase::NotInstalled | WatchPhase::Forbidden(_));
        has_nothing || self.listed_at.is_some_and(|at| at >= since)
    }

    /// Returns the time for which neither a list nor a watch has succeeded. Zero while a watch is
    /// open.
    pub fn unanswered_for(&self) -> Duration {
        self.unanswered_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Kind, page size and delays of a watch.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// Kind to watch.
    pub kind: WatchedKind,
    /// Number of objects in one page of a list.
    pub page_size: u32,
    /// Delays after failures.
    pub backoff: Backoff,
    /// Shortest time after which a watch is reopened; the longest is twice as long.
    pub lifetime: Duration,
    /// Seed of the random jitter.
    pub seed: u64,
    /// Command that installs the kind, for the log line about a kind that is not installed; `None`
    /// if there is none.
    pub install_command: Option<&'static str>,
}

impl WatchSettings {
    /// Returns client-go's settings: pages of 500 objects, watches of 5 to 10 minutes, back-off
    /// from 0.8 to 30 seconds.
    pub const fn new(kind: WatchedKind, seed: u64) -> Self {
        let backoff = Backoff { base: Duration::from_millis(800), max: Duration::from_secs(30) };
        Self { kind, page_size: 500, backoff, lifetime: Duration::from_mins(5), seed, install_command: None }
    }
}

/// Handle to observe the state of a running watch. Clones observe the same watch.
#[derive(Clone, Debug)]
pub struct WatchHandle {
    kind: WatchedKind,
    progress: signal::Receiver<WatchProgress>,
    /// Lists that were requested before this time are repeated.
    list_again: Arc<signal::Sender<Option<Instant>>>,
}

impl WatchHandle {
    /// Returns the watched kind.
    pub fn kind(&self) -> WatchedKind {
        self.kind
    }

    /// Returns the current state.
    pub fn progress(&self) -> WatchProgress {
        self.progress.borrow().clone()
    }

    /// Resolves once the first list has been delivered. Never resolves if the watch is dropped
    /// before.
    pub async fn wait_until_synced(&mut self) {
        self.wait_until(|progress| progress.is_synced).await;
    }

    /// Resolves once the first list has been delivered, or the server has answered that the kind is
    /// not installed or forbidden. Never resolves if the watch is dropped before.
    pub async fn wait_until_answered(&mut self) {
        self.wait_until(WatchProgress::is_answered).await;
    }

    /// Lists again unless the last list was requested at `since` or later, and resolves once that
    /// list has been delivered. Afterwards all changes before `since` have been delivered, which an
    /// open watch does not guarantee: its connection may be dead. Never resolves if the watch is
    /// dropped before.
    pub async fn list_since(&mut self, since: Instant) {
        self.list_again.send_replace(Some(since));
        self.wait_until(|progress| progress.is_listed_since(since)).await;
    }

    /// Returns true if neither a list nor an event nor a bookmark has arrived since this time.
    pub fn is_silent_since(&self, since: Instant) -> bool {
        self.progress.borrow().delivered_at.is_none_or(|at| at < since)
    }

    async fn wait_until(&mut self, condition: impl FnMut(&WatchProgress) -> bool) {
        if self.progress.wait_for(condition).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves at the next change of [`WatchHandle::progress`].
    pub async fn changed(&mut self) {
        if self.progress.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Creates a watch: a handle to observe it, and the future that runs it for as long as it is
/// polled. The future calls `on_update` in order and never concurrently. The callback blocks the
/// watch, so it must return quickly.
pub fn watch<T, F>(client: Client, settings: WatchSettings, on_update: F) -> (WatchHandle, impl Future<Output = ()>)
where
    T: DeserializeOwned + Send,
    F: FnMut(WatchUpdate<T>),
{
    let start = WatchProgress {
        phase: WatchPhase::Starting,
        is_synced: false,
        version: 0,
        unanswered_since: Some(Instant::now()),
        listed_at: None,
        delivered_at: None,
    };
    let (sender, progress) = signal::channel(start);
    let rng = Rng::new(settings.seed).fork(settings.kind.plural);
    let (list_again, list_requests) = signal::channel(None);
    let handle = WatchHandle { kind: settings.kind, progress, list_again: Arc::new(list_again) };
    let work = Watcher {
        client,
        settings,
        progress: sender,
        rng,
        failures: 0,
        expired_watches: 0,
        list_requests,
        on_update,
        marker: std::marker::PhantomData,
    };
    (handle, work.run())
}

struct Watcher<T, F> {
    client: Client,
    settings: WatchSettings,
    progress: signal::Sender<WatchProgress>,
    rng: Rng,
    /// Failures in a row.
    failures: u32,
    /// Watches in a row that the server ended with 410 Gone before they delivered anything.
    expired_watches: u32,
    /// Lists that were requested before this time must be repeated.
    list_requests: signal::Receiver<Option<Instant>>,
    on_update: F,
    marker: std::marker::PhantomData<fn(T)>,
}

/// Next step of the watcher.
enum WatchStep {
    /// List all objects.
    List,
    /// Watch the changes since this resource version.
    Watch(String),
}

/// Resolves once a list is requested that is newer than the last one.
async fn list_requested_after(mut requests: signal::Receiver<Option<Instant>>, listed_at: Option<Instant>) {
    let is_newer = |since: &Option<Instant>| since.is_some_and(|since| listed_at.is_none_or(|at| at < since));
    if requests.wait_for(is_newer).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl<T: DeserializeOwned + Send, F: FnMut(WatchUpdate<T>)> Watcher<T, F> {
    async fn run(mut self) {
        let mut step = WatchStep::List;
        loop {
            step = match step {
                WatchStep::List => self.list().await,
                WatchStep::Watch(version) => {
                    let (requests, listed_at) = (self.list_requests.clone(), self.progress.borrow().listed_at);
                    tokio::select! {
                        biased;
                        () = list_requested_after(requests, listed_at) => {
                            self.mark_unanswered();
                            WatchStep::List
                        }
                        next = self.watch_from(version) => next,
                    }
                }
            };
        }
    }

    async fn list(&mut self) -> WatchStep {
        let listed_at = Some(Instant::now());
        match requests::list::<T>(&self.client, &self.settings).await {
            Ok((objects, version)) => {
                if self.progress.borrow().phase == WatchPhase::NotInstalled {
                    info!(kind = self.settings.kind.name, "kind is installed, watching it");
                }
                self.failures = 0;
                self.mark_answered();
                (self.on_update)(WatchUpdate::Reset(objects));
                self.progress.send_modify(|progress| progress.listed_at = listed_at);
                self.set_progress(WatchPhase::Watching, true, &version);
                WatchStep::Watch(version)
            }
            Err(ListFailure::NotInstalled) => {
                if self.progress.borrow().phase != WatchPhase::NotInstalled {
                    let kind = self.settings.kind;
                    error!(
                        kind = kind.name,
                        group = kind.group,
                        version = kind.version,
                        hint = self.settings.install_command,
                        "kind is not installed, waiting until it is"
                    );
                    // If the kind was installed before, its objects were deleted with it.
                    (self.on_update)(WatchUpdate::Reset(Vec::new()));
                }
                let is_synced = self.progress.borrow().is_synced;
                self.mark_answered();
                self.set_progress(WatchPhase::NotInstalled, is_synced, "");
                // A constant pace without back-off, so that a newly installed kind is found within
                // two seconds.
                tokio::time::sleep(self.rng.jittered(Duration::from_secs(1), 50)).await;
                WatchStep::List
            }
            Err(ListFailure::Failed { cause, is_forbidden }) => {
                // Only the second failure in a row is logged as an error: a single failure is often
                // transient, and later ones add nothing.
                if self.failures == 1 {
                    error!(kind = self.settings.kind.name, error = %cause, "cannot list objects");
                } else {
                    debug!(kind = self.settings.kind.name, error = %cause, "cannot list objects");
                }
                let is_synced = self.progress.borrow().is_synced;
                if is_forbidden {
                    self.mark_answered();
                    self.set_progress(WatchPhase::Forbidden(cause), is_synced, "");
                } else {
                    self.set_progress(WatchPhase::Failing(cause), is_synced, "");
                }
                self.back_off().await;
                WatchStep::List
            }
        }
    }

    /// Delivers the changes since `version` until the watch ends or fails.
    async fn watch_from(&mut self, mut version: String) -> WatchStep {
        let lifetime = self.rng.jittered(self.settings.lifetime, 100);
        let opened = Instant::now();
        let opening = requests::open_watch::<T>(&self.client, &self.settings, &version, lifetime);
        let mut stream = match tokio::time::timeout(WATCH_OPEN_TIMEOUT, opening).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(failure)) => return self.handle_watch_failure(failure, version, opened).await,
            Err(_) => {
                let cause = format!("the watch was not opened within {} s", WATCH_OPEN_TIMEOUT.as_secs());
                return self.handle_watch_failure(WatchFailure::Failed(cause), version, opened).await;
            }
        };
        self.mark_answered();
        // The server ends the watch after its lifetime. A connection that is silent for longer is
        // dead.
        let mut silence_max = lifetime + Duration::from_secs(30);
        loop {
            let event = match tokio::time::timeout(silence_max, stream.try_next()).await {
                Ok(Ok(Some(event))) => event,
                Ok(Err(failure)) => return self.handle_watch_failure(failure, version, opened).await,
                Ok(Ok(None)) => break,
                Err(_) => {
                    debug!(
                        kind = self.settings.kind.name,
                        silence = silence_max.as_secs(),
                        "watch is silent, reopening it"
                    );
                    break;
                }
            };
            self.expired_watches = 0;
            let (event_version, update) = match event {
                DecodedWatchEvent::Applied { object, version } => (version, object.map(WatchUpdate::Applied)),
                DecodedWatchEvent::Deleted { object, version } => (version, object.map(WatchUpdate::Deleted)),
                DecodedWatchEvent::Bookmark { version: event_version } => {
                    version = event_version;
                    silence_max = SILENCE_AFTER_BOOKMARK_MAX;
                    self.set_progress(WatchPhase::Watching, true, &version);
                    continue;
                }
            };
            self.failures = 0;
            version = event_version;
            if let Some(update) = update {
                (self.on_update)(update);
            }
            self.set_progress(WatchPhase::Watching, true, &version);
        }
        self.mark_unanswered();
        // A server that ends each watch at once must not cause a busy loop.
        if opened.elapsed() < Duration::from_secs(1) {
            self.back_off().await;
        }
        WatchStep::Watch(version)
    }

    async fn handle_watch_failure(&mut self, failure: WatchFailure, version: String, opened: Instant) -> WatchStep {
        self.mark_unanswered();
        match failure {
            WatchFailure::Gone => {
                // Listing again is the cure for one expired watch. A server that expires every
                // watch would be listed in a busy loop.
                if opened.elapsed() >= WATCH_HEALTHY_AFTER {
                    self.expired_watches = 0;
                }
                let delay = self.settings.backoff.delay(self.expired_watches);
                self.expired_watches = self.expired_watches.saturating_add(1);
                if !delay.is_zero() {
                    debug!(kind = self.settings.kind.name, "watches expire at once, waiting before the next list");
                    tokio::time::sleep(self.rng.jittered(delay, 50)).await;
                }
                WatchStep::List
            }
            WatchFailure::Failed(cause) => {
                debug!(kind = self.settings.kind.name, error = %cause, "watch failed, resuming it");
                self.back_off().await;
                WatchStep::Watch(version)
            }
        }
    }

    async fn back_off(&mut self) {
        self.failures = self.failures.saturating_add(1);
        let delay = self.settings.backoff.delay(self.failures);
        tokio::time::sleep(self.rng.jittered(delay, 50)).await;
    }

    /// Records that the server has answered a list or opened a watch.
    fn mark_answered(&self) {
        self.progress.send_modify(|progress| progress.unanswered_since = None);
    }

    /// Records that no watch is open. Keeps the time of an earlier call.
    fn mark_unanswered(&self) {
        self.progress.send_modify(|progress| {
            progress.unanswered_since.get_or_insert_with(Instant::now);
        });
    }

    fn set_progress(&self, phase: WatchPhase, is_synced: bool, version: &str) {
        self.progress.send_modify(|progress| {
            progress.phase = phase;
            progress.is_synced = is_synced;
            progress.version = version.parse().unwrap_or(progress.version);
            if progress.phase == WatchPhase::Watching {
                progress.delivered_at = Some(Instant::now());
            }
        });
    }
}

#[cfg(test)]
mod tests;

//! One list and watch per kind, for everybody: objects are decoded once, into whatever small type the caller keeps, and handed over
//! in order.
//!
//! The caller hears three things ([`Event`]): the whole list (at the start, and whenever the history was lost), an object that came
//! or changed, an object that went. Everything else ends here: 410 is a new list; a watch that breaks or ends goes on where it was; errors
//! back off with jitter from a seed; a kind that the API server does not know is waited for, and found when it arrives.
//! Invariants: a list is handed over whole or not at all; an object that cannot be decoded is left out and named in the log, and
//! keeps nothing else from working.

mod requests;

use std::time::Duration;

use futures::TryStreamExt as _;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::watch as signal;
use tracing::{debug, error, info};

use crate::backoff::{Backoff, Rng};
use requests::{DecodedWatchEvent, ListFailure, WatchFailure};

/// Which kind is watched: its names on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedKind {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Name in paths, such as `pods`.
    pub plural: &'static str,
    /// Name for people, such as `Pod`.
    pub name: &'static str,
}

impl WatchedKind {
    /// The names of a type that knows them.
    pub const fn of<K: k8s_openapi::Resource>() -> Self {
        Self { group: K::GROUP, version: K::VERSION, plural: K::URL_PATH_SEGMENT, name: K::KIND }
    }
}

/// What is told of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchUpdate<T> {
    /// All objects that there are; what is not among them is gone.
    Reset(Vec<T>),
    /// An object that is new or has changed.
    Applied(T),
    /// An object that is gone, as it last was.
    Deleted(T),
}

/// How far a watch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchPhase {
    /// The first list has not come yet.
    Starting,
    /// The API server does not know the kind; it is asked again and again.
    NotInstalled,
    /// The list has come and changes are followed.
    Watching,
    /// The last list failed, for this reason; it is tried again. What was told before still holds, as far as anybody knows.
    Failing(String),
}

/// What is known of a watch, for whoever waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchProgress {
    /// How far it is.
    pub phase: WatchPhase,
    /// Whether a list has been handed over since the start.
    pub is_synced: bool,
    /// The version of the last thing told; everything of this kind that was written up to it has been told.
    pub version: u64,
}

/// What a watch is made with.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// The kind.
    pub kind: WatchedKind,
    /// How many objects a page of the list has.
    pub page_size: u32,
    /// Delays after failures.
    pub backoff: Backoff,
    /// How long a watch lasts before it is opened anew; up to twice as long.
    pub lifetime: Duration,
    /// Where jitter comes from.
    pub seed: u64,
}

impl WatchSettings {
    /// The settings that client-go uses: pages of 500, watches of 5 to 10 minutes, back-off from 0.8 to 30 seconds.
    pub const fn new(kind: WatchedKind, seed: u64) -> Self {
        let backoff = Backoff { base: Duration::from_millis(800), max: Duration::from_secs(30) };
        Self { kind, page_size: 500, backoff, lifetime: Duration::from_mins(5), seed }
    }
}

/// A watch from outside: how far it is. Copies see the same.
#[derive(Clone, Debug)]
pub struct WatchHandle {
    kind: WatchedKind,
    progress: signal::Receiver<WatchProgress>,
}

impl WatchHandle {
    /// The kind that is watched.
    pub fn kind(&self) -> WatchedKind {
        self.kind
    }

    /// How far it is now.
    pub fn progress(&self) -> WatchProgress {
        self.progress.borrow().clone()
    }

    /// Resolves once the first list has been handed over. Never, if the watch was dropped before.
    pub async fn wait_until_synced(&mut self) {
        if self.progress.wait_for(|progress| progress.is_synced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves once everything up to a version has been told. At once, if the version is no number.
    pub async fn wait_for_version(&mut self, version: &str) {
        let Ok(version) = version.parse::<u64>() else { return };
        if self.progress.wait_for(|progress| progress.version >= version).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves at the next change of [`Watch::progress`].
    pub async fn changed(&mut self) {
        if self.progress.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A watch on a kind: its outside, and the work, which goes on for as long as it is polled. `tell` is called in order, never twice at
/// the same time, and must not take long.
pub fn watch<T, F>(client: Client, settings: WatchSettings, tell: F) -> (WatchHandle, impl Future<Output = ()>)
where
    T: DeserializeOwned + Send,
    F: FnMut(WatchUpdate<T>),
{
    let start = WatchProgress { phase: WatchPhase::Starting, is_synced: false, version: 0 };
    let (said, progress) = signal::channel(start);
    let chance = Rng::new(settings.seed, settings.kind.plural);
    let outside = WatchHandle { kind: settings.kind, progress };
    let work = Watcher {
        client,
        settings,
        progress: said,
        rng: chance,
        failures: 0,
        on_update: tell,
        marker: std::marker::PhantomData,
    };
    (outside, work.run())
}

struct Watcher<T, F> {
    client: Client,
    settings: WatchSettings,
    progress: signal::Sender<WatchProgress>,
    rng: Rng,
    /// Failures in a row.
    failures: u32,
    on_update: F,
    marker: std::marker::PhantomData<fn(T)>,
}

/// What the watcher does next.
enum WatchStep {
    /// Ask for the whole list.
    List,
    /// Follow the changes since this version.
    Watch(String),
}

impl<T: DeserializeOwned + Send, F: FnMut(WatchUpdate<T>)> Watcher<T, F> {
    async fn run(mut self) {
        let mut step = WatchStep::List;
        loop {
            step = match step {
                WatchStep::List => self.list().await,
                WatchStep::Watch(version) => self.watch_from(version).await,
            };
        }
    }

    async fn list(&mut self) -> WatchStep {
        match requests::list::<T>(&self.client, &self.settings).await {
            Ok((objects, version)) => {
                if self.progress.borrow().phase == WatchPhase::NotInstalled {
                    info!(kind = self.settings.kind.name, "kind is installed now");
                }
                self.failures = 0;
                (self.on_update)(WatchUpdate::Reset(objects));
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
                        "kind is not installed, waiting for it"
                    );
                    // If it was there before, its objects are gone with it.
                    (self.on_update)(WatchUpdate::Reset(Vec::new()));
                }
                let is_synced = self.progress.borrow().is_synced;
                self.set_progress(WatchPhase::NotInstalled, is_synced, "");
                // It is looked for at a steady pace: whoever installs it does not want to wait for a back-off.
                tokio::time::sleep(self.rng.jittered(Duration::from_secs(1), 50)).await;
                WatchStep::List
            }
            Err(ListFailure::Failed(cause)) => {
                // The first failure is weather; what goes on is worth a line.
                if self.failures == 1 {
                    error!(kind = self.settings.kind.name, error = %cause, "cannot list");
                } else {
                    debug!(kind = self.settings.kind.name, error = %cause, "cannot list");
                }
                let is_synced = self.progress.borrow().is_synced;
                self.set_progress(WatchPhase::Failing(cause), is_synced, "");
                self.back_off().await;
                WatchStep::List
            }
        }
    }

    /// Follows the changes until the watch ends, one way or another.
    async fn watch_from(&mut self, mut version: String) -> WatchStep {
        let lifetime = self.rng.jittered(self.settings.lifetime, 100);
        let opened = tokio::time::Instant::now();
        let mut stream = match requests::open_watch::<T>(&self.client, &self.settings, &version, lifetime).await {
            Ok(stream) => stream,
            Err(failure) => return self.handle_watch_failure(failure, version).await,
        };
        // The server ends the watch after its lifetime; a connection that is silent for longer than that is dead.
        let patience = lifetime + Duration::from_secs(30);
        loop {
            let said = match tokio::time::timeout(patience, stream.try_next()).await {
                Ok(Ok(Some(said))) => said,
                Ok(Err(failure)) => return self.handle_watch_failure(failure, version).await,
                Ok(Ok(None)) | Err(_) => break,
            };
            let (reached, event) = match said {
                DecodedWatchEvent::Applied { object, version } => (version, object.map(WatchUpdate::Applied)),
                DecodedWatchEvent::Deleted { object, version } => (version, object.map(WatchUpdate::Deleted)),
                DecodedWatchEvent::Bookmark { version: reached } => {
                    version = reached;
                    self.set_progress(WatchPhase::Watching, true, &version);
                    continue;
                }
            };
            self.failures = 0;
            version = reached;
            if let Some(event) = event {
                (self.on_update)(event);
            }
            self.set_progress(WatchPhase::Watching, true, &version);
        }
        // A server that ends watches as soon as they are opened must not be asked in a hot loop.
        if opened.elapsed() < Duration::from_secs(1) {
            self.back_off().await;
        }
        WatchStep::Watch(version)
    }

    async fn handle_watch_failure(&mut self, failure: WatchFailure, version: String) -> WatchStep {
        match failure {
            WatchFailure::Gone => WatchStep::List,
            WatchFailure::Failed(cause) => {
                debug!(kind = self.settings.kind.name, error = %cause, "watch broke");
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

    fn set_progress(&self, phase: WatchPhase, is_synced: bool, version: &str) {
        self.progress.send_modify(|progress| {
            progress.phase = phase;
            progress.is_synced = is_synced;
            progress.version = version.parse().unwrap_or(progress.version);
        });
    }
}

#[cfg(test)]
mod tests;

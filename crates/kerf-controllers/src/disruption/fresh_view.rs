//! Lists again what the watches may not have shown, right before nodes are disrupted (spec 07 §1).
//! The connection of a watch can be dead for two minutes before the watch is reopened. A decision
//! of that time would count pods, PodDisruptionBudgets and nodes that are not ready as they were.
//!
//! A watch that has delivered something lately is trusted. So a busy cluster lists nothing, and a
//! quiet one lists at most once per pass that disrupts nodes.

use std::sync::OnceLock;
use std::time::Duration;

use futures::future::join_all;
use kerf_runtime::WatchHandle;
use tokio::time::Instant;
use tracing::debug;

/// Kinds that a new leader lists again, and that are listed again before nodes are disrupted.
pub(crate) const FRESH_KINDS: [&str; 5] = ["NodePool", "NodeClaim", "Node", "Pod", "PodDisruptionBudget"];
/// A watch that has delivered something within this time is trusted.
const TRUSTED_SILENCE_MAX: Duration = Duration::from_secs(10);
/// Time limit of the lists.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Outcome of [`FreshView::refresh`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// All watches have delivered something lately.
    NotNeeded,
    /// Some kinds were listed again, so cluster state may have changed.
    Listed,
    /// The API server did not answer in time.
    TimedOut,
}

/// The watches of the kinds on which decisions about disruption depend.
#[derive(Debug, Default)]
pub(crate) struct FreshView {
    watches: OnceLock<Vec<WatchHandle>>,
}

impl FreshView {
    /// Sets the watches. Later calls have no effect.
    pub(crate) fn set_watches(&self, watches: &[WatchHandle]) {
        let is_needed = |watch: &&WatchHandle| FRESH_KINDS.contains(&watch.kind().name);
        self.watches.get_or_init(|| watches.iter().filter(is_needed).cloned().collect());
    }

    /// Lists the kinds again whose watches have been silent.
    pub(crate) async fn refresh(&self) -> Refresh {
        let now = Instant::now();
        let since = now.checked_sub(TRUSTED_SILENCE_MAX).unwrap_or(now);
        let silent = self.watches.get().into_iter().flatten().filter(|watch| watch.is_silent_since(since));
        let lists: Vec<_> = silent
            .cloned()
            .map(|mut watch| async move {
                watch.list_since(since).await;
            })
            .collect();
        if lists.is_empty() {
            return Refresh::NotNeeded;
        }
        match tokio::time::timeout(LIST_TIMEOUT, join_all(lists)).await {
            Ok(_) => Refresh::Listed,
            Err(_) => {
                debug!("waiting with disruption, objects could not be listed");
                Refresh::TimedOut
            }
        }
    }
}

//! Decides whether the watches still show the cluster (spec 07 §1.1). A leader that no longer sees
//! changes gives up the lease, so that a replica that sees them can act.
//!
//! Invariant: a process that sees nothing never becomes leader, so two such processes do not pass
//! the lease back and forth.

use std::time::Duration;

use kerf_runtime::{Backoff, WatchHandle};

/// A kind of which neither list nor watch has succeeded for this long is stale.
pub(super) const STALE_AFTER: Duration = Duration::from_mins(3);
/// Interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Time for which all watches must be answered before a process that gave up the lease tries to
/// acquire it again. Doubles each time that it gives up.
const CANDIDATE_BACKOFF: Backoff = Backoff { base: Duration::from_secs(30), max: Duration::from_mins(10) };

/// Returns the name of a kind that is stale, or `None` if there is none.
pub(super) fn stale_kind(watches: &[WatchHandle]) -> Option<&'static str> {
    watches.iter().find(|watch| watch.progress().unanswered_for() >= STALE_AFTER).map(|watch| watch.kind().name)
}

/// Resolves with the name of the first kind that becomes stale.
pub(super) async fn wait_until_stale(watches: &[WatchHandle]) -> &'static str {
    loop {
        if let Some(kind) = stale_kind(watches) {
            return kind;
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Resolves once the process may try to become leader: at once if no kind is stale and it has never
/// given up the lease, else after all kinds have been answered for a while.
pub(super) async fn wait_until_candidate(watches: &[WatchHandle], terms_given_up: u32) {
    while stale_kind(watches).is_some() {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    if terms_given_up == 0 {
        return;
    }
    let wanted = CANDIDATE_BACKOFF.delay(terms_given_up);
    let mut answered = Duration::ZERO;
    while answered < wanted {
        let step = CHECK_INTERVAL.min(wanted.saturating_sub(answered));
        tokio::time::sleep(step).await;
        let are_answered = watches.iter().all(|watch| watch.progress().unanswered_since.is_none());
        answered = if are_answered { answered + step } else { Duration::ZERO };
    }
}

//! The Events that this process has published about unregistered claims, so that each is published
//! once per claim (spec 06 §14.1), whichever controller notices the cause first.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kerf_api::nodeclaim::NodeClaim;

/// The reasons of the Events that were published about claims. Bounded by the number of
/// unregistered claims, because `nodeclaim.unregistered` removes all others.
#[derive(Debug, Default)]
pub(crate) struct PublishedClaimEvents {
    /// UIDs of claims with the reasons of their Events.
    published: Mutex<BTreeSet<(String, String)>>,
}

impl PublishedClaimEvents {
    /// Records that an Event is published. Returns false if one with this reason was published
    /// about the claim before.
    pub(crate) fn record(&self, claim: &NodeClaim, reason: &str) -> bool {
        self.lock().insert(key(claim, reason))
    }

    /// Returns true if an Event with this reason was published about the claim.
    pub(crate) fn contains(&self, claim: &NodeClaim, reason: &str) -> bool {
        self.lock().contains(&key(claim, reason))
    }

    /// Forgets all claims but these, given by UID.
    pub(crate) fn retain(&self, uids: &BTreeSet<&str>) {
        self.lock().retain(|(uid, _)| uids.contains(uid.as_str()));
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(claim: &NodeClaim, reason: &str) -> (String, String) {
    (claim.metadata.uid.clone().unwrap_or_default(), reason.to_owned())
}

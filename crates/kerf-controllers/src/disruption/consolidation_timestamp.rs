//! Time of the last change that could open an opportunity for consolidation (spec 03 §3.2, spec 04
//! §4.8). A pass that found nothing is not repeated while this time is unchanged, except once in
//! five minutes.

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// Time after which an unchanged cluster is checked again.
pub(crate) const CONSOLIDATION_RECHECK_INTERVAL: SignedDuration = SignedDuration::from_mins(5);

#[derive(Debug)]
pub(crate) struct ConsolidationTimestamp(Mutex<Timestamp>);

impl ConsolidationTimestamp {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    /// Records that a change may have opened an opportunity for consolidation.
    pub(crate) fn mark_unconsolidated(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Returns the time of the last such change. A time older than
    /// [`CONSOLIDATION_RECHECK_INTERVAL`] is first replaced by `now`.
    pub(crate) fn get_or_refresh(&self, now: Timestamp) -> Timestamp {
        let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(*at) >= CONSOLIDATION_RECHECK_INTERVAL {
            *at = now;
        }
        *at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 04 #29
    #[test]
    fn the_timestamp_is_stable_and_expires() {
        let start = Timestamp::UNIX_EPOCH;
        let after = |minutes| start + SignedDuration::from_mins(minutes);
        let timestamp = ConsolidationTimestamp::new(start);
        assert_eq!(timestamp.get_or_refresh(after(3)), start);
        assert_eq!(timestamp.get_or_refresh(after(5)), after(5));
        assert_eq!(timestamp.get_or_refresh(after(6)), after(5));
        timestamp.mark_unconsolidated(after(7));
        assert_eq!(timestamp.get_or_refresh(after(8)), after(7));
    }
}

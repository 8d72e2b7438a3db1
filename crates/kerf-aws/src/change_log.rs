//! Decides if a value differs from the one that was logged last (spec 06 §1.5).

use std::time::Duration;

use kerf_runtime::Clock;

use crate::ttl_cache::TtlCache;

/// Time after which an unchanged value is logged again.
const LOG_AGAIN_AFTER: Duration = Duration::from_hours(24);
/// Number of values that are remembered.
const VALUES_MAX: usize = 10_000;

/// The values that were logged in the last 24 hours, by subject.
#[derive(Debug)]
pub(crate) struct ChangeLog(TtlCache<String, String>);

impl ChangeLog {
    /// Creates a log without any value.
    pub(crate) fn new(clock: Clock) -> Self {
        Self(TtlCache::new(clock, LOG_AGAIN_AFTER, VALUES_MAX))
    }

    /// Returns true if the value differs from the last one of the subject, or if that one is older
    /// than 24 hours. Remembers the value.
    pub(crate) fn is_new(&self, subject: &str, value: &str) -> bool {
        if self.0.get(subject).is_some_and(|known| known == value) {
            return false;
        }
        self.0.insert(subject.to_owned(), value.to_owned());
        true
    }

    /// Forgets the last value of a subject, so that the next one is new.
    pub(crate) fn forget(&self, subject: &str) {
        self.0.remove(subject);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_value_is_new_if_it_changed_or_a_day_has_passed() {
        let log = ChangeLog::new(Clock::system());
        assert_eq!((log.is_new("a", "1"), log.is_new("a", "1"), log.is_new("b", "1")), (true, false, true));
        assert_eq!((log.is_new("a", "2"), log.is_new("a", "1")), (true, true));
        log.forget("a");
        assert_eq!((log.is_new("a", "1"), log.is_new("a", "1")), (true, false));
        tokio::time::advance(LOG_AGAIN_AFTER).await;
        assert!(log.is_new("a", "1"));
    }
}

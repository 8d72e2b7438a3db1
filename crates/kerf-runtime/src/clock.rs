//! The one clock that everything in Kerf reads. Wall time is a start instant plus the time that tokio says has gone by since,
//! so a paused tokio runtime stops it, an auto-advancing one runs a day in seconds, and timers and timestamps never disagree.
//! Invariant: this is the only file that may ask the operating system what time it is, and it asks once for each clock.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tokio::time::Instant;

/// Wall time on tokio's time line. Copies of one clock always agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    origin: Instant,
}

impl Clock {
    /// A clock that shows the machine's wall time now and then follows tokio's time.
    ///
    /// A machine whose own clock stands before 1970 or beyond the year 9999 gets one that starts at the nearest of the two:
    /// a wrong date is visible in every object, a process that does not start tells nobody why.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that reads the system clock")]
    pub fn system() -> Self {
        let now = Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::MAX).max(Timestamp::UNIX_EPOCH);
        Self::starting_at(now)
    }

    /// A clock that shows `start` now and then follows tokio's time: what a simulation uses, so that two runs agree to the
    /// nanosecond whatever the machine's date.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: Instant::now() }
    }

    /// The wall time now. It never goes back; past the last representable instant it stands still.
    pub fn now(&self) -> Timestamp {
        self.start.saturating_add(self.elapsed()).unwrap_or(Timestamp::MAX)
    }

    /// The time that has gone by since this clock was made.
    pub fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    /// The tokio instant at which this clock will show `at` (or showed it: an instant before the clock's start is its start),
    /// for `tokio::time::sleep_until`. `None` if it is too far away for a timer.
    pub fn instant_of(&self, at: Timestamp) -> Option<Instant> {
        let ahead = at.duration_since(self.start);
        if ahead.is_negative() { Some(self.origin) } else { self.origin.checked_add(ahead.unsigned_abs()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use super::*;

    fn noon() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn wall_time_is_the_start_plus_tokio_time() {
        let clock = Clock::starting_at(noon());
        assert_eq!(clock.now(), noon());
        tokio::time::advance(Duration::from_hours(24)).await;
        assert_eq!(clock.now(), "2026-01-02T12:00:00Z".parse().unwrap());
        assert_eq!(clock.elapsed(), Duration::from_hours(24));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_set_for_an_instant_rings_when_the_clock_shows_it() {
        let clock = Clock::starting_at(noon());
        let later = "2026-01-01T18:30:00Z".parse().unwrap();
        tokio::time::sleep_until(clock.instant_of(later).unwrap()).await;
        assert_eq!(clock.now(), later);
        let before = clock.instant_of("2020-01-01T00:00:00Z".parse().unwrap()).unwrap();
        assert!(before <= Instant::now(), "an instant before the start has passed");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_time_stands_still() {
        let clock = Clock::starting_at(Timestamp::MAX);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(clock.now(), Timestamp::MAX);
    }
}

//! The only source of time in Kerf. Wall time is a start time plus the time that has passed on
//! tokio's clock. Therefore a paused tokio runtime stops it, an auto-advancing runtime simulates a
//! day in seconds, and timers always agree with timestamps.
//!
//! Invariant: this is the only file that reads the system clock, once for each `Clock`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tokio::time::Instant;

/// Wall time derived from tokio's clock. Copies of a clock always show the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    origin: Instant,
    /// Milliseconds by which the wall time has jumped ahead; `None` if it never jumps.
    jumped_millis: Option<&'static AtomicU64>,
}

impl Clock {
    /// Creates a clock that shows the system's wall time now and then follows tokio's clock.
    ///
    /// A system time before 1970 or after the year 9999 is replaced by the nearer of these bounds.
    /// A wrong date is visible in every object; a process that does not start would hide the cause.
    #[allow(clippy::disallowed_methods, reason = "only this module reads the system clock")]
    pub fn system() -> Self {
        let now = Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::MAX).max(Timestamp::UNIX_EPOCH);
        Self::starting_at(now)
    }

    /// Creates a clock that shows `start` now and then follows tokio's clock. Simulations use it,
    /// so that two runs have equal timestamps to the nanosecond.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: Instant::now(), jumped_millis: None }
    }

    /// Creates a clock like [`Clock::starting_at`] whose wall time can jump, for simulations. It
    /// keeps eight bytes until the process ends.
    pub fn with_jumps(start: Timestamp) -> Self {
        Self { jumped_millis: Some(Box::leak(Box::new(AtomicU64::new(0)))), ..Self::starting_at(start) }
    }

    /// Moves the wall time of all copies ahead, in steps of a millisecond, as if the system
    /// clock were set. Timers and [`Clock::elapsed`] do not change. Returns false, and
    /// changes nothing, if the clock does not come from [`Clock::with_jumps`].
    pub fn jump(&self, by: Duration) -> bool {
        let Some(jumped) = self.jumped_millis else { return false };
        jumped.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        true
    }

    /// Returns the time by which the wall time has jumped ahead so far.
    pub fn jumped(&self) -> Duration {
        Duration::from_millis(self.jumped_millis.map_or(0, |millis| millis.load(Ordering::Relaxed)))
    }

    /// Returns the current wall time. It never decreases, and it stays at [`Timestamp::MAX`] once
    /// that is reached.
    pub fn now(&self) -> Timestamp {
        self.start.saturating_add(self.elapsed().saturating_add(self.jumped())).unwrap_or(Timestamp::MAX)
    }

    /// Returns the time that has passed since this clock was created, without jumps.
    pub fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Returns the tokio instant at which this clock shows `at`, for `tokio::time::sleep_until`. A
    /// time before the clock's start gives the instant of the start. Returns `None` if `at` is too
    /// far away for a timer.
    pub fn instant_of(&self, at: Timestamp) -> Option<Instant> {
        let ahead = at.duration_since(self.start.saturating_add(self.jumped()).unwrap_or(Timestamp::MAX));
        if ahead.is_negative() { Some(self.origin) } else { self.origin.checked_add(ahead.unsigned_abs()) }
    }
}

#[cfg(test)]
mod tests {

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
    async fn a_timer_set_for_an_instant_fires_when_the_clock_shows_it() {
        let clock = Clock::starting_at(noon());
        let later = "2026-01-01T18:30:00Z".parse().unwrap();
        tokio::time::sleep_until(clock.instant_of(later).unwrap()).await;
        assert_eq!(clock.now(), later);
        let before = clock.instant_of("2020-01-01T00:00:00Z".parse().unwrap()).unwrap();
        assert!(before <= Instant::now(), "an instant before the start of the clock is in the past");
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_moves_the_wall_time_of_all_copies_and_no_timer() {
        let clock = Clock::with_jumps(noon());
        let copy = clock;
        let before = Instant::now();
        assert!(clock.jump(Duration::from_hours(1)));
        assert_eq!((copy.now(), copy.jumped()), ("2026-01-01T13:00:00Z".parse().unwrap(), Duration::from_hours(1)));
        assert_eq!((copy.elapsed(), Instant::now()), (Duration::ZERO, before));
        let later = "2026-01-01T13:00:10Z".parse().unwrap();
        assert_eq!(copy.instant_of(later), Some(before + Duration::from_secs(10)));
        let rigid = Clock::starting_at(noon());
        assert!(!rigid.jump(Duration::from_hours(1)));
        assert_eq!(rigid.now(), noon());
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_stops_at_the_last_timestamp() {
        let clock = Clock::starting_at(Timestamp::MAX);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(clock.now(), Timestamp::MAX);
    }
}

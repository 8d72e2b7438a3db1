//! Durations as in Kubernetes and Karpenter: Go's syntax, limits and error messages.
//!
//! A duration is a signed 64-bit number of nanoseconds, about ±292 years. Specs keep the exact text
//! (see [`unparsed`](crate::unparsed)); this module parses it when a decision needs the value. A
//! text that admission accepts may have no value (`9999999999h`). That is an error to report on the
//! object; the object itself can still be decoded.

mod do_not_disrupt;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use jiff::{SignedDuration, Timestamp};

pub use do_not_disrupt::{DoNotDisrupt, evaluate_do_not_disrupt, is_node_protected};
pub use parse::DurationError;

const SECOND: u64 = 1_000_000_000;

/// Length of time in nanoseconds, possibly negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration(i64);

impl Duration {
    /// Duration of length zero.
    pub const ZERO: Self = Self(0);

    /// Creates a duration from nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Creates a duration from seconds, saturating at about 292 years.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND as i64))
    }

    /// Converts from the standard library's type, saturating at about 292 years.
    pub fn from_std(duration: std::time::Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Converts to the standard library's type. Returns `None` if the duration is negative.
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.0).ok().map(std::time::Duration::from_nanos)
    }

    /// Returns the length in nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Returns the time this long after `start`, limited to the range of [`Timestamp`].
    pub fn after(self, start: Timestamp) -> Timestamp {
        let end = if self.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
        start.checked_add(SignedDuration::from(self)).unwrap_or(end)
    }

    /// Returns the time this long before `end`, limited to the range of [`Timestamp`].
    pub fn before(self, end: Timestamp) -> Timestamp {
        let start = if self.0 < 0 { Timestamp::MAX } else { Timestamp::MIN };
        end.checked_sub(SignedDuration::from(self)).unwrap_or(start)
    }
}

impl From<Duration> for SignedDuration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(duration.0)
    }
}

/// Parses a field that may be absent or `Never`. Returns `None` in both cases; for every reader the
/// feature is then off.
pub fn parse_nillable(text: Option<&str>) -> Result<Option<Duration>, DurationError> {
    match text {
        None | Some("Never") => Ok(None),
        Some(text) => text.parse().map(Some),
    }
}

/// Formats as Go does: `1h0m0s`, `1m30s`, `1.5s`, `250ms`. From one second up, all units from the
/// largest non-zero one down to seconds appear. Below one second, the largest unit that gives a
/// number of at least one is used.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let nanos = self.0.unsigned_abs();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", Decimal { value: nanos, places: 3 }),
            1_000_000..SECOND => write!(f, "{}ms", Decimal { value: nanos, places: 6 }),
            SECOND.. => {
                let (hours, minutes) = (nanos / SECOND / 3600, nanos / SECOND / 60 % 60);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if hours > 0 || minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                write!(f, "{}s", Decimal { value: nanos % (60 * SECOND), places: 9 })
            }
        }
    }
}

/// Decimal number `value / 10^places`, displayed without trailing zeros.
struct Decimal {
    value: u64,
    places: u32,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10_u64.pow(self.places);
        write!(f, "{}", self.value / unit)?;
        let (mut fraction, mut width) = (self.value % unit, self.places as usize);
        if fraction == 0 {
            return Ok(());
        }
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            width -= 1;
        }
        write!(f, ".{fraction:0width$}")
    }
}

//! Durations as Kubernetes and Karpenter write them: Go's syntax, Go's limits, Go's words for what is wrong.
//!
//! A duration is a signed 64-bit number of nanoseconds, some 292 years either way. Specs keep the text that somebody wrote (see
//! [`written`](crate::written)); this module says what the text is worth when a decision needs it. A text that admission lets
//! pass and that has no such value (`9999999999h`) is an error to report on the object, never a reason not to read the object.

mod do_not_disrupt;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use jiff::{SignedDuration, Timestamp};

pub use do_not_disrupt::{DoNotDisrupt, evaluate_do_not_disrupt, is_node_protected};
pub use parse::DurationError;

const SECOND: u64 = 1_000_000_000;

/// A length of time in nanoseconds, possibly negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration(i64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// The duration of that many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The duration of that many seconds, at most some 292 years.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND as i64))
    }

    /// The same as another, at most some 292 years.
    pub fn from_std(duration: std::time::Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }

    /// The same for those who know no negative durations; none if it is one.
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.0).ok().map(std::time::Duration::from_nanos)
    }

    /// Its length in nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// The instant that lies this much after another; at the end of time it stays there.
    pub fn after(self, start: Timestamp) -> Timestamp {
        let end = if self.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
        start.checked_add(SignedDuration::from(self)).unwrap_or(end)
    }

    /// The instant that lies this much before another; at the beginning of time it stays there.
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

/// The value of a field that may say `Never`: none when it does, or when the field is not there. That is the same to every
/// reader: the feature is off.
pub fn parse_nillable(text: Option<&str>) -> Result<Option<Duration>, DurationError> {
    match text {
        None | Some("Never") => Ok(None),
        Some(text) => text.parse().map(Some),
    }
}

/// `1h0m0s`, `1m30s`, `1.5s`, `250ms`: units from the largest that is not zero down to seconds; below a second the one unit that
/// leaves no leading zero.
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

/// A number with its decimal point moved to the left, without trailing zeros.
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

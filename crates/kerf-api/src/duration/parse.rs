//! Reading durations exactly as Go's `time.ParseDuration` does, down to the wording of its errors, which end up in events.

use std::fmt;
use std::str::FromStr;

use super::Duration;

/// Why a text is no duration, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a duration at all, or one that 64 bits of nanoseconds cannot hold.
    #[error("time: invalid duration {}", Quoted(.text))]
    Invalid {
        /// What was given.
        text: String,
    },
    /// A number is not followed by a unit.
    #[error("time: missing unit in duration {}", Quoted(.text))]
    MissingUnit {
        /// What was given.
        text: String,
    },
    /// A number is followed by something that is no unit.
    #[error("time: unknown unit {} in duration {}", Quoted(.unit), Quoted(.text))]
    UnknownUnit {
        /// What stands in the unit's place.
        unit: String,
        /// What was given.
        text: String,
    },
}

/// The magnitude of the least duration.
const MAX_MAGNITUDE: u64 = 1 << 63;

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid { text: text.to_owned() };
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total = 0_u64;
        while !rest.is_empty() {
            let (whole, fraction, after) = parse_number(rest).ok_or_else(invalid)?;
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            if unit.is_empty() {
                return Err(DurationError::MissingUnit { text: text.to_owned() });
            }
            let unit = nanos_per(unit)
                .ok_or_else(|| DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() })?;
            let nanos = whole.checked_mul(unit).filter(|nanos| *nanos <= MAX_MAGNITUDE).ok_or_else(invalid)?;
            total = total.saturating_add(nanos).saturating_add(fraction.of(unit));
            if total > MAX_MAGNITUDE {
                return Err(invalid());
            }
            rest = after;
        }
        // Only the negative side reaches the full magnitude.
        let signed = if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
        signed.map(Self::from_nanos).ok_or_else(invalid)
    }
}

fn nanos_per(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // Both signs that look like a micro: U+00B5 and U+03BC.
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    })
}

/// The digits after a decimal point.
struct Fraction {
    digits: u64,
    scale: f64,
}

impl Fraction {
    /// This part of a unit. Go computes it in floating point, and so it is here, to the same nanosecond.
    fn of(&self, unit: u64) -> u64 {
        (self.digits as f64 * (unit as f64 / self.scale)) as u64
    }
}

/// Takes a decimal number off the front; none if there is no digit, or too many in front of the point.
fn parse_number(text: &str) -> Option<(u64, Fraction, &str)> {
    let (digits, mut rest) = leading_digits(text);
    let mut whole = 0_u64;
    for digit in digits.bytes() {
        whole = whole.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|whole| *whole <= MAX_MAGNITUDE)?;
    }
    let mut fraction = Fraction { digits: 0, scale: 1.0 };
    let mut has_digits = !digits.is_empty();
    if let Some(after_point) = rest.strip_prefix('.') {
        let (digits, after) = leading_digits(after_point);
        has_digits |= !digits.is_empty();
        for digit in digits.bytes() {
            let longer = fraction.digits.checked_mul(10).and_then(|d| d.checked_add(u64::from(digit - b'0')));
            // What is too small to be counted is not counted.
            let Some(longer) = longer.filter(|longer| *longer <= MAX_MAGNITUDE) else { break };
            fraction = Fraction { digits: longer, scale: fraction.scale * 10.0 };
        }
        rest = after;
    }
    has_digits.then_some((whole, fraction, rest))
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// A text in quotes, with everything beyond printable ASCII as bytes.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..0x80 => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_str("\"")
    }
}

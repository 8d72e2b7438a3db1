//! Parses durations exactly as Go's `time.ParseDuration`. The error texts are equal too, because
//! they appear in events.

use std::fmt;
use std::str::FromStr;

use super::Duration;

/// Reason why a text is not a duration. The text is Go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is not a duration, or does not fit into 64 bits of nanoseconds.
    #[error("time: invalid duration {}", Quoted(.text))]
    Invalid {
        /// Text that was parsed.
        text: String,
    },
    /// A number has no unit.
    #[error("time: missing unit in duration {}", Quoted(.text))]
    MissingUnit {
        /// Text that was parsed.
        text: String,
    },
    /// A number is followed by an unknown unit.
    #[error("time: unknown unit {} in duration {}", Quoted(.unit), Quoted(.text))]
    UnknownUnit {
        /// Text at the position of the unit.
        unit: String,
        /// Text that was parsed.
        text: String,
    },
}

/// Magnitude of the smallest (most negative) duration.
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
        // Only negative durations can have the maximum magnitude.
        let signed = if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
        signed.map(Self::from_nanos).ok_or_else(invalid)
    }
}

fn nanos_per(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // Both characters for micro: U+00B5 and U+03BC.
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    })
}

/// Digits after a decimal point.
struct Fraction {
    digits: u64,
    scale: f64,
}

impl Fraction {
    /// Returns this fraction of a unit in nanoseconds. Go computes it in floating point; using the
    /// same arithmetic gives the same result.
    fn of(&self, unit: u64) -> u64 {
        (self.digits as f64 * (unit as f64 / self.scale)) as u64
    }
}

/// Parses a decimal number at the start of `text` and returns it with the remaining text. Returns
/// `None` if there is no digit or the integer part is too large.
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
            let extended = fraction.digits.checked_mul(10).and_then(|d| d.checked_add(u64::from(digit - b'0')));
            // Further digits are below the precision and are ignored.
            let Some(extended) = extended.filter(|extended| *extended <= MAX_MAGNITUDE) else { break };
            fraction = Fraction { digits: extended, scale: fraction.scale * 10.0 };
        }
        rest = after;
    }
    has_digits.then_some((whole, fraction, rest))
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Text in quotes in which bytes beyond printable ASCII are escaped as `\x..`.
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

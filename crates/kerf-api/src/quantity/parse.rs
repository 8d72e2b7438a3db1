//! Parses quantities. Decoding the pods of a cluster parses millions of them, so only an error
//! allocates memory.

use std::str::FromStr;

use super::{Quantity, QuantityFormat};

/// Largest value of a binary quantity: 2^63-1 units.
const BINARY_MAX_NANOS: u128 = i64::MAX as u128 * 1_000_000_000;

/// Largest magnitude; greater decimal amounts are reduced to it.
const MAX_NANOS: u128 = i128::MAX.unsigned_abs();

/// Reason why a text is not a quantity, in the wording of the API server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is not a number with a suffix.
    #[error(
        "invalid quantity {text:?}: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Malformed {
        /// Text that was parsed.
        text: String,
    },
    /// The number is valid but its suffix is not.
    #[error("invalid quantity {text:?}: unable to parse quantity's suffix {suffix:?}")]
    Suffix {
        /// Text that was parsed.
        text: String,
        /// Part of the text after the number.
        suffix: String,
    },
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let bytes = text.as_bytes();
        let (negative, unsigned) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, bytes),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = match rest {
            [b'.', rest @ ..] => split_digits(rest),
            _ => (&[][..], rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Malformed { text: text.to_owned() });
        }
        let Some(suffix) = Suffix::parse(suffix) else {
            return Err(suffix_error(text, suffix));
        };
        let (nanos, format) = match suffix {
            Suffix::Decimal(exponent) => (decimal_nanos(whole, fraction, exponent), QuantityFormat::DecimalSi),
            Suffix::Exponent(exponent) => (decimal_nanos(whole, fraction, exponent), QuantityFormat::DecimalExponent),
            Suffix::Binary(bits) => {
                let nanos = binary_nanos(whole, fraction, bits);
                // A binary amount below one unit gets the decimal format.
                let format = if (1..1_000_000_000).contains(&nanos) {
                    QuantityFormat::DecimalSi
                } else {
                    QuantityFormat::BinarySi
                };
                (nanos, format)
            }
        };
        let magnitude = i128::try_from(nanos).unwrap_or(i128::MAX);
        Ok(Self::from_nanos(if negative { -magnitude } else { magnitude }, format))
    }
}

enum Suffix {
    /// Power of ten of an SI suffix.
    Decimal(i64),
    /// Power of ten written as an exponent.
    Exponent(i64),
    /// Power of two.
    Binary(u32),
}

impl Suffix {
    fn parse(suffix: &[u8]) -> Option<Self> {
        Some(match suffix {
            b"" => Self::Decimal(0),
            b"m" => Self::Decimal(-3),
            b"Ki" => Self::Binary(10),
            b"Mi" => Self::Binary(20),
            b"Gi" => Self::Binary(30),
            b"Ti" => Self::Binary(40),
            b"Pi" => Self::Binary(50),
            b"Ei" => Self::Binary(60),
            b"n" => Self::Decimal(-9),
            b"u" => Self::Decimal(-6),
            b"k" => Self::Decimal(3),
            b"M" => Self::Decimal(6),
            b"G" => Self::Decimal(9),
            b"T" => Self::Decimal(12),
            b"P" => Self::Decimal(15),
            b"E" => Self::Decimal(18),
            [b'e' | b'E', exponent @ ..] => Self::Exponent(std::str::from_utf8(exponent).ok()?.parse().ok()?),
            _ => return None,
        })
    }
}

/// Returns the error for a text with an invalid suffix: the API server has two different messages.
fn suffix_error(text: &str, suffix: &[u8]) -> QuantityError {
    let letters = suffix.iter().take_while(|b| b"eEinumkKMGTP".contains(b)).count();
    let signed = match &suffix[letters..] {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    };
    if signed.iter().all(u8::is_ascii_digit) {
        let suffix = String::from_utf8_lossy(suffix).into_owned();
        QuantityError::Suffix { text: text.to_owned(), suffix }
    } else {
        QuantityError::Malformed { text: text.to_owned() }
    }
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().take_while(|b| b.is_ascii_digit()).count())
}

/// Returns `whole.fraction * 10^(9 + exponent)`, rounded up and saturated.
fn decimal_nanos(whole: &[u8], fraction: &[u8], exponent: i64) -> u128 {
    let shift = exponent.saturating_add(9).saturating_sub(fraction.len() as i64);
    let digits = (whole.len() + fraction.len()) as i64;
    // Digits from this position on are below one nano.
    let significant_digits = if shift < 0 { digits.saturating_add(shift) } else { digits };
    let mut nanos = 0_u128;
    let mut inexact = false;
    for (position, byte) in whole.iter().chain(fraction).enumerate() {
        let digit = u128::from(byte - b'0');
        if (position as i64) < significant_digits {
            nanos = nanos.saturating_mul(10).saturating_add(digit);
        } else {
            inexact |= digit != 0;
        }
    }
    if nanos != 0 && shift > 0 {
        let factor = u32::try_from(shift).ok().and_then(|shift| 10_u128.checked_pow(shift));
        nanos = factor.map_or(MAX_NANOS, |factor| nanos.saturating_mul(factor));
    }
    nanos.saturating_add(u128::from(inexact)).min(MAX_NANOS)
}

/// Returns `whole.fraction * 2^bits * 10^9`, rounded up and capped.
fn binary_nanos(whole: &[u8], fraction: &[u8], bits: u32) -> u128 {
    // At most 2^90, so that ten times the unit plus a carry fits.
    let unit = 1_000_000_000_u128 << bits;
    let mut units = 0_u128;
    for byte in whole {
        units = units.saturating_mul(10).saturating_add(u128::from(byte - b'0'));
    }
    if units > BINARY_MAX_NANOS / unit {
        return BINARY_MAX_NANOS;
    }
    // Processes the digits from the last to the first and divides by ten at each step. The result
    // is exact for a fraction of any length.
    let mut part = 0_u128;
    let mut inexact = false;
    for byte in fraction.iter().rev() {
        let tenths = part + u128::from(byte - b'0') * unit;
        part = tenths / 10;
        inexact |= !tenths.is_multiple_of(10);
    }
    (units * unit + part + u128::from(inexact)).min(BINARY_MAX_NANOS)
}

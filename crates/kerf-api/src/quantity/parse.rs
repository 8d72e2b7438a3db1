//! Reading quantities. Decoding a cluster's pods parses millions of them, so nothing is allocated unless it goes wrong.

use std::str::FromStr;

use super::{Quantity, QuantityFormat};

/// The most that a binary quantity can say: 2^63-1 units.
const BINARY_MAX_NANOS: u128 = i64::MAX as u128 * 1_000_000_000;

/// The largest magnitude that is held; greater decimal amounts saturate here.
const MAX_NANOS: u128 = i128::MAX.unsigned_abs();

/// Why a text is no quantity. The rule is worded as the API server words it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not look like a number with a suffix.
    #[error(
        "invalid quantity {text:?}: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Malformed {
        /// What was given.
        text: String,
    },
    /// The number is fine, what follows it is no suffix.
    #[error("invalid quantity {text:?}: unable to parse quantity's suffix {suffix:?}")]
    Suffix {
        /// What was given.
        text: String,
        /// The part after the number.
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
                // Below one unit a binary amount is kept as a decimal.
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
    /// Power of ten written out.
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

/// Which of the two rules a text breaks whose suffix is none.
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

/// `whole.fraction * 10^(9 + exponent)`, rounded up and saturating.
fn decimal_nanos(whole: &[u8], fraction: &[u8], exponent: i64) -> u128 {
    let shift = exponent.saturating_add(9).saturating_sub(fraction.len() as i64);
    let digits = (whole.len() + fraction.len()) as i64;
    // The digits from here on are below one nano.
    let kept = if shift < 0 { digits.saturating_add(shift) } else { digits };
    let mut nanos = 0_u128;
    let mut inexact = false;
    for (place, byte) in whole.iter().chain(fraction).enumerate() {
        let digit = u128::from(byte - b'0');
        if (place as i64) < kept {
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

/// `whole.fraction * 2^bits * 10^9`, rounded up and capped.
fn binary_nanos(whole: &[u8], fraction: &[u8], bits: u32) -> u128 {
    // At most 2^90, so that ten of it and a carry fit.
    let unit = 1_000_000_000_u128 << bits;
    let mut units = 0_u128;
    for byte in whole {
        units = units.saturating_mul(10).saturating_add(u128::from(byte - b'0'));
    }
    if units > BINARY_MAX_NANOS / unit {
        return BINARY_MAX_NANOS;
    }
    // From the last digit to the first, each step is worth a tenth of the next: exact, however long the fraction is.
    let mut part = 0_u128;
    let mut inexact = false;
    for byte in fraction.iter().rev() {
        let tenths = part + u128::from(byte - b'0') * unit;
        part = tenths / 10;
        inexact |= !tenths.is_multiple_of(10);
    }
    (units * unit + part + u128::from(inexact)).min(BINARY_MAX_NANOS)
}

//! Parses prices exactly: a decimal number becomes whole nano-dollars, never a float.

use kerf_engine::Price;

/// Parses a decimal number as a price, rounded half up to a nano-dollar. Returns `None` if the text
/// is no number, is negative or is too large.
pub(crate) fn parse_price(text: &str) -> Option<Price> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    // A nano-dollar is the ninth decimal.
    let shift = 9 + i64::from(exponent) - i64::try_from(fraction.len()).ok()?;
    let nanos = if shift >= 0 {
        digits.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)?
    } else {
        match 10_i128.checked_pow(u32::try_from(-shift).ok()?) {
            Some(scale) => digits / scale + i128::from(digits % scale * 2 >= scale),
            None => 0,
        }
    };
    i64::try_from(nanos).ok().filter(|n| *n < i64::MAX).map(Price::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (text, nanos) in [
            ("0", 0),
            ("0.027147483648", 27_147_484),
            ("1", 1_000_000_000),
            ("0.0000000005", 1),
            ("0.0000000004", 0),
            ("1e-9", 1),
            ("2.5e1", 25_000_000_000),
            ("1e-400", 0),
        ] {
            assert_eq!(parse_price(text), Some(Price::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn invalid_prices_are_rejected() {
        for text in ["-1", "", ".", "x", "1e99", "NaN", "99999999999999999999999"] {
            assert_eq!(parse_price(text), None, "{text}");
        }
    }
}

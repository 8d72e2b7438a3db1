//! Prices per hour, in whole units of 10⁻²¹ dollars: as fine as the prices that are checked.
//!
//! JSON has floating-point prices. A price is the shortest decimal number that is read as that
//! float. Prices are converted once, when they are read, and compared and added exactly from then
//! on.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

use serde::{Deserialize, Deserializer};

const DECIMALS: usize = 21;
const UNITS_PER_NANO_DOLLAR: i128 = 1_000_000_000_000;
/// Two sums of published prices are equal if they differ by less than this part of the greater one.
/// A float has 53 bits, which is about 10⁻¹⁶ of its value.
const ROUNDING_DIVISOR: i128 = 1_000_000_000_000;

/// A price per hour, in units of 10⁻²¹ dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i128);

impl Price {
    /// The price of something free of charge.
    pub const ZERO: Self = Self(0);
    /// The greatest price, greater than any real one.
    pub const MAX: Self = Self(i128::MAX);

    /// Creates a price from nano-dollars per hour.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos as i128 * UNITS_PER_NANO_DOLLAR)
    }

    /// Returns the price in nano-dollars per hour, rounded down. Recorded answers have this unit.
    pub fn nanos(self) -> i64 {
        i64::try_from(self.0.div_euclid(UNITS_PER_NANO_DOLLAR)).unwrap_or(i64::MAX)
    }

    /// Creates a price from units of 10⁻²¹ dollars per hour.
    pub(crate) const fn from_units(units: i128) -> Self {
        Self(units)
    }

    /// Returns the price in units of 10⁻²¹ dollars per hour.
    pub(crate) const fn units(self) -> i128 {
        self.0
    }

    /// Converts a price in dollars per hour, as JSON has it. Decimals after the 21st are dropped. A
    /// number that is too large becomes [`Self::MAX`]; NaN becomes zero.
    pub fn from_wire(dollars: f64) -> Self {
        if dollars.is_nan() {
            return Self::ZERO;
        }
        let text = dollars.abs().to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let decimals: String = fraction.chars().chain(std::iter::repeat('0')).take(DECIMALS).collect();
        let units = format!("{whole}{decimals}").parse().unwrap_or(i128::MAX);
        Self(if dollars < 0.0 { -units } else { units })
    }

    /// Returns true if two sums of published prices are equal but for the rounding of floats.
    pub(crate) fn is_about(self, other: Self) -> bool {
        (self.0 - other.0).abs() <= self.0.abs().max(other.0.abs()) / ROUNDING_DIVISOR
    }

    /// Returns this price divided by `other`, for reports only. The ratio of two equal prices is 1,
    /// also if both are zero.
    pub fn ratio_to(self, other: Self) -> f64 {
        if self == other { 1.0 } else { self.0 as f64 / other.0 as f64 }
    }
}

impl Add for Price {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Price {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Price {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        // The digits before the last 21 are the whole dollars.
        let digits = format!("{:022}", self.0.unsigned_abs());
        let (whole, decimals) = digits.split_at(digits.len() - DECIMALS);
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        write!(f, "{sign}${whole}{point}{decimals}/h")
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_wire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_adds_and_prints_exactly() {
        for (dollars, text) in [
            (0.027_147_483_648, "$0.027147483648/h"),
            (99.775_231_641_600_02, "$99.77523164160002/h"),
            (4.2e-10, "$0.00000000042/h"),
            (12.0, "$12/h"),
            (0.0, "$0/h"),
            (-0.5, "-$0.5/h"),
        ] {
            assert_eq!(Price::from_wire(dollars).to_string(), text);
        }
        let tenth = Price::from_wire(0.1);
        assert_eq!(tenth, Price::from_nanos(100_000_000));
        assert_eq!(tenth.nanos(), 100_000_000);
        assert_eq!([tenth; 10].into_iter().sum::<Price>(), Price::from_wire(1.0));
        assert_eq!(Price::from_wire(f64::NAN), Price::ZERO);
        assert_eq!(Price::from_wire(f64::INFINITY), Price::MAX);
        assert_eq!(Price::MAX + tenth, Price::MAX);
    }

    #[test]
    fn only_the_rounding_of_floats_is_ignored() {
        let cheapest = Price::from_wire(4.2e-10);
        assert!(!cheapest.is_about(Price::ZERO), "the cheapest reserved price is not zero");
        assert!(Price::from_wire(0.1 + 0.2).is_about(Price::from_wire(0.3)));
        assert!(!Price::from_wire(100.0).is_about(Price::from_wire(100.000_000_001)));
        assert!(Price::ZERO.is_about(Price::ZERO));
    }
}

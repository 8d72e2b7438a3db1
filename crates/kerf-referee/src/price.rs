//! Prices per hour, in whole nano-dollars.
//!
//! JSON has floating-point prices. They are rounded to nano-dollars once, when they are read, and
//! compared and added exactly from then on.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

use serde::{Deserialize, Deserializer};

/// A price per hour, in nano-dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i64);

impl Price {
    /// The price of something free of charge.
    pub const ZERO: Self = Self(0);
    /// The greatest price, greater than any real one.
    pub const MAX: Self = Self(i64::MAX);

    /// Creates a price from nano-dollars per hour.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the price in nano-dollars per hour.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Converts a price in dollars per hour, as JSON has it, and rounds it to nano-dollars.
    pub fn from_wire(dollars: f64) -> Self {
        // The cast saturates and turns NaN into zero.
        Self((dollars * 1e9).round() as i64)
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
        let nanos = self.0.unsigned_abs();
        let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
        let short = text.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{sign}${short}/h")
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
        let price = Price::from_wire(0.027_147_483_648);
        assert_eq!(price.nanos(), 27_147_484);
        assert_eq!(price.to_string(), "$0.027147484/h");
        let tenth = Price::from_wire(0.1);
        assert_eq!([tenth; 10].into_iter().sum::<Price>(), Price::from_wire(1.0));
        assert_eq!((Price::ZERO - tenth).to_string(), "-$0.1/h");
        assert_eq!(Price::from_wire(f64::NAN), Price::ZERO);
        assert_eq!(Price::MAX + tenth, Price::MAX);
    }
}

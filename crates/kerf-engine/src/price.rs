//! Money: integer nano-dollars an hour. Integers have a total order, add up alike in any order, and need no guard against NaN.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// A price per hour in nano-dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i64);

impl Price {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// No price is known; sorts behind every price.
    pub const UNKNOWN: Self = Self(i64::MAX);

    /// A price of that many nano-dollars an hour.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nano-dollars an hour.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Dollars an hour, for people and for published numbers; never for decisions.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Price {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Price {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
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

/// A machine more is only worth it when it is cheaper by more than a hair: nodes cost more than their price.
pub(crate) fn saves_enough(new: Price, old: Price) -> bool {
    new.nanos() < old.nanos() - old.nanos() / 100
}

//! Prices as integer nano-dollars per hour. Integers have a total order, their sum does not depend
//! on the order of addition, and there is no NaN.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// A price per hour in nano-dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i64);

impl Price {
    /// A price of zero.
    pub const ZERO: Self = Self(0);
    /// Stands for an unknown price. Sorts after every known price.
    pub const UNKNOWN: Self = Self(i64::MAX);

    /// Creates a price from nano-dollars per hour.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns nano-dollars per hour.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Returns dollars per hour, for display and published numbers. Comparisons of prices use
    /// [`Self::nanos`].
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

/// Returns true if `new` is more than 1% cheaper than `old`. A smaller saving does not justify
/// another node, because nodes cost more than their price.
pub(crate) fn saves_enough(new: Price, old: Price) -> bool {
    new.nanos() < old.nanos() - old.nanos() / 100
}

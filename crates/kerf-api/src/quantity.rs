//! Kubernetes quantities with exact integer arithmetic.
//!
//! A quantity is a whole number of nano-units in an `i128` plus the format it was written in. Kubernetes caps a quantity at
//! 2^63-1 units, so sums over any cluster stay far away from overflow; arithmetic saturates all the same. No float is ever
//! involved: what two manifests say compares and adds up exactly.

use std::cmp::Ordering;

/// How a quantity was written, which decides how its canonical text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// `1500m`, `2`, `3k`
    #[default]
    DecimalSi,
    /// `64Mi`
    BinarySi,
    /// `1e3`
    DecimalExponent,
}

/// An exact amount of a resource. Two quantities are equal when their values are, however they were written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Zero, written as a plain decimal.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// The quantity of that many nano-units.
    pub const fn from_nanos(nanos: i128, format: Format) -> Self {
        Self { nanos, format }
    }

    /// The quantity of that many whole units, as a plain decimal.
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * 1_000_000_000, format: Format::DecimalSi }
    }

    /// The exact value in nano-units.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// How it was written.
    pub const fn format(self) -> Format {
        self.format
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

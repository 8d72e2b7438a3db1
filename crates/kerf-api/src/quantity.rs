//! Kubernetes quantities with exact integer arithmetic.
//!
//! A quantity is a whole number of nano-units in an `i128` plus the format it was written in. That holds every amount up to
//! 1.7e29 units, so sums over any cluster stay far away from overflow; arithmetic saturates all the same. No float is ever
//! involved: what two manifests say compares and adds up exactly.
//!
//! Texts mean what they mean to the API server: finer than nano rounds away from zero, binary amounts (`Ki`…`Ei`) are capped at
//! 2^63-1 units, decimal ones are not. The one thing that the API server lets pass and Kerf does not is a quantity without a
//! digit (`Ki`, `.`): it stores those as `0`, so none ever comes back from it.

mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

pub use parse::QuantityError;

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// How a quantity was written, which decides how its canonical text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum QuantityFormat {
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
    format: QuantityFormat,
}

impl Quantity {
    /// Zero, written as a plain decimal.
    pub const ZERO: Self = Self { nanos: 0, format: QuantityFormat::DecimalSi };

    /// The quantity of that many nano-units.
    pub const fn from_nanos(nanos: i128, format: QuantityFormat) -> Self {
        Self { nanos, format }
    }

    /// The quantity of that many whole units, as a plain decimal.
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS_PER_UNIT, format: QuantityFormat::DecimalSi }
    }

    /// The exact value in nano-units.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// How it was written.
    pub const fn format(self) -> QuantityFormat {
        self.format
    }

    /// Whether it is exactly nothing.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is less than nothing.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The value in whole units, rounded away from zero, saturating at the ends of `i64`.
    pub fn value(self) -> i64 {
        self.scaled(NANOS_PER_UNIT)
    }

    /// The value in thousandths of a unit, rounded away from zero, saturating at the ends of `i64`.
    pub fn milli_value(self) -> i64 {
        self.scaled(NANOS_PER_MILLI)
    }

    fn scaled(self, nanos_per_step: i128) -> i64 {
        let whole = self.nanos / nanos_per_step;
        let rest = self.nanos % nanos_per_step;
        let rounded = whole + rest.signum();
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    /// A sum or difference is written as its first operand that is not zero.
    fn format_with(self, other: Self) -> QuantityFormat {
        if self.is_zero() { other.format } else { self.format }
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), format: self.format_with(other) }
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), format: self.format_with(other) }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::ZERO, Add::add)
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

/// The canonical text: an integer with the largest suffix that loses nothing, in the format the quantity was written in. A
/// binary amount below 1024 or with a fraction has no binary text and is written as a decimal.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        match self.format {
            QuantityFormat::BinarySi if self.nanos.unsigned_abs() >= 1024 * NANOS_PER_UNIT.unsigned_abs() => {
                if self.nanos % NANOS_PER_UNIT == 0 { self.write_binary(f) } else { self.write_decimal(f, true) }
            }
            QuantityFormat::BinarySi | QuantityFormat::DecimalSi => self.write_decimal(f, true),
            QuantityFormat::DecimalExponent => self.write_decimal(f, false),
        }
    }
}

impl Quantity {
    fn write_binary(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let mut mantissa = self.nanos / NANOS_PER_UNIT;
        let mut step = 0;
        while mantissa % 1024 == 0 && step + 1 < SUFFIXES.len() {
            mantissa /= 1024;
            step += 1;
        }
        write!(f, "{mantissa}{}", SUFFIXES[step])
    }

    fn write_decimal(self, f: &mut fmt::Formatter<'_>, with_suffix: bool) -> fmt::Result {
        const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        let mut mantissa = self.nanos;
        let mut step = 0;
        while mantissa % 1000 == 0 {
            mantissa /= 1000;
            step += 1;
        }
        match SUFFIXES.get(step) {
            Some(suffix) if with_suffix || suffix.is_empty() => write!(f, "{mantissa}{suffix}"),
            // Above exa there is no suffix: Kubernetes falls back to the exponent.
            _ => write!(f, "{mantissa}e{}", step as i32 * 3 - 9),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity: a string such as \"1500m\" or \"64Mi\", or an integer")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        // The API server trims, too; the grammar itself knows no blanks.
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, units: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_units(units))
    }

    fn visit_u64<E: Error>(self, units: u64) -> Result<Quantity, E> {
        Ok(Quantity::from_nanos(i128::from(units) * NANOS_PER_UNIT, QuantityFormat::DecimalSi))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }
}

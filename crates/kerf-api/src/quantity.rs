//! Kubernetes quantities with exact integer arithmetic.
//!
//! A quantity is a number of nano-units in an `i128`, and the format of its text. It holds amounts
//! up to 1.7e29 units, so sums over a whole cluster do not overflow; arithmetic saturates
//! nevertheless. No floating-point numbers are used: quantities compare and add exactly.
//!
//! Texts have the same value as in the API server: amounts finer than nano are rounded away from
//! zero, binary amounts (`Ki`…`Ei`) are capped at 2^63-1 units, decimal amounts are not. One
//! difference: the API server accepts a quantity without a digit (`Ki`, `.`) and Kerf does not. The
//! API server stores such a quantity as `0`, so it never returns one.

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

/// Format of a quantity's text, which determines its canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum QuantityFormat {
    /// Decimal, such as `1500m`, `2`, `3k`.
    #[default]
    DecimalSi,
    /// Binary, such as `64Mi`.
    BinarySi,
    /// Decimal with an exponent, such as `1e3`.
    DecimalExponent,
}

/// Exact amount of a resource. Two quantities with equal values are equal, even if their formats
/// differ.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: QuantityFormat,
}

impl Quantity {
    /// Zero in decimal format.
    pub const ZERO: Self = Self { nanos: 0, format: QuantityFormat::DecimalSi };

    /// Creates a quantity from nano-units.
    pub const fn from_nanos(nanos: i128, format: QuantityFormat) -> Self {
        Self { nanos, format }
    }

    /// Creates a quantity from whole units, in decimal format.
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS_PER_UNIT, format: QuantityFormat::DecimalSi }
    }

    /// Returns the exact value in nano-units.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// Returns the format of the text.
    pub const fn format(self) -> QuantityFormat {
        self.format
    }

    /// Returns true if the value is zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Returns true if the value is below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Returns the value in whole units, rounded away from zero and saturated to the range of
    /// `i64`.
    pub fn value(self) -> i64 {
        self.scaled(NANOS_PER_UNIT)
    }

    /// Returns the value in thousandths of a unit, rounded away from zero and saturated to the
    /// range of `i64`.
    pub fn milli_value(self) -> i64 {
        self.scaled(NANOS_PER_MILLI)
    }

    fn scaled(self, nanos_per_step: i128) -> i64 {
        let whole = self.nanos / nanos_per_step;
        let rest = self.nanos % nanos_per_step;
        let rounded = whole + rest.signum();
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    /// Returns the format of a sum or difference: that of the first operand that is not zero.
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

/// Writes the canonical text: an integer with the largest suffix that loses nothing, in the
/// quantity's format. A binary amount below 1024 or with a fraction has no binary text and is
/// written as a decimal.
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
            // Above exa there is no suffix. Kubernetes uses the exponent instead.
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
        // The API server trims spaces too; the grammar itself has none.
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

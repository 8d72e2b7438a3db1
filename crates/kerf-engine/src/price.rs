//! Prices per hour as integers. Integers have a total order, their sum does not depend on the order
//! of addition, and there is no NaN.
//!
//! The unit is 10⁻²¹ dollars. A reserved instance costs a ten-millionth of its on-demand price
//! (spec 05 §5.2), which is about 2·10⁻¹⁰ dollars for the cheapest type. Such a price must not
//! become zero, because a node without a price is never consolidated. In this unit it is exact to
//! a billionth of its value, and the sum of 100,000 nodes of the highest price fits in an `i128`.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// Number of units of one dollar, as a power of ten.
const DECIMALS: i64 = 21;
const UNITS_PER_DOLLAR: i128 = 10_i128.pow(21);
const UNITS_PER_MICRO_DOLLAR: i128 = 10_i128.pow(15);
const UNITS_PER_NANO_DOLLAR: i128 = 10_i128.pow(12);
/// The highest price that is accepted as input, exclusive.
const INPUT_DOLLARS_MAX: i128 = 10_000_000_000;

/// A price per hour in units of 10⁻²¹ dollars. Arithmetic saturates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i128);

impl Price {
    /// A price of zero.
    pub const ZERO: Self = Self(0);
    /// Stands for an unknown price. Sorts after every known price.
    pub const UNKNOWN: Self = Self(i128::MAX);

    /// Creates a price from nano-dollars per hour, exactly.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos as i128 * UNITS_PER_NANO_DOLLAR)
    }

    /// Parses a decimal number of dollars per hour, with or without an exponent. Decimals after the
    /// 21st are rounded half up. Returns `None` if the text is no number, is negative, has more
    /// than 38 digits, or is 10,000,000,000 or more.
    pub fn from_decimal(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let shift = DECIMALS + i64::from(exponent) - i64::try_from(fraction.len()).ok()?;
        let units = if digits == 0 {
            0
        } else if shift >= 0 {
            digits.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)?
        } else {
            match 10_i128.checked_pow(u32::try_from(-shift).ok()?) {
                Some(scale) => rounded_quotient(digits, scale),
                None => 0,
            }
        };
        (units < INPUT_DOLLARS_MAX * UNITS_PER_DOLLAR).then_some(Self(units))
    }

    /// Converts dollars per hour, as a price list in JSON has them, exactly: the price is the
    /// shortest decimal number that is read as this float. Returns `None` for a float that is no
    /// number, is negative, or is 10,000,000,000 or more.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        Self::from_decimal(&dollars.to_string())
    }

    /// Returns dollars per hour, for display and published numbers only. It is the float that is
    /// nearest to the price.
    pub fn dollars(self) -> f64 {
        nearest_float(self.0, UNITS_PER_DOLLAR)
    }

    /// Returns nano-dollars per hour, for ratios of two prices. It is the float that is nearest to
    /// the price.
    pub(crate) fn nano_dollars(self) -> f64 {
        nearest_float(self.0, UNITS_PER_NANO_DOLLAR)
    }

    /// Returns millionths of a dollar per hour, without the fraction.
    pub const fn micro_dollars(self) -> i128 {
        self.0 / UNITS_PER_MICRO_DOLLAR
    }

    /// Returns the price in units of 10⁻²¹ dollars per hour.
    pub(crate) const fn units(self) -> i128 {
        self.0
    }

    /// Returns this many times the price.
    #[must_use]
    pub const fn times(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor as i128))
    }

    /// Returns the price divided by a number, rounded half up: `divided_by(10_000_000)` is the
    /// price of reserved capacity. An unknown price stays unknown; a price divided by zero is
    /// unknown.
    #[must_use]
    pub fn divided_by(self, divisor: u32) -> Self {
        if self == Self::UNKNOWN || divisor == 0 {
            return Self::UNKNOWN;
        }
        Self(rounded_quotient(self.0, i128::from(divisor)))
    }

    /// Returns the price times `part / whole`, rounded down. Returns `None` unless `part` is at
    /// least 0 and `whole` is above 0. A share of an unknown price is unknown.
    ///
    /// The result is exact if price times `whole` fits in 127 bits. Otherwise it is too low by at
    /// most a 2⁴⁰th of the price, for prices below $100,000 per hour.
    pub fn share(self, part: i128, whole: i128) -> Option<Self> {
        if part < 0 || whole <= 0 {
            return None;
        }
        if self == Self::UNKNOWN {
            return Some(self);
        }
        let (times, rest) = (part / whole, part % whole);
        let of_rest = match self.0.checked_mul(rest) {
            Some(product) => product / whole,
            None => {
                // Drop as many low bits of the fraction as the product is too long.
                let length = |number: i128| i128::BITS - number.unsigned_abs().leading_zeros();
                let excess = length(self.0) + length(rest) - (i128::BITS - 1);
                self.0 * (rest >> excess) / ((whole >> excess) + 1)
            }
        };
        Some(Self(self.0.saturating_mul(times).saturating_add(of_rest)))
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

/// Divides by a positive number and rounds half up.
fn rounded_quotient(dividend: i128, divisor: i128) -> i128 {
    let rest = dividend.rem_euclid(divisor);
    dividend.div_euclid(divisor) + i128::from(rest >= divisor - rest)
}

/// Returns the float that is nearest to `units / unit`. `unit` is below 2⁷¹.
fn nearest_float(units: i128, unit: i128) -> f64 {
    if units == 0 {
        return 0.0;
    }
    // The quotient of the shifted number has at least 57 bits, more than a float keeps. Its last
    // bit is set if there is a remainder, so that the conversion rounds to the correct side.
    let magnitude = units.unsigned_abs();
    let shift = magnitude.leading_zeros();
    let (dividend, divisor) = (magnitude << shift, unit.unsigned_abs());
    let quotient = (dividend / divisor) | u128::from(!dividend.is_multiple_of(divisor));
    let value = quotient as f64 / (1_u128 << shift) as f64;
    if units < 0 { -value } else { value }
}

/// Returns true if `new` is more than 1% cheaper than `old`. A smaller saving does not justify
/// another node, because nodes cost more than their price.
pub(crate) fn saves_enough(new: Price, old: Price) -> bool {
    new.0 < old.0 - old.0 / 100
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ratio of an on-demand price to the price of reserved capacity (spec 05 §5.2).
    const RESERVED_DIVISOR: u32 = 10_000_000;

    #[test]
    fn decimals_are_exact() {
        for (text, units) in [
            ("0", 0),
            ("0.0116", 11_600_000_000_000_000_000),
            ("0.027147483648", 27_147_483_648_000_000_000),
            ("1", UNITS_PER_DOLLAR),
            ("2.5e1", 25 * UNITS_PER_DOLLAR),
            ("4.2e-10", 420_000_000_000),
            ("1e-21", 1),
            ("0.0000000000000000000005", 1),
            ("0.0000000000000000000004", 0),
            ("1e-400", 0),
            ("0e400", 0),
            ("9999999999.999999999", 9_999_999_999_999_999_999 * UNITS_PER_NANO_DOLLAR),
        ] {
            assert_eq!(Price::from_decimal(text), Some(Price(units)), "{text}");
        }
        assert_eq!(Price::from_decimal("0.5"), Some(Price::from_nanos(500_000_000)));
    }

    #[test]
    fn invalid_prices_are_rejected() {
        for text in
            ["-1", "", ".", "x", "1e99", "NaN", "inf", "10000000000", "99999999999999999999999", "1e99999999999"]
        {
            assert_eq!(Price::from_decimal(text), None, "{text}");
        }
        for dollars in [f64::NAN, f64::INFINITY, -0.1, 1e10, f64::MAX] {
            assert_eq!(Price::from_dollars(dollars), None, "{dollars}");
        }
    }

    #[test]
    fn floats_are_read_as_their_shortest_decimal() {
        for (dollars, text) in
            [(0.0, "0"), (0.0116, "0.0116"), (99.775_231_641_600_02, "99.77523164160002"), (1e-300, "0")]
        {
            assert_eq!(Price::from_dollars(dollars), Price::from_decimal(text), "{text}");
        }
    }

    // spec 05 §5.2: the price of reserved capacity is above zero, so a node can be consolidated
    #[test]
    fn reserved_prices_of_the_cheapest_types_are_exact_to_a_billionth_and_ordered() {
        let on_demand = ["0.002", "0.0020001", "0.00200011", "0.0042", "0.0042000001", "407.6"];
        let prices: Vec<Price> = on_demand.iter().filter_map(|text| Price::from_decimal(text)).collect();
        let reserved: Vec<Price> = prices.iter().map(|price| price.divided_by(RESERVED_DIVISOR)).collect();
        assert_eq!(reserved.len(), on_demand.len());
        assert!(reserved[0] > Price::ZERO && reserved.is_sorted_by(|a, b| a < b), "{reserved:?}");
        for (price, reserved) in prices.iter().zip(&reserved) {
            let error = (price.0 - reserved.0 * i128::from(RESERVED_DIVISOR)).abs();
            assert!(error * 1_000_000_000 <= price.0, "{price:?} becomes {reserved:?}");
        }
        assert_eq!(reserved[3].dollars().to_string(), "0.00000000042");
    }

    #[test]
    fn a_large_cluster_does_not_overflow() {
        let highest = Price::from_decimal("9999999999.99").unwrap_or_default();
        let total: Price = std::iter::repeat_n(highest, 100_000).sum();
        assert_eq!(total, highest.times(100_000));
        assert!(total.times(40) < Price::UNKNOWN, "the 1/40 rule multiplies the savings");
        assert_eq!(Price::UNKNOWN + highest, Price::UNKNOWN);
    }

    #[test]
    fn division_rounds_half_up_and_keeps_unknown_prices() {
        assert_eq!(Price(5).divided_by(2), Price(3));
        assert_eq!(Price(4).divided_by(3), Price(1));
        assert_eq!(Price(-5).divided_by(2), Price(-2));
        assert_eq!(Price(5).divided_by(0), Price::UNKNOWN);
        assert_eq!(Price::UNKNOWN.divided_by(2), Price::UNKNOWN);
    }

    #[test]
    fn shares_are_exact_or_slightly_low() {
        let price = Price::from_nanos(100_000_000);
        assert_eq!(price.share(1, 4), Some(Price::from_nanos(25_000_000)));
        assert_eq!(price.share(9, 4), Some(Price::from_nanos(225_000_000)));
        assert_eq!(price.share(0, 4), Some(Price::ZERO));
        assert_eq!(price.share(-1, 4), None);
        assert_eq!(price.share(1, 0), None);
        assert_eq!(Price::UNKNOWN.share(1, 4), Some(Price::UNKNOWN));
        assert_eq!(price.share(i128::MAX, 1), Some(Price::UNKNOWN), "the product saturates");
        // Price times memory has more than 127 bits: 2/3 of a terabyte in billionths of a byte.
        let part = 2_000_000_000_000_000_000_000_i128;
        let expected = 10_000 * UNITS_PER_DOLLAR / 3 * 2;
        let share = Price::from_nanos(10_000_000_000_000).share(part, part / 2 * 3).unwrap_or_default();
        assert!(share.0 <= expected && expected - share.0 < expected >> 40, "{share:?}, expected {expected}");
    }

    proptest! {
        #[test]
        fn published_floats_are_the_nearest(units in 0..INPUT_DOLLARS_MAX * UNITS_PER_DOLLAR, shift in 0..100_u32) {
            let price = Price(units >> shift);
            let text = format!("{}.{:021}", price.0 / UNITS_PER_DOLLAR, price.0 % UNITS_PER_DOLLAR);
            prop_assert_eq!(price.dollars().to_bits(), text.parse::<f64>().unwrap().to_bits());
            let text = format!("{}.{:012}", price.0 / UNITS_PER_NANO_DOLLAR, price.0 % UNITS_PER_NANO_DOLLAR);
            prop_assert_eq!(price.nano_dollars().to_bits(), text.parse::<f64>().unwrap().to_bits());
            prop_assert_eq!(Price(-price.0).dollars().to_bits(), if price.0 == 0 { 0 } else { (-price.dollars()).to_bits() });
        }

        // Numbers of inputs with at most nine decimals are the quotient of two exact floats.
        #[test]
        fn whole_nano_dollars_are_published_as_their_quotient(nanos in 0..(1_i64 << 53)) {
            let price = Price::from_nanos(nanos);
            prop_assert_eq!(price.dollars().to_bits(), (nanos as f64 / 1e9).to_bits());
            prop_assert_eq!(price.nano_dollars().to_bits(), (nanos as f64).to_bits());
        }

        #[test]
        fn floats_survive_a_round_trip(nanos in 0..9_000_000_000_000_i64) {
            let price = Price::from_nanos(nanos);
            prop_assert_eq!(Price::from_dollars(price.dollars()), Some(price));
        }
    }
}

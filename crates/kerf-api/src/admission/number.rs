//! JSON numbers as the API server holds them: an int64 if the text is one, otherwise a float64
//! (`2.0` and `1e3` are floats). Whole floats are stored without the decimal point, so an admitted
//! object contains none.

use std::fmt;

use serde_json::{Number, Value};

use super::text;

/// A number in one of the two forms that the API server uses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JsonNumber {
    Int(i64),
    Float(f64),
}

impl JsonNumber {
    pub(crate) fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(n) => Self::Int(n),
            None => Self::Float(number.as_f64().unwrap_or(f64::INFINITY)),
        }
    }

    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::Int(n) => n as f64,
            Self::Float(f) => f,
        }
    }

    /// Returns the value as an int64 without rounding; `None` if it has a fraction or does not fit.
    pub(crate) fn as_i64_exact(self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(n),
            Self::Float(f) => whole_i64(f),
        }
    }

    /// Compares the value with a bound of the schema, and returns the bound as the error text
    /// prints it. Both are compared as integers if the value is an integer and the bound fits the
    /// schema's type, otherwise as floats.
    pub(crate) fn compare(
        self,
        bound: f64,
        bound_fits: bool,
        beyond: impl Fn(ComparableNumber, ComparableNumber) -> bool,
    ) -> (bool, Self) {
        match self {
            Self::Int(value) if bound_fits => {
                (beyond(ComparableNumber::Int(value), ComparableNumber::Int(bound as i64)), Self::Int(bound as i64))
            }
            value => {
                (beyond(ComparableNumber::Float(value.as_f64()), ComparableNumber::Float(bound)), Self::Float(bound))
            }
        }
    }

    /// Returns the value as an error about a bound prints it. If the bound does not fit the
    /// schema's type, the value is printed as a float.
    pub(crate) fn as_bound(self, bound_fits: bool) -> Value {
        match self {
            Self::Int(value) if bound_fits => value.into(),
            value => value.as_f64().into(),
        }
    }
}

/// A number prepared for a comparison. An integer and a float are never ordered.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ComparableNumber {
    Int(i64),
    Float(f64),
}

impl PartialOrd for ComparableNumber {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.partial_cmp(b),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Int(_), Self::Float(_)) | (Self::Float(_), Self::Int(_)) => None,
        }
    }
}

impl fmt::Display for JsonNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => n.fmt(f),
            Self::Float(value) => f.write_str(&text::float(*value)),
        }
    }
}

impl From<JsonNumber> for Value {
    fn from(number: JsonNumber) -> Self {
        match number {
            JsonNumber::Int(n) => n.into(),
            JsonNumber::Float(f) => f.into(),
        }
    }
}

/// Returns true if the number counts as an integer. As upstream, floats have a relative tolerance
/// of 1e-9 and must not exceed 2^53 - 1.
pub(crate) fn is_whole(number: JsonNumber) -> bool {
    const LIMIT: f64 = 9_007_199_254_740_991.0;
    const TOLERANCE: f64 = 1e-9;
    match number {
        JsonNumber::Int(_) => true,
        JsonNumber::Float(f) => {
            if !f.is_finite() || f.abs() > LIMIT {
                return false;
            }
            let truncated = f.trunc();
            let difference = (f - truncated).abs();
            // Both sides are bounded by LIMIT; the difference is usually exactly zero.
            difference == 0.0 || (truncated != 0.0 && f > 0.0 && difference / (f.abs() + truncated.abs()) < TOLERANCE)
        }
    }
}

/// Returns the float as an int64; `None` if it has a fraction or does not fit.
pub(crate) fn whole_i64(f: f64) -> Option<i64> {
    // 2^63 is the first float above i64::MAX; every whole float below it converts without loss.
    (f.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&f)).then_some(f as i64)
}

/// Replaces every whole float by an integer, at any depth, as the API server does when it stores an
/// object.
pub(crate) fn write_whole_floats_as_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            // A number that does not fit into an int64 is a float64, also if it was written as an
            // integer.
            if let JsonNumber::Float(f) = JsonNumber::of(number) {
                *value = whole_i64(f).map_or_else(|| f.into(), Value::from);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole_floats_as_integers),
        Value::Object(fields) => fields.values_mut().for_each(write_whole_floats_as_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

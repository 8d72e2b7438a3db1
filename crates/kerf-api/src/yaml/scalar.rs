//! Resolves scalars by the rules of go-yaml v2 (`resolve.go`): those of YAML 1.1 without base-60
//! numbers, and with Go's number syntax. Timestamps remain strings, as in a conversion to JSON.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use granit_parser::{ScalarStyle, Tag};
use serde_json::{Number, Value};

use crate::admission::text;

/// Namespace of YAML's own tags: `!!int` is `int` in it.
pub(super) const YAML_TAG_NAMESPACE: &str = "tag:yaml.org,2002:";

/// Go's decoder ignores extra bits in the last character.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Resolved scalar.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Scalar {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    /// Integer that is too large for `Int`.
    Uint(u64),
    Float(f64),
    Text(String),
}

/// Resolves a scalar: a plain one by its text, a quoted one to a string. One of YAML's own tags
/// requires a type.
pub(super) fn resolve(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<Scalar, String> {
    let Some(tag) = tag else {
        let plain = (style == ScalarStyle::Plain).then(|| resolve_plain(&text)).flatten();
        return Ok(plain.unwrap_or_else(|| Scalar::Text(text.into_owned())));
    };
    let name = tag.suffix_in_namespace(YAML_TAG_NAMESPACE).unwrap_or_default();
    match (name.as_ref(), resolve_plain(&text)) {
        ("null", Some(Scalar::Null)) => Ok(Scalar::Null),
        ("bool", Some(value @ Scalar::Bool(_)))
        | ("int", Some(value @ (Scalar::Int(_) | Scalar::Uint(_))))
        | ("float", Some(value @ Scalar::Float(_))) => Ok(value),
        ("float", Some(Scalar::Int(value))) => Ok(Scalar::Float(value as f64)),
        ("timestamp", None) if is_date(&text) => Ok(Scalar::Text(text.into_owned())),
        ("null" | "bool" | "int" | "float" | "timestamp", value) => {
            let actual_tag = value.as_ref().map_or("str", Scalar::tag);
            Err(format!("cannot decode !!{actual_tag} `{text}` as a !!{name}"))
        }
        ("binary", _) => {
            let base64_text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            let bytes =
                BASE64.decode(base64_text).map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
            Ok(Scalar::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        // Tags of other namespaces have no meaning in JSON.
        _ => Ok(Scalar::Text(text.into_owned())),
    }
}

impl Scalar {
    /// Converts the scalar to a value. A whole number becomes an integer, because JSON does not
    /// distinguish `1.0` from `1`.
    pub(super) fn into_value(self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::from(value),
            Self::Uint(value) => Value::from(value),
            Self::Float(value) if value.fract() == 0.0 && value.abs() < TWO_TO_63 => Value::from(value as i64),
            Self::Float(value) => Number::from_f64(value)
                .map(Value::Number)
                .ok_or_else(|| format!("unsupported value: {}: numbers must be finite", text::float(value)))?,
            Self::Text(value) => Value::String(value),
        })
    }

    /// Converts the scalar to the name of a field. Numbers and booleans become text.
    pub(super) fn into_key(self) -> Result<String, String> {
        match self {
            Self::Bool(value) => Ok(value.to_string()),
            Self::Int(value) => Ok(value.to_string()),
            Self::Float(value) if value.is_nan() => Ok(".nan".to_owned()),
            Self::Float(value) => Ok(float_key(value)),
            Self::Text(value) => Ok(value),
            Self::Null => Err("null cannot be the name of a field".to_owned()),
            Self::Uint(value) => Err(format!("{value} cannot be the name of a field: write it as \"{value}\"")),
        }
    }

    fn tag(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Uint(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
        }
    }
}

/// Whole floats below this bound fit into a 64-bit integer.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// Formats a float as a key, with the fewest digits that identify it as a 32-bit float.
fn float_key(value: f64) -> String {
    let shortest = (value as f32).to_string().parse().unwrap_or(value);
    match text::float(shortest).as_str() {
        "+Inf" => ".inf".to_owned(),
        "-Inf" => "-.inf".to_owned(),
        digits => digits.to_owned(),
    }
}

/// Resolves a text without quotes. Returns `None` if it is a string.
fn resolve_plain(text: &str) -> Option<Scalar> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => match text.as_bytes()[0] {
            b'.' => Scalar::Float(parse_finite_float(&without_separators(text)?)?),
            b'+' | b'-' | b'0'..=b'9' => parse_number(&text.replace('_', ""))?,
            _ => return None,
        },
    })
}

/// Parses a number that begins with a digit or a sign and has no underscores.
fn parse_number(text: &str) -> Option<Scalar> {
    parse_integer(text)
        .or_else(|| is_decimal(text).then(|| parse_finite_float(text)).flatten().map(Scalar::Float))
        // Go's integer syntax also has `0b`, but go-yaml also accepts a sign after it.
        .or_else(|| i64::from_str_radix(text.strip_prefix("0b")?, 2).ok().map(Scalar::Int))
}

/// Parses an integer in Go's syntax: a sign, a prefix for the base (`0` alone means 8), digits.
fn parse_integer(text: &str) -> Option<Scalar> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // The standard library would accept a second sign.
    if !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if is_negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Scalar::Int);
    }
    Some(i64::try_from(magnitude).map_or_else(
        // Go parses such a large number only if it has no sign.
        |_| (!text.starts_with('+')).then_some(Scalar::Uint(magnitude)),
        |value| Some(Scalar::Int(value)),
    ))
    .flatten()
}

/// Returns true if the text is a decimal float: digits with or without a point, and an optional
/// exponent.
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let are_digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    are_digits(whole)
        && are_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && are_digits(exponent))
}

/// Returns true if the text begins like a date. The rest is not checked, because the value stays a
/// string.
fn is_date(text: &str) -> bool {
    matches!(text.as_bytes(), [a, b, c, d, b'-', ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()))
}

/// Parses a float. Returns `None` if it is too large; the text is then a string.
fn parse_finite_float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Removes underscores between digits. Returns `None` if an underscore is elsewhere.
fn without_separators(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('_') {
        return Some(Cow::Borrowed(text));
    }
    let is_between_digits =
        |triple: &[u8]| triple[1] != b'_' || (triple[0].is_ascii_digit() && triple[2].is_ascii_digit());
    (!text.ends_with('_') && text.as_bytes().windows(3).all(is_between_digits)).then(|| text.replace('_', "").into())
}

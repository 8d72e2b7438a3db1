//! Type conversions. The error of an impossible conversion names both types.

use super::super::super::number::whole_i64;
use super::super::super::text;
use super::super::super::time::{self, SECOND};
use super::super::value::{Arguments, EvalFailure, EvalResult, Value, error, no_such_overload};

fn single_argument<'a>(args: Arguments<'a, '_>) -> Result<Value<'a>, EvalFailure> {
    let mut values = args.values.into_iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        _ => no_such_overload(),
    }
}

fn conversion_error<'a>(from: &Value<'a>, to: &str) -> EvalResult<'a> {
    error(format!("type conversion error from '{}' to '{to}'", from.type_name()))
}

pub(in super::super) fn type_of<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Type(single_argument(args)?.type_name().to_owned().into()))
}

pub(in super::super) fn to_bool<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match single_argument(args)? {
        Value::Bool(b) => Ok(Value::Bool(b)),
        Value::String(text) => match &*text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => conversion_error(&Value::String(text), "bool"),
        },
        other => conversion_error(&other, "bool"),
    }
}

pub(in super::super) fn to_bytes<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match single_argument(args)? {
        Value::Bytes(bytes) => Ok(Value::Bytes(bytes)),
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        other => conversion_error(&other, "bytes"),
    }
}

pub(in super::super) fn to_double<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match single_argument(args)? {
        Value::Double(d) => Ok(Value::Double(d)),
        Value::Int(n) => Ok(Value::Double(n as f64)),
        Value::Uint(n) => Ok(Value::Double(n as f64)),
        Value::String(text) => match parse_double(&text) {
            Some(d) => Ok(Value::Double(d)),
            None => conversion_error(&Value::String(text), "double"),
        },
        other => conversion_error(&other, "double"),
    }
}

/// Parses a decimal float. Rust's syntax is that of Go, with `Inf` and `NaN`.
fn parse_double(text: &str) -> Option<f64> {
    if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        return None;
    }
    text.parse().ok()
}

pub(in super::super) fn to_int<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match single_argument(args)? {
        Value::Int(n) => Ok(Value::Int(n)),
        Value::Uint(n) => i64::try_from(n).map_or_else(|_| error("integer overflow"), |n| Ok(Value::Int(n))),
        Value::Double(d) => whole_i64(d.trunc()).map_or_else(|| error("integer overflow"), |n| Ok(Value::Int(n))),
        Value::Duration(nanoseconds) => Ok(Value::Int(nanoseconds)),
        Value::Timestamp(instant) => Ok(Value::Int(instant.as_second())),
        Value::String(text) => match parse_integer(&text) {
            Some(n) => Ok(Value::Int(n)),
            None => conversion_error(&Value::String(text), "int"),
        },
        other => conversion_error(&other, "int"),
    }
}

/// Parses a decimal integer as Go does: an optional sign and digits.
fn parse_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

pub(in super::super) fn to_uint<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match single_argument(args)? {
        Value::Uint(n) => Ok(Value::Uint(n)),
        Value::Int(n) => u64::try_from(n).map_or_else(|_| error("unsigned integer overflow"), |n| Ok(Value::Uint(n))),
        Value::Double(d) if (0.0..18_446_744_073_709_551_616.0).contains(&d) => Ok(Value::Uint(d as u64)),
        Value::Double(_) => error("unsigned integer overflow"),
        Value::String(text) => {
            match Some(&*text).filter(|text| text.bytes().all(|b| b.is_ascii_digit())).and_then(|t| t.parse().ok()) {
                Some(n) => Ok(Value::Uint(n)),
                None => conversion_error(&Value::String(text), "uint"),
            }
        }
        other => conversion_error(&other, "uint"),
    }
}

pub(in super::super) fn to_string<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(match single_argument(args)? {
        Value::String(text) => Value::String(text),
        Value::Bool(b) => Value::text(b.to_string()),
        Value::Int(n) => Value::text(n.to_string()),
        Value::Uint(n) => Value::text(n.to_string()),
        Value::Double(d) => Value::text(text::float(d)),
        Value::Bytes(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => Value::text(text),
            Err(_) => return error("invalid UTF-8 in bytes, cannot convert to string"),
        },
        Value::Duration(nanoseconds) => Value::text(seconds_text(nanoseconds)),
        Value::Timestamp(instant) => Value::text(instant.to_string()),
        Value::Ip(address) => Value::text(address.to_string()),
        Value::Cidr(cidr) => Value::text(cidr.to_string()),
        other => return conversion_error(&other, "string"),
    })
}

/// Formats a duration in seconds, with as many decimals as necessary.
pub(in super::super) fn seconds_text(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (seconds, rest) = (nanoseconds.unsigned_abs() / SECOND as u64, nanoseconds.unsigned_abs() % SECOND as u64);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let decimals = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", decimals.trim_end_matches('0'))
}

pub(in super::super) fn to_duration<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match single_argument(args)? {
        Value::Duration(nanoseconds) => Ok(Value::Duration(nanoseconds)),
        Value::Int(nanoseconds) => Ok(Value::Duration(nanoseconds)),
        Value::String(text) => match time::parse_duration(&text) {
            Some(nanoseconds) => Ok(Value::Duration(nanoseconds)),
            None => conversion_error(&Value::String(text), "google.protobuf.Duration"),
        },
        other => conversion_error(&other, "google.protobuf.Duration"),
    }
}

pub(in super::super) fn to_timestamp<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match single_argument(args)? {
        Value::Timestamp(instant) => Ok(Value::Timestamp(instant)),
        Value::Int(seconds) => match jiff::Timestamp::from_second(seconds) {
            Ok(instant) => Ok(Value::Timestamp(instant)),
            Err(_) => error("timestamp overflow"),
        },
        Value::String(text) => match time::parse_timestamp(&text) {
            Some(instant) => Ok(Value::Timestamp(instant)),
            None => conversion_error(&Value::String(text), "google.protobuf.Timestamp"),
        },
        other => conversion_error(&other, "google.protobuf.Timestamp"),
    }
}

/// Decodes base64 in the URL alphabet, as Kubernetes decodes the `byte` format. Text in the
/// standard alphabet is accepted if it contains neither `+` nor `/`.
pub(in super::super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - body.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0u32);
    for byte in body.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(out)
}

//! Formats values as the API server prints them: Go's `%q`, `%v` and `encoding/json`, which differ
//! from Rust in escapes and floats. Error texts must equal those of a real server, so every value
//! in an error text is formatted here.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Quotes text as `strconv.Quote` does: double quotes, Go's short escapes, and `\x`, `\u`, `\U` for
/// unprintable characters.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c < ' ' || c == '\u{7f}' => push(&mut out, format_args!("\\x{:02x}", c as u32)),
            // escape_debug leaves exactly the printable characters unchanged.
            c if c == '\'' || (c.escape_debug().len() == 1 && c != '\u{a0}') => out.push(c),
            c if (c as u32) < 0x1_0000 => push(&mut out, format_args!("\\u{:04x}", c as u32)),
            c => push(&mut out, format_args!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

/// Formats a float as `%v` does: the shortest digits that round-trip, with an exponent if the value
/// is below 1e-4 or at least 1e6.
pub(crate) fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    // The shortest digits, taken from Rust's `{:e}` format: "d.ddde±x".
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..6).contains(&exponent) {
        return with_exponent(digits, exponent);
    }
    format!("{value}")
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Formats a value as `encoding/json` does: keys sorted, `<`, `>` and `&` escaped, whole floats
/// without a decimal point.
pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value);
    out
}

fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => push(out, format_args!("{b}")),
        Value::Number(n) => out.push_str(&json_number(n)),
        Value::String(s) => write_json_string(out, s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (i, (key, item)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json_string(out, key);
                out.push(':');
                write_json(out, item);
            }
            out.push('}');
        }
    }
}

/// Formats a number as Go's JSON encoder does: `2.0` is `2`, and an exponent is used only below
/// 1e-6 and from 1e21.
pub(crate) fn json_number(number: &Number) -> String {
    let Some(f) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let scientific = format!("{f:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if f != 0.0 && !(-6..21).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{}", pad_positive(exponent))
        }
        _ => format!("{f}"),
    }
}

/// Formats the exponent: Go writes `1e+21` but `1e-7`, not `1e-07`.
fn pad_positive(exponent: i32) -> String {
    if exponent < 0 { exponent.unsigned_abs().to_string() } else { format!("{exponent:02}") }
}

fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => push(out, format_args!("\\u{:04x}", c as u32)),
            c if c < ' ' => push(out, format_args!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = out.write_fmt(args);
}

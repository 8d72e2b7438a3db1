//! `string.format`, CEL's printf. Kubernetes enables an early version of it, which prints floats in
//! the US format: commas between thousands, and `×10⁰³` for an exponent.

use super::super::super::text;
use super::super::value::{Arguments, EvalFailure, EvalResult, Value, error, no_such_overload};
use super::conversion::seconds_text;
use super::strings::TEXT_MAX_BYTES;

/// The conversion of a formatting clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Verb {
    Text,
    Decimal,
    Fixed,
    Scientific,
    Binary,
    Hex { upper: bool },
    Octal,
}

/// Returns the text before the next clause, and the text after its `%`. `%%` is not a clause.
pub(in super::super) fn next_clause(text: &str) -> Option<(String, &str)> {
    let mut before = String::new();
    let mut rest = text;
    loop {
        let at = rest.find('%')?;
        before.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.strip_prefix('%') {
            Some(after) => {
                before.push('%');
                rest = after;
            }
            None => return Some((before, rest)),
        }
    }
}

/// Parses a clause after its `%`. Returns its conversion, its precision, and the text after it.
pub(in super::super) fn parse_clause(text: &str) -> Result<(Verb, Option<usize>, &str), String> {
    if text.is_empty() {
        return Err("unexpected end of string".to_owned());
    }
    let clause_error = |why: &str| format!("could not parse formatting clause: {why}");
    let mut rest = text;
    let mut precision = None;
    if let Some(digits) = text.strip_prefix('.') {
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(|| clause_error("error while parsing precision: could not find end of precision specifier"))?;
        let precision_text = &digits[..end];
        precision = Some(precision_text.parse::<usize>().map_err(|_| {
            let why = if precision_text.is_empty() { "invalid syntax" } else { "value out of range" };
            clause_error(&format!(
                "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {}: {why}",
                text::quote(precision_text)
            ))
        })?);
        rest = &digits[end..];
    }
    let letter = rest.chars().next().unwrap_or_default();
    let verb = match letter {
        's' => Verb::Text,
        'd' => Verb::Decimal,
        'f' => Verb::Fixed,
        'e' => Verb::Scientific,
        'b' => Verb::Binary,
        'x' => Verb::Hex { upper: false },
        'X' => Verb::Hex { upper: true },
        'o' => Verb::Octal,
        other => return Err(clause_error(&format!("unrecognized formatting clause \"{other}\""))),
    };
    Ok((verb, precision, &rest[letter.len_utf8()..]))
}

/// Returns the message for an argument that a clause cannot print.
pub(in super::super) fn wrong_type(verb: Verb, type_name: &str) -> String {
    let rule = match verb {
        Verb::Text => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        Verb::Decimal => "decimal clause can only be used on integers",
        Verb::Fixed => "fixed-point clause can only be used on doubles",
        Verb::Scientific => "scientific clause can only be used on doubles",
        Verb::Binary => "only integers and bools can be formatted as binary",
        Verb::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
        Verb::Octal => "octal clause can only be used on integers",
    };
    format!("{rule}, was given {type_name}")
}

/// Implements `'%s has %d'.format([a, b])`.
pub(in super::super) fn format<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let [Value::String(pattern), Value::List(list)] = &args.values[..] else { return no_such_overload() };
    let mut out = String::new();
    let mut rest = &**pattern;
    let mut used = 0;
    while let Some((before, clause)) = next_clause(rest) {
        out.push_str(&before);
        let Some(argument) = list.get(used) else { return error(format!("index {used} out of range")) };
        let (verb, precision, after) = match parse_clause(clause) {
            Ok(parsed) => parsed,
            Err(text) => return error(text),
        };
        out.push_str(&format_argument(&argument?, verb, precision)?);
        if out.len() > TEXT_MAX_BYTES {
            return Err(EvalFailure::OverBudget);
        }
        used += 1;
        rest = after;
    }
    out.push_str(&rest.replace("%%", "%"));
    Ok(Value::text(out))
}

fn format_argument(value: &Value<'_>, verb: Verb, precision: Option<usize>) -> Result<String, EvalFailure> {
    let wrong = || error(format!("error during formatting: {}", wrong_type(verb, value.type_name())));
    let (negative, magnitude) = match value {
        Value::Int(n) => (*n < 0, n.unsigned_abs()),
        Value::Uint(n) => (false, *n),
        Value::Bool(b) if verb == Verb::Binary => (false, u64::from(*b)),
        Value::String(text) if matches!(verb, Verb::Hex { .. }) => return Ok(hex(text.as_bytes(), verb)),
        Value::Bytes(bytes) if matches!(verb, Verb::Hex { .. }) => return Ok(hex(bytes, verb)),
        other => {
            return match verb {
                Verb::Text => as_text(other),
                Verb::Fixed => float(other).map_or_else(wrong, |number| Ok(fixed(number, precision.unwrap_or(6)))),
                Verb::Scientific => float(other).map_or_else(wrong, |number| Ok(scientific(number))),
                Verb::Decimal | Verb::Binary | Verb::Hex { .. } | Verb::Octal => wrong(),
            };
        }
    };
    let sign = if negative { "-" } else { "" };
    Ok(match verb {
        Verb::Text | Verb::Decimal => format!("{sign}{magnitude}"),
        Verb::Binary => format!("{sign}{magnitude:b}"),
        Verb::Hex { upper: false } => format!("{sign}{magnitude:x}"),
        Verb::Hex { upper: true } => format!("{sign}{magnitude:X}"),
        Verb::Octal => format!("{sign}{magnitude:o}"),
        Verb::Fixed | Verb::Scientific => return wrong(),
    })
}

fn hex(bytes: &[u8], verb: Verb) -> String {
    let digits =
        |byte: &u8| if verb == (Verb::Hex { upper: true }) { format!("{byte:02X}") } else { format!("{byte:02x}") };
    bytes.iter().map(digits).collect()
}

/// Returns a double, or the value of one of the three texts that represent a double.
fn float(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(d) => Some(*d),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn format_non_finite(number: f64) -> String {
    match number {
        number if number.is_nan() => "NaN".to_owned(),
        number if number > 0.0 => "∞".to_owned(),
        _ => "-∞".to_owned(),
    }
}

fn fixed(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return format_non_finite(number);
    }
    let plain = format!("{:.*}", precision.min(1000), number.abs());
    let (whole, fraction) =
        plain.split_once('.').map_or((plain.as_str(), None), |(whole, fraction)| (whole, Some(fraction)));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

/// Formats with six decimals always: as upstream, the precision of the clause is taken for a width.
fn scientific(number: f64) -> String {
    if !number.is_finite() {
        return format_non_finite(number);
    }
    let plain = format!("{number:.6e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |exponent| ("⁻", exponent));
    let superscript: String = format!("{exponent:0>2}")
        .chars()
        .map(|digit| digit.to_digit(10).and_then(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize)).unwrap_or(digit))
        .collect();
    format!("{digits}×10{sign}{superscript}")
}

fn as_text(value: &Value<'_>) -> Result<String, EvalFailure> {
    Ok(match value {
        Value::String(text) => text.to_string(),
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Uint(n) => n.to_string(),
        Value::Double(d) => text::float(*d),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Duration(nanoseconds) => seconds_text(*nanoseconds),
        Value::Timestamp(instant) => instant.to_string(),
        Value::Type(name) => name.to_string(),
        Value::List(list) => {
            let items = list.iter().map(|item| nested(&item?)).collect::<Result<Vec<_>, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for key in map.keys() {
                if let Some(value) = map.get(&key)? {
                    entries.push(format!("{}:{}", nested(&key)?, nested(&value?)?));
                }
            }
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => return error(format!("error during formatting: {}", wrong_type(Verb::Text, other.type_name()))),
    })
}

/// Formats a value inside a list or map as CEL writes it.
fn nested(value: &Value<'_>) -> Result<String, EvalFailure> {
    Ok(match value {
        Value::String(text) => text::quote(text),
        Value::Bytes(bytes) => format!("b{}", text::quote(&String::from_utf8_lossy(bytes))),
        Value::Double(d) if d.is_finite() => format!("{d:.6}"),
        Value::Double(d) => text::quote(&text::float(*d)),
        Value::Duration(nanoseconds) => format!("duration(\"{}\")", seconds_text(*nanoseconds)),
        Value::Timestamp(instant) => format!("timestamp(\"{instant}\")"),
        other => as_text(other)?,
    })
}

//! Durations and timestamps as the API server parses them: Go's `time.ParseDuration`, the more
//! lenient syntax of the `duration` format, and RFC 3339. A duration is a number of nanoseconds, as
//! in Go.

use jiff::civil;
use jiff::tz::{Offset, TimeZone};

pub(crate) const SECOND: i64 = 1_000_000_000;

/// Parses Go's duration syntax: `1h30m`, `-1.5s`, `300ms`, or a plain `0`. Returns `None` if the
/// text is not a duration or the value does not fit.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let whole_len = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(whole_len);
        let fraction_len = match after.strip_prefix('.') {
            Some(digits) => 1 + digits.bytes().take_while(u8::is_ascii_digit).count(),
            None => 0,
        };
        let (fraction, after) = after.split_at(fraction_len);
        if whole.is_empty() && fraction.len() <= 1 {
            return None;
        }
        let unit_len = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        let scale = unit_scale(unit)?;
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(scale.into())?)?;
        total = total.checked_add(fraction_of(fraction.trim_start_matches('.'), scale))?;
        if total > i128::from(i64::MAX) + i128::from(negative) {
            return None;
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn unit_scale(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return None,
    })
}

/// Returns the nanoseconds of `0.<digits>` units, rounded down.
fn fraction_of(digits: &str, scale: i64) -> i128 {
    let mut value: i128 = 0;
    let mut divisor: i128 = 1;
    for digit in digits.bytes().take(18) {
        value = value * 10 + i128::from(digit - b'0');
        divisor *= 10;
    }
    value * i128::from(scale) / divisor
}

/// Parses the `duration` format: Go's syntax, or numbers with long units (`2 days`, `3 hours`). Any
/// other text between them is skipped.
pub(crate) fn parse_lenient_duration(text: &str) -> Option<i64> {
    if let Some(duration) = parse_duration(text) {
        return Some(duration);
    }
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], SECOND),
        (&["m", "min"], 60 * SECOND),
        (&["h", "hr", "hour"], 3600 * SECOND),
        (&["d", "day"], 86_400 * SECOND),
        (&["w", "wk", "week"], 604_800 * SECOND),
    ];
    let mut total: Option<i64> = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let digits_len = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, after) = rest.split_at(digits_len);
        rest = after;
        let spaced = after.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let unit_len = spaced.find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ')).unwrap_or(spaced.len());
        if unit_len == 0 {
            continue;
        }
        let (unit, after) = spaced.split_at(unit_len);
        rest = after;
        let factor: i64 = digits.parse().ok()?;
        let unit = unit.to_lowercase();
        for (variants, scale) in UNITS {
            let Some((long, short)) = variants.split_last() else { continue };
            if unit.starts_with(long) || short.contains(&unit.as_str()) {
                total = Some(total.unwrap_or(0).wrapping_add(factor.wrapping_mul(scale)));
            }
        }
    }
    total
}

/// Parses a date such as `2006-01-02`.
pub(crate) fn parse_date(text: &str) -> Option<civil::Date> {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| -> Option<i16> {
        let part = text.get(range)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?
    };
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    civil::Date::new(digits(0..4)?, i8::try_from(digits(5..7)?).ok()?, i8::try_from(digits(8..10)?).ok()?).ok()
}

/// Returns true if the text has the `date-time` format: a date, `T`, a time and a zone. The range
/// of the zone offset is not checked.
pub(crate) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    parse_date(date).is_some() && is_time_of_day(time)
}

fn is_time_of_day(text: &str) -> bool {
    let bytes = text.as_bytes();
    let pair = |at: usize| bytes.get(at..at + 2).filter(|pair| pair.iter().all(u8::is_ascii_digit));
    let (Some(h), Some(m), Some(s)) = (pair(0), pair(3), pair(6)) else { return false };
    if bytes[2] != b':' || bytes[5] != b':' || h > b"23" || m > b"59" || s > b"59" {
        return false;
    }
    let is_zone = |zone: &[u8]| match zone {
        b"z" => true,
        [b'+' | b'-', h @ .., b':', m1, m2] => {
            h.len() == 2 && h.iter().all(u8::is_ascii_digit) && m1.is_ascii_digit() && m2.is_ascii_digit()
        }
        _ => false,
    };
    let rest = &text[8..];
    if is_zone(rest.as_bytes()) {
        return true;
    }
    // A fraction: any single character, then digits.
    let mut chars = rest.chars();
    if chars.next().is_none_or(|c| c == '\n') {
        return false;
    }
    let fraction = chars.as_str();
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && is_zone(&fraction.as_bytes()[digits..])
}

/// Parses an RFC 3339 timestamp. A timestamp without a zone counts as UTC.
pub(crate) fn parse_timestamp(text: &str) -> Option<jiff::Timestamp> {
    if text.as_bytes().get(10) != Some(&b'T') || text.ends_with('z') {
        return None;
    }
    if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
        return Some(timestamp);
    }
    let local: civil::DateTime = text.parse().ok()?;
    TimeZone::UTC.to_timestamp(local).ok()
}

/// Parses `UTC` or a fixed offset (`+02:00`). Named zones would need a time zone database and give
/// `None`.
pub(crate) fn parse_zone(text: &str) -> Option<TimeZone> {
    if text == "UTC" {
        return Some(TimeZone::UTC);
    }
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (hours, minutes) = rest.split_once(':')?;
    if !(hours.len() == 2 && minutes.len() == 2 && rest.bytes().all(|b| b.is_ascii_digit() || b == b':')) {
        return None;
    }
    let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
    Some(TimeZone::fixed(Offset::from_seconds(if negative { -seconds } else { seconds }).ok()?))
}

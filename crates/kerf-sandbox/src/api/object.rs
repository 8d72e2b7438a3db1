//! Access to the common parts of objects on the JSON tree itself, because the server handles kinds
//! without a Rust type.
//!
//! Invariant: nothing here panics, whatever the shape of the tree. A missing part is read as
//! absent.

use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::storage::SelectorAttributes;

/// Returns the value at `path`, or `None` if a part of the path is missing.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Returns the text at `path`, or an empty text.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the integer at `path`.
pub(crate) fn number(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// Returns true if the bool at `path` is true.
pub(crate) fn flag(value: &Value, path: &[&str]) -> bool {
    at(value, path).and_then(Value::as_bool).unwrap_or_default()
}

/// Returns the items of the list at `path`, or an empty slice.
pub(crate) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the object at `path`.
pub(crate) fn map_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    path.iter().try_fold(value, |value, key| value.get_mut(key))?.as_object_mut()
}

/// Returns the items of the list at `path`. No items if there is no list.
pub(crate) fn list_mut<'a>(value: &'a mut Value, path: &[&str]) -> impl Iterator<Item = &'a mut Value> {
    path.iter().try_fold(value, |value, key| value.get_mut(key)).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Returns the object at `path` and creates it if it is missing. Values of other types are
/// replaced.
pub(crate) fn ensure_object<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut current = as_map(value);
    for key in path {
        current = as_map(current.entry(*key).or_insert(Value::Null));
    }
    current
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object on the line above"),
    }
}

/// Removes the value at `path` and returns it.
pub(crate) fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    map_mut(value, parents)?.remove(*last)
}

/// Sets `key` of the metadata.
pub(crate) fn set_meta(object: &mut Value, key: &str, value: impl Into<Value>) {
    ensure_object(object, &["metadata"]).insert(key.into(), value.into());
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

pub(crate) fn finalizers(object: &Value) -> &[Value] {
    list(object, &["metadata", "finalizers"])
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, &["metadata", "deletionTimestamp"]).is_empty()
}

/// Formats a time as in metadata, in whole seconds. Formatted by hand, because every write formats
/// several.
pub(crate) fn rfc3339_seconds(at: Timestamp) -> String {
    let datetime = Offset::UTC.to_datetime(at);
    let Ok(year @ 0..=9999) = u32::try_from(datetime.year()) else {
        return at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    };
    let mut text = *b"0000-00-00T00:00:00Z";
    digits(&mut text[..4], year);
    for (offset, number) in [
        (5, datetime.month()),
        (8, datetime.day()),
        (11, datetime.hour()),
        (14, datetime.minute()),
        (17, datetime.second()),
    ] {
        digits(&mut text[offset..offset + 2], number.unsigned_abs().into());
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Formats a time in microseconds, always with six decimals.
pub(crate) fn rfc3339_micros(at: Timestamp) -> String {
    let mut text = rfc3339_seconds(at);
    let mut fraction = *b".000000Z";
    let micros = Offset::UTC.to_datetime(at).subsec_nanosecond().unsigned_abs() / 1000;
    digits(&mut fraction[1..7], micros);
    text.pop();
    text.push_str(&String::from_utf8_lossy(&fraction));
    text
}

/// Writes a number into a slice that is wide enough, with leading zeros.
fn digits(target: &mut [u8], mut number: u32) {
    for digit in target.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Extracts the labels and the selectable fields of an object.
pub(crate) fn selector_attributes<'a>(
    object: &Value,
    selectable: impl Iterator<Item = (&'a str, &'a str)>,
) -> SelectorAttributes {
    let labels = at(object, &["metadata", "labels"]).and_then(Value::as_object);
    let labels = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (SmolStr::from(key), value.as_str().unwrap_or_default().into()))
        .collect();
    let fields = selectable.map(|(path, missing)| field_text(object, path, missing)).collect();
    SelectorAttributes { labels, fields }
}

/// Returns the text of a selectable field such as `spec.nodeName`, or `missing`.
fn field_text(object: &Value, path: &str, missing: &str) -> SmolStr {
    match path.split('.').try_fold(object, |value, key| value.get(key)) {
        Some(Value::String(text)) if !text.is_empty() => text.into(),
        Some(Value::Bool(flag)) => smol_str::format_smolstr!("{flag}"),
        Some(Value::Number(number)) => smol_str::format_smolstr!("{number}"),
        _ => missing.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use super::*;

    #[test]
    fn times_are_formatted_like_strftime() {
        for text in [
            "2026-01-01T00:00:00Z",
            "2024-02-29T23:59:59.999999999Z",
            "1969-12-31T23:59:59.000001Z",
            "0001-03-04T05:06:07.08Z",
            "9999-12-30T00:00:00.5Z",
            "-000001-01-01T00:00:00Z",
        ] {
            let at: Timestamp = text.parse().unwrap();
            assert_eq!(rfc3339_seconds(at), at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
            assert_eq!(rfc3339_micros(at), at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(), "{text}");
        }
    }
}

//! Parsing of request bodies, JSON or YAML, into a tree. Duplicate keys are recorded, because
//! strict field validation rejects them. The parser bounds the depth, the caller the size.

use std::fmt::{self, Write as _};

use kerf_api::yaml::NestingError;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::apply::ManagedFields;

/// The maximum length of a YAML text whose nesting may be unknown.
const UNCHECKED_YAML_BYTES_MAX: usize = 16 << 10;

/// A tree and the paths of duplicate keys. The last value of a key is used.
#[derive(Debug, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

/// Parses JSON. Text after the first value is an error.
pub(crate) fn parse_json(text: &[u8]) -> Result<Parsed, String> {
    let mut notes = ParseNotes::default();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = ValueSeed { path: &mut String::new(), notes: &mut notes }.deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value)).map_err(json_error_message)?;
    Ok(Parsed { value, duplicates: notes.duplicates })
}

/// Returns the error message. A truncated text gets the real server's message.
fn json_error_message(problem: serde_json::Error) -> String {
    if problem.is_eof() { "unexpected end of JSON input".to_owned() } else { problem.to_string() }
}

/// Parses one YAML document. JSON is a subset of YAML.
pub(crate) fn parse_yaml(text: &[u8]) -> Result<Parsed, String> {
    // JSON is tried first, because only its duplicate keys are reported. The YAML parser limits the
    // expansion of aliases, so that a short text cannot become a huge tree.
    if let Ok(parsed) = parse_json(text) {
        return Ok(parsed);
    }
    check_yaml_nesting(text).map_err(|problem| format!("error converting YAML to JSON: yaml: {problem}"))?;
    let mut notes = ParseNotes::default();
    let seed = ValueSeed { path: &mut String::new(), notes: &mut notes };
    let value = seed.deserialize(serde_yaml_ng::Deserializer::from_slice(text)).map_err(|problem| {
        let problem = notes
            .unsupported
            .map_or_else(|| format!("yaml: {problem}"), |value| format!("json: unsupported value: {value}"));
        format!("error converting YAML to JSON: {problem}")
    })?;
    Ok(Parsed { value, duplicates: Vec::new() })
}

/// Rejects texts for which the YAML parser would need time that grows with the square of their
/// length: values that are nested too deeply. Short texts with a syntax error are left to the
/// parser, whose messages are closer to those of a real server.
fn check_yaml_nesting(text: &[u8]) -> Result<(), String> {
    let Ok(utf8) = std::str::from_utf8(text) else { return Ok(()) };
    match kerf_api::yaml::check_nesting(utf8) {
        Err(NestingError::Syntax(_)) if text.len() <= UNCHECKED_YAML_BYTES_MAX => Ok(()),
        Err(NestingError::Syntax(error)) => Err(error.to_string()),
        Err(NestingError::TooDeep(max)) => Err(format!("exceeded max depth of {max}")),
        Ok(()) => Ok(()),
    }
}

/// Parses a stored object and returns its managed fields separately from the tree.
pub(crate) fn parse_and_split_managed_fields(text: &[u8]) -> Result<(Value, ManagedFields), serde_json::Error> {
    let mut managed = ManagedFields::default();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value =
        ManagedFieldsSplitter { managed: &mut managed, level: ObjectLevel::Object }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, managed))
}

/// The nesting level of [`parse_and_split_managed_fields`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum ObjectLevel {
    Object,
    Metadata,
}

struct ManagedFieldsSplitter<'a> {
    managed: &'a mut ManagedFields,
    level: ObjectLevel,
}

impl<'de> DeserializeSeed<'de> for ManagedFieldsSplitter<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ManagedFieldsSplitter<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = match (self.level, key.as_str()) {
                (ObjectLevel::Object, "metadata") => entries
                    .next_value_seed(ManagedFieldsSplitter { managed: self.managed, level: ObjectLevel::Metadata })?,
                (ObjectLevel::Metadata, "managedFields") => {
                    *self.managed = entries.next_value()?;
                    continue;
                }
                _ => entries.next_value()?,
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

struct ValueSeed<'a> {
    path: &'a mut String,
    notes: &'a mut ParseNotes,
}

/// Findings of a parse besides the tree.
#[derive(Default)]
struct ParseNotes {
    /// The paths of duplicate keys.
    duplicates: Vec<String>,
    /// A number that YAML has and JSON does not, as Go prints it.
    unsupported: Option<&'static str>,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| {
            self.notes.unsupported = Some(match value {
                f64::INFINITY => "+Inf",
                f64::NEG_INFINITY => "-Inf",
                _ => "NaN",
            });
            E::custom("number out of range")
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let length = self.path.len();
        let mut list = Vec::new();
        loop {
            // Writing to a String cannot fail.
            let _ = write!(self.path, "[{}]", list.len());
            let item = items.next_element_seed(ValueSeed { path: self.path, notes: self.notes })?;
            self.path.truncate(length);
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let length = self.path.len();
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            let value = entries.next_value_seed(ValueSeed { path: self.path, notes: self.notes })?;
            if map.insert(key, value).is_some() && !self.notes.duplicates.contains(self.path) {
                self.notes.duplicates.push(self.path.clone());
            }
            self.path.truncate(length);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_keys_are_recorded_and_the_last_value_is_used() {
        let parsed = parse_json(br#"{"a": 1, "a": 2, "b": [{"c": 1, "c": 2, "c": 3}]}"#).unwrap();
        assert_eq!(parsed.value, json!({"a": 2, "b": [{"c": 3}]}));
        assert_eq!(parsed.duplicates, ["a", "b[0].c"]);
    }

    #[test]
    fn managed_fields_are_split_off() {
        let mut full = json!({"kind": "Pod", "metadata": {"name": "a", "managedFields": [
            {"manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "t", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:a": {}}}},
        ]}, "spec": {"metadata": {"managedFields": []}}});
        let (object, managed) = parse_and_split_managed_fields(full.to_string().as_bytes()).unwrap();
        assert_eq!(managed, ManagedFields::take(&mut full));
        assert!(!managed.is_empty());
        assert_eq!(object, full, "similar text stays");
        assert!(
            parse_and_split_managed_fields(b"[]").is_err()
                && parse_and_split_managed_fields(b"{\"metadata\":3}").is_err()
        );
    }

    #[test]
    fn text_that_is_not_json_is_rejected() {
        for text in ["", "{", "{}x", "[1,]", "nul", "{\"a\":1e999}", "\u{feff}{}"] {
            assert!(parse_json(text.as_bytes()).is_err(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse_json(deep.as_bytes()).is_err(), "depth is bounded");
    }

    #[test]
    fn numbers_that_json_lacks_are_rejected() {
        for (text, go_text) in [(".inf", "+Inf"), ("-.Inf", "-Inf"), (".NaN", "NaN")] {
            let problem = format!("error converting YAML to JSON: json: unsupported value: {go_text}");
            assert_eq!(parse_yaml(format!("a: [1, {{b: {text}}}]").as_bytes()).unwrap_err(), problem);
        }
        assert_eq!(parse_yaml(b"a: [1, {b: 1.5, c: ~}]").unwrap().value, json!({"a": [1, {"b": 1.5, "c": null}]}));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let ours = parse_json(&text).ok().map(|parsed| parsed.value);
            let theirs: Option<Value> = serde_json::from_slice(&text).ok();
            prop_assert_eq!(ours, theirs);
            let _ = parse_yaml(&text);
        }
    }

    // The parser's time grows with the product of length and depth, so it must not see such a text.
    #[test]
    fn yaml_that_is_nested_too_deeply_is_rejected_before_it_is_parsed() {
        let open = "[".repeat(100_000);
        let expected = "error converting YAML to JSON: yaml: exceeded max depth of 128";
        assert_eq!(parse_yaml(open.as_bytes()).unwrap_err(), expected);
        let unquoted_then_deep = format!("a: b: c\n{open}");
        assert!(parse_yaml(unquoted_then_deep.as_bytes()).unwrap_err().contains("is not valid YAML"));
    }
}

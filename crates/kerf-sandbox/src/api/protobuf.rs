//! Decodes request bodies in protobuf. kubectl commands that use a typed client (every form of
//! `kubectl create`, `autoscale`, `auth can-i`, `debug`, `drain --disable-eviction`) send it and do
//! not retry with JSON. Responses are never encoded as protobuf.
//!
//! The tables in `messages` cover the bodies of these commands. A body of another kind, or with
//! another field whose value is not zero or empty, is rejected with 415, as by a server that
//! supports JSON only. So nothing that a client sets is lost, except fields that only the server
//! may set.

mod messages;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

/// The prefix of every protobuf body in Kubernetes.
const MAGIC: &[u8] = b"k8s\0";
/// The maximum nesting depth. The deepest known messages, in the pods of a CronJob, have twelve
/// levels.
const MAX_MESSAGE_DEPTH: usize = 16;

/// A field: its number, its JSON name and its type.
type MessageField = (u64, &'static str, ProtoFieldType);

#[derive(Clone, Copy)]
enum ProtoFieldType {
    /// A string that Go's encoder also writes if the field is not set, as an empty one. An empty
    /// one is left out.
    String,
    /// A string that may be empty.
    OptionalString,
    /// A number. Zero is a value like any other.
    Number,
    /// A number that Go's encoder also writes if the field is not set, as zero. Zero is left out.
    NonZeroNumber,
    Bool,
    /// A bool that Go's encoder also writes if the field is not set, as false. False is left out.
    Flag,
    /// A list of strings; one field per item.
    Strings,
    /// A list of numbers; one field per item.
    Numbers,
    Message(&'static [MessageField]),
    /// A list of messages; one field per item.
    Messages(&'static [MessageField]),
    /// A message whose fields JSON shows as fields of the message around it. It has no name.
    Inline(&'static [MessageField]),
    /// A map of strings; one field per entry.
    StringMap,
    /// A map of bytes, which JSON shows as base64; one field per entry.
    BytesMap,
    Quantity,
    /// A map of quantities; one field per entry.
    QuantityMap,
    IntOrString,
    /// A field that only the server sets. It is ignored.
    Skip,
}

/// Decodes a body as JSON. Returns `None` if it is malformed or if no table covers it.
pub(crate) fn parse(body: &[u8]) -> Option<Value> {
    const TYPE_META: &[MessageField] =
        &[(1, "apiVersion", ProtoFieldType::String), (2, "kind", ProtoFieldType::String)];
    let envelope = split_fields(body.strip_prefix(MAGIC)?)?;
    let bytes =
        |number: u64| envelope.iter().find(|(field, _)| *field == number).and_then(|(_, content)| content.bytes());
    let type_meta = decode_message(bytes(1)?, TYPE_META, MAX_MESSAGE_DEPTH)?;
    let type_field = |name: &str| type_meta.get(name).and_then(Value::as_str).unwrap_or_default();
    let fields_of_kind = fields_of_kind(type_field("apiVersion"), type_field("kind"))?;
    let mut object = decode_message(bytes(2).unwrap_or_default(), fields_of_kind, MAX_MESSAGE_DEPTH)?;
    object.extend(type_meta.clone());
    Some(object.into())
}

/// Returns the table of a kind, or `None` if there is none.
fn fields_of_kind(api_version: &str, kind: &str) -> Option<&'static [MessageField]> {
    let of_version =
        messages::KINDS_OF_VERSIONS.iter().find(|(version, other, _)| (*version, *other) == (api_version, kind));
    let of_any_version = || messages::KINDS.iter().find(|(other, _)| *other == kind).map(|(_, fields)| *fields);
    of_version.map(|(_, _, fields)| *fields).or_else(of_any_version)
}

/// Decodes one message by the table of its fields. Returns `None` if the message is malformed, is
/// nested deeper than `max_depth`, or has a value in a field that is not in the table.
fn decode_message(bytes: &[u8], known_fields: &[MessageField], max_depth: usize) -> Option<Map<String, Value>> {
    if max_depth == 0 {
        return None;
    }
    let mut object = Map::new();
    for (number, content) in split_fields(bytes)? {
        let Some((_, name, field_type)) = known_fields.iter().find(|(field, ..)| *field == number) else {
            // Go's encoder also writes fields that are not set, as zero or empty values. Ignoring
            // any other value of an unknown field would lose it.
            if content.is_zero() {
                continue;
            }
            return None;
        };
        let text = || content.text().map(Value::from);
        let value = match field_type {
            ProtoFieldType::Skip => continue,
            ProtoFieldType::String | ProtoFieldType::NonZeroNumber | ProtoFieldType::Flag if content.is_zero() => {
                continue;
            }
            ProtoFieldType::String | ProtoFieldType::OptionalString => text()?,
            ProtoFieldType::Number | ProtoFieldType::NonZeroNumber => (content.number()? as i64).into(),
            ProtoFieldType::Bool | ProtoFieldType::Flag => (content.number()? != 0).into(),
            ProtoFieldType::Message(inner) => decode_message(content.bytes()?, inner, max_depth - 1)?.into(),
            ProtoFieldType::Inline(inner) => {
                object.extend(decode_message(content.bytes()?, inner, max_depth - 1)?);
                continue;
            }
            ProtoFieldType::Quantity => decode_quantity(content.bytes()?)?.into(),
            ProtoFieldType::IntOrString => decode_int_or_string(content.bytes()?)?,
            ProtoFieldType::Strings => list_with_item(&mut object, name, text()?),
            ProtoFieldType::Numbers => list_with_item(&mut object, name, (content.number()? as i64).into()),
            ProtoFieldType::Messages(inner) => {
                let item = decode_message(content.bytes()?, inner, max_depth - 1)?;
                list_with_item(&mut object, name, item.into())
            }
            ProtoFieldType::StringMap | ProtoFieldType::BytesMap | ProtoFieldType::QuantityMap => {
                let (key, value) = decode_map_entry(content.bytes()?, *field_type)?;
                let mut map = object.remove(*name).and_then(|map| map.as_object().cloned()).unwrap_or_default();
                map.insert(key, value.into());
                map.into()
            }
        };
        object.insert((*name).into(), value);
    }
    Some(object)
}

/// Removes the list `name` from `object` and returns it with one more item.
fn list_with_item(object: &mut Map<String, Value>, name: &str, item: Value) -> Value {
    let mut list = object.remove(name).and_then(|list| list.as_array().cloned()).unwrap_or_default();
    list.push(item);
    list.into()
}

/// Decodes an IntOrString. Its first field states which of the two it is.
fn decode_int_or_string(bytes: &[u8]) -> Option<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for (field, content) in split_fields(bytes)? {
        match field {
            1 => is_text = content.number()? == 1,
            2 => number = content.number()? as i64,
            3 => text = content.text()?,
            _ => return None,
        }
    }
    Some(if is_text { text.into() } else { number.into() })
}

/// Decodes a quantity, which is a message with one string.
fn decode_quantity(bytes: &[u8]) -> Option<String> {
    let mut quantity = String::new();
    for (_, text) in split_fields(bytes)? {
        quantity = text.text()?.into();
    }
    Some(quantity)
}

/// Decodes an entry of a map of this type.
fn decode_map_entry(bytes: &[u8], map_type: ProtoFieldType) -> Option<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    for (field, content) in split_fields(bytes)? {
        match (field, map_type) {
            (1, _) => key = content.text()?.into(),
            (2, ProtoFieldType::QuantityMap) => value = decode_quantity(content.bytes()?)?,
            (2, ProtoFieldType::BytesMap) => value = BASE64.encode(content.bytes()?),
            (2, _) => value = content.text()?.into(),
            _ => return None,
        }
    }
    Some((key, value))
}

/// The value of one field, before its type is known.
enum EncodedValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> EncodedValue<'a> {
    fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Bytes(_) => None,
        }
    }

    /// Returns true for zero and for empty bytes, which Go's encoder writes for fields that are not
    /// set.
    fn is_zero(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }

    fn text(&self) -> Option<&'a str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Number(_) => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// Splits a message into its fields: number and value. Returns `None` if the message is malformed.
fn split_fields(mut bytes: &[u8]) -> Option<Vec<(u64, EncodedValue<'_>)>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = take_varint(&mut bytes)?;
        let content = match tag & 7 {
            0 => EncodedValue::Number(take_varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(take_varint(&mut bytes)?).ok()?;
                let (content, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                EncodedValue::Bytes(content)
            }
            _ => return None,
        };
        fields.push((tag >> 3, content));
    }
    Some(fields)
}

/// Removes a varint (7 bits per byte, the lowest first) from the beginning of `bytes` and returns
/// it.
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    #[test]
    fn known_messages_are_decoded_and_others_rejected() {
        let body = |kind: &str, raw: &[u8]| {
            let types = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
            [MAGIC, &field(1, &types), &field(2, raw)].concat()
        };
        let raw = [vec![8, 5], field(2, &field(1, b"u")), field(5, b"All")].concat();
        assert_eq!(
            parse(&body("DeleteOptions", &raw)),
            Some(
                json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 5, "preconditions": {"uid": "u"}, "dryRun": ["All"]})
            )
        );
        let metadata =
            |name: &[u8]| field(1, &[field(1, name), field(11, &[field(1, b"k"), field(2, b"v")].concat())].concat());
        assert_eq!(
            parse(&body("Namespace", &metadata(b"shop"))),
            Some(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"k": "v"}}}))
        );
        let budget = field(2, &field(3, &[vec![8, 1], field(3, b"25%")].concat()));
        assert_eq!(
            parse(&body("PodDisruptionBudget", &budget)),
            Some(json!({"apiVersion": "v1", "kind": "PodDisruptionBudget", "spec": {"maxUnavailable": "25%"}}))
        );
        assert_eq!(
            parse(&body("Namespace", &field(9, b"x"))),
            None,
            "unknown fields are rejected, because they would be lost"
        );
        assert_eq!(parse(&body("Ingress", &raw)), None);
        assert_eq!(parse(b"{}"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse(&[MAGIC, &bytes].concat());
            let options = [field(1, &field(2, b"DeleteOptions")), field(2, &bytes)].concat();
            let _ = parse(&[MAGIC, &options].concat());
        }
    }
}

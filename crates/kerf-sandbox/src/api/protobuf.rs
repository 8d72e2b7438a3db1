//! Request bodies in protobuf. kubectl sends them from its typed commands (`create namespace`,
//! `create deployment`, `auth can-i`, `drain --disable-eviction`) and does not retry with JSON.
//!
//! The tables in `messages` cover the bodies of these commands. A body with any other field is
//! rejected as by a server that only supports JSON. No body is decoded partially.

mod messages;

use serde_json::{Map, Value};

/// The prefix of every protobuf body.
const MAGIC: &[u8] = b"k8s\0";
/// The maximum nesting depth. The deepest known message, a container of a CronJob, has nine levels.
const MAX_MESSAGE_DEPTH: usize = 16;

/// A field: its number, its JSON name and its type.
type MessageField = (u64, &'static str, ProtoFieldType);

#[derive(Clone, Copy)]
enum ProtoFieldType {
    Text,
    Number,
    /// A number whose zero means that the field is not set.
    NonZeroNumber,
    Flag,
    Texts,
    Message(&'static [MessageField]),
    Messages(&'static [MessageField]),
    /// A map of strings.
    Pairs,
    /// A map of quantities.
    Quantities,
    IntOrString,
    /// A field that only the server sets. It is ignored.
    Skip,
}

/// Decodes a body. Returns `None` if no table covers it.
pub(crate) fn parse(body: &[u8]) -> Option<Value> {
    const TYPE: &[MessageField] = &[(1, "apiVersion", ProtoFieldType::Text), (2, "kind", ProtoFieldType::Text)];
    let envelope = fields(body.strip_prefix(MAGIC)?)?;
    let bytes =
        |number: u64| envelope.iter().find(|(field, _)| *field == number).and_then(|(_, content)| content.bytes());
    let kind = message(bytes(1)?, TYPE, MAX_MESSAGE_DEPTH)?;
    let name = kind.get("kind").and_then(Value::as_str)?;
    let (_, fields_of_kind) = messages::KINDS.iter().find(|(other, _)| *other == name)?;
    let mut object = message(bytes(2).unwrap_or_default(), fields_of_kind, MAX_MESSAGE_DEPTH)?;
    object.extend(kind.clone());
    Some(object.into())
}

fn message(bytes: &[u8], known_fields: &[MessageField], depth: usize) -> Option<Map<String, Value>> {
    if depth == 0 {
        return None;
    }
    let mut object = Map::new();
    for (number, content) in fields(bytes)? {
        let Some((_, name, kind)) = known_fields.iter().find(|(field, ..)| *field == number) else {
            // A Go struct writes its zero values. Any other unknown value would be lost.
            if content.is_zero() {
                continue;
            }
            return None;
        };
        let text = || content.text().map(Value::from);
        let value = match kind {
            ProtoFieldType::Skip => continue,
            ProtoFieldType::NonZeroNumber if content.is_zero() => continue,
            ProtoFieldType::Text => text()?,
            ProtoFieldType::Number | ProtoFieldType::NonZeroNumber => (content.number()? as i64).into(),
            ProtoFieldType::Flag => (content.number()? != 0).into(),
            ProtoFieldType::Message(inner) => message(content.bytes()?, inner, depth - 1)?.into(),
            ProtoFieldType::IntOrString => int_or_string(content.bytes()?)?,
            ProtoFieldType::Texts => appended(&mut object, name, text()?),
            ProtoFieldType::Messages(inner) => {
                let item = message(content.bytes()?, inner, depth - 1)?;
                appended(&mut object, name, item.into())
            }
            ProtoFieldType::Pairs | ProtoFieldType::Quantities => {
                let (key, value) = entry(content.bytes()?, matches!(kind, ProtoFieldType::Quantities))?;
                let mut map = object.remove(*name).and_then(|map| map.as_object().cloned()).unwrap_or_default();
                map.insert(key, value.into());
                map.into()
            }
        };
        object.insert((*name).into(), value);
    }
    // A Go struct writes an empty string for a field that is not set.
    object.retain(|_, value| value.as_str() != Some(""));
    Some(object)
}

/// Removes the list `name` from `object` and returns it with one more item.
fn appended(object: &mut Map<String, Value>, name: &str, item: Value) -> Value {
    let mut list = object.remove(name).and_then(|list| list.as_array().cloned()).unwrap_or_default();
    list.push(item);
    list.into()
}

/// Decodes an IntOrString. Its first field states which of the two it is.
fn int_or_string(bytes: &[u8]) -> Option<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for (field, content) in fields(bytes)? {
        match field {
            1 => is_text = content.number()? == 1,
            2 => number = content.number()? as i64,
            3 => text = content.text()?,
            _ => return None,
        }
    }
    Some(if is_text { text.into() } else { number.into() })
}

/// Decodes an entry of a map. A quantity is a message with one string.
fn entry(bytes: &[u8], quantity: bool) -> Option<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    for (field, content) in fields(bytes)? {
        match field {
            1 => key = content.text()?.into(),
            2 if quantity => {
                for (_, text) in fields(content.bytes()?)? {
                    value = text.text()?.into();
                }
            }
            2 => value = content.text()?.into(),
            _ => return None,
        }
    }
    Some((key, value))
}

enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Bytes(_) => None,
        }
    }

    /// Returns true for the value of a field that is not set.
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

/// Returns the fields of a message with their numbers, or `None` if the message is malformed.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, WireValue<'_>)>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let content = match tag & 7 {
            0 => WireValue::Number(varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (content, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                WireValue::Bytes(content)
            }
            _ => return None,
        };
        fields.push((tag >> 3, content));
    }
    Some(fields)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
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
        fn any_bytes_are_decoded_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse(&[MAGIC, &bytes].concat());
            let options = [field(1, &field(2, b"DeleteOptions")), field(2, &bytes)].concat();
            let _ = parse(&[MAGIC, &options].concat());
        }
    }
}

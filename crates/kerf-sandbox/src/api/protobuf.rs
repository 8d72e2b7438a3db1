//! The few request bodies that kubectl sends as protobuf and does not send again as JSON when they are refused: access reviews
//! (`auth can-i`) and delete options (`drain --disable-eviction`). Everything else in protobuf is refused, as by a server that speaks JSON.

use serde_json::{Map, Value};

/// What every such body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// How deep messages may nest. The deepest that is read here has four levels.
const DEPTH: usize = 8;

/// A field: its number, its name in JSON, and what it is.
type Field = (u64, &'static str, Kind);

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Flag,
    Texts,
    Message(&'static [Field]),
}

const METADATA: &[Field] = &[(1, "name", Kind::Text), (3, "namespace", Kind::Text), (5, "uid", Kind::Text)];
const PRECONDITIONS: &[Field] = &[(1, "uid", Kind::Text), (2, "resourceVersion", Kind::Text)];
const DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", Kind::Number),
    (2, "preconditions", Kind::Message(PRECONDITIONS)),
    (3, "orphanDependents", Kind::Flag),
    (4, "propagationPolicy", Kind::Text),
    (5, "dryRun", Kind::Texts),
];
const RESOURCE: &[Field] = &[
    (1, "namespace", Kind::Text),
    (2, "verb", Kind::Text),
    (3, "group", Kind::Text),
    (4, "version", Kind::Text),
    (5, "resource", Kind::Text),
    (6, "subresource", Kind::Text),
    (7, "name", Kind::Text),
];
const NON_RESOURCE: &[Field] = &[(1, "path", Kind::Text), (2, "verb", Kind::Text)];
const ACCESS: &[Field] =
    &[(1, "resourceAttributes", Kind::Message(RESOURCE)), (2, "nonResourceAttributes", Kind::Message(NON_RESOURCE))];
const RULES: &[Field] = &[(1, "namespace", Kind::Text)];

/// The kinds whose bodies are read.
const KINDS: &[(&str, &[Field])] = &[
    ("DeleteOptions", DELETE_OPTIONS),
    ("SelfSubjectAccessReview", &[(1, "metadata", Kind::Message(METADATA)), (2, "spec", Kind::Message(ACCESS))]),
    ("SelfSubjectRulesReview", &[(1, "metadata", Kind::Message(METADATA)), (2, "spec", Kind::Message(RULES))]),
];

/// Reads a body; nothing if it is not one of the few.
pub(crate) fn parse(body: &[u8]) -> Option<Value> {
    const TYPE: &[Field] = &[(1, "apiVersion", Kind::Text), (2, "kind", Kind::Text)];
    let envelope = fields(body.strip_prefix(MAGIC)?)?;
    let bytes =
        |number: u64| envelope.iter().find(|(field, _)| *field == number).and_then(|(_, content)| content.bytes());
    let kind = message(bytes(1)?, TYPE, DEPTH)?;
    let name = kind.get("kind").and_then(Value::as_str)?;
    let (_, known) = KINDS.iter().find(|(other, _)| *other == name)?;
    let mut object = message(bytes(2).unwrap_or_default(), known, DEPTH)?;
    object.extend(kind.clone());
    Some(object.into())
}

fn message(bytes: &[u8], known: &[Field], depth: usize) -> Option<Map<String, Value>> {
    if depth == 0 {
        return None;
    }
    let mut object = Map::new();
    for (number, content) in fields(bytes)? {
        let Some((_, name, kind)) = known.iter().find(|(field, ..)| *field == number) else { continue };
        let text = || content.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()).map(Value::from);
        let value = match kind {
            Kind::Text => text()?,
            Kind::Number => (content.number()? as i64).into(),
            Kind::Flag => (content.number()? != 0).into(),
            Kind::Message(inner) => message(content.bytes()?, inner, depth - 1)?.into(),
            Kind::Texts => {
                let mut texts = object.remove(*name).and_then(|value| value.as_array().cloned()).unwrap_or_default();
                texts.push(text()?);
                texts.into()
            }
        };
        object.insert((*name).into(), value);
    }
    // An empty text is what a Go struct writes for nothing.
    object.retain(|_, value| value.as_str() != Some(""));
    Some(object)
}

enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Content<'a> {
    fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Bytes(_) => None,
        }
    }

    fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Number(_) => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// The fields of a message, by number; nothing if it is not well formed.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Content<'_>)>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let content = match tag & 7 {
            0 => Content::Number(varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (content, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Content::Bytes(content)
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
    fn the_few_are_read_and_others_are_not() {
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
        assert_eq!(parse(&body("Pod", &raw)), None);
        assert_eq!(parse(b"{}"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse(&[MAGIC, &bytes].concat());
            let options = [field(1, &field(2, b"DeleteOptions")), field(2, &bytes)].concat();
            let _ = parse(&[MAGIC, &options].concat());
        }
    }
}

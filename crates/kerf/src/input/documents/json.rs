//! Splits JSON streams. A document is scanned once to find its items as slices of the text. Only
//! `apiVersion` and `kind` of each item are read here, so that 100,000 pods are split without a
//! tree.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{
    LIST_DEPTH_MAX, LISTS_TOO_DEEP_MESSAGE, ObjectBody, ObjectOrigin, RawObject, SplitText, list_item_kind,
    without_position,
};

/// The top level of a document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outside<'s> {
    #[serde(borrow, default)]
    api_version: Cow<'s, str>,
    #[serde(borrow, default)]
    kind: Cow<'s, str>,
    #[serde(borrow, default)]
    items: Option<Vec<&'s RawValue>>,
}

/// Splits a JSON text into objects.
pub(super) fn split(source: u32, text: &str) -> SplitText<'_> {
    let mut splitter =
        JsonSplitter { lines: LineCounter { text, at: 0, line: 1 }, items: 0, split: SplitText::default() };
    let mut rest = text;
    for document in 1.. {
        rest = rest.trim_start();
        let start = text.len() - rest.len();
        let origin = ObjectOrigin { source, document, item: 0, line: splitter.lines.line_of_byte(start) };
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Outside<'_>>();
        match stream.next() {
            Some(Ok(top_level)) => {
                let body = &rest[..stream.byte_offset()];
                splitter.items = 0;
                splitter.add_object_or_items(origin, top_level, body, 0);
                rest = &rest[stream.byte_offset()..];
            }
            Some(Err(cause)) => {
                // After a syntax error the start of the next document is unknown.
                let line = origin.line + (cause.line() as u32).saturating_sub(1);
                splitter.split.add_unreadable(ObjectOrigin { line, ..origin }, describe_error(&cause));
                break;
            }
            None => break,
        }
    }
    splitter.split
}

struct JsonSplitter<'s> {
    lines: LineCounter<'s>,
    /// Number of objects that the lists of this document have yielded so far.
    items: u32,
    split: SplitText<'s>,
}

impl<'s> JsonSplitter<'s> {
    /// Adds an object, or all items if the object is a list.
    fn add_object_or_items(&mut self, origin: ObjectOrigin, top_level: Outside<'s>, body: &'s str, depth: usize) {
        let Outside { api_version, kind, items } = top_level;
        let (Some(item_kind), Some(items)) = (list_item_kind(&kind), items) else {
            self.split.objects.push(RawObject { origin, api_version, kind, body: ObjectBody::Json(body) });
            return;
        };
        if depth == LIST_DEPTH_MAX {
            self.split.add_unreadable(origin, LISTS_TOO_DEEP_MESSAGE.to_owned());
            return;
        }
        for item in items {
            let text = item.get();
            let line = self.lines.line_of_piece(text);
            self.items += 1;
            let origin = ObjectOrigin { item: self.items, line, ..origin };
            let head = match read_head(text) {
                Ok(head) => head,
                Err(cause) => {
                    self.split.add_unreadable(origin, describe_error(&cause));
                    continue;
                }
            };
            // A typed list of the API server does not repeat the kind in its items.
            let kind = head.kind.unwrap_or_else(|| Cow::Owned(item_kind.to_owned()));
            let api_version = head.api_version.unwrap_or_else(|| api_version.clone());
            if list_item_kind(&kind).is_none() {
                self.split.objects.push(RawObject { origin, api_version, kind, body: ObjectBody::Json(text) });
                continue;
            }
            match serde_json::from_str::<Outside<'s>>(text) {
                Ok(inner_list) => {
                    self.items -= 1;
                    self.add_object_or_items(origin, inner_list, text, depth + 1);
                }
                Err(cause) => self.split.add_unreadable(origin, describe_error(&cause)),
            }
        }
    }
}

fn describe_error(cause: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let message = without_position(&cause.to_string());
    match cause.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            format!("is not valid JSON: {message} (column {})", cause.column())
        }
        Category::Data => format!("is not a Kubernetes object: {message}"),
    }
}

/// `apiVersion` and `kind` of an object; `None` if a field is missing.
#[derive(Default)]
struct Head<'s> {
    api_version: Option<Cow<'s, str>>,
    kind: Option<Cow<'s, str>>,
}

/// Reads `apiVersion` and `kind` and stops as soon as both are known: they usually come first.
fn read_head(text: &str) -> Result<Head<'_>, serde_json::Error> {
    let mut head = Head::default();
    let outcome = HeadSeed(&mut head).deserialize(&mut serde_json::Deserializer::from_str(text));
    match outcome {
        Err(cause) if head.api_version.is_none() || head.kind.is_none() => Err(cause),
        Ok(()) | Err(_) => Ok(head),
    }
}

struct HeadSeed<'h, 's>(&'h mut Head<'s>);

impl<'s> DeserializeSeed<'s> for HeadSeed<'_, 's> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'s>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'s> Visitor<'s> for HeadSeed<'_, 's> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `apiVersion` and `kind`")
    }

    fn visit_map<A: MapAccess<'s>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::ApiVersion => self.0.api_version = Some(map.next_value::<Text<'s>>()?.0),
                Key::Kind => self.0.kind = Some(map.next_value::<Text<'s>>()?.0),
                Key::Other => drop(map.next_value::<IgnoredAny>()?),
            }
            if self.0.api_version.is_some() && self.0.kind.is_some() {
                // Not a failure: a visitor can stop early only by returning an error. `read_head`
                // ignores it if both fields are known.
                return Err(A::Error::custom("enough"));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Key {
    ApiVersion,
    Kind,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Text<'s>(#[serde(borrow)] Cow<'s, str>);

/// Counts lines. Positions must be requested in ascending order, so that the text is scanned once.
struct LineCounter<'s> {
    text: &'s str,
    at: usize,
    line: u32,
}

impl LineCounter<'_> {
    /// Returns the line of a byte offset, from 1.
    fn line_of_byte(&mut self, byte: usize) -> u32 {
        let ahead = self.text.as_bytes().get(self.at..byte).unwrap_or_default();
        self.line += ahead.split(|byte| *byte == b'\n').skip(1).count() as u32;
        self.at = self.at.max(byte);
        self.line
    }

    /// Returns the line on which a slice of this text begins.
    fn line_of_piece(&mut self, piece: &str) -> u32 {
        let offset = (piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        self.line_of_byte(offset.min(self.text.len()))
    }
}

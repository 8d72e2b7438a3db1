//! Splits YAML streams. This module finds the document markers itself, so that each document has
//! its number and line even if other documents are invalid. In YAML, `---` at the beginning of a
//! line is always a marker.

use kerf_api::yaml;
use serde_json::Value;

use super::{LIST_DEPTH_MAX, LISTS_TOO_DEEP_MESSAGE, ObjectBody, ObjectOrigin, RawObject, SplitText, list_item_kind};

/// One document of a stream.
#[derive(Debug, PartialEq, Eq)]
struct Document<'s> {
    text: &'s str,
    /// Line on which the text begins, from 1.
    line: u32,
}

/// Returns true if the text has a document marker after its first line.
pub(super) fn has_several_documents(text: &str) -> bool {
    text.lines().skip(1).any(|line| after_document_marker(line).is_some())
}

/// Returns the text and the first line of a document, given by its number from 1.
pub(super) fn document(text: &str, number: u32) -> Option<(&str, u32)> {
    let index = usize::try_from(number.checked_sub(1)?).ok()?;
    documents(text).get(index).map(|document| (document.text, document.line))
}

/// Splits a YAML text into objects.
pub(super) fn split(source: u32, text: &str) -> SplitText<'_> {
    let mut splitter = YamlSplitter { items: 0, split: SplitText::default() };
    for (index, document) in documents(text).into_iter().enumerate() {
        let skipped = document.text.lines().take_while(|line| is_blank(line)).count() as u32;
        let origin = ObjectOrigin { source, document: index as u32 + 1, item: 0, line: document.line + skipped };
        match yaml::parse(document.text) {
            Ok(Value::Null) => {}
            Ok(tree) => {
                splitter.items = 0;
                splitter.add_object_or_items(origin, tree, None, 0);
            }
            Err(errors) => {
                for error in errors {
                    let line = (document.line + error.line).saturating_sub(1);
                    splitter.split.add_unreadable(ObjectOrigin { line, ..origin }, error.to_string());
                }
            }
        }
    }
    splitter.split
}

/// The list that contains an item; it provides `apiVersion` and `kind` that the item does not
/// repeat.
struct ParentList<'l> {
    api_version: &'l str,
    item_kind: &'l str,
}

struct YamlSplitter<'s> {
    /// Number of objects that the lists of this document have yielded so far.
    items: u32,
    split: SplitText<'s>,
}

impl YamlSplitter<'_> {
    /// Adds an object, or all items if the object is a list.
    fn add_object_or_items(
        &mut self,
        origin: ObjectOrigin,
        mut tree: Value,
        list: Option<&ParentList<'_>>,
        depth: usize,
    ) {
        let (api_version, kind) = match read_head(&tree, list) {
            Ok(head) => head,
            Err(message) => {
                self.split.add_unreadable(origin, format!("is not a Kubernetes object: {message}"));
                return;
            }
        };
        let Some((item_kind, Value::Array(items))) = list_item_kind(&kind).zip(tree.get_mut("items")) else {
            let object =
                RawObject { origin, api_version: api_version.into(), kind: kind.into(), body: ObjectBody::Tree(tree) };
            self.split.objects.push(object);
            return;
        };
        if depth == LIST_DEPTH_MAX {
            self.split.add_unreadable(origin, LISTS_TOO_DEEP_MESSAGE.to_owned());
            return;
        }
        let list = ParentList { api_version: &api_version, item_kind };
        for item in std::mem::take(items) {
            let is_list = item.get("kind").and_then(Value::as_str).is_some_and(|kind| list_item_kind(kind).is_some());
            if !is_list {
                self.items += 1;
            }
            self.add_object_or_items(ObjectOrigin { item: self.items.max(1), ..origin }, item, Some(&list), depth + 1);
        }
    }
}

/// Returns `apiVersion` and `kind` of an object, or those that its list provides.
fn read_head(tree: &Value, list: Option<&ParentList<'_>>) -> Result<(String, String), String> {
    let Value::Object(fields) = tree else {
        return Err(format!("expected fields like `apiVersion` and `kind`, found {}", describe_type(tree)));
    };
    let text = |name: &str, otherwise: Option<&str>| match fields.get(name) {
        None | Some(Value::Null) => Ok(otherwise.unwrap_or_default().to_owned()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!("{name}: expected a string, found {}", describe_type(other))),
    };
    Ok((text("apiVersion", list.map(|list| list.api_version))?, text("kind", list.map(|list| list.item_kind))?))
}

/// Returns the type of a value, for error messages.
fn describe_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "fields",
    }
}

/// Splits a stream at its markers. Text before the first marker is a document only if it has
/// content.
fn documents(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let mut start = 0;
    let mut start_line = 1;
    let mut is_preamble = true;
    let mut at = 0;
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        if let Some(same_line) = after_document_marker(line) {
            push_document(&mut documents, &text[start..at], start_line, is_preamble);
            start = at + line.len() - same_line.len();
            start_line = number;
            is_preamble = false;
        }
        at += line.len();
    }
    push_document(&mut documents, &text[start..], start_line, is_preamble);
    documents
}

fn push_document<'s>(documents: &mut Vec<Document<'s>>, text: &'s str, line: u32, is_preamble: bool) {
    // `...` ends a document; only comments can follow it before the next marker.
    if !is_preamble || !text.lines().all(|line| is_blank(line) || line.starts_with('%')) {
        documents.push(Document { text, line });
    }
}

/// Returns the rest of the line after a document marker, or `None` if the line has no marker.
fn after_document_marker(line: &str) -> Option<&str> {
    line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

//! Splits a text into objects: the documents of a YAML or JSON stream, and the items of lists. Each
//! object has its origin. A document that cannot be read is a problem and does not hide the
//! documents after it.

mod json;
mod yaml;

use std::borrow::Cow;

use serde_json::Value;

use super::source::ObjectOrigin;

/// Maximum nesting of lists in lists.
const LIST_DEPTH_MAX: usize = 8;
const LISTS_TOO_DEEP_MESSAGE: &str = "lists are nested more than 8 levels deep";

/// An object of which only `apiVersion` and `kind` have been read.
#[derive(Debug)]
pub(crate) struct RawObject<'s> {
    pub(crate) origin: ObjectOrigin,
    /// `apiVersion`; empty if it is missing.
    pub(crate) api_version: Cow<'s, str>,
    /// `kind`; empty if it is missing.
    pub(crate) kind: Cow<'s, str>,
    pub(crate) body: ObjectBody<'s>,
}

/// An object as text or as a tree, whichever is cheaper for its source.
#[derive(Debug)]
pub(crate) enum ObjectBody<'s> {
    /// JSON text. Large lists are never turned into a tree.
    Json(&'s str),
    /// The content of a YAML document.
    Tree(Value),
}

/// A document that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnreadableDocument {
    /// Origin of the error; its line is the line of the error.
    pub(crate) origin: ObjectOrigin,
    pub(crate) message: String,
}

/// Result of splitting a text.
#[derive(Debug, Default)]
pub(crate) struct SplitText<'s> {
    /// The objects in the order of the text.
    pub(crate) objects: Vec<RawObject<'s>>,
    /// The documents and items that are not objects.
    pub(crate) unreadable: Vec<UnreadableDocument>,
}

impl SplitText<'_> {
    fn add_unreadable(&mut self, origin: ObjectOrigin, message: String) {
        self.unreadable.push(UnreadableDocument { origin, message });
    }
}

/// Splits a text into objects. `source` is the index that the origins refer to.
pub(crate) fn split(source: u32, text: &str) -> SplitText<'_> {
    // JSON is also YAML. A text that begins like JSON is read as JSON, because that is many times
    // faster. The exception is a stream of JSON documents separated by `---`.
    if text.trim_start().starts_with('{') {
        let split = json::split(source, text);
        if split.unreadable.is_empty() || !yaml::has_several_documents(text) {
            return split;
        }
    }
    yaml::split(source, text)
}

/// Returns the text of a document of a YAML stream and the line on which it begins. `number` counts
/// from 1.
pub(crate) fn yaml_document(text: &str, number: u32) -> Option<(&str, u32)> {
    yaml::document(text, number)
}

/// Removes line and column from a parser's message. They are relative to where the parser began,
/// and the origin has the correct ones.
fn without_position(cause: &str) -> String {
    let Some((before, position)) = cause.split_once(" at line ") else { return cause.to_owned() };
    let after = position.trim_start_matches(|c: char| c.is_ascii_digit());
    let after =
        after.strip_prefix(" column ").map_or(after, |after| after.trim_start_matches(|c: char| c.is_ascii_digit()));
    format!("{before}{after}")
}

/// Returns the kind of a list's items, if `kind` is a list: empty for `List`, `Pod` for `PodList`.
fn list_item_kind(kind: &str) -> Option<&str> {
    kind.strip_suffix("List")
}

#[cfg(test)]
mod tests;

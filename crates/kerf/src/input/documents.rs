//! A text becomes objects: the documents of a YAML or JSON stream, with lists opened. Each object knows where it began; a document
//! that cannot be read is a problem and does not hide the documents after it.

mod json;
mod yaml;

use std::borrow::Cow;

use serde_json::Value;

use super::source::ObjectOrigin;

/// How deep lists may stand in lists; more is no honest input.
const LIST_DEPTH_MAX: usize = 8;
const LISTS_TOO_DEEP_MESSAGE: &str = "lists stand in lists more than 8 deep";

/// An object that nobody has looked into yet.
#[derive(Debug)]
pub(crate) struct RawObject<'s> {
    /// Where it stands.
    pub(crate) origin: ObjectOrigin,
    /// `apiVersion`, empty if there is none.
    pub(crate) api_version: Cow<'s, str>,
    /// `kind`, empty if there is none.
    pub(crate) kind: Cow<'s, str>,
    /// The object itself.
    pub(crate) body: ObjectBody<'s>,
}

/// An object as text or as a tree, whichever its source made cheap.
#[derive(Debug)]
pub(crate) enum ObjectBody<'s> {
    /// JSON text: big lists are never turned into a tree.
    Json(&'s str),
    /// What a YAML document said.
    Tree(Value),
}

/// A document that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnreadableDocument {
    /// Where the trouble is.
    pub(crate) origin: ObjectOrigin,
    /// What it is.
    pub(crate) message: String,
}

/// What a text holds.
#[derive(Debug, Default)]
pub(crate) struct SplitText<'s> {
    /// The objects, in order.
    pub(crate) objects: Vec<RawObject<'s>>,
    /// What is none.
    pub(crate) unreadable: Vec<UnreadableDocument>,
}

impl SplitText<'_> {
    fn add_unreadable(&mut self, origin: ObjectOrigin, message: String) {
        self.unreadable.push(UnreadableDocument { origin, message });
    }
}

/// Takes a text apart.
pub(crate) fn split(source: u32, text: &str) -> SplitText<'_> {
    // JSON is YAML too; what begins like JSON is read as JSON because that is many times faster. Only a stream of JSON
    // documents with `---` between them begins alike and is none.
    if text.trim_start().starts_with('{') {
        let split = json::split(source, text);
        if split.unreadable.is_empty() || !yaml::has_several_documents(text) {
            return split;
        }
    }
    yaml::split(source, text)
}

/// A parser's words without the line and column in them: they count from where the parser began, and the true ones are known.
fn without_position(cause: &str) -> String {
    let Some((before, position)) = cause.split_once(" at line ") else { return cause.to_owned() };
    let after = position.trim_start_matches(|c: char| c.is_ascii_digit());
    let after =
        after.strip_prefix(" column ").map_or(after, |after| after.trim_start_matches(|c: char| c.is_ascii_digit()));
    format!("{before}{after}")
}

/// Whether a kind is a list of others, and of which: `List` of anything, `PodList` of pods.
fn list_item_kind(kind: &str) -> Option<&str> {
    kind.strip_suffix("List")
}

#[cfg(test)]
mod tests;

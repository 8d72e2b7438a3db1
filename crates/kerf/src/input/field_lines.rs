//! Finds the line of the field that a message is about. Lines are computed only for documents with
//! messages: that means parsing the text once more.

use std::collections::BTreeMap;

use kerf_api::yaml::{ValueLines, value_lines};

use super::documents::{self, ObjectBody};
use super::source::{ObjectOrigin, Source};

/// Lines of the documents that were needed so far.
pub(super) struct FieldLines<'s> {
    sources: &'s [Source],
    /// The first line and the lines of the values, by source and document. `None` for a document
    /// that cannot be parsed.
    documents: BTreeMap<(u32, u32), Option<(u32, ValueLines)>>,
}

impl<'s> FieldLines<'s> {
    pub(super) fn new(sources: &'s [Source]) -> Self {
        Self { sources, documents: BTreeMap::new() }
    }

    /// Returns the origin with the line of the field that a message about the object names, or
    /// unchanged if the message names none or the field is not in the text.
    pub(super) fn with_field_line(
        &mut self,
        origin: ObjectOrigin,
        body: &ObjectBody<'_>,
        message: &str,
    ) -> ObjectOrigin {
        let Some(path) = named_field(message) else { return origin };
        let line = match body {
            ObjectBody::Json(text) => {
                let lines = value_lines(text).ok();
                lines.and_then(|lines| lines.line_of(path)).map(|line| origin.line + line.saturating_sub(1))
            }
            ObjectBody::Tree(_) => {
                let path = if origin.item > 0 { format!("items[{}].{path}", origin.item - 1) } else { path.to_owned() };
                let (first_line, lines) = match self.lines_of_document(origin) {
                    Some(lines) => lines,
                    None => return origin,
                };
                lines.line_of(&path).map(|line| first_line + line.saturating_sub(1))
            }
        };
        // The line of a closest object that is the document itself says less than the origin.
        ObjectOrigin { line: line.unwrap_or(origin.line).max(origin.line), ..origin }
    }

    fn lines_of_document(&mut self, origin: ObjectOrigin) -> Option<&(u32, ValueLines)> {
        let sources = self.sources;
        let lines = self.documents.entry((origin.source, origin.document)).or_insert_with(|| {
            let text = &sources.get(origin.source as usize)?.text;
            let (text, first_line) = documents::yaml_document(text, origin.document)?;
            Some((first_line, value_lines(text).ok()?))
        });
        lines.as_ref()
    }
}

/// Returns the path at the beginning of a message such as `spec.weight: Invalid value: …`, or in
/// `unknown field "spec.wieght"`.
fn named_field(message: &str) -> Option<&str> {
    if let Some(rest) = message.strip_prefix("unknown field \"") {
        return rest.split('"').next();
    }
    let path = message.split(": ").next().unwrap_or_default();
    let is_path = !path.is_empty()
        && path.starts_with(|c: char| c.is_ascii_lowercase())
        && !path.contains(char::is_whitespace)
        && path.len() < message.len();
    is_path.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_their_field_first() {
        assert_eq!(named_field("spec.weight: Invalid value: 0: must be positive"), Some("spec.weight"));
        assert_eq!(named_field("unknown field \"spec.a[0].b\""), Some("spec.a[0].b"));
        assert_eq!(named_field("unknown field \"spec.a\" (did you mean \"spec.b\"?)"), Some("spec.a"));
        assert_eq!(named_field("name is required"), None);
        assert_eq!(named_field("NodePool in version \"v1\": no"), None);
    }
}

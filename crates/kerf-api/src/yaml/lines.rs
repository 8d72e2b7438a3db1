//! Finds the lines of a document's values, so that an error in a value can name its line.

use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Options, Parser};

use super::{DEPTH_MAX, YamlError, syntax, too_deep};

/// Lines of the values of a document, from 1. A value of a field has the line of the field's name.
#[derive(Debug, Clone, Default)]
pub struct ValueLines {
    by_path: BTreeMap<String, u32>,
    /// Fields that an object has twice: their paths and the lines of the second ones.
    pub duplicate_fields: Vec<(String, u32)>,
}

impl ValueLines {
    /// Returns the line of the value at `path`, such as `steps[0].at`. Returns the line of the
    /// closest object or list that contains it if the document has no such value, and `None` for an
    /// empty document.
    pub fn line_of(&self, path: &str) -> Option<u32> {
        let mut path = path;
        loop {
            if let Some(line) = self.by_path.get(path) {
                return Some(*line);
            }
            if path.is_empty() {
                return None;
            }
            path = &path[..path.rfind(['.', '[']).unwrap_or_default()];
        }
    }
}

/// A list or an object that is being read.
struct OpenCollection {
    /// Length of the path of the collection.
    path_len: usize,
    position: Position,
    /// True if the collection is the name of a field.
    is_key: bool,
}

/// The place at which the next value of a collection is.
enum Position {
    Item(usize),
    /// The name of a field follows. Contains the names of all fields before.
    Key(BTreeSet<String>),
    /// The value of this field follows.
    Value(String, u32, BTreeSet<String>),
}

/// Returns the lines of all values of a document. Fails for invalid YAML, for more than 128 levels
/// of nesting, and for a second document.
pub fn value_lines(text: &str) -> Result<ValueLines, YamlError> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut reader = LineReader { lines: ValueLines::default(), open: Vec::new(), path: String::new() };
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) =
            event.map_err(|cause| syntax(u32::try_from(cause.marker().line()).unwrap_or(u32::MAX), cause.info()))?;
        let line = u32::try_from(span.start.line()).unwrap_or(u32::MAX);
        match event {
            Event::DocumentStart(..) if documents > 0 => {
                return Err(syntax(line, "a second document begins, and only one is possible here"));
            }
            Event::DocumentStart(..) => documents += 1,
            Event::Scalar(text, ..) => reader.scalar(&text, line),
            Event::Alias(_) => reader.scalar("", line),
            Event::SequenceStart(..) => reader.start(Position::Item(0), line)?,
            Event::MappingStart(..) => reader.start(Position::Key(BTreeSet::new()), line)?,
            Event::SequenceEnd | Event::MappingEnd => reader.end(),
            _ => {}
        }
    }
    Ok(reader.lines)
}

struct LineReader {
    lines: ValueLines,
    open: Vec<OpenCollection>,
    /// Path of the innermost open collection.
    path: String,
}

impl LineReader {
    fn scalar(&mut self, text: &str, line: u32) {
        if let Some(OpenCollection { path_len, position, .. }) = self.open.last_mut()
            && let Position::Key(names) = position
        {
            let mut names = std::mem::take(names);
            // Several merge keys are possible, and aliases have no text.
            if !names.insert(text.to_owned()) && !matches!(text, "<<" | "") {
                let path = field_path(&self.path[..*path_len], text);
                self.lines.duplicate_fields.push((path, line));
            }
            *position = Position::Value(text.to_owned(), line, names);
            return;
        }
        let path_len = self.begin_value(line);
        self.path.truncate(path_len);
    }

    fn start(&mut self, position: Position, line: u32) -> Result<(), YamlError> {
        if self.open.len() > DEPTH_MAX {
            return Err(too_deep(line));
        }
        let is_key = matches!(self.open.last(), Some(OpenCollection { position: Position::Key(_), .. }));
        if !is_key {
            self.begin_value(line);
        }
        self.open.push(OpenCollection { path_len: self.path.len(), position, is_key });
        Ok(())
    }

    /// Records the line of the value that begins, appends its name to the path, and moves its
    /// collection to the next position. Returns the length of the collection's path.
    fn begin_value(&mut self, line: u32) -> usize {
        let path_len = self.path.len();
        let mut first_line = line;
        match self.open.last_mut().map(|open| &mut open.position) {
            Some(Position::Item(index)) => {
                self.path.push('[');
                self.path.push_str(&index.to_string());
                self.path.push(']');
                *index += 1;
            }
            Some(position @ Position::Value(..)) => {
                if let Position::Value(name, key_line, names) =
                    std::mem::replace(position, Position::Key(BTreeSet::new()))
                {
                    self.path = field_path(&self.path, &name);
                    first_line = key_line;
                    *position = Position::Key(names);
                }
            }
            Some(Position::Key(_)) | None => {}
        }
        self.lines.by_path.insert(self.path.clone(), first_line);
        path_len
    }

    fn end(&mut self) {
        let Some(ended) = self.open.pop() else { return };
        let parent_len = self.open.last().map_or(0, |parent| parent.path_len);
        self.path.truncate(parent_len.min(ended.path_len));
        if ended.is_key {
            self.scalar("", 0);
        }
    }
}

fn field_path(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_the_line_of_its_field_or_item() {
        let text = "# a comment\nname: x\nsteps:\n  - at: 0s\n    apply: [{kind: A},\n      {kind: B, spec:\n        [1]}]\n  - {at: 1s,\n     say: b}\n";
        let lines = value_lines(text).unwrap();
        for (path, line) in [
            ("name", 2),
            ("steps", 3),
            ("steps[0]", 4),
            ("steps[0].apply", 5),
            ("steps[0].apply[0].kind", 5),
            ("steps[0].apply[1].spec", 6),
            ("steps[0].apply[1].spec[0]", 7),
            ("steps[1].at", 8),
            ("steps[1].say", 9),
            // The closest value that the document has.
            ("steps[1].every", 8),
            ("until", 2),
        ] {
            assert_eq!(lines.line_of(path), Some(line), "{path}");
        }
        assert_eq!(lines.duplicate_fields, []);
    }

    #[test]
    fn duplicate_fields_are_found_and_merge_keys_are_none() {
        let text = "a: &x {b: 1}\nc:\n  <<: *x\n  <<: *x\n  d: 1\n  d: 2\n? [k]\n: 1\na: 2\n";
        let lines = value_lines(text).unwrap();
        assert_eq!(lines.duplicate_fields, [("c.d".to_owned(), 6), ("a".to_owned(), 9)]);
    }

    #[test]
    fn a_second_document_deep_nesting_and_invalid_yaml_are_errors() {
        let error = |text: &str| {
            let error = value_lines(text).unwrap_err();
            format!("line {}: {error}", error.line)
        };
        assert_eq!(
            error("a: 1\n---\nb: 1\n"),
            "line 2: is not valid YAML: a second document begins, and only one is possible here"
        );
        assert!(error(&"[".repeat(1000)).starts_with("line 1: is not valid YAML: "));
        assert!(error("a: [1\nb: 2").contains("is not valid YAML"));
        assert_eq!(value_lines("").unwrap().line_of("a"), None);
        assert_eq!(value_lines("---\na: 1\n").unwrap().line_of("a"), Some(2));
    }
}

//! Parses YAML as kubectl and the API server do. They use sigs.k8s.io/yaml, which converts a
//! document to JSON by the rules of YAML 1.1.
//!
//! Manifests are written for that library. YAML 1.2 gives another meaning to `yes`, `010` or
//! `1_000`: a label `on`, which a server rejects as a boolean, would be accepted, and a weight
//! `010`, which it accepts, would be rejected. Therefore `granit-parser` parses the syntax, and its
//! events distinguish plain scalars from quoted ones. The meaning is decided here: `scalar`
//! resolves scalars; this file handles fields, aliases and merge keys. All values that JSON cannot
//! represent are reported at once.
//!
//! Where the syntax of the two versions differs, a text is rejected rather than read differently:
//! text after a document is not ignored, and a quoted text must continue further to the right than
//! its key.

mod lines;
mod scalar;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, StructureStyle};
use serde_json::{Map, Value};

pub use self::lines::{ValueLines, value_lines};
use self::scalar::Scalar;

/// Maximum nesting of lists and mappings.
const DEPTH_MAX: usize = 128;

/// Maximum number of values that aliases may add to a document. go-yaml also allows about 400,000,
/// for documents of any size.
const ALIASED_VALUES_MAX: usize = 400_000;

/// Error in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    /// Line of the error, from 1.
    pub line: u32,
    /// Kind of the error and its message.
    pub kind: YamlErrorKind,
}

/// Kind of an error, with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum YamlErrorKind {
    /// The text is not valid YAML. The rest of the document was not read.
    Syntax(String),
    /// The text is valid YAML, but JSON cannot represent the value.
    NotJson(String),
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            YamlErrorKind::Syntax(message) => write!(f, "is not valid YAML: {message}"),
            YamlErrorKind::NotJson(message) => write!(f, "cannot be converted to JSON: {message}"),
        }
    }
}

impl std::error::Error for YamlError {}

/// Parses one document. An empty document is null. If a field occurs twice, the last value counts,
/// as in kubectl. Fails with all errors of the document.
pub fn parse(text: &str) -> Result<Value, Vec<YamlError>> {
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    let mut composer = Composer {
        parser: Parser::new_from_str_with_options(text, options),
        indentation: IndentationChecker { lines: text.lines(), lines_read: 0, open_flow_collections: 0 },
        anchors: BTreeMap::new(),
        aliased_values: 0,
        errors: Vec::new(),
    };
    let value = composer.document().unwrap_or_else(|fatal| {
        composer.errors.push(fatal);
        Value::Null
    });
    if composer.errors.is_empty() { Ok(value) } else { Err(composer.errors) }
}

/// The result of [`check_nesting`] for a text that should not be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NestingError {
    /// Lists and mappings are nested more than this many levels deep.
    TooDeep(usize),
    /// The text is not valid YAML. The nesting after the error is not known.
    Syntax(YamlError),
}

/// Checks that lists and mappings are nested at most 128 levels deep, without building a tree.
/// Takes time that grows with the length of the text only. For callers that use another parser,
/// whose time also grows with the depth.
pub fn check_nesting(text: &str) -> Result<(), NestingError> {
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    let mut depth = 0_usize;
    for event in Parser::new_from_str_with_options(text, options) {
        let event = match event {
            Ok((event, _)) => event,
            // The parser looks ahead, and has a limit of its own for that.
            Err(cause) if cause.info() == "recursion limit exceeded" => return Err(NestingError::TooDeep(DEPTH_MAX)),
            Err(cause) => return Err(NestingError::Syntax(syntax(cause.marker().line() as u32, cause.info()))),
        };
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(NestingError::TooDeep(DEPTH_MAX));
        }
    }
    Ok(())
}

/// Parsed node before it is used as a key or as a value, because numbers have another text as keys.
#[derive(Debug, Clone)]
enum YamlNode {
    Scalar(Scalar),
    Sequence(Vec<Value>),
    Mapping(Map<String, Value>),
}

/// Builds a tree from parser events. Functions return errors that end parsing; other errors are
/// added to `errors`.
struct Composer<'s> {
    parser: Parser<'s, StrInput<'s>>,
    indentation: IndentationChecker<'s>,
    /// Nodes by the number of their anchor. A collection is inserted when it is complete.
    anchors: BTreeMap<usize, YamlNode>,
    /// Number of values that aliases have added so far.
    aliased_values: usize,
    errors: Vec<YamlError>,
}

impl<'s> Composer<'s> {
    fn document(&mut self) -> Result<Value, YamlError> {
        let mut value = Value::Null;
        let mut documents = 0;
        loop {
            let (event, line) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(value),
                Event::DocumentStart(..) if documents == 1 => {
                    return Err(syntax(line, "a second document begins without `---` before it"));
                }
                Event::DocumentStart(..) => documents += 1,
                Event::StreamStart | Event::DocumentEnd => {}
                root => {
                    let node = self.node(root, line, 0)?;
                    value = self.value(node, line);
                }
            }
        }
    }

    /// Returns the next event and its line.
    fn next(&mut self) -> Result<(Event<'s>, u32), YamlError> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.indentation.advance(&event, &span)?;
                Ok((event, span.start.line() as u32))
            }
            Some(Err(cause)) => Err(syntax(cause.marker().line() as u32, cause.info())),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    /// Reads the node that begins with an event.
    fn node(&mut self, event: Event<'s>, line: u32, depth: usize) -> Result<YamlNode, YamlError> {
        if depth > DEPTH_MAX {
            return Err(too_deep(line));
        }
        let (anchor, node) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let resolved = scalar::resolve(text, style, tag.as_deref());
                (anchor, YamlNode::Scalar(self.value_or_report(line, resolved)))
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.list(depth)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.fields(depth)?),
            Event::Alias(anchor) => return self.alias(anchor, line, depth),
            // No other event begins a value.
            _ => return Err(syntax(line, "a value is missing")),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<YamlNode, YamlError> {
        let mut items = Vec::new();
        loop {
            let (event, line) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(YamlNode::Sequence(items));
            }
            let node = self.node(event, line, depth + 1)?;
            items.push(self.value(node, line));
        }
    }

    fn fields(&mut self, depth: usize) -> Result<YamlNode, YamlError> {
        let mut fields = Map::new();
        loop {
            let (event, key_line) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(YamlNode::Mapping(fields));
            }
            let is_merge = is_merge_key(&event);
            let key = self.node(event, key_line, depth + 1)?;
            let (event, line) = self.next()?;
            let is_alias = matches!(event, Event::Alias(_));
            let node = self.node(event, line, depth + 1)?;
            if is_merge {
                self.merge(node, is_alias, line, &mut fields);
                continue;
            }
            let value = self.value(node, line);
            match key.into_key() {
                Ok(key) => drop(fields.insert(key, value)),
                Err(why) => self.report_error(key_line, why),
            }
        }
    }

    /// Inserts the fields of a merge key. They override fields before the merge key and are
    /// overridden by fields after it.
    fn merge(&mut self, node: YamlNode, is_alias: bool, line: u32, into: &mut Map<String, Value>) {
        match node {
            YamlNode::Mapping(fields) => into.extend(fields),
            YamlNode::Sequence(items) if !is_alias && items.iter().all(Value::is_object) => {
                // The first item of the list has precedence.
                for item in items.into_iter().rev() {
                    if let Value::Object(fields) = item {
                        into.extend(fields);
                    }
                }
            }
            YamlNode::Sequence(_) | YamlNode::Scalar(_) => {
                self.report_error(line, "map merge requires map or sequence of maps as the value".to_owned());
            }
        }
    }

    /// Returns a copy of the node of an anchor.
    fn alias(&mut self, anchor: usize, line: u32, depth: usize) -> Result<YamlNode, YamlError> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(syntax(line, "the value of an anchor contains itself"));
        };
        let (values, node_depth) = match node {
            YamlNode::Scalar(_) => (1, 0),
            YamlNode::Sequence(items) => count_and_depth(items.iter()),
            YamlNode::Mapping(fields) => count_and_depth(fields.values()),
        };
        if depth + node_depth > DEPTH_MAX {
            return Err(too_deep(line));
        }
        self.aliased_values += values;
        if self.aliased_values > ALIASED_VALUES_MAX {
            return Err(syntax(line, "document contains excessive aliasing"));
        }
        Ok(node.clone())
    }

    /// Converts a node to the value of a field or of a list item.
    fn value(&mut self, node: YamlNode, line: u32) -> Value {
        match node {
            YamlNode::Scalar(scalar) => self.value_or_report(line, scalar.into_value()),
            YamlNode::Sequence(items) => Value::Array(items),
            YamlNode::Mapping(fields) => Value::Object(fields),
        }
    }

    /// Returns the value, or reports the error and returns a default, which the caller never sees.
    fn value_or_report<T: Default>(&mut self, line: u32, outcome: Result<T, String>) -> T {
        outcome.unwrap_or_else(|message| {
            self.report_error(line, message);
            T::default()
        })
    }

    fn report_error(&mut self, line: u32, message: String) {
        self.errors.push(YamlError { line, kind: YamlErrorKind::NotJson(message) });
    }
}

/// Rejects tabs in indentation. The parser rejects them only where they affect the meaning; kubectl
/// always does.
struct IndentationChecker<'s> {
    lines: std::str::Lines<'s>,
    /// Number of lines read so far.
    lines_read: usize,
    /// Number of open flow collections. Tabs are allowed inside them.
    open_flow_collections: usize,
}

impl IndentationChecker<'_> {
    /// Reads the lines up to the start of an event and checks their indentation. The lines of a
    /// scalar itself are not checked.
    fn advance(&mut self, event: &Event<'_>, span: &Span) -> Result<(), YamlError> {
        while self.lines_read < span.start.line() {
            let Some(line) = self.lines.next() else { return Ok(()) };
            self.lines_read += 1;
            let indent_bytes = line.len() - line.trim_start_matches([' ', '\t']).len();
            if self.open_flow_collections == 0 && line[..indent_bytes].contains('\t') {
                return Err(syntax(self.lines_read as u32, "tab cannot be used as indentation"));
            }
        }
        match event {
            Event::SequenceStart(StructureStyle::Flow, ..) | Event::MappingStart(StructureStyle::Flow, ..) => {
                self.open_flow_collections += 1;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.open_flow_collections = self.open_flow_collections.saturating_sub(1);
            }
            // A scalar that ends with its line has its end on the next line.
            Event::Scalar(..) => {
                let last = span.end.line() - usize::from(span.end.col() == 0 && span.end.line() > span.start.line());
                while self.lines_read < last && self.lines.next().is_some() {
                    self.lines_read += 1;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl YamlNode {
    /// Converts a node to the name of a field.
    fn into_key(self) -> Result<String, String> {
        match self {
            Self::Scalar(scalar) => scalar.into_key(),
            Self::Sequence(_) => Err("a list cannot be the name of a field".to_owned()),
            Self::Mapping(_) => Err("an object cannot be the name of a field".to_owned()),
        }
    }
}

/// Returns true if the key is a merge key (`<<`).
fn is_merge_key(event: &Event<'_>) -> bool {
    let Event::Scalar(text, style, _, tag) = event else { return false };
    text == "<<"
        && tag.as_ref().map_or(*style == ScalarStyle::Plain, |tag| {
            tag.suffix_in_namespace(scalar::YAML_TAG_NAMESPACE).is_some_and(|name| name == "merge")
        })
}

/// Returns the number of values in a collection, including itself, and its nesting depth.
fn count_and_depth<'v>(values: impl Iterator<Item = &'v Value>) -> (usize, usize) {
    values.fold((1, 0), |(count, depth), value| {
        let (more, deeper) = match value {
            Value::Array(items) => count_and_depth(items.iter()),
            Value::Object(fields) => count_and_depth(fields.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (1, 0),
        };
        (count + more, depth.max(deeper + 1))
    })
}

fn syntax(line: u32, message: impl Into<String>) -> YamlError {
    YamlError { line, kind: YamlErrorKind::Syntax(message.into()) }
}

fn too_deep(line: u32) -> YamlError {
    syntax(line, format!("lists and objects are nested more than {DEPTH_MAX} levels deep"))
}

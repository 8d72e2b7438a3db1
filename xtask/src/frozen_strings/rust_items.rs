//! Finds structs, enums and calls in Rust source, as far as frozen strings need them: the names
//! under which serde reads and writes an item, and the arguments of calls. It does not compile the
//! source; it uses only brackets and literals.

use std::ops::Range;

use crate::code::{self, Literal};
use crate::repository::TextFile;

/// A Rust file without its tests, prepared for searching.
pub(super) struct Source<'r> {
    pub(super) path: &'r str,
    text: &'r str,
    code: &'r str,
    /// String literals outside tests.
    pub(super) literals: Vec<Literal>,
    /// Byte ranges of the lines that belong to tests.
    test_lines: Vec<Range<usize>>,
}

/// A struct or enum with serde's names of its fields or variants.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SerdeItem {
    pub(super) is_enum: bool,
    /// In the order of the source.
    pub(super) names: Vec<String>,
}

impl<'r> Source<'r> {
    pub(super) fn of(file: &'r TextFile) -> Self {
        let code = file.code();
        let mut test_lines = Vec::new();
        let mut start = 0;
        for (line, is_test) in code.split_inclusive('\n').zip(code::test_lines(code)) {
            if is_test {
                test_lines.push(start..start + line.len());
            }
            start += line.len();
        }
        let mut source = Self { path: &file.path, text: &file.text, code, literals: Vec::new(), test_lines };
        source.literals = code::string_literals(&file.text);
        let literals = std::mem::take(&mut source.literals);
        source.literals = literals.into_iter().filter(|literal| !source.is_test(literal.range.start)).collect();
        source
    }

    fn is_test(&self, at: usize) -> bool {
        self.test_lines.iter().any(|line| line.contains(&at))
    }

    /// Returns the literals inside a range.
    pub(super) fn literals_in(&self, range: &Range<usize>) -> impl Iterator<Item = &Literal> {
        self.literals.iter().filter(move |literal| range.contains(&literal.range.start))
    }

    /// Returns the code directly before and after a literal, without white space.
    pub(super) fn around(&self, literal: &Literal) -> (&str, &str) {
        (self.code[..literal.range.start].trim_end(), self.code[literal.range.end..].trim_start())
    }

    /// Returns the argument ranges of all calls of a function outside tests. `function` is a name
    /// (`fork`) or the end of a path (`Rng::new`). Definitions do not count.
    pub(super) fn calls(&self, function: &str) -> Vec<Range<usize>> {
        let mut calls = Vec::new();
        for (at, _) in self.code.match_indices(function) {
            let before = self.code[..at].chars().next_back();
            let is_whole_word = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
            let is_definition = self.code[..at].trim_end().ends_with("fn");
            let open = at + function.len();
            if is_whole_word && !is_definition && self.code[open..].starts_with('(') && !self.is_test(at) {
                calls.push(open + 1..self.closing(open));
            }
        }
        calls
    }

    /// Returns the last argument of a call as code.
    pub(super) fn last_argument(&self, arguments: &Range<usize>) -> &str {
        let code = self.code[arguments.clone()].trim().trim_end_matches(',');
        code.rsplit(',').next().unwrap_or(code).trim()
    }

    /// Returns the keys of the log line whose message is a literal: `a` and `b` of `info!(a, b = 1,
    /// "message")`. Returns `None` if the literal is not an argument of one of tracing's macros.
    pub(super) fn log_keys(&self, message: &Literal) -> Option<Vec<String>> {
        let mut depth = 0_usize;
        let before = &self.code[..message.range.start];
        let open = before.char_indices().rev().find(|(_, c)| {
            match c {
                ')' | ']' | '}' => depth += 1,
                '(' | '[' | '{' if depth == 0 => return true,
                '(' | '[' | '{' => depth -= 1,
                _ => {}
            }
            false
        })?;
        let is_log_macro = |name: &&str| before[..open.0].ends_with(name);
        if open.1 != '(' || !["error!", "warn!", "info!", "debug!", "trace!"].iter().any(is_log_macro) {
            return None;
        }
        let mut keys = Vec::new();
        let mut at = open.0 + 1;
        while at < message.range.start {
            let end = self.end_of_member(at, message.range.start);
            let argument = &self.code[at..end];
            let key = argument.split_once('=').map_or(argument, |(key, _)| key);
            let quoted = self.literals_in(&(at..at + key.len())).next();
            let plain = key.trim().trim_start_matches(['%', '?', '&']);
            match quoted {
                Some(literal) => keys.push(literal.text.clone()),
                None if !plain.is_empty() => keys.push(plain.to_owned()),
                None => {}
            }
            at = end + 1;
        }
        keys.sort();
        Some(keys)
    }

    /// Returns the literal with which a constant is defined.
    pub(super) fn constant(&self, name: &str) -> Option<&str> {
        let definition = format!("const {name}: &str =");
        let at = self.code.find(&definition)? + definition.len();
        let literal = self.literals.iter().find(|literal| literal.range.start >= at)?;
        self.code[at..literal.range.start].trim().is_empty().then_some(literal.text.as_str())
    }

    /// Returns the structs with named fields and the enums outside tests that derive a trait of
    /// serde.
    pub(super) fn serde_items(&self, derived: &str) -> Vec<SerdeItem> {
        let mut items = Vec::new();
        for (at, _) in self.code.match_indices("#[derive(") {
            let end = self.closing(at + 1) + 1;
            let derives = self.code[at..end].split(|c: char| !c.is_alphanumeric()).any(|word| word == derived);
            if derives && !self.is_test(at) {
                items.extend(self.item(end));
            }
        }
        items
    }

    /// Parses the item whose remaining attributes begin at a position.
    fn item(&self, mut at: usize) -> Option<SerdeItem> {
        let mut attributes = String::new();
        loop {
            at += self.code[at..].len() - self.code[at..].trim_start().len();
            if !self.code[at..].starts_with("#[") {
                break;
            }
            let end = self.closing(at + 1) + 1;
            attributes.push_str(&self.text[at..end]);
            at = end;
        }
        // The parenthesis of `pub(crate)` is not the body.
        if self.code[at..].starts_with("pub(") {
            at = self.closing(at + "pub".len()) + 1;
        }
        let open = at + self.code[at..].find(['{', ';', '('])?;
        let words: Vec<&str> = self.code[at..open].split_whitespace().collect();
        let is_enum = words.contains(&"enum");
        if !self.code[open..].starts_with('{') || !(is_enum || words.contains(&"struct")) {
            return None;
        }
        let style = attribute(&attributes, "rename_all").unwrap_or_default();
        let names = self.members(open + 1..self.closing(open));
        let names = names.into_iter().filter_map(|(attributes, name)| {
            if ["skip", "skip_serializing", "skip_deserializing"].iter().any(|word| has_word(&attributes, word)) {
                return None;
            }
            Some(attribute(&attributes, "rename").unwrap_or_else(|| styled(&name, &style, is_enum)))
        });
        Some(SerdeItem { is_enum, names: names.collect() })
    }

    /// Returns the attributes and names of the fields or variants in a body.
    fn members(&self, body: Range<usize>) -> Vec<(String, String)> {
        let mut members = Vec::new();
        let mut at = body.start;
        let mut attributes = String::new();
        while at < body.end {
            let rest = &self.code[at..body.end];
            let next = rest.trim_start();
            at += rest.len() - next.len();
            if next.is_empty() {
                break;
            }
            if next.starts_with("#[") {
                let end = self.closing(at + 1) + 1;
                attributes.push_str(&self.text[at..end]);
                at = end;
                continue;
            }
            let end = self.end_of_member(at, body.end);
            let member = self.code[at..end].trim_start_matches("pub").trim_start();
            let member =
                if member.starts_with('(') { member.split_once(')').map_or("", |(_, rest)| rest) } else { member };
            let name: String = member.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            members.push((std::mem::take(&mut attributes), name));
            at = end + 1;
        }
        members
    }

    /// Returns the position of the comma after a member, or the end of the body.
    fn end_of_member(&self, start: usize, body_end: usize) -> usize {
        let mut depth = 0_usize;
        for (at, c) in self.code[start..body_end].char_indices() {
            match c {
                '(' | '[' | '{' | '<' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                '>' if !self.code[..start + at].ends_with(['-', '=']) => depth = depth.saturating_sub(1),
                ',' if depth == 0 => return start + at,
                _ => {}
            }
        }
        body_end
    }

    /// Returns the position of the bracket that closes the one at a position.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (at, c) in self.code[open..].char_indices() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return open + at;
                    }
                }
                _ => {}
            }
        }
        self.code.len() - 1
    }
}

/// Returns the value of `key = "value"` in attributes.
fn attribute(attributes: &str, key: &str) -> Option<String> {
    attributes.match_indices(key).find_map(|(at, _)| {
        let value = attributes[at + key.len()..].trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
        let is_whole_word = !attributes[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        value.split_once('"').filter(|_| is_whole_word).map(|(value, _)| value.to_owned())
    })
}

fn has_word(attributes: &str, word: &str) -> bool {
    attributes.split(|c: char| !c.is_alphanumeric() && c != '_').any(|other| other == word)
}

/// Returns the name that serde gives to a field (`snake_case` in the source) or a variant
/// (`PascalCase`).
fn styled(name: &str, style: &str, is_variant: bool) -> String {
    let mut words: Vec<String> = Vec::new();
    if is_variant {
        for c in name.chars() {
            match words.last_mut() {
                Some(word) if !c.is_uppercase() => word.push(c),
                Some(_) | None => words.push(c.to_lowercase().collect()),
            }
        }
    } else {
        words = name.split('_').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    }
    let capital = |word: &String| {
        let mut chars = word.chars();
        chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
    };
    match style {
        "camelCase" => words.iter().take(1).cloned().chain(words.iter().skip(1).map(capital)).collect(),
        "PascalCase" => words.iter().map(capital).collect(),
        "kebab-case" => words.join("-"),
        "snake_case" => words.join("_"),
        "lowercase" => words.concat(),
        _ => name.to_owned(),
    }
}

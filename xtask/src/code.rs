//! A small lexer for Rust source: code without comments and literals, the lines that are only for
//! tests, and the modules that a file declares. It is not a parser. It keeps the lines of the file,
//! so that line numbers in its output are line numbers in the file.

use std::ops::Range;

/// Returns the source with comments and the contents of string and character literals replaced by
/// spaces. The result has as many bytes as the source: a position in one is a position in the
/// other.
pub(crate) fn without_comments_and_literals(source: &str) -> String {
    Lexer::of(source).out
}

/// A line comment: the rest of one line from `//` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comment<'s> {
    /// Line number, counted from 1.
    pub(crate) line: usize,
    pub(crate) kind: CommentKind,
    /// Text after the slashes, without the space that follows them.
    pub(crate) text: &'s str,
}

/// The kind of a comment, by its first characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommentKind {
    /// `///`: documents the item below it.
    Item,
    /// `//!`: documents the module that contains it.
    Module,
    /// `//`: a comment that rustdoc does not show.
    Plain,
}

/// Returns the line comments of the source, in order. Tidy rejects block comments.
pub(crate) fn comments(source: &str) -> Vec<Comment<'_>> {
    Lexer::of(source).comments
}

/// Returns the lines on which block comments begin, counted from 1.
pub(crate) fn block_comment_lines(source: &str) -> Vec<usize> {
    Lexer::of(source).block_comment_lines
}

/// A string literal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    /// Byte range in the source, with the quotes.
    pub(crate) range: Range<usize>,
    /// Value of the literal. Escapes of characters by number stay as in the source.
    pub(crate) text: String,
}

/// Returns the string literals of a source, in order. Comments contain none.
pub(crate) fn string_literals(source: &str) -> Vec<Literal> {
    let text = |range: &Range<usize>| literal_text(&source[range.clone()]);
    Lexer::of(source).strings.into_iter().map(|range| Literal { text: text(&range), range }).collect()
}

/// Returns the text that a string literal denotes.
fn literal_text(literal: &str) -> String {
    let Some(open) = literal.find('"') else { return String::new() };
    let is_raw = literal[..open].contains('r');
    let inner = literal[open + 1..].trim_end_matches('#');
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    if is_raw {
        return inner.to_owned();
    }
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
            Some(c @ ('"' | '\\' | '\'')) => text.push(c),
            Some(other) => text.extend(['\\', other]),
            None => {}
        }
    }
    text
}

struct Lexer<'s> {
    rest: &'s str,
    line: usize,
    out: String,
    comments: Vec<Comment<'s>>,
    block_comment_lines: Vec<usize>,
    strings: Vec<Range<usize>>,
}

impl<'s> Lexer<'s> {
    fn of(source: &'s str) -> Self {
        let out = String::with_capacity(source.len());
        let mut lexer = Self {
            rest: source,
            line: 1,
            out,
            comments: Vec::new(),
            block_comment_lines: Vec::new(),
            strings: Vec::new(),
        };
        lexer.run();
        lexer
    }

    fn run(&mut self) {
        while let Some(next) = self.rest.chars().next() {
            let word_before = self.out.chars().next_back().is_some_and(is_word);
            if self.rest.starts_with("//") {
                let length = self.rest.find('\n').unwrap_or(self.rest.len());
                self.comments.push(comment(&self.rest[..length], self.line));
                self.blank(length);
            } else if self.rest.starts_with("/*") {
                self.block_comment_lines.push(self.line);
                self.blank(block_comment(self.rest));
            } else if let Some(length) = raw_string(self.rest).filter(|_| !word_before) {
                self.string(length);
            } else if next == '"' {
                self.string(quoted(self.rest, '"'));
            } else if next == '\'' && is_character_literal(self.rest) {
                self.blank(quoted(self.rest, '\''));
            } else {
                self.line += usize::from(next == '\n');
                self.out.push(next);
                self.rest = &self.rest[next.len_utf8()..];
            }
        }
    }

    /// Replaces a string literal of `length` bytes by spaces and records its position.
    fn string(&mut self, length: usize) {
        self.strings.push(self.out.len()..self.out.len() + length);
        self.blank(length);
    }

    /// Replaces `length` bytes by spaces, except for line ends.
    fn blank(&mut self, length: usize) {
        let (blanked, rest) = self.rest.split_at(length);
        self.line += blanked.matches('\n').count();
        self.out.extend(blanked.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }
}

fn comment(text: &str, line: usize) -> Comment<'_> {
    let (kind, text) = if let Some(rest) = text.strip_prefix("//!") {
        (CommentKind::Module, rest)
    } else if let Some(rest) = text.strip_prefix("///").filter(|rest| !rest.starts_with('/')) {
        (CommentKind::Item, rest)
    } else {
        (CommentKind::Plain, text.trim_start_matches('/'))
    };
    Comment { line, kind, text: text.strip_prefix(' ').unwrap_or(text) }
}

/// Returns true for the characters of which identifiers consist.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the identifiers and keywords of a text, in order.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

/// Splits `NodeClaim`, `node_claim` and `NODE_CLAIM` into `node` and `claim`.
pub(crate) fn name_parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && after_lower) {
            parts.push(String::new());
        }
        after_lower = c.is_lowercase();
        if c != '_' {
            parts.last_mut().expect("there is always a last part").extend(c.to_lowercase());
        }
    }
    parts
}

/// An attribute of an item, such as `#[cfg(test)]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    /// Line on which it begins, counted from 1.
    pub(crate) line: usize,
    /// Text between the brackets without whitespace, such as `cfg(test)`.
    pub(crate) text: String,
}

/// Returns the attributes of the code. Takes code without comments and literals.
pub(crate) fn attributes(code: &str) -> Vec<Attribute> {
    let mut attributes = Vec::new();
    for (at, _) in code.match_indices('#') {
        let rest = &code[at + 1..];
        let Some(body) = rest.strip_prefix('!').unwrap_or(rest).trim_start().strip_prefix('[') else { continue };
        let mut depth = 1_usize;
        let end = body.find(|c| {
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let text = body[..end.unwrap_or(body.len())].split_whitespace().collect();
        attributes.push(Attribute { line: code[..at].matches('\n').count() + 1, text });
    }
    attributes
}

/// Returns the length of the block comment at the start; block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the length of the raw string literal at the start (`r"…"`, `r#"…"#`, `br"…"`), or `None`
/// if there is none.
fn raw_string(text: &str) -> Option<usize> {
    let body = text.strip_prefix("br").or_else(|| text.strip_prefix("cr")).or_else(|| text.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let content = body[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - content.len();
    Some(content.find(&close).map_or(text.len(), |end| start + end + close.len()))
}

/// Returns the length of the literal at the start, which ends at the next `quote` without a
/// backslash before it.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Distinguishes the literals `'a'` and `'\n'` from the lifetime `'a` in `&'a str`.
fn is_character_literal(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

/// Marks the lines inside an item with `#[cfg(test)]`. Takes code without comments and literals.
pub(crate) fn test_lines(code: &str) -> Vec<bool> {
    let mut marks = Vec::new();
    let mut depth = 0_usize;
    // Depth at which the current test item began, and whether its body has opened.
    let mut inside: Option<(usize, bool)> = None;
    for line in code.lines() {
        if inside.is_none() && line.trim_start().starts_with("#[cfg(test)]") {
            inside = Some((depth, false));
        }
        marks.push(inside.is_some());
        for c in line.chars() {
            match c {
                '{' => {
                    depth += 1;
                    if let Some((_, opened)) = &mut inside {
                        *opened = true;
                    }
                }
                '}' => depth = depth.saturating_sub(1),
                // `#[cfg(test)] mod tests;` and `#[cfg(test)] use …;` end without a body.
                ';' if matches!(inside, Some((began, false)) if began == depth) => inside = None,
                _ => {}
            }
            if matches!(inside, Some((began, true)) if began == depth) {
                inside = None;
            }
        }
    }
    marks
}

/// A module that a file declares.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    /// True if the body of the module is in another file.
    pub(crate) is_in_other_file: bool,
}

/// Returns the modules that the code declares. Takes code without comments and literals.
pub(crate) fn modules(code: &str) -> Vec<Module> {
    let mut modules = Vec::new();
    for line in code.lines() {
        let mut words = line.trim().trim_start_matches("#[cfg(test)]").trim_start();
        if let Some(rest) = words.strip_prefix("pub") {
            words = rest.trim_start();
            if let Some(scope) = words.strip_prefix('(') {
                words = scope.split_once(')').map_or("", |(_, rest)| rest).trim_start();
            }
        }
        let Some(rest) = words.strip_prefix("mod ") else { continue };
        let name: String = rest.trim_start().chars().take_while(|&c| is_word(c)).collect();
        if !name.is_empty() {
            modules.push(Module { name, is_in_other_file: rest.contains(';') });
        }
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_spaces_and_lines_stay() {
        let source =
            "let a = \"// no \\\" comment\"; // gone\n/* one /* two */ */ b\nr#\"a \" b\"# 'x' '\\'' &'a str\nvar\"c\"";
        let code = without_comments_and_literals(source);
        assert_eq!(code.lines().count(), source.lines().count());
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["let", "a", "=", ";", "b", "&'a", "str", "var"]);
    }

    #[test]
    fn comments_have_their_line_and_kind() {
        let source = "//! Head.\n\n/// Doc.\nfn a() { let b = \"// no\"; } // after code\n\"\n\n\" //// rule\n";
        let comments: Vec<_> = comments(source).iter().map(|c| (c.line, c.kind, c.text)).collect();
        let expected = [
            (1, CommentKind::Module, "Head."),
            (3, CommentKind::Item, "Doc."),
            (4, CommentKind::Plain, "after code"),
            (7, CommentKind::Plain, "rule"),
        ];
        assert_eq!(comments, expected);
    }

    #[test]
    fn block_comments_have_their_line() {
        let source = "/** a */ fn b() {} // /* no\n\"/* no */\" r#\"/* no\"#\n\n/* one\ntwo */ c /*! three */\n";
        assert_eq!(block_comment_lines(source), [1, 4, 5]);
    }

    #[test]
    fn attributes_have_their_line_and_no_whitespace() {
        let code = "#![deny(missing)]\nfn a() {}\n\n#[cfg_attr(\n    all(), allow([b])\n)] #[test]\nlet c = #d;\n#[e";
        let attributes: Vec<_> = attributes(code).into_iter().map(|found| (found.line, found.text)).collect();
        let expected = [(1, "deny(missing)"), (4, "cfg_attr(all(),allow([b]))"), (6, "test"), (8, "e")];
        assert_eq!(attributes, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn positions_do_not_change() {
        let source = "a(\"é…\", 'ü'); // ß\nb(\"two \\\n   lines\", r#\"raw \\n\"#)";
        let code = without_comments_and_literals(source);
        assert_eq!((code.len(), code.find("b(")), (source.len(), source.find("b(")));
        let texts: Vec<String> = string_literals(source).into_iter().map(|literal| literal.text).collect();
        assert_eq!(texts, ["é…", "two lines", "raw \\n"]);
        assert_eq!(&source[string_literals(source)[0].range.clone()], "\"é…\"");
    }

    #[test]
    fn unclosed_literals_end_with_the_file() {
        for source in ["\"abc", "r#\"abc\"", "/* abc", "'\\", "'"] {
            assert_eq!(without_comments_and_literals(source).len(), source.len(), "{source}");
        }
    }

    #[test]
    fn test_items_are_marked_to_their_closing_brace() {
        let code =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { }\n}\nfn c() {}\n#[cfg(test)]\nmod other;\nfn d() {}\n";
        assert_eq!(test_lines(code), [false, true, true, true, true, false, true, true, false]);
    }

    #[test]
    fn modules_are_found_with_and_without_a_body() {
        let code = "mod a;\npub(crate) mod b;\npub mod c {\n#[cfg(test)] mod tests;\nlet model = 1;";
        let modules: Vec<_> = modules(code).into_iter().map(|m| (m.name, m.is_in_other_file)).collect();
        let expected = [("a", true), ("b", true), ("c", false), ("tests", true)];
        assert_eq!(modules, expected.map(|(name, is_in_other_file)| (name.to_owned(), is_in_other_file)));
    }
}

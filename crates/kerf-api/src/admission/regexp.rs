//! Go's regular expressions (RE2 syntax) on top of the `regex` crate. Schemas and rules are written
//! for Go; the two syntaxes differ in the meaning of `\d`, in what may be escaped and in brackets
//! inside a class. A pattern is translated once, when a definition is compiled.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};

/// Maximum size of one compiled pattern. Go limits repetition counts instead.
const COMPILED_MAX_BYTES: usize = 4 << 20;
/// Go's limit on a counted repetition.
const MAX_REPEAT: u32 = 1000;

/// A compiled pattern together with its source, which error messages quote.
#[derive(Clone, Debug)]
pub(crate) struct Regexp {
    pub(crate) source: String,
    regex: Regex,
}

impl Regexp {
    /// Compiles `source`, or returns Go's error message.
    pub(crate) fn new(source: &str) -> Result<Self, String> {
        let translated = translate(source).map_err(|error| format!("error parsing regexp: {error}"))?;
        let regex = RegexBuilder::new(&translated)
            .size_limit(COMPILED_MAX_BYTES)
            .build()
            .map_err(|error| format!("error parsing regexp: {}", go_error_message(&error, source)))?;
        Ok(Self { source: source.to_owned(), regex })
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    pub(crate) fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.regex.find(text).map(|matched| matched.as_str())
    }

    pub(crate) fn find_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        self.regex.find_iter(text).map(|matched| matched.as_str())
    }
}

fn go_error_message(error: &regex::Error, source: &str) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "expression nests too deeply".to_owned(),
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            match last.as_str() {
                "unclosed group" => format!("missing closing ): `{source}`"),
                "unopened group" => format!("unexpected ): `{source}`"),
                "unclosed character class" => {
                    let start = source.rfind('[').unwrap_or_default();
                    format!("missing closing ]: `{}`", source.get(start..).unwrap_or(source))
                }
                "repetition operator missing expression" => {
                    let operator = source.find(['*', '+', '?']).and_then(|at| source.get(at..=at)).unwrap_or(source);
                    format!("missing argument to repetition operator: `{operator}`")
                }
                _ => last,
            }
        }
    }
}

/// Translates the pattern into the syntax of the `regex` crate.
fn translate(source: &str) -> Result<String, String> {
    let mut out = String::with_capacity(source.len() + 16);
    let mut chars = source.chars().peekable();
    let mut repeated = false;
    while let Some(c) = chars.next() {
        let was_repeated = std::mem::take(&mut repeated);
        match c {
            '\\' => translate_escape(&mut chars, &mut out, false)?,
            '[' => translate_class(&mut chars, &mut out)?,
            '(' => {
                out.push('(');
                if let Some(bad) = unsupported_group(&chars) {
                    return Err(format!("invalid or unsupported Perl syntax: `{bad}`"));
                }
            }
            '{' => match parse_repeat(&chars) {
                Some((text, min, max)) => {
                    if min > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT || max < min) {
                        return Err(format!("invalid repeat count: `{{{text}`"));
                    }
                    out.push('{');
                    out.push_str(&text);
                    for _ in text.chars() {
                        chars.next();
                    }
                    repeated = true;
                }
                None => out.push_str("\\{"),
            },
            '*' | '+' | '?' => {
                if was_repeated && c != '?' {
                    return Err(format!("invalid nested repetition operator: `{c}`"));
                }
                repeated = !was_repeated;
                out.push(c);
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Returns the start of a group that RE2 does not support (look-around and atomic groups): `(?=`,
/// `(?!`, `(?<=`, `(?<!`, `(?>`.
fn unsupported_group(rest: &Peekable<Chars<'_>>) -> Option<String> {
    let mut rest = rest.clone();
    if rest.next() != Some('?') {
        return None;
    }
    match (rest.next()?, rest.next()) {
        ('=', _) => Some("(?=".to_owned()),
        ('!', _) => Some("(?!".to_owned()),
        ('>', _) => Some("(?>".to_owned()),
        ('<', Some('=')) => Some("(?<".to_owned()),
        ('<', Some('!')) => Some("(?<".to_owned()),
        _ => None,
    }
}

/// Returns the text after `{` up to and including `}` with its bounds, if it is a counted
/// repetition. Any other brace is a literal.
fn parse_repeat(rest: &Peekable<Chars<'_>>) -> Option<(String, u32, Option<u32>)> {
    let text: String = rest.clone().take_while(|c| *c != '}').take(12).collect();
    rest.clone().nth(text.chars().count()).filter(|c| *c == '}')?;
    let (min, max) = match text.split_once(',') {
        None => (text.as_str(), Some(text.as_str())),
        Some((min, "")) => (min, None),
        Some((min, max)) => (min, Some(max)),
    };
    let count =
        |digits: &str| if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse::<u32>().ok() } else { None };
    let min = count(min)?;
    let max = match max {
        Some(max) => Some(count(max)?),
        None => None,
    };
    Some((format!("{text}}}"), min, max))
}

/// Translates the escape after a backslash, inside or outside a class.
fn translate_escape(chars: &mut Peekable<Chars<'_>>, out: &mut String, in_class: bool) -> Result<(), String> {
    let Some(c) = chars.next() else { return Err("trailing backslash at end of expression: ``".to_owned()) };
    match c {
        'd' => out.push_str(if in_class { "0-9" } else { "[0-9]" }),
        'D' => out.push_str("[^0-9]"),
        's' => out.push_str(if in_class { "\\t\\n\\x0C\\r " } else { "[\\t\\n\\x0C\\r ]" }),
        'S' => out.push_str("[^\\t\\n\\x0C\\r ]"),
        'w' => out.push_str(if in_class { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        'B' if !in_class => out.push_str("\\B"),
        'A' if !in_class => out.push_str("\\A"),
        'z' if !in_class => out.push_str("\\z"),
        'Q' if !in_class => translate_literals(chars, out),
        'a' => out.push_str("\\x07"),
        'f' => out.push_str("\\x0C"),
        'v' => out.push_str("\\x0B"),
        'n' | 'r' | 't' | 'x' | 'p' | 'P' => {
            out.push('\\');
            out.push(c);
        }
        '0'..='7' => {
            let mut code = c.to_digit(8).unwrap_or_default();
            if c != '0' && !chars.peek().is_some_and(|next| ('0'..='7').contains(next)) {
                return Err(format!("invalid escape sequence: `\\{c}`"));
            }
            for _ in 0..2 {
                let Some(digit) = chars.peek().and_then(|next| next.to_digit(8)) else { break };
                code = code * 8 + digit;
                chars.next();
            }
            // Writing into a String cannot fail.
            let _ = write!(out, "\\x{{{code:x}}}");
        }
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => push_literal(out, c),
        c => return Err(format!("invalid escape sequence: `\\{c}`")),
    }
    Ok(())
}

/// Translates `\Q…\E`: all characters between are literals.
fn translate_literals(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    while let Some(c) = chars.next() {
        if c == '\\' && chars.peek() == Some(&'E') {
            chars.next();
            return;
        }
        push_literal(out, c);
    }
}

fn push_literal(out: &mut String, c: char) {
    let mut buffer = [0; 4];
    out.push_str(&regex::escape(c.encode_utf8(&mut buffer)));
}

/// Translates a bracketed class. RE2 gives `[`, `&` and `~` no meaning inside a class, so they are
/// escaped; `[:alpha:]` is kept.
fn translate_class(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    out.push('[');
    if chars.peek() == Some(&'^') {
        chars.next();
        out.push('^');
    }
    let mut first = true;
    while let Some(c) = chars.next() {
        match c {
            ']' if !first => {
                out.push(']');
                return Ok(());
            }
            ']' => out.push_str("\\]"),
            '[' if chars.peek() == Some(&':') => match posix_class(chars) {
                Some(name) => out.push_str(&name),
                None => out.push_str("\\["),
            },
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '-' if first || matches!(chars.peek(), Some('-' | ']')) => out.push_str("\\-"),
            '\\' => translate_escape(chars, out, true)?,
            c => out.push(c),
        }
        first = false;
    }
    // The class is not closed: `RegexBuilder::build` reports the error.
    Ok(())
}

fn posix_class(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let text: String = chars.clone().take_while(|c| *c != ']').take(16).collect();
    if !text.starts_with(':') || !text.ends_with(':') || text.len() < 3 {
        return None;
    }
    for _ in 0..=text.chars().count() {
        chars.next();
    }
    Some(format!("[{text}]"))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, matches) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "१२", false),
            (r"^\w$", "é", false),
            (r"^[\w-]+$", "a-b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[^/]*$", "a", true),
            (r"^[a[]$", "[", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[]a]+$", "]a", true),
            (r"^[a-]$", "-", true),
            (r"^[-a]$", "-", true),
            (r"^a\/b$", "a/b", true),
            (r"^a\_b$", "a_b", true),
            (r"\<a\>", "<a>", true),
            (r"^{a$", "{a", true),
            (r"^a{2}$", "aa", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^(a|)$", "", true),
            (r"^([1-9]||5)Ti$", "Ti", true),
            (r"^.$", "\n", false),
            (r"a$", "a\n", false),
            (r"^\x41\101$", "AA", true),
            (r"(?i)^ABC$", "abc", true),
            (r"^a+?$", "aa", true),
        ] {
            assert_eq!(Regexp::new(pattern).unwrap().is_match(text), matches, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn invalid_patterns_give_the_error_of_go() {
        for (pattern, text) in [
            ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
            (r"(a)\1", r"error parsing regexp: invalid escape sequence: `\1`"),
            ("a**", "error parsing regexp: invalid nested repetition operator: `*`"),
            ("a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"),
            ("a{3,2}", "error parsing regexp: invalid repeat count: `{3,2}`"),
            ("(a", "error parsing regexp: missing closing ): `(a`"),
            ("a)", "error parsing regexp: unexpected ): `a)`"),
            ("[a", "error parsing regexp: missing closing ]: `[a`"),
            ("*", "error parsing regexp: missing argument to repetition operator: `*`"),
            (r"a\", "error parsing regexp: trailing backslash at end of expression: ``"),
            (r"\y", r"error parsing regexp: invalid escape sequence: `\y`"),
        ] {
            assert_eq!(Regexp::new(pattern).unwrap_err(), text, "{pattern}");
        }
    }

    #[test]
    fn oversized_patterns_are_rejected() {
        assert!(Regexp::new(&"(a{1000}){1000}".repeat(3)).is_err());
    }
}

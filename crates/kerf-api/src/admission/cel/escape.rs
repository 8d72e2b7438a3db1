//! Field names as CEL identifiers: characters that identifiers cannot contain are written as words
//! (`spec.foo__dash__bar`), and reserved words are enclosed in underscores (`__namespace__`).

const RESERVED: [&str; 22] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "",
];

/// Returns the identifier for a property; `None` if no identifier can express it.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(out)
}

/// Returns the property that an identifier stands for; `None` if the identifier contains an invalid
/// escape.
pub(super) fn unescape(identifier: &str) -> Option<String> {
    let mut out = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while !rest.is_empty() {
        // `__word__`, where the word contains no underscores.
        let word = rest.strip_prefix("__").and_then(|body| {
            let end = body.find('_')?;
            (end > 0 && body[end..].starts_with("__")).then(|| &body[..end])
        });
        let Some(word) = word else {
            let c = rest.chars().next()?;
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        let whole = word.len() + 4 == identifier.len();
        out.push_str(match word {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            word if whole && RESERVED.contains(&word) => word,
            _ => return None,
        });
        rest = &rest[word.len() + 4..];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unescape_reverses_escape() {
        for (name, identifier) in [
            ("namespace", "__namespace__"),
            ("if", "__if__"),
            ("foo", "foo"),
            ("foo-bar", "foo__dash__bar"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("x__y", "x__underscores__y"),
            ("_x_", "_x_"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(identifier), "{name}");
            assert_eq!(unescape(identifier).as_deref(), Some(name), "{identifier}");
        }
        for name in ["", "1a", "a b", "é"] {
            assert_eq!(escape(name), None, "{name}");
        }
        assert_eq!(unescape("a__foo__b"), None);
    }
}

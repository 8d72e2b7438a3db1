//! Rules for names, label keys and label values, with the API server's messages. Each function
//! returns the problems, or nothing if the text is valid; the caller adds the field.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
     end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
     alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
     character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
     an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The rule for the names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Most kinds: at most 253 characters, dots allowed.
    Subdomain,
    /// Namespaces and Services: at most 63 characters, no dots.
    Label,
    /// RBAC kinds: everything that can be a segment of a path.
    PathSegment,
}

impl NameRule {
    /// Returns the problems of `name`. `is_prefix` is true for a `generateName`, to which a suffix
    /// is added.
    pub(crate) fn problems(self, name: &str, is_prefix: bool) -> Vec<String> {
        // A generated name continues after the prefix, so the prefix may end in a dash.
        let trimmed =
            if is_prefix && name.ends_with('-') { format!("{}a", &name[..name.len() - 1]) } else { name.to_string() };
        match self {
            Self::Subdomain => subdomain_problems(&trimmed),
            Self::Label => label_problems(&trimmed),
            Self::PathSegment => path_segment_problems(&trimmed),
        }
    }
}

/// Returns the message for long names. Label keys have another one ([`too_many_bytes`]), although
/// both count bytes.
fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn too_many_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn subdomain_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !text.split('.').all(is_label) {
        problems.push(SUBDOMAIN.into());
    }
    problems
}

fn label_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(text) {
        let dotted = text.split('.').all(is_label);
        problems.push(if dotted { "must not contain dots".into() } else { LABEL.into() });
    }
    problems
}

fn path_segment_problems(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|part| text.contains(*part)).map(|part| format!("may not contain '{part}'")).collect()
}

fn is_name_part(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Returns the problems of a label key, annotation key, taint key or resource name: an optional
/// prefix and a name.
pub(crate) fn qualified_name_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".into());
            } else {
                problems.extend(subdomain_problems(prefix).into_iter().map(|problem| format!("prefix part {problem}")));
            }
            *name
        }
        _ => {
            let sentence = QUALIFIED.replacen("name part", "a qualified name", 1);
            let note = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("{sentence}{note}")];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_many_bytes(63)));
    }
    if !is_name_part(name) {
        problems.push(QUALIFIED.into());
    }
    problems
}

/// Returns the problems of a label's value.
pub(crate) fn label_value_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_many_bytes(63));
    }
    if !text.is_empty() && !is_name_part(text) {
        problems.push(VALUE.into());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_kind() {
        for (rule, good, bad) in [
            (NameRule::Subdomain, &["a", "a.b-c", "0"][..], &["A", "-a", "a-", "a..b", "", "a_b", "ä"][..]),
            (NameRule::Label, &["a", "a-b", "0"], &["a.b", "", "-", "a/b"]),
            (NameRule::PathSegment, &["system:node", "A b"], &["a/b", "..", "a%b"]),
        ] {
            for name in good {
                assert!(rule.problems(name, false).is_empty(), "{rule:?} {name}");
            }
            for name in bad {
                assert!(!rule.problems(name, false).is_empty(), "{rule:?} {name}");
            }
        }
        assert!(NameRule::Subdomain.problems("web-", true).is_empty(), "a prefix may end in a dash");
        assert!(!NameRule::Subdomain.problems(&"a".repeat(254), false).is_empty());
    }

    #[test]
    fn label_keys_and_values() {
        for key in ["a", "a/b", "example.com/My_Name.1", "node.kubernetes.io/instance-type"] {
            assert!(qualified_name_problems(key).is_empty(), "{key}");
        }
        for key in ["", "/a", "a/", "a/b/c", "A B", "-a", "Example.com/a"] {
            assert!(!qualified_name_problems(key).is_empty(), "{key}");
        }
        assert!(label_value_problems("").is_empty() && label_value_problems("v1.2_3-x").is_empty());
        assert!(!label_value_problems("-x").is_empty() && !label_value_problems(&"a".repeat(64)).is_empty());
    }
}

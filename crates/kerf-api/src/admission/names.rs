//! Checks of Kubernetes names: DNS labels and subdomains, qualified names, label values. Each check
//! returns the API server's messages; an empty list means that the name is valid.

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// Checks a lower-case RFC 1123 label of at most 63 bytes. Used for namespaces.
pub(crate) fn dns1123_label(name: &str) -> Vec<String> {
    let mut errors = too_many_characters(name, 63);
    if !is_label(name) {
        errors.push(if is_subdomain(name) {
            "must not contain dots".to_owned()
        } else {
            format_message(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_FORMAT,
                &["my-name", "123-abc"],
            )
        });
    }
    errors
}

/// Checks a lower-case RFC 1123 subdomain of at most 253 bytes. Used for the names of most objects.
pub(crate) fn dns1123_subdomain(name: &str) -> Vec<String> {
    let mut errors = too_many_characters(name, 253);
    errors.extend(subdomain_shape(name));
    errors
}

fn subdomain_shape(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if !is_subdomain(name) {
        errors.push(format_message(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_FORMAT,
            &["example.com"],
        ));
    }
    errors
}

/// Checks an RFC 1035 label (begins with a letter) of at most 63 bytes. Used for plurals, kinds in
/// lower case and versions.
pub(crate) fn dns1035_label(name: &str) -> Vec<String> {
    let mut errors = too_many_characters(name, 63);
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(format_message(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// Checks a prefix of generated names. A trailing dash is allowed, because characters are appended
/// to it.
pub(crate) fn generate_name_prefix(prefix: &str) -> Vec<String> {
    match prefix.strip_suffix('-') {
        Some(head) if !head.is_empty() => {
            // Replaces the dash and the character before it by a letter, as upstream does; the
            // result is one byte shorter than the prefix.
            let shortened: String = head.chars().take(head.chars().count() - 1).collect();
            dns1123_subdomain(&format!("{shortened}a"))
        }
        _ => dns1123_subdomain(prefix),
    }
}

/// Checks `[prefix/]name`. Used for label keys, annotation keys and finalizers.
pub(crate) fn qualified_name(name: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let details = too_long(prefix, 253).into_iter().chain(subdomain_shape(prefix));
                errors.extend(details.map(|text| format!("prefix part {text}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                format_message(QUALIFIED_RULE, QUALIFIED_FORMAT, &examples)
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        errors.push(format!("name part {}", format_message(QUALIFIED_RULE, QUALIFIED_FORMAT, &examples)));
    }
    errors
}

/// Checks a label value: empty, or a name of at most 63 bytes.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 63);
    if !value.is_empty() && !is_qualified(value) {
        errors.push(format_message(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED_FORMAT})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// Checks that a name can be a segment of a URL path.
pub(crate) fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    path_segment_prefix(name)
}

/// Checks that text can be the beginning of a URL path segment.
pub(crate) fn path_segment_prefix(name: &str) -> Vec<String> {
    ["/", "%"]
        .iter()
        .filter(|forbidden| name.contains(**forbidden))
        .map(|forbidden| format!("may not contain '{forbidden}'"))
        .collect()
}

fn is_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty() && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

fn is_qualified(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    name.bytes().all(inner) && edge(name.as_bytes().first()) && edge(name.as_bytes().last())
}

/// Older checks count bytes as well, but their message says characters.
fn too_many_characters(name: &str, max: usize) -> Vec<String> {
    if name.len() > max { vec![format!("must be no more than {max} characters")] } else { Vec::new() }
}

fn too_long(name: &str, max: usize) -> Vec<String> {
    if name.len() > max { vec![format!("must be no more than {max} bytes")] } else { Vec::new() }
}

fn format_message(rule: &str, format: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{format}')", examples.join(" or "))
}

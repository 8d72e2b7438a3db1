//! The shapes of Kubernetes names: labels and subdomains of DNS, qualified names, label values. Each check returns the sentences that the
//! API server gives for a name of a wrong shape; none means that the name is good.

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A lower-case label of RFC 1123, at most 63 bytes: namespaces.
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

/// A lower-case subdomain of RFC 1123, at most 253 bytes: the names of most objects.
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

/// A label of RFC 1035 (starts with a letter), at most 63 bytes: plurals, kinds in lower case, versions.
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

/// A prefix for generated names: a trailing dash is fine, since characters follow.
pub(crate) fn generate_name_prefix(prefix: &str) -> Vec<String> {
    match prefix.strip_suffix('-') {
        Some(head) if !head.is_empty() => {
            // Stands for the prefix as it will look with something appended (one byte shorter, as upstream counts).
            let cut: String = head.chars().take(head.chars().count() - 1).collect();
            dns1123_subdomain(&format!("{cut}a"))
        }
        _ => dns1123_subdomain(prefix),
    }
}

/// `[prefix/]name`: label keys, annotation keys, finalizers.
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

/// A label's value: empty, or at most 63 bytes of the shape of a name.
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

/// A name as it may stand in a URL's path.
pub(crate) fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    path_segment_prefix(name)
}

/// The start of such a name.
pub(crate) fn path_segment_prefix(name: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|bad| name.contains(**bad)).map(|bad| format!("may not contain '{bad}'")).collect()
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

/// The older checks count the same bytes and call them characters.
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

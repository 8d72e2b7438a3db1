//! Limits the `Warning` headers of a response, because clients reject a response whose head is too
//! large. The limits of characters are those of kube-apiserver. It has no limit of their number;
//! the HTTP/1 clients of Python and Rust reject more than 100 headers.

use std::collections::BTreeSet;

/// Number of characters of all warnings from which on each warning is shortened, and from which on
/// further shortened warnings are left out.
const TOTAL_CHARS: usize = 4096;
/// Number of characters of a shortened warning.
const SHORTENED_CHARS: usize = 256;

/// Largest number of warnings.
const WARNINGS_MAX: usize = 64;

/// Returns the warnings that a response contains, without duplicates. Up to 4,096 characters all of
/// them are complete. Otherwise all are shortened to 256 characters each, and no further one is
/// added once they have 4,096 characters together. Never returns more than [`WARNINGS_MAX`].
pub(super) fn limited(warnings: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let distinct: Vec<&str> =
        warnings.iter().map(String::as_str).filter(|text| !text.is_empty() && seen.insert(*text)).collect();
    let total: usize = distinct.iter().map(|text| text.chars().count()).sum();
    if total <= TOTAL_CHARS {
        return distinct.into_iter().take(WARNINGS_MAX).map(str::to_owned).collect();
    }
    let mut chars = 0;
    let mut shortened = Vec::new();
    for text in distinct.into_iter().take(WARNINGS_MAX) {
        if chars >= TOTAL_CHARS {
            break;
        }
        let text: String = text.chars().take(SHORTENED_CHARS).collect();
        chars += text.chars().count();
        shortened.push(text);
    }
    shortened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_warnings_are_complete_and_distinct() {
        let warnings = ["a".repeat(3000), String::new(), "b".to_owned(), "b".to_owned()];
        assert_eq!(limited(&warnings), ["a".repeat(3000), "b".to_owned()]);
    }

    #[test]
    fn many_warnings_are_shortened_and_then_left_out() {
        let long: Vec<String> = (0..10).map(|index| format!("{index}{}", "\u{e9}".repeat(499))).collect();
        let limited_long = limited(&long);
        assert_eq!(limited_long.len(), 10);
        assert!(limited_long.iter().all(|text| text.chars().count() == 256), "{limited_long:?}");
        let longer: Vec<String> = (0..5000).map(|index| format!("{index}{}", "a".repeat(100))).collect();
        let chars: usize = limited(&longer).iter().map(String::len).sum();
        assert!((4096..4096 + 256).contains(&chars), "{chars}");
        let short: Vec<String> = (0..5000).map(|index| format!("unknown field \"spec.f{index}\"")).collect();
        assert_eq!(limited(&short), &short[..64]);
    }
}

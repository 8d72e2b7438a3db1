//! Filters of describe calls: names, wildcards and tags.

use super::AwsFailure;
use crate::ports::{Filter, Tags};

/// Largest number of filter values of one request.
const FILTER_VALUES_MAX: usize = 200;

/// Fails if a request has an unknown filter, a filter without values, or too many values.
/// `names` are the filters of the operation other than tags.
pub(super) fn check_filters(filters: &[Filter], names: &[&str], accepts_tags: bool) -> Result<(), AwsFailure> {
    for filter in filters {
        let is_tag = filter.name == "tag-key" || filter.name.starts_with("tag:");
        if !(names.contains(&filter.name.as_str()) || (accepts_tags && is_tag)) {
            return Err(AwsFailure::invalid_value(format!("The filter '{}' is invalid", filter.name)));
        }
        if filter.values.is_empty() {
            return Err(AwsFailure::invalid_value(format!(
                "The filter '{}' must have at least one value",
                filter.name
            )));
        }
    }
    if filters.iter().map(|filter| filter.values.len()).sum::<usize>() > FILTER_VALUES_MAX {
        let message = format!("The maximum number of filter values specified on a single call is {FILTER_VALUES_MAX}");
        return Err(AwsFailure::bad_request("FilterLimitExceeded", message));
    }
    Ok(())
}

/// Returns true if a resource matches all filters. `values` returns the resource's values of a
/// filter other than tags.
pub(super) fn matches_filters<'a>(
    filters: &[Filter],
    tags: Option<&Tags>,
    values: impl Fn(&str) -> Vec<&'a str>,
) -> bool {
    filters.iter().all(|filter| {
        let accepts = |value: &str| filter.values.iter().any(|pattern| matches_pattern(pattern, value));
        match (filter.name.strip_prefix("tag:"), tags) {
            (Some(key), Some(tags)) => tags.get(key).is_some_and(|value| accepts(value)),
            (None, Some(tags)) if filter.name == "tag-key" => tags.keys().any(|key| accepts(key)),
            _ => values(&filter.name).into_iter().any(accepts),
        }
    })
}

/// Returns true if `value` matches a pattern with `*` (any characters) and `?` (one character). A
/// backslash makes the next character literal. Case counts.
pub fn matches_pattern(pattern: &str, value: &str) -> bool {
    let (pattern, value): (Vec<PatternPart>, Vec<char>) = (parse_pattern(pattern), value.chars().collect());
    let (mut p, mut v) = (0, 0);
    // Position after the last `*`, and the first character that it does not cover yet.
    let mut retry: Option<(usize, usize)> = None;
    while v < value.len() {
        match pattern.get(p) {
            Some(PatternPart::AnyText) => {
                p += 1;
                retry = Some((p, v));
            }
            Some(PatternPart::AnyChar) => (p, v) = (p + 1, v + 1),
            Some(PatternPart::Char(expected)) if *expected == value[v] => (p, v) = (p + 1, v + 1),
            Some(PatternPart::Char(_)) | None => match retry {
                Some((after_star, covered)) => {
                    (p, v) = (after_star, covered + 1);
                    retry = Some((after_star, covered + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|part| matches!(part, PatternPart::AnyText))
}

enum PatternPart {
    AnyText,
    AnyChar,
    Char(char),
}

fn parse_pattern(pattern: &str) -> Vec<PatternPart> {
    let mut parts = Vec::new();
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        parts.push(match char {
            '*' => PatternPart::AnyText,
            '?' => PatternPart::AnyChar,
            '\\' => PatternPart::Char(chars.next().unwrap_or('\\')),
            char => PatternPart::Char(char),
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_ec2() {
        for (pattern, value, expected) in [
            ("prod", "prod", true),
            ("prod", "Prod", false),
            ("pro*", "production", true),
            ("*d*n", "production", true),
            ("*x*", "production", false),
            ("pro?", "prod", true),
            ("pro?", "pro", false),
            ("*", "", true),
            ("?", "", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            ("", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, value), expected, "{pattern} {value}");
        }
    }

    // spec 05 #70
    #[test]
    fn values_of_a_filter_are_alternatives_and_filters_are_all_required() {
        let tags = Tags::from([("team".into(), "a".into()), ("env".into(), "prod".into())]);
        let matches = |filters: &[Filter]| matches_filters(filters, Some(&tags), |_| vec!["subnet-1"]);
        assert!(matches(&[Filter::any_of("tag:team", ["a", "b"]), Filter::new("tag-key", "en*")]));
        assert!(!matches(&[Filter::new("tag:team", "a"), Filter::new("tag:team", "b")]));
        assert!(!matches(&[Filter::new("tag:missing", "*")]));
        assert!(matches(&[Filter::new("subnet-id", "subnet-1")]));
    }

    #[test]
    fn wrong_filters_are_errors() {
        let code = |filters: &[Filter]| check_filters(filters, &["subnet-id"], true).err().map(|error| error.code);
        assert_eq!(code(&[Filter::new("subnet-id", "x"), Filter::new("tag:a", "x")]), None);
        assert_eq!(code(&[Filter::new("subnet", "x")]).as_deref(), Some("InvalidParameterValue"));
        assert_eq!(
            code(&[Filter { name: "subnet-id".into(), values: vec![] }]).as_deref(),
            Some("InvalidParameterValue")
        );
        let many = (0..201).map(|number| format!("subnet-{number}"));
        assert_eq!(code(&[Filter::any_of("subnet-id", many)]).as_deref(), Some("FilterLimitExceeded"));
    }
}

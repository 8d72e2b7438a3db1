//! EC2's filters: all of a request must hold, each for one of its values, in which `*` stands for
//! any text and `?` for one character.

use kerf_aws::ports::{Filter, Tags};

/// Returns true if a resource with these attributes and tags passes all filters.
pub(super) fn matches(filters: &[Filter], attributes: &[(&str, &str)], tags: &Tags) -> bool {
    filters.iter().all(|filter| {
        let candidates: Vec<&str> = match filter.name.strip_prefix("tag:") {
            Some(key) => tags.get(key).map(String::as_str).into_iter().collect(),
            None if filter.name == "tag-key" => tags.keys().map(String::as_str).collect(),
            None => attributes.iter().filter(|(name, _)| *name == filter.name).map(|(_, value)| *value).collect(),
        };
        filter.values.iter().any(|pattern| candidates.iter().any(|text| matches_pattern(pattern, text)))
    })
}

fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut characters = pattern.chars();
    match characters.next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = characters.as_str();
            text.char_indices().any(|(start, _)| matches_pattern(rest, &text[start..])) || matches_pattern(rest, "")
        }
        Some(expected) => {
            let mut others = text.chars();
            let is_match = |found: char| expected == '?' || expected == found;
            others.next().is_some_and(is_match) && matches_pattern(characters.as_str(), others.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_combine_values_wildcards_and_tags() {
        let tags = Tags::from([("team".to_owned(), "a/b".to_owned())]);
        let holds = |name: &str, values: &[&str]| {
            matches(&[Filter::any_of(name, values.iter().copied())], &[("name", "image-1.2")], &tags)
        };
        assert!(holds("name", &["x", "image-*"]) && holds("name", &["image-?.?"]) && holds("name", &["*"]));
        assert!(!holds("name", &["image"]) && !holds("name", &["image-?"]) && !holds("other", &["*"]));
        assert!(holds("tag:team", &["a/*"]) && holds("tag-key", &["te*"]) && !holds("tag:team", &["A/b"]));
        assert!(!holds("name", &[]) && matches(&[], &[], &tags));
    }
}

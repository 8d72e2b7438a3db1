//! Filters of selector terms.

use std::collections::BTreeMap;

use crate::ports::Filter;

/// Returns one filter per tag. The value `*` matches any value of the tag; wildcards inside other
/// values are EC2's.
pub(super) fn tag_filters(tags: Option<&BTreeMap<String, String>>) -> Vec<Filter> {
    let tags = tags.into_iter().flatten();
    tags.map(|(key, value)| match value.as_str() {
        "*" => Filter::new("tag-key", key),
        value => Filter::new(format!("tag:{key}"), value),
    })
    .collect()
}

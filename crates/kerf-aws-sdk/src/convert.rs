//! Helpers of the translation. Missing fields become defaults, unknown enum values stay texts.

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types;
use jiff::Timestamp;
use kerf_aws::ports::ec2::TagSpecification;
use kerf_aws::ports::{Filter, Page, Tags};

/// Returns the text of an enum value, which may be one that the SDK does not know. Returns an empty
/// text if it is missing.
pub(crate) fn name<E: AsRef<str>>(value: Option<E>) -> String {
    optional_name(value).unwrap_or_default()
}

/// Returns the text of an enum value. Returns `None` if it is missing.
pub(crate) fn optional_name<E: AsRef<str>>(value: Option<E>) -> Option<String> {
    value.map(|value| value.as_ref().to_owned())
}

/// Returns the texts of a list of enum values.
pub(crate) fn names<E: AsRef<str>>(values: Option<Vec<E>>) -> Vec<String> {
    list(values, |value| value.as_ref().to_owned())
}

/// Translates the items of a list. A missing list is empty.
pub(crate) fn list<A, B>(items: Option<Vec<A>>, translate: impl FnMut(A) -> B) -> Vec<B> {
    items.unwrap_or_default().into_iter().map(translate).collect()
}

/// Translates a list for a request. An empty list is not sent.
pub(crate) fn sent_list<A, B>(items: Vec<A>, translate: impl FnMut(A) -> B) -> Option<Vec<B>> {
    if items.is_empty() { None } else { Some(items.into_iter().map(translate).collect()) }
}

/// Returns a text for a request. An empty text is not sent.
pub(crate) fn sent_text(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Translates a page. An empty token means that no page follows.
pub(crate) fn page<A, B>(items: Option<Vec<A>>, next_token: Option<String>, translate: impl FnMut(A) -> B) -> Page<B> {
    Page { items: list(items, translate), next_token: next_token.filter(|token| !token.is_empty()) }
}

/// Translates a time. Returns `None` if it is outside the range of timestamps.
pub(crate) fn timestamp(time: DateTime) -> Option<Timestamp> {
    Timestamp::new(time.secs(), i32::try_from(time.subsec_nanos()).ok()?).ok()
}

/// Translates a time for a request.
pub(crate) fn sent_time(time: Timestamp) -> DateTime {
    DateTime::from_millis(time.as_millisecond())
}

pub(crate) fn tags(tags: Option<Vec<types::Tag>>) -> Tags {
    let pairs = tags.unwrap_or_default().into_iter();
    pairs.filter_map(|tag| Some((tag.key?, tag.value.unwrap_or_default()))).collect()
}

pub(crate) fn sent_tags(tags: Tags) -> Option<Vec<types::Tag>> {
    sent_list(tags.into_iter().collect(), |(key, value)| types::Tag::builder().key(key).value(value).build())
}

/// Translates the tags of the resources of a request. A type of resource without tags is not sent.
pub(crate) fn sent_tag_specifications(specifications: Vec<TagSpecification>) -> Option<Vec<types::TagSpecification>> {
    let specifications: Vec<_> = specifications.into_iter().filter(|it| !it.tags.is_empty()).collect();
    sent_list(specifications, |specification| {
        types::TagSpecification::builder()
            .resource_type(specification.resource_type.into())
            .set_tags(sent_tags(specification.tags))
            .build()
    })
}

pub(crate) fn sent_filters(filters: Vec<Filter>) -> Option<Vec<types::Filter>> {
    sent_list(filters, |filter| types::Filter::builder().name(filter.name).set_values(Some(filter.values)).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_outside_the_range_are_missing() {
        assert_eq!(timestamp(DateTime::from_secs_and_nanos(1, 5)), Timestamp::new(1, 5).ok());
        assert_eq!(timestamp(DateTime::from_secs_and_nanos(-1, 0)), Timestamp::new(-1, 0).ok());
        assert_eq!(timestamp(DateTime::from_secs(i64::MAX)), None);
    }

    #[test]
    fn missing_fields_become_defaults_and_unknown_values_stay_texts() {
        assert_eq!(names::<types::UsageClassType>(None), Vec::<String>::new());
        assert_eq!(names(Some(vec![types::UsageClassType::from("lunar")])), ["lunar"]);
        assert_eq!(name::<types::Tenancy>(None), "");
        let without_key = types::Tag::builder().value("v").build();
        let without_value = types::Tag::builder().key("k").build();
        let expected = Tags::from([("k".to_owned(), String::new())]);
        assert_eq!(tags(Some(vec![without_key, without_value])), expected);
        let token = |token: &str| page::<u8, u8>(None, Some(token.to_owned()), |item| item).next_token;
        assert_eq!((token(""), token("2")), (None, Some("2".to_owned())));
    }
}

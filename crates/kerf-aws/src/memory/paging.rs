//! Pages of EC2's lists. A token is the key of the last item of the page before, so that items that
//! appear or disappear between two pages move no others.

use super::AwsFailure;
use super::state::AwsState;
use crate::ports::{Page, PageRequest};

/// Prefix of all tokens, so that other texts are recognized as invalid.
const TOKEN_PREFIX: &str = "after:";

/// Limits of `MaxResults` of one operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageLimits {
    pub(super) min: i32,
    pub(super) max: i32,
    /// Page size without `MaxResults`; `None` returns everything.
    pub(super) default: Option<usize>,
}

impl AwsState {
    /// Returns one page of a list. `items` are ordered by their keys, which `key` returns; only the
    /// items of the page are converted.
    pub(super) fn page<'a, T: 'a, U>(
        &'a self,
        items: impl Iterator<Item = &'a T>,
        key: impl Fn(&T) -> String,
        convert: impl Fn(&T) -> U,
        request: &PageRequest,
        limits: PageLimits,
    ) -> Result<Page<U>, AwsFailure> {
        if let Some(size) = request.max_results
            && !(limits.min..=limits.max).contains(&size)
        {
            return Err(AwsFailure::invalid_value(format!(
                "Value ( {size} ) for parameter maxResults is invalid. Expecting a value between {} and {}.",
                limits.min, limits.max
            )));
        }
        let after = match &request.token {
            None if self.settings.first_page_is_empty
                && (request.max_results.is_some() || limits.default.is_some()) =>
            {
                return Ok(Page { items: Vec::new(), next_token: Some(TOKEN_PREFIX.to_owned()) });
            }
            None => None,
            Some(token) => match token.strip_prefix(TOKEN_PREFIX) {
                Some(key) => Some(key),
                None => return Err(AwsFailure::bad_request("InvalidNextToken", "The NextToken value is not valid.")),
            },
        };
        let size = request.max_results.and_then(|size| usize::try_from(size).ok()).or(limits.default);
        let size = match (size, self.settings.page_size_max) {
            (Some(size), Some(max)) => size.min(max.max(1)),
            (Some(size), None) => size,
            (None, _) => usize::MAX,
        };
        let mut rest = items.filter(|item| after.is_none_or(|after| key(item).as_str() > after)).peekable();
        let mut page = Page::last(Vec::new());
        let mut last_key = String::new();
        while page.items.len() < size
            && let Some(item) = rest.next()
        {
            last_key = key(item);
            page.items.push(convert(item));
        }
        if rest.peek().is_some() {
            page.next_token = Some(format!("{TOKEN_PREFIX}{last_key}"));
        }
        Ok(page)
    }
}

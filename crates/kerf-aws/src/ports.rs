//! The AWS calls that Kerf makes, as traits over small types of its own. `kerf-aws-sdk` implements
//! them with the AWS SDK, `memory` with an EC2 in this process.
//!
//! A port translates one call and holds no rule: no filter that the caller did not give, no paging,
//! no batching, no cache. A failure is data ([`AwsError`]), so that rules can tell failures apart
//! without knowing the SDK.

mod connect;
pub mod ec2;
mod eks;
mod error;
mod iam;
mod price_list;
mod sqs;
mod ssm;
mod zonal_shift;

use std::sync::Arc;

use futures::future::BoxFuture;

pub use connect::ConnectError;
pub use ec2::Ec2;
pub use eks::{ClusterInfo, Eks};
pub use error::{AwsError, Fault};
pub use iam::{CreateInstanceProfile, Iam, InstanceProfile};
pub use price_list::{GetProducts, PriceList, ProductFilter};
pub use sqs::{QueueMessage, ReceiveMessages, Sqs};
pub use ssm::Ssm;
pub use zonal_shift::{ManagedResource, ZonalShift, ZonalShiftRecord};

/// The outcome of an AWS call that may take time.
pub type AwsFuture<'a, T> = BoxFuture<'a, Result<T, AwsError>>;

/// The services of one account in one region.
#[derive(Clone)]
pub struct AwsPorts {
    /// Region of the services, for example `us-west-2`.
    pub region: String,
    /// Amazon EC2.
    pub ec2: Arc<dyn Ec2>,
    /// AWS Systems Manager, for its parameters.
    pub ssm: Arc<dyn Ssm>,
    /// AWS Identity and Access Management, for instance profiles.
    pub iam: Arc<dyn Iam>,
    /// Amazon EKS, for facts about the cluster.
    pub eks: Arc<dyn Eks>,
    /// ARC zonal shift, for zones that the cluster is shifted away from.
    pub zonal_shift: Arc<dyn ZonalShift>,
    /// AWS Price List, in the region that has it for this one.
    pub price_list: Arc<dyn PriceList>,
    /// Amazon SQS, for the queue with interruption messages.
    pub sqs: Arc<dyn Sqs>,
}

impl std::fmt::Debug for AwsPorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsPorts").field("region", &self.region).finish_non_exhaustive()
    }
}

/// A key and a value on an AWS resource.
pub type Tags = std::collections::BTreeMap<String, String>;

/// A filter of a describe call: a resource matches if one of the values matches. Values may contain
/// the wildcards `*` and `?`. All filters of a call must match.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    /// Name of the filter, for example `tag:team` or `subnet-id`.
    pub name: String,
    /// The accepted values.
    pub values: Vec<String>,
}

impl Filter {
    /// Returns a filter with one value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), values: vec![value.into()] }
    }

    /// Returns a filter with several values.
    pub fn any_of<V: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self { name: name.into(), values: values.into_iter().map(Into::into).collect() }
    }
}

/// The page of a list that a call requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// Largest number of items of the page; `None` lets the service decide.
    pub max_results: Option<i32>,
    /// Token of the previous page; `None` for the first page.
    pub token: Option<String>,
}

impl PageRequest {
    /// Returns a request for the first page with at most this many items.
    pub fn first(max_results: i32) -> Self {
        Self { max_results: Some(max_results), token: None }
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items; may be empty although further pages follow.
    pub items: Vec<T>,
    /// Token of the next page; `None` after the last page.
    pub next_token: Option<String>,
}

impl<T> Page<T> {
    /// Returns a page after which no other follows.
    pub fn last(items: Vec<T>) -> Self {
        Self { items, next_token: None }
    }
}

/// Number of pages after which a list counts as endless.
const PAGES_MAX: usize = 10_000;

/// Requests all pages of a list, one after the other, and returns all items. Empty pages in the
/// middle are allowed. An error of one page fails the whole list. A service that repeats its tokens
/// for ever is cut off after 10,000 pages.
pub async fn all_pages<T, F>(
    max_results: Option<i32>,
    mut request_page: impl FnMut(PageRequest) -> F,
) -> Result<Vec<T>, AwsError>
where
    F: Future<Output = Result<Page<T>, AwsError>>,
{
    let mut items = Vec::new();
    let mut token = None;
    for _ in 0..PAGES_MAX {
        let page = request_page(PageRequest { max_results, token }).await?;
        items.extend(page.items);
        match page.next_token.filter(|token| !token.is_empty()) {
            Some(next) => token = Some(next),
            None => break,
        }
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 05 §2: pagination
    #[tokio::test]
    async fn pages_are_accumulated_and_empty_pages_do_not_end_a_list() {
        let pages = [vec![1, 2], vec![], vec![3]];
        let mut tokens = Vec::new();
        let items = all_pages(Some(2), |request| {
            let number: usize = request.token.as_deref().map_or(0, |token| token.parse().unwrap());
            tokens.push(request.token);
            let next_token = (number + 1 < pages.len()).then(|| (number + 1).to_string());
            futures::future::ready(Ok(Page { items: pages[number].clone(), next_token }))
        });
        assert_eq!(items.await, Ok(vec![1, 2, 3]));
        assert_eq!(tokens, [None, Some("1".to_owned()), Some("2".to_owned())]);
    }
}

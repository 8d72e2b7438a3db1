//! AWS Price List: the on-demand prices of a region.

use super::{AwsFuture, Page, PageRequest};

/// The calls of AWS Price List (`Pricing` in AWS's SDKs).
///
/// The service exists in few regions; [`crate::pricing::price_list_region`] returns the one to
/// call.
pub trait PriceList: Send + Sync {
    /// `GetProducts` in the format `aws_v1`. Each item is one product with its terms, as JSON text.
    /// AWS returns at most 100 items a page.
    fn get_products(&self, request: GetProducts, page: PageRequest) -> AwsFuture<'_, Page<String>>;
}

/// The request of `GetProducts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GetProducts {
    /// Code of the service whose products are listed, for example `AmazonEC2`.
    pub service_code: String,
    /// Filters; all must match.
    pub filters: Vec<ProductFilter>,
}

/// A filter of the type `TERM_MATCH`: the field of the product equals the value, without regard to
/// case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProductFilter {
    /// Name of the field, for example `regionCode`.
    pub field: String,
    /// The accepted value.
    pub value: String,
}

impl ProductFilter {
    /// Returns a filter of one field.
    pub fn new(field: impl Into<String>, value: impl Into<String>) -> Self {
        Self { field: field.into(), value: value.into() }
    }
}

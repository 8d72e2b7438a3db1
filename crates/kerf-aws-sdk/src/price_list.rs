//! The calls of AWS Price List.

use aws_sdk_pricing::Client;
use aws_sdk_pricing::types::{Filter, FilterType};
use kerf_aws::ports::{AwsFuture, GetProducts, Page, PageRequest, PriceList};

use crate::calls::Calls;
use crate::convert::{page, sent_list};

/// The only format of products.
const FORMAT: &str = "aws_v1";

/// AWS Price List through the SDK.
pub(crate) struct SdkPriceList {
    client: Client,
    calls: Calls,
}

impl SdkPriceList {
    /// `client` is one of a region that has the service.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, calls: Calls::new("Pricing") }
    }
}

impl PriceList for SdkPriceList {
    fn get_products(&self, request: GetProducts, page_request: PageRequest) -> AwsFuture<'_, Page<String>> {
        Box::pin(async move {
            // A filter with type, field and value is complete, so that none is left out.
            let filters = request.filters.into_iter().filter_map(|filter| {
                Filter::builder().r#type(FilterType::TermMatch).field(filter.field).value(filter.value).build().ok()
            });
            let request = self
                .client
                .get_products()
                .service_code(request.service_code)
                .set_filters(sent_list(filters.collect(), |filter| filter))
                .format_version(FORMAT)
                .set_max_results(page_request.max_results)
                .set_next_token(page_request.token)
                .customize();
            let answer = self.calls.run("GetProducts", |recorder| request.interceptor(recorder).send()).await?;
            Ok(page(answer.price_list, answer.next_token, |product| product))
        })
    }
}

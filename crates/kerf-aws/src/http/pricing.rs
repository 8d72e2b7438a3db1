//! AWS Price List: JSON 1.1, the operation in the header `X-Amz-Target`. The service has one
//! endpoint for several regions.

use serde::Deserialize;
use serde_json::json;

use super::Content;
use crate::memory::{AwsFailure, MemoryAws};
use crate::ports::{GetProducts, PageRequest, PriceList as _, ProductFilter};

/// First part of all targets of the service.
pub(super) const TARGET_PREFIX: &str = "AWSPriceListService.";

const GET_PRODUCTS: &str = "GetProducts";

/// The only format of products.
const FORMAT: &str = "aws_v1";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct GetProductsRequest {
    service_code: String,
    #[serde(default)]
    filters: Vec<FilterMember>,
    format_version: Option<String>,
    next_token: Option<String>,
    max_results: Option<i32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct FilterMember {
    r#type: String,
    field: String,
    value: String,
}

pub(super) fn operation(target: &str) -> Option<&'static str> {
    (target.strip_prefix(TARGET_PREFIX) == Some(GET_PRODUCTS)).then_some(GET_PRODUCTS)
}

pub(super) async fn call(aws: &MemoryAws, operation: &str, body: &[u8]) -> Content {
    if operation != GET_PRODUCTS {
        let message = format!("This server has the operation {GET_PRODUCTS}.");
        return Err(AwsFailure::bad_request("UnknownOperationException", message).into());
    }
    let request: GetProductsRequest = serde_json::from_slice(body)
        .map_err(|error| AwsFailure::bad_request("SerializationException", error.to_string()))?;
    if let Some(format) = request.format_version.filter(|format| format != FORMAT) {
        return Err(invalid_parameter(format!("FormatVersion is {format}, not {FORMAT}")).into());
    }
    let mut filters = Vec::new();
    for filter in request.filters {
        if filter.r#type != "TERM_MATCH" {
            let message = format!("The type of a filter is {}. This server reads the type TERM_MATCH", filter.r#type);
            return Err(invalid_parameter(message).into());
        }
        filters.push(ProductFilter::new(filter.field, filter.value));
    }
    let page = PageRequest { max_results: request.max_results, token: request.next_token };
    let page = aws.get_products(GetProducts { service_code: request.service_code, filters }, page).await?;
    let mut answer = json!({ "FormatVersion": FORMAT, "PriceList": page.items });
    if let Some(token) = page.next_token {
        answer["NextToken"] = json!(token);
    }
    Ok(answer.to_string())
}

fn invalid_parameter(message: String) -> AwsFailure {
    AwsFailure::bad_request("InvalidParameterException", message)
}

//! Spot prices.

use super::super::Content;
use super::super::names::time_text;
use super::super::query::Parameters;
use super::super::xml::Xml;
use super::{read, read_page};
use crate::memory::MemoryAws;
use crate::ports::Ec2 as _;
use crate::ports::ec2::DescribeSpotPriceHistory;

pub(super) async fn describe(aws: &MemoryAws, parameters: Parameters) -> Content {
    let (request, page) = read(parameters, |query| {
        let product_descriptions = query.texts("ProductDescription");
        (DescribeSpotPriceHistory { product_descriptions, start_time: query.time("StartTime") }, read_page(query))
    })?;
    let page = aws.describe_spot_price_history(request, page).await?;
    Ok(Xml::fragment(|xml| {
        xml.items("spotPriceHistorySet", &page.items, |xml, price| {
            xml.text("instanceType", &price.instance_type);
            xml.text("productDescription", &price.product_description);
            xml.text_unless_empty("spotPrice", &price.price);
            xml.text_if_some("timestamp", price.at.map(time_text));
            xml.text("availabilityZone", &price.zone);
        });
        // EC2 always writes the element; an empty token means that no page follows.
        xml.text("nextToken", page.next_token.unwrap_or_default());
    }))
}

//! Updates of prices from AWS Price List and from EC2's spot price history (spec 05 §7.2, §7.3).
//!
//! The functions only read. Prices that cannot be used are left out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kerf_engine::Price;
use serde::Deserialize;
use tracing::error;

use crate::data::currency;
use crate::ports::ec2::{DescribeSpotPriceHistory, SpotPrice};
use crate::ports::{AwsError, Ec2, GetProducts, PriceList, ProductFilter, all_pages};

/// Products with the spot prices of Linux instances.
const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];
/// Page size of `GetProducts`, the largest that the service allows.
const PRODUCTS_PAGE_SIZE: i32 = 100;
/// Page size of `DescribeSpotPriceHistory`, that of Karpenter. EC2 does not limit it, and a region
/// has about 4,000 prices.
const SPOT_PAGE_SIZE: i32 = 2000;

/// Reason why prices were not updated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PriceUpdateError {
    /// A call of AWS failed.
    #[error(transparent)]
    Aws(#[from] AwsError),
    /// The price list has no usable price of virtual or of bare-metal instances.
    #[error("no on-demand pricing found")]
    NoOnDemandPrices,
    /// The answer has no usable spot price.
    #[error("no spot pricing found")]
    NoSpotPrices,
}

/// On-demand prices by instance type.
pub(crate) type OnDemandPrices = BTreeMap<String, Price>;

/// Reads the on-demand prices of virtual and of bare-metal instances of a region, both at the same
/// time.
pub(crate) async fn read_on_demand_prices(
    price_list: &dyn PriceList,
    region: &str,
) -> Result<OnDemandPrices, PriceUpdateError> {
    let read = async |tenancy: &str, family: &str| {
        let request = products_request(region, tenancy, family);
        let products = all_pages(Some(PRODUCTS_PAGE_SIZE), |page| price_list.get_products(request.clone(), page));
        let prices = on_demand_prices(&products.await?, currency(region));
        if prices.is_empty() { Err(PriceUpdateError::NoOnDemandPrices) } else { Ok(prices) }
    };
    let (virtual_prices, metal_prices) =
        tokio::join!(read("Shared", "Compute Instance"), read("Dedicated", "Compute Instance (bare metal)"));
    let mut prices = virtual_prices?;
    prices.extend(metal_prices?);
    Ok(prices)
}

fn products_request(region: &str, tenancy: &str, family: &str) -> GetProducts {
    let filters = [
        ("regionCode", region),
        ("serviceCode", "AmazonEC2"),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", tenancy),
        ("productFamily", family),
    ];
    GetProducts {
        service_code: "AmazonEC2".to_owned(),
        filters: filters.into_iter().map(|(field, value)| ProductFilter::new(field, value)).collect(),
    }
}

/// An entry of the price list, with the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PriceListEntry {
    product: Product,
    terms: Terms,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Product {
    attributes: Attributes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Attributes {
    instance_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Terms {
    #[serde(rename = "OnDemand")]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term {
    price_dimensions: BTreeMap<String, PriceDimension>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PriceDimension {
    price_per_unit: BTreeMap<String, String>,
}

/// Returns the prices of the entries. The last price of a type is used. Entries without type,
/// prices that are no number, and prices of zero are left out; an entry that is no JSON is logged.
fn on_demand_prices(entries: &[String], currency: &str) -> OnDemandPrices {
    let mut prices = OnDemandPrices::new();
    for text in entries {
        let entry: PriceListEntry = match serde_json::from_str(text) {
            Ok(entry) => entry,
            Err(cause) => {
                error!(error = %cause, "decoding pricing data");
                continue;
            }
        };
        let instance_type = entry.product.attributes.instance_type;
        let dimensions = entry.terms.on_demand.values().flat_map(|term| term.price_dimensions.values());
        let listed = dimensions.filter_map(|dimension| dimension.price_per_unit.get(currency));
        let mut usable = listed.filter_map(|price| usable_price(price));
        if let Some(price) = usable.next_back().filter(|_| !instance_type.is_empty()) {
            prices.insert(instance_type, price);
        }
    }
    prices
}

/// Returns a price above zero. Returns `None` for another text.
fn usable_price(text: &str) -> Option<Price> {
    Price::from_decimal(text.trim()).filter(|price| *price > Price::ZERO)
}

/// A spot price of an instance type in a zone.
pub(crate) type ZonalPrice = (String, String, Price);

/// Reads the current spot prices of the region.
pub(crate) async fn read_spot_prices(ec2: &dyn Ec2, now: Timestamp) -> Result<Vec<ZonalPrice>, PriceUpdateError> {
    let request = DescribeSpotPriceHistory {
        product_descriptions: SPOT_PRODUCTS.map(str::to_owned).to_vec(),
        start_time: Some(now),
    };
    let answer = all_pages(Some(SPOT_PAGE_SIZE), |page| ec2.describe_spot_price_history(request.clone(), page)).await?;
    let prices = spot_prices(answer);
    if prices.is_empty() { Err(PriceUpdateError::NoSpotPrices) } else { Ok(prices) }
}

/// Returns the usable prices: those with a time and a number above zero.
fn spot_prices(answer: Vec<SpotPrice>) -> Vec<ZonalPrice> {
    let usable = answer.into_iter().filter(|entry| entry.at.is_some());
    usable
        .filter_map(|entry| {
            let price = usable_price(&entry.price)?;
            Some((entry.instance_type, entry.zone, price))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(instance_type: &str, prices: &[(&str, &str)]) -> String {
        let dimensions: serde_json::Map<String, serde_json::Value> = prices
            .iter()
            .enumerate()
            .map(|(number, (currency, price))| {
                (format!("d{number}"), json!({ "unit": "Hrs", "pricePerUnit": { *currency: price } }))
            })
            .collect();
        json!({
            "product": { "attributes": { "instanceType": instance_type, "vcpu": "2" }, "sku": "A" },
            "terms": { "OnDemand": { "A.1": { "priceDimensions": dimensions } }, "Reserved": { "A.2": {} } },
        })
        .to_string()
    }

    // spec 05 #66, #135
    #[test]
    fn entries_without_type_or_usable_price_are_left_out() {
        let entries = [
            entry("m5.large", &[("USD", "0.0960000000")]),
            entry("", &[("USD", "1")]),
            entry("zero.large", &[("USD", "0.0000000000")]),
            entry("text.large", &[("USD", "free")]),
            entry("negative.large", &[("USD", "-1")]),
            entry("yuan.large", &[("CNY", "2.5")]),
            entry("two.large", &[("USD", "0.2"), ("USD", "0.3"), ("USD", "0")]),
            "no JSON".to_owned(),
            "{}".to_owned(),
        ];
        let shown = |currency| -> Vec<String> {
            let prices = on_demand_prices(&entries, currency);
            prices.iter().map(|(name, price)| format!("{name} {}", price.dollars())).collect()
        };
        assert_eq!(shown("USD"), ["m5.large 0.096", "two.large 0.3"]);
        assert_eq!(shown("CNY"), ["yuan.large 2.5"]);
        assert_eq!((currency("cn-north-1"), currency("us-gov-west-1")), ("CNY", "USD"));
    }

    #[test]
    fn spot_prices_without_number_or_time_are_left_out() {
        let price = |instance_type: &str, price: &str, at: Option<Timestamp>| SpotPrice {
            instance_type: instance_type.to_owned(),
            zone: "a".to_owned(),
            product_description: "Linux/UNIX".to_owned(),
            price: price.to_owned(),
            at,
        };
        let now = Some(Timestamp::UNIX_EPOCH);
        let answer = vec![
            price("m5.large", "0.03", now),
            price("x.large", "", now),
            price("y.large", "0.1", None),
            price("z.large", "0.0", now),
        ];
        assert_eq!(
            spot_prices(answer),
            [("m5.large".to_owned(), "a".to_owned(), Price::from_decimal("0.03").unwrap())]
        );
    }
}

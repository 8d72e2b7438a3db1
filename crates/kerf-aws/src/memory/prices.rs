//! The prices of the market: spot prices of EC2, and the price list of on-demand instances.

use jiff::Timestamp;
use kerf_engine::Price;
use serde_json::{Value, json};

use super::calls::AwsOperation;
use super::ec2::page_text;
use super::market::CapacityPool;
use super::paging::PageLimits;
use super::state::AwsState;
use super::{AwsFailure, MemoryAws};
use crate::ports::ec2::{DescribeSpotPriceHistory, InstanceTypeOffering, SpotPrice};
use crate::ports::{AwsFuture, GetProducts, Page, PageRequest, PriceList, ProductFilter};

/// EC2 does not limit the page size of spot prices: Karpenter requests 2,000.
const SPOT_PRICES: PageLimits = PageLimits { min: 1, max: i32::MAX, default: Some(1000) };
const PRODUCTS: PageLimits = PageLimits { min: 1, max: 100, default: Some(100) };

const GET_PRODUCTS: AwsOperation = AwsOperation { service: "Pricing", name: "GetProducts" };

/// The only product with spot prices.
const LINUX: &str = "Linux/UNIX";
/// The only service with products.
const EC2_SERVICE_CODE: &str = "AmazonEC2";
/// Digits after the point in spot prices.
const SPOT_PRICE_DIGITS: usize = 6;
/// Digits after the point in prices of products.
const PRODUCT_PRICE_DIGITS: usize = 10;

impl PriceList for MemoryAws {
    fn get_products(&self, request: GetProducts, page: PageRequest) -> AwsFuture<'_, Page<String>> {
        let filters = request.filters.iter().map(|filter| format!("{}={}", filter.field, filter.value));
        let filters = filters.collect::<Vec<_>>().join(" ");
        let text = format!("{} {filters}{}", request.service_code, page_text(&page));
        Box::pin(self.call(GET_PRODUCTS, text, move |state, _| state.get_products(&request, &page)))
    }
}

impl MemoryAws {
    /// Returns the current on-demand price of each instance type that has one.
    pub fn current_on_demand_prices(&self) -> Vec<(String, Price)> {
        self.state().market.on_demand_prices().iter().map(|(name, price)| (name.clone(), *price)).collect()
    }

    /// Returns the current spot price of each pool that is offered and has one: instance type, zone
    /// and price.
    pub fn current_spot_prices(&self) -> Vec<(String, String, Price)> {
        let (now, state) = (self.clock().now(), self.state());
        let offerings = state.account.offerings.iter();
        let price = |offering: &InstanceTypeOffering| {
            let pool = CapacityPool::new(&offering.instance_type, &offering.zone, "spot");
            let price = state.market.price(&pool, now)?;
            Some((pool.instance_type, pool.zone, price))
        };
        offerings.filter_map(price).collect()
    }
}

impl AwsState {
    /// Returns the current spot price of each pool that is offered and has a price.
    pub(super) fn describe_spot_prices(
        &self,
        request: &DescribeSpotPriceHistory,
        page: &PageRequest,
        now: Timestamp,
    ) -> Result<Page<SpotPrice>, AwsFailure> {
        let products = &request.product_descriptions;
        let is_requested = products.is_empty() || products.iter().any(|product| product == LINUX);
        let offerings = self.account.offerings.iter().filter(|offering| {
            let info = self.account.instance_type(&offering.instance_type);
            is_requested && info.is_some_and(|info| info.supported_usage_classes.iter().any(|class| class == "spot"))
        });
        let prices: Vec<SpotPrice> = offerings
            .filter_map(|offering| {
                let pool = CapacityPool::new(&offering.instance_type, &offering.zone, "spot");
                let price = self.market.price(&pool, now)?;
                Some(SpotPrice {
                    instance_type: pool.instance_type,
                    zone: pool.zone,
                    product_description: LINUX.to_owned(),
                    price: format!("{:.SPOT_PRICE_DIGITS$}", price.dollars()),
                    at: Some(now),
                })
            })
            .collect();
        let key = |price: &SpotPrice| format!("{}:{}", price.instance_type, price.zone);
        self.page(prices.iter(), key, SpotPrice::clone, page, SPOT_PRICES)
    }

    fn get_products(&self, request: &GetProducts, page: &PageRequest) -> Result<Page<String>, AwsFailure> {
        let products: Vec<Product> = if request.service_code == EC2_SERVICE_CODE {
            self.products().filter(|product| product.matches(&request.filters)).collect()
        } else {
            Vec::new()
        };
        self.page(products.iter(), |product| product.instance_type.clone(), Product::json, page, PRODUCTS)
    }

    fn products(&self) -> impl Iterator<Item = Product> {
        let account = &self.account;
        self.market.on_demand_prices().iter().map(|(instance_type, price)| Product {
            instance_type: instance_type.clone(),
            region: account.region.clone(),
            is_bare_metal: account
                .instance_type(instance_type)
                .map_or_else(|| instance_type.contains(".metal"), |info| info.bare_metal),
            price: format!("{:.PRODUCT_PRICE_DIGITS$}", price.dollars()),
        })
    }
}

/// An entry of the price list.
struct Product {
    instance_type: String,
    region: String,
    is_bare_metal: bool,
    /// Price of an hour in decimal.
    price: String,
}

impl Product {
    /// Returns the fields that a request can filter by.
    fn attributes(&self) -> [(&'static str, &str); 9] {
        [
            ("instanceType", &self.instance_type),
            ("regionCode", &self.region),
            ("serviceCode", EC2_SERVICE_CODE),
            ("preInstalledSw", "NA"),
            ("operatingSystem", "Linux"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", if self.is_bare_metal { "Dedicated" } else { "Shared" }),
            ("productFamily", if self.is_bare_metal { "Compute Instance (bare metal)" } else { "Compute Instance" }),
        ]
    }

    fn matches(&self, filters: &[ProductFilter]) -> bool {
        let attributes = self.attributes();
        filters.iter().all(|filter| {
            let is_field = |(field, _): &&(&str, &str)| *field == filter.field;
            attributes.iter().find(is_field).is_some_and(|(_, value)| value.eq_ignore_ascii_case(&filter.value))
        })
    }

    fn json(&self) -> String {
        let currency = if self.region.starts_with("cn-") { "CNY" } else { "USD" };
        let attributes: serde_json::Map<String, Value> =
            self.attributes().into_iter().map(|(field, value)| (field.to_owned(), value.into())).collect();
        let sku = &self.instance_type;
        json!({
            "product": { "productFamily": attributes["productFamily"], "attributes": attributes, "sku": sku },
            "serviceCode": EC2_SERVICE_CODE,
            "terms": { "OnDemand": { format!("{sku}.JRTCKXETXF"): {
                "sku": sku,
                "priceDimensions": { format!("{sku}.JRTCKXETXF.6YS6EN2CT7"): {
                    "unit": "Hrs",
                    "pricePerUnit": { currency: self.price },
                } },
            } } },
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use kerf_engine::Price;

    use super::super::testing::{aws, aws_with};
    use super::super::{AwsFault, AwsFaultRule, MemorySettings};
    use super::*;
    use crate::ports::{Ec2 as _, all_pages};

    fn price(text: &str) -> Price {
        Price::from_decimal(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn spot_prices_are_those_of_the_pools_that_are_offered() {
        let aws =
            aws_with(MemorySettings { page_size_max: Some(2), first_page_is_empty: true, ..MemorySettings::default() });
        aws.change_market(|market| {
            market.set_on_demand_price("m5.large", price("0.096"));
            market.set_on_demand_price("x9.large", price("1"));
            market.set_spot_price("m5.large", "us-west-2b", price("0.0301"));
        });
        let request = |product: &str| DescribeSpotPriceHistory {
            product_descriptions: vec![product.to_owned()],
            start_time: Some(aws.clock().now()),
        };
        let mut pages = 0;
        let prices = all_pages(None, |page| {
            pages += 1;
            aws.describe_spot_price_history(request(LINUX), page)
        });
        let prices = prices.await.unwrap();
        let shown: Vec<String> =
            prices.iter().map(|price| format!("{} {} {}", price.instance_type, price.zone, price.price)).collect();
        assert_eq!(
            shown,
            ["m5.large us-west-2a 0.096000", "m5.large us-west-2b 0.030100", "m5.large us-west-2c 0.096000"]
        );
        assert_eq!(pages, 3, "an empty page, and pages of two and one");
        let large = aws.describe_spot_price_history(request(LINUX), PageRequest::first(2000)).await;
        assert!(large.is_ok(), "the page size of Karpenter");
        let windows = aws.describe_spot_price_history(request("Windows"), PageRequest::first(1000)).await;
        assert_eq!(windows.unwrap().items, []);
        assert_eq!(aws.calls()[0].request, "Linux/UNIX since 2026-01-01T00:00:00Z");
    }

    #[tokio::test(start_paused = true)]
    async fn the_price_list_has_one_product_for_each_type() {
        let aws = aws();
        aws.change_market(|market| {
            market.set_on_demand_price("m5.large", price("0.096"));
            market.set_on_demand_price("m5.metal", price("4.608"));
        });
        let request = |family: &str| GetProducts {
            service_code: EC2_SERVICE_CODE.to_owned(),
            filters: vec![ProductFilter::new("regionCode", "us-west-2"), ProductFilter::new("productFamily", family)],
        };
        let page = aws.get_products(request("Compute Instance"), PageRequest::default()).await.unwrap();
        let [product] = &page.items[..] else { panic!("{page:?}") };
        let product: Value = serde_json::from_str(product).unwrap();
        assert_eq!(product["product"]["attributes"]["instanceType"], "m5.large");
        let dimension = &product["terms"]["OnDemand"]["m5.large.JRTCKXETXF"]["priceDimensions"];
        assert_eq!(dimension["m5.large.JRTCKXETXF.6YS6EN2CT7"]["pricePerUnit"]["USD"], "0.0960000000");
        let page = aws.get_products(request("Compute Instance (bare metal)"), PageRequest::default()).await.unwrap();
        assert_eq!(page.items.len(), 1);
        aws.set_faults(vec![AwsFaultRule::once("GetProducts", AwsFault::Throttled)]);
        let error = aws.get_products(request("Compute Instance"), PageRequest::default()).await.unwrap_err();
        assert_eq!((error.service, error.code.as_deref()), ("Pricing", Some("ThrottlingException")));
        let other = GetProducts { service_code: "AmazonS3".to_owned(), filters: Vec::new() };
        assert_eq!(aws.get_products(other, PageRequest::default()).await.unwrap().items, Vec::<String>::new());
    }
}

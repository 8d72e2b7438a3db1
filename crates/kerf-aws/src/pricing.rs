//! Prices of instance types (spec 05 §7). They start as the table that the program ships; updates
//! are merged over it. Reading a price never waits for AWS: an update is applied once its calls are
//! done.

mod update;

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kerf_engine::Price;

use crate::data;
pub(crate) use update::{PriceUpdateError, read_on_demand_prices, read_spot_prices};

/// Largest number of price entries of each kind; further entries of an update are dropped. EC2 has
/// about 1,400 types, and 7 zones in its largest region.
const PRICE_ENTRIES_MAX: usize = 200_000;

/// Returns the region whose AWS Price List has the prices of `region` (spec 05 §7.2).
pub fn price_list_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

/// Prices of the instance types of one region.
#[derive(Debug)]
pub struct Pricing(RwLock<PriceTables>);

#[derive(Debug)]
struct PriceTables {
    on_demand: BTreeMap<String, Price>,
    spot: SpotPrices,
    /// Number of updates that changed a price.
    changes: u64,
}

#[derive(Debug)]
enum SpotPrices {
    /// No update has succeeded: spot costs as much as the shipped table says for on-demand.
    Initial(&'static BTreeMap<String, Price>),
    /// Prices by type and zone. A pool without an entry has no price.
    Zonal(BTreeMap<String, BTreeMap<String, Price>>),
}

impl Pricing {
    /// Returns the prices that the program ships for a region.
    pub fn new(region: &str) -> Self {
        let shipped = data::prices(region);
        Self(RwLock::new(PriceTables { on_demand: shipped.clone(), spot: SpotPrices::Initial(shipped), changes: 0 }))
    }

    /// Returns the on-demand price of a type per hour. Returns `None` if it is unknown.
    pub fn on_demand(&self, instance_type: &str) -> Option<Price> {
        self.read().on_demand.get(instance_type).copied()
    }

    /// Returns the spot price of a type in a zone per hour. Returns `None` if it is unknown.
    pub fn spot(&self, instance_type: &str, zone: &str) -> Option<Price> {
        match &self.read().spot {
            SpotPrices::Initial(prices) => prices.get(instance_type).copied(),
            SpotPrices::Zonal(prices) => prices.get(instance_type)?.get(zone).copied(),
        }
    }

    /// Merges new on-demand prices over the known ones. A type that is missing keeps its price.
    pub fn merge_on_demand(&self, prices: impl IntoIterator<Item = (String, Price)>) {
        let mut tables = self.write();
        let mut is_changed = false;
        for (instance_type, price) in prices.into_iter().take(PRICE_ENTRIES_MAX) {
            if tables.on_demand.len() < PRICE_ENTRIES_MAX || tables.on_demand.contains_key(&instance_type) {
                is_changed |= tables.on_demand.insert(instance_type, price) != Some(price);
            }
        }
        tables.changes += u64::from(is_changed);
    }

    /// Returns a number that grows with each update that changed a price.
    pub(crate) fn change_number(&self) -> u64 {
        self.read().changes
    }

    /// Returns the on-demand price of each type.
    pub(crate) fn on_demand_prices(&self) -> BTreeMap<String, Price> {
        self.read().on_demand.clone()
    }

    /// Returns the spot prices by type and zone. Returns an empty map before the first update.
    pub(crate) fn zonal_spot_prices(&self) -> BTreeMap<String, BTreeMap<String, Price>> {
        match &self.read().spot {
            SpotPrices::Initial(_) => BTreeMap::new(),
            SpotPrices::Zonal(prices) => prices.clone(),
        }
    }

    /// Merges new spot prices, by type and zone, over the known ones. The first call replaces the
    /// initial prices: from then on, a pool without an entry has no price.
    pub fn merge_spot(&self, prices: impl IntoIterator<Item = (String, String, Price)>) {
        let mut tables = self.write();
        let mut is_changed = false;
        if let SpotPrices::Initial(_) = tables.spot {
            tables.spot = SpotPrices::Zonal(BTreeMap::new());
            is_changed = true;
        }
        if let SpotPrices::Zonal(zonal) = &mut tables.spot {
            for (instance_type, zone, price) in prices.into_iter().take(PRICE_ENTRIES_MAX) {
                is_changed |= zonal.entry(instance_type).or_default().insert(zone, price) != Some(price);
            }
        }
        tables.changes += u64::from(is_changed);
    }

    fn read(&self) -> RwLockReadGuard<'_, PriceTables> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, PriceTables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(text: &str) -> Option<Price> {
        Price::from_decimal(text)
    }

    #[test]
    fn the_price_list_is_read_from_the_region_that_has_it() {
        let pairs = [
            ("ap-northeast-1", "ap-south-1"),
            ("cn-north-1", "cn-northwest-1"),
            ("eu-west-1", "eu-central-1"),
            ("eusc-de-east-1", "us-east-1"),
            ("us-west-2", "us-east-1"),
            ("", "us-east-1"),
        ];
        for (region, expected) in pairs {
            assert_eq!(price_list_region(region), expected, "{region}");
        }
    }

    // spec 05 #65
    #[test]
    fn spot_costs_as_much_as_on_demand_in_any_zone_until_it_is_known() {
        let pricing = Pricing::new("us-west-2");
        assert_eq!(pricing.on_demand("m5.large"), dollars("0.096"));
        assert_eq!(pricing.spot("m5.large", "us-west-2x"), dollars("0.096"));
        pricing.merge_on_demand([("m5.large".to_owned(), Price::from_nanos(1))]);
        assert_eq!(pricing.spot("m5.large", "us-west-2x"), dollars("0.096"), "the shipped price stays");
        assert_eq!(pricing.on_demand("x9.large"), None);
        assert_eq!(pricing.spot("x9.large", "us-west-2a"), None);
    }

    // spec 05 #60, #67
    #[test]
    fn updates_are_merged_and_spot_prices_become_zonal() {
        let pricing = Pricing::new("us-west-2");
        pricing.merge_on_demand([("m5.large".to_owned(), Price::from_nanos(5))]);
        assert_eq!(pricing.on_demand("m5.large"), Some(Price::from_nanos(5)));
        assert_eq!(pricing.on_demand("m5.xlarge"), dollars("0.192"), "a missing type keeps its price");
        pricing.merge_spot([("m5.large".to_owned(), "a".to_owned(), Price::from_nanos(1))]);
        pricing.merge_spot([("m5.large".to_owned(), "b".to_owned(), Price::from_nanos(2))]);
        assert_eq!(pricing.spot("m5.large", "a"), Some(Price::from_nanos(1)));
        assert_eq!(pricing.spot("m5.large", "b"), Some(Price::from_nanos(2)));
        assert_eq!(pricing.spot("m5.large", "c"), None);
        assert_eq!(pricing.spot("m5.xlarge", "a"), None);
    }
}

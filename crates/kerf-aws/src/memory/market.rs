//! The market: which instances can be launched, and at which price.

use std::collections::BTreeMap;

use kerf_engine::Price;

/// The instances of one type that are sold in one zone as one capacity type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapacityPool {
    /// Name of the instance type.
    pub instance_type: String,
    /// Name of the zone.
    pub zone: String,
    /// `on-demand` or `spot`.
    pub capacity_type: String,
}

impl CapacityPool {
    /// Returns the pool of an instance type, a zone and a capacity type.
    pub fn new(instance_type: impl Into<String>, zone: impl Into<String>, capacity_type: impl Into<String>) -> Self {
        Self { instance_type: instance_type.into(), zone: zone.into(), capacity_type: capacity_type.into() }
    }
}

/// Number of instances that can be launched from a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stock {
    /// None: launches fail with `InsufficientInstanceCapacity`.
    Insufficient,
    /// This many. Each launch takes one; terminated instances are not given back.
    Limited(u32),
    /// As many as requested.
    #[default]
    Unlimited,
}

impl Stock {
    /// Returns the number of instances that can be launched, at most `wanted`.
    pub(crate) fn at_most(self, wanted: usize) -> usize {
        match self {
            Self::Insufficient => 0,
            Self::Limited(count) => wanted.min(count as usize),
            Self::Unlimited => wanted,
        }
    }
}

/// Stock and prices. A pool without an entry has unlimited stock. A spot pool without a price costs
/// as much as on-demand; a type without any price is the last choice.
#[derive(Debug, Clone, Default)]
pub struct Market {
    stock: BTreeMap<CapacityPool, Stock>,
    on_demand_prices: BTreeMap<String, Price>,
    spot_prices: BTreeMap<(String, String), Price>,
}

impl Market {
    /// Sets the stock of a pool.
    pub fn set_stock(&mut self, pool: CapacityPool, stock: Stock) {
        self.stock.insert(pool, stock);
    }

    /// Returns the stock of a pool.
    pub fn stock(&self, pool: &CapacityPool) -> Stock {
        self.stock.get(pool).copied().unwrap_or_default()
    }

    /// Sets the on-demand price of an instance type for all zones.
    pub fn set_on_demand_price(&mut self, instance_type: impl Into<String>, price: Price) {
        self.on_demand_prices.insert(instance_type.into(), price);
    }

    /// Sets the spot price of an instance type in a zone.
    pub fn set_spot_price(&mut self, instance_type: impl Into<String>, zone: impl Into<String>, price: Price) {
        self.spot_prices.insert((instance_type.into(), zone.into()), price);
    }

    /// Returns the price of a pool. Returns `None` if it has none.
    pub fn price(&self, pool: &CapacityPool) -> Option<Price> {
        let spot = (pool.capacity_type == "spot")
            .then(|| self.spot_prices.get(&(pool.instance_type.clone(), pool.zone.clone())))
            .flatten();
        spot.or_else(|| self.on_demand_prices.get(&pool.instance_type)).copied()
    }

    /// Returns the on-demand price of each instance type.
    pub(super) fn on_demand_prices(&self) -> &BTreeMap<String, Price> {
        &self.on_demand_prices
    }

    /// Takes instances out of a pool with limited stock.
    pub(crate) fn take(&mut self, pool: &CapacityPool, count: usize) {
        if let Some(Stock::Limited(left)) = self.stock.get_mut(pool) {
            *left = left.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }
}

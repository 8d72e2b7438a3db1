//! The market: which instances can be launched, and at which price.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_engine::Price;
use kerf_runtime::Rng;

use super::filters::matches_pattern;

/// Capacity type of pools of capacity blocks.
pub(super) const CAPACITY_BLOCK: &str = "capacity-block";

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

/// Pools, each by a pattern with `*` and `?`. An empty pattern matches every name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolPattern {
    /// Pattern of instance types, for example `m5.*`.
    pub instance_type: String,
    /// Pattern of zones.
    pub zone: String,
    /// Pattern of capacity types.
    pub capacity_type: String,
}

impl PoolPattern {
    /// Returns true if a pool matches all three patterns.
    pub fn matches(&self, pool: &CapacityPool) -> bool {
        let matches = |pattern: &str, name: &str| pattern.is_empty() || matches_pattern(pattern, name);
        matches(&self.instance_type, &pool.instance_type)
            && matches(&self.zone, &pool.zone)
            && matches(&self.capacity_type, &pool.capacity_type)
    }
}

/// A time in which pools have no instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockOut {
    /// The affected pools.
    pub pools: PoolPattern,
    /// End of the stock-out; `None` if it does not end by itself.
    pub until: Option<Timestamp>,
}

/// New instances that EC2 terminates instead of starting them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchFailure {
    /// The affected pools.
    pub pools: PoolPattern,
    /// Code of the state reason, for example `Client.InternalError`.
    pub reason: String,
    /// Number of affected instances; `None` for no limit.
    pub times: Option<u32>,
}

/// Spot prices that follow from a seed: each pool has a discount of its own, and its price moves
/// around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeededSpotPrices {
    /// Seed of all prices.
    pub seed: u64,
    /// Time for which a price stays; `None` if prices do not move.
    pub change_every: Option<Duration>,
}

impl SeededSpotPrices {
    /// Returns the price of a pool as thousandths of the on-demand price: 250 to 550, with movement
    /// 200 to 660.
    fn permille(self, instance_type: &str, zone: &str, now: Timestamp) -> u64 {
        let base = 250 + Rng::new(self.seed).fork(&format!("{instance_type} {zone}")).below(301);
        let Some(interval) = self.change_every.filter(|interval| !interval.is_zero()) else { return base };
        let interval = SignedDuration::try_from(interval).unwrap_or(SignedDuration::MAX);
        let number = now.as_second() / interval.as_secs().max(1);
        let movement = Rng::new(self.seed).fork(&format!("{instance_type} {zone} {number}")).below(401);
        base * (800 + movement) / 1000
    }
}

/// Stock and prices. A pool without an entry has unlimited stock. A spot pool without a price costs
/// as much as on-demand; a type without any price is the last choice.
#[derive(Debug, Clone, Default)]
pub struct Market {
    stock: BTreeMap<CapacityPool, Stock>,
    stock_outs: Vec<StockOut>,
    on_demand_prices: BTreeMap<String, Price>,
    spot_prices: BTreeMap<(String, String), Price>,
    seeded_spot_prices: Option<SeededSpotPrices>,
    launch_failures: Vec<LaunchFailure>,
    empty_answers: u32,
}

/// Largest number of stock-outs and of rules for launch failures; a further one replaces the
/// oldest.
const RULES_MAX: usize = 1_000;

impl Market {
    /// Sets the stock of a pool.
    pub fn set_stock(&mut self, pool: CapacityPool, stock: Stock) {
        self.stock.insert(pool, stock);
    }

    /// Begins a stock-out.
    pub fn add_stock_out(&mut self, stock_out: StockOut) {
        push_bounded(&mut self.stock_outs, stock_out);
    }

    /// Removes the stock-outs that have ended.
    pub(super) fn remove_ended_stock_outs(&mut self, now: Timestamp) {
        self.stock_outs.retain(|stock_out| stock_out.until.is_none_or(|until| now < until));
    }

    /// Ends all stock-outs of exactly these pools, and returns their number.
    pub fn end_stock_outs(&mut self, pools: &PoolPattern) -> usize {
        let before = self.stock_outs.len();
        self.stock_outs.retain(|stock_out| stock_out.pools != *pools);
        before - self.stock_outs.len()
    }

    /// Returns the stock of a pool.
    pub fn stock(&self, pool: &CapacityPool, now: Timestamp) -> Stock {
        let is_out = |own: &StockOut| own.until.is_none_or(|until| now < until) && own.pools.matches(pool);
        if self.stock_outs.iter().any(is_out) {
            return Stock::Insufficient;
        }
        self.stock.get(pool).copied().unwrap_or_default()
    }

    /// Lets instances of some pools end instead of starting.
    pub fn add_launch_failure(&mut self, failure: LaunchFailure) {
        push_bounded(&mut self.launch_failures, failure);
    }

    /// Returns the state reason of a new instance that ends instead of starting, and counts it.
    pub(super) fn draw_launch_failure(&mut self, pool: &CapacityPool) -> Option<String> {
        let applies = |rule: &&mut LaunchFailure| rule.times != Some(0) && rule.pools.matches(pool);
        let rule = self.launch_failures.iter_mut().find(applies)?;
        rule.times = rule.times.map(|times| times - 1);
        Some(rule.reason.clone())
    }

    /// Lets the next fleets answer with neither an instance nor an error.
    pub fn answer_nothing(&mut self, fleets: u32) {
        self.empty_answers = fleets;
    }

    /// Returns true if this fleet answers with nothing, and counts it.
    pub(super) fn take_empty_answer(&mut self) -> bool {
        let is_empty = self.empty_answers > 0;
        self.empty_answers = self.empty_answers.saturating_sub(1);
        is_empty
    }

    /// Sets how spot prices follow from a seed; `None` makes spot as expensive as on-demand. Prices
    /// of [`Self::set_spot_price`] win.
    pub fn set_seeded_spot_prices(&mut self, prices: Option<SeededSpotPrices>) {
        self.seeded_spot_prices = prices;
    }

    /// Returns the time at which seeded spot prices move next. Returns `None` if they do not.
    pub fn next_price_change_at(&self, now: Timestamp) -> Option<Timestamp> {
        let interval = self.seeded_spot_prices?.change_every?;
        let seconds = i64::try_from(interval.as_secs()).ok().filter(|seconds| *seconds > 0)?;
        Timestamp::from_second((now.as_second() / seconds + 1) * seconds).ok()
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
    pub fn price(&self, pool: &CapacityPool, now: Timestamp) -> Option<Price> {
        let on_demand = self.on_demand_prices.get(&pool.instance_type).copied();
        if pool.capacity_type != "spot" {
            return on_demand;
        }
        let own = self.spot_prices.get(&(pool.instance_type.clone(), pool.zone.clone())).copied();
        let seeded = || {
            let permille = self.seeded_spot_prices?.permille(&pool.instance_type, &pool.zone, now);
            on_demand?.share(i128::from(permille), 1000)
        };
        own.or_else(seeded).or(on_demand)
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

fn push_bounded<T>(rules: &mut Vec<T>, rule: T) {
    if rules.len() >= RULES_MAX {
        rules.remove(0);
    }
    rules.push(rule);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    #[test]
    fn a_stock_out_affects_its_pools_until_it_ends() {
        let mut market = Market::default();
        let pools = PoolPattern { instance_type: "m5.*".into(), zone: "us-west-2a".into(), ..PoolPattern::default() };
        market.add_stock_out(StockOut { pools: pools.clone(), until: Some(at(10)) });
        let pool = |zone: &str| CapacityPool::new("m5.large", zone, "spot");
        assert_eq!(market.stock(&pool("us-west-2a"), at(9)), Stock::Insufficient);
        assert_eq!(market.stock(&pool("us-west-2a"), at(10)), Stock::Unlimited);
        assert_eq!(market.stock(&pool("us-west-2b"), at(9)), Stock::Unlimited);
        market.add_stock_out(StockOut { pools: pools.clone(), until: None });
        assert_eq!(market.end_stock_outs(&pools), 2);
        assert_eq!(market.stock(&pool("us-west-2a"), at(9)), Stock::Unlimited);
    }

    #[test]
    fn seeded_spot_prices_stay_below_on_demand_and_move_with_the_time() {
        let price = |seed, minutes| {
            let mut market = Market::default();
            market.set_on_demand_price("m5.large", Price::from_decimal("0.1").unwrap());
            let change_every = Some(Duration::from_hours(1));
            market.set_seeded_spot_prices(Some(SeededSpotPrices { seed, change_every }));
            market.price(&CapacityPool::new("m5.large", "us-west-2a", "spot"), at(minutes)).unwrap()
        };
        assert_eq!(price(1, 0), price(1, 59));
        assert_ne!(price(1, 0), price(1, 60));
        assert_ne!(price(1, 0), price(2, 0));
        for minutes in (0..6_000).step_by(60) {
            let dollars = price(1, minutes).dollars();
            assert!((0.019..0.067).contains(&dollars), "{dollars}");
        }
    }
}

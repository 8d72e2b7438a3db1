//! Spot prices.

use jiff::Timestamp;

/// The request of `DescribeSpotPriceHistory`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescribeSpotPriceHistory {
    /// Products, for example `Linux/UNIX`; empty for all.
    pub product_descriptions: Vec<String>,
    /// Begin of the history; `None` for 90 days. The current time requests the current prices.
    pub start_time: Option<Timestamp>,
}

/// A spot price of an instance type in a zone, as EC2 writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpotPrice {
    /// Name of the instance type.
    pub instance_type: String,
    /// Name of the zone.
    pub zone: String,
    /// The product, for example `Linux/UNIX`.
    pub product_description: String,
    /// Price of an hour in decimal; empty if EC2 reports none.
    pub price: String,
    /// Time from which the price is valid; `None` if EC2 reports none.
    pub at: Option<Timestamp>,
}

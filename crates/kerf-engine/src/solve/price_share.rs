//! The price of requests as a share of the instance that they run on. The search compares topology
//! domains by it.

use smallvec::SmallVec;

use crate::bits::Bits;
use crate::catalogue::{CatalogueRow, PricedRow};
use crate::resources::{Amounts, ResourceIx};

/// Covers the rounding errors of the floats that exclude rows.
const MARGIN: f64 = 1.0 + 1e-9;

/// Returns the price of the requests as a share of an instance that is filled with equal requests,
/// for the candidate row where this share is cheapest. The result has the unit of prices.
///
/// `by_price` has the rows with their prices, lowest first. Most rows are excluded by floats:
/// price / (allocatable / request), without rounding, for CPU, memory and pods, is at most the
/// share.
pub(crate) fn lowest(by_price: &[PricedRow], rows: &[CatalogueRow], candidates: &Bits, requests: &Amounts) -> i128 {
    let requested: SmallVec<[(ResourceIx, i128); 4]> = requests.iter().filter(|(_, amount)| *amount > 0).collect();
    // A resource that is not requested allows any number of copies.
    let inverse = |resource: ResourceIx| 1.0 / requests.get(resource).max(0) as f64;
    let [cpu, memory, pods] = [ResourceIx::CPU, ResourceIx::MEMORY, ResourceIx::PODS].map(inverse);
    let mut lowest = i128::MAX;
    let mut excluded_from = f64::INFINITY;
    // Expensive rows first: copies of the requests leave the smallest part of a large instance
    // unused, so its share soon excludes most other rows.
    for priced in by_price.iter().rev().filter(|priced| candidates.contains(priced.row)) {
        let row = &rows[priced.row];
        let floats = row.allocatable_floats;
        // `min` ignores the NaN of nothing allocatable over nothing requested.
        let ratios = [floats[0] * cpu, floats[1] * memory, floats[2] * pods];
        let copies_at_most = ratios.into_iter().fold(f64::INFINITY, f64::min).max(1.0);
        if priced.price_float > excluded_from * copies_at_most {
            continue;
        }
        let copies = requested.iter().map(|(resource, amount)| row.allocatable.get(*resource) / amount).min();
        let share = priced.price.units() / copies.unwrap_or(1).max(1);
        if share < lowest {
            lowest = share;
            excluded_from = share as f64 * MARGIN;
        }
    }
    lowest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::price::Price;

    /// Amounts of the first resources.
    fn amounts(values: &[i128]) -> Amounts {
        let mut amounts = Amounts::default();
        for (resource, value) in values.iter().enumerate() {
            amounts.set(ResourceIx(resource), *value);
        }
        amounts
    }

    /// An amount with few or many digits, so that exact multiples and near misses both occur.
    fn amount() -> impl Strategy<Value = i128> {
        prop_oneof![0_i128..9, (0_i128..99).prop_map(|n| n * 1_000_000_000), 0..1_i128 << 70]
    }

    proptest! {
        #[test]
        fn is_the_lowest_share_of_all_candidates(
            offers in proptest::collection::vec((0_i64..50_000_000_000, proptest::collection::vec(amount(), 4), any::<bool>()), 0..30),
            requests in proptest::collection::vec(amount(), 4),
        ) {
            let requests = amounts(&requests);
            let rows: Vec<CatalogueRow> =
                offers.iter().map(|(_, allocatable, _)| CatalogueRow::new(0, amounts(allocatable))).collect();
            let mut by_price: Vec<PricedRow> =
                offers.iter().enumerate().map(|(row, offer)| PricedRow::new(Price::from_nanos(offer.0), row)).collect();
            by_price.sort_by_key(|priced| priced.price);
            let candidates: Bits = (0..offers.len()).filter(|row| offers[*row].2).collect();
            let share = |priced: &PricedRow| {
                let requested = requests.iter().filter(|(_, amount)| *amount > 0);
                let copies = requested.map(|(resource, amount)| rows[priced.row].allocatable.get(resource) / amount).min();
                priced.price.units() / copies.unwrap_or(1).max(1)
            };
            let expected = by_price.iter().filter(|priced| candidates.contains(priced.row)).map(share).min();
            prop_assert_eq!(lowest(&by_price, &rows, &candidates, &requests), expected.unwrap_or(i128::MAX));
        }
    }
}

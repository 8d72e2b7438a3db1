//! The memory of the controllers in a document (spec 11 §1.3): prices and marks of missing
//! capacity, into the provider and back.

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_aws::data::ShippedCatalogue;
use kerf_aws::pricing::Pricing;
use kerf_aws::unavailable_offerings::{InstancePool, PoolScope, UnavailableOfferings};
use kerf_engine::Price;

use super::QuestionError;
use super::document::{Document, Mark, PlacementGroupEntry};

/// Capacity types in the order in which answers check them.
const CAPACITY_TYPES: [&str; 3] = ["on-demand", "spot", "reserved"];

/// Merges the prices of updates. An update without spot prices is a failed one (spec 05 §7.3).
pub(super) fn merge_prices(pricing: &Pricing, document: &Document) -> Result<(), QuestionError> {
    let Some(prices) = &document.prices else { return Ok(()) };
    if let Some(on_demand) = &prices.on_demand {
        // An update of the controllers skips prices of zero too (spec 05 §7.2).
        let usable = |dollars: f64| Price::from_dollars(dollars).filter(|price| *price > Price::ZERO);
        let exact = on_demand.iter().filter_map(|(name, dollars)| Some((name.clone(), usable(*dollars)?)));
        pricing.merge_on_demand(exact);
    }
    if let Some(spot) = &prices.spot {
        if spot.values().all(BTreeMap::is_empty) {
            return Err(QuestionError::other("no spot pricing found"));
        }
        let exact = spot.iter().flat_map(|(name, zones)| {
            let zones = zones.iter();
            zones.filter_map(|(zone, dollars)| Some((name.clone(), zone.clone(), Price::from_dollars(*dollars)?)))
        });
        pricing.merge_spot(exact);
    }
    Ok(())
}

/// Marks a pool, a capacity type or a subnet as unavailable.
pub(super) fn apply_mark(unavailable: &UnavailableOfferings, mark: &Mark) {
    if !mark.subnet.is_empty() {
        unavailable.mark_subnet(&mark.subnet);
    } else if mark.instance_type.is_empty() {
        unavailable.mark_capacity_type(&mark.capacity_type);
    } else {
        unavailable.mark_pool(InstancePool {
            instance_type: mark.instance_type.clone(),
            zone: mark.zone.clone(),
            capacity_type: mark.capacity_type.clone(),
            scope: match (mark.placement_group.as_str(), mark.partition.parse()) {
                ("", _) => PoolScope::Unscoped,
                (group, Ok(partition)) => PoolScope::Partition { group: group.to_owned(), partition },
                (group, Err(_)) => PoolScope::PlacementGroup(group.to_owned()),
            },
        });
    }
}

/// The pools, capacity types and subnets of a document, of which answers list those that are marked
/// (spec 11 §2.3).
pub(super) struct MarkedPools {
    pools: Vec<InstancePool>,
    subnets: BTreeSet<String>,
}

impl MarkedPools {
    /// Returns all pools of the catalogue, in all scopes of the document's placement groups, and
    /// the subnets of the class.
    pub(super) fn new(document: &Document, catalogue: &ShippedCatalogue, class: Option<&EC2NodeClass>) -> Self {
        let zones: BTreeSet<&str> = catalogue.offerings.iter().map(|offering| offering.zone.as_str()).collect();
        let mut scopes = vec![PoolScope::Unscoped];
        for group in document.placement_groups.iter().flatten().map(PlacementGroupEntry::to_group) {
            let partitions = 1..=group.partition_count.unwrap_or_default();
            let in_group = |partition| PoolScope::Partition { group: group.id.clone(), partition };
            scopes.push(PoolScope::PlacementGroup(group.id.clone()));
            scopes.extend(partitions.map(in_group));
        }
        let mut pools = Vec::new();
        for info in &catalogue.instance_types {
            for zone in &zones {
                for capacity_type in &CAPACITY_TYPES[..2] {
                    pools.extend(scopes.iter().map(|scope| InstancePool {
                        instance_type: info.name.clone(),
                        zone: (*zone).to_owned(),
                        capacity_type: (*capacity_type).to_owned(),
                        scope: scope.clone(),
                    }));
                }
            }
        }
        let subnets = class.and_then(|class| class.status.as_ref()?.subnets.as_ref());
        Self { pools, subnets: subnets.into_iter().flatten().map(|subnet| subnet.id.clone()).collect() }
    }

    /// Returns the marks that count now, sorted by text.
    pub(super) fn marked(&self, unavailable: &UnavailableOfferings) -> BTreeSet<String> {
        let marks = unavailable.snapshot();
        // A pool that nothing marks by itself.
        let no_pool = |capacity_type: &str| InstancePool {
            instance_type: String::new(),
            zone: String::new(),
            capacity_type: capacity_type.to_owned(),
            scope: PoolScope::Unscoped,
        };
        let is_whole = |capacity_type: &&str| marks.is_unavailable(&no_pool(capacity_type), &[]);
        let whole: BTreeSet<&str> = CAPACITY_TYPES.into_iter().filter(is_whole).collect();
        let pools = self.pools.iter().filter(|pool| !whole.contains(pool.capacity_type.as_str()));
        let pools = pools.filter(|pool| marks.is_unavailable(pool, &[])).map(ToString::to_string);
        let is_full = |id: &&String| marks.is_unavailable(&no_pool(""), std::slice::from_ref(*id));
        let subnets = self.subnets.iter().filter(is_full).map(|id| format!("subnet:{id}"));
        pools.chain(subnets).chain(whole.iter().map(|name| (*name).to_owned())).collect()
    }
}

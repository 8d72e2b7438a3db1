//! Gauges of the provider's offerings: availability and price by instance type, capacity type and
//! zone (spec 07 §6.5). The data are the instance types that the provider last returned for each
//! pool. A series disappears with the last pool that lists it, or when the provider no longer lists
//! it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kerf_api::labels;
use kerf_api::slim::Str;
use kerf_engine::Price;
use kerf_engine::catalogue::{InstanceType, InstanceTypes, Offering};

use super::exposition::{Exposition, LabelPairs};

/// The instance types of each pool.
#[derive(Debug, Default)]
pub struct OfferingMetrics(Mutex<BTreeMap<Str, InstanceTypes>>);

/// Instance type, capacity type and zone of an offering.
type OfferingLabels<'t> = (&'t Str, &'t str, &'t str);

/// Availability and price of one series.
#[derive(Clone, Copy, Debug, Default)]
struct OfferingStatus {
    /// True if the offering is available to at least one pool.
    is_available: bool,
    /// The price for the first pool. `None` if no pool lists the offering.
    price: Option<Price>,
}

impl OfferingMetrics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Str, InstanceTypes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the instance types of a pool.
    pub(super) fn set_pool_types(&self, pool: &str, types: &InstanceTypes) {
        self.lock().insert(Str::from(pool), types.clone());
    }

    /// Writes the offerings of all pools and forgets pools for which `is_pool` is false. With
    /// `has_reserved`, each type gets a reserved series in every zone in which it is offered.
    pub(super) fn write(&self, out: &mut Exposition, is_pool: impl Fn(&str) -> bool, has_reserved: bool) {
        let by_pool: Vec<InstanceTypes> = {
            let mut all = self.lock();
            all.retain(|pool, _| is_pool(pool));
            all.values().cloned().collect()
        };
        let mut types: BTreeMap<&Str, &InstanceType> = BTreeMap::new();
        let mut offerings: BTreeMap<OfferingLabels<'_>, OfferingStatus> = BTreeMap::new();
        for listed in by_pool.iter().flat_map(InstanceTypes::iter) {
            let name = &listed.instance_type().name;
            types.entry(name).or_insert(listed.instance_type());
            for offering in listed.offerings() {
                for (capacity_type, zone) in capacity_types_and_zones(offering.offering()) {
                    let status = offerings.entry((name, capacity_type, zone)).or_default();
                    status.is_available |= offering.is_available();
                    status.price.get_or_insert(offering.price);
                    if has_reserved {
                        offerings.entry((name, labels::CAPACITY_TYPE_RESERVED, zone)).or_default();
                    }
                }
            }
        }
        if !has_reserved {
            offerings.retain(|(_, capacity_type, _), _| *capacity_type != labels::CAPACITY_TYPE_RESERVED);
        }
        fn pairs<'t>((instance_type, capacity_type, zone): &OfferingLabels<'t>) -> LabelPairs<'t> {
            vec![
                ("instance_type", instance_type.to_string()),
                ("capacity_type", (*capacity_type).to_owned()),
                ("zone", (*zone).to_owned()),
            ]
        }
        out.write_family(
            "karpenter_cloudprovider_instance_type_offering_available",
            "Instance type offering availability, based on instance type, capacity type, and zone.",
            offerings.iter().map(|(key, status)| (pairs(key), f64::from(u8::from(status.is_available)))),
        );
        out.write_family(
            "karpenter_cloudprovider_instance_type_offering_price_estimate",
            "Instance type offering estimated hourly price, based on instance type, capacity type, and zone.",
            offerings.iter().map(|(key, status)| (pairs(key), status.price.map_or(0.0, Price::dollars))),
        );
        let mut of_type = |name: &str, help: &str, resource: &str| {
            let amounts = types.iter().filter_map(|(name, instance_type)| {
                let amount = instance_type.capacity.get(resource)?;
                Some((vec![("instance_type", name.to_string())], super::state::metric_value(resource, amount)))
            });
            out.write_family(name, help, amounts);
        };
        of_type("karpenter_cloudprovider_instance_type_cpu_cores", "VCPUs cores for a given instance type.", "cpu");
        of_type(
            "karpenter_cloudprovider_instance_type_memory_bytes",
            "Memory, in bytes, for a given instance type.",
            "memory",
        );
    }
}

/// Returns all pairs of capacity type and zone of an offering.
fn capacity_types_and_zones(offering: &Offering) -> impl Iterator<Item = (&str, &str)> {
    let values = |key| offering.requirements.get(key).and_then(|r| r.allowed_values()).unwrap_or_default();
    let zones = values(labels::ZONE);
    values(labels::CAPACITY_TYPE)
        .iter()
        .flat_map(move |capacity_type| zones.iter().map(move |zone| (capacity_type.as_str(), zone.as_str())))
}

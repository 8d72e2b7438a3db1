//! Offerings of instance types for a node class (spec 05 §5): one per zone and capacity type, with
//! price and availability.
//!
//! Zones, prices and the checks of a class change rarely and are part of the list of types. Marks
//! of missing capacity change often; they only change the states of a list
//! (`without_unavailable`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_api::ec2nodeclass::Subnet;
use kerf_api::labels::{self, aws};
use kerf_api::slim::Str;
use kerf_engine::Price;
use kerf_engine::catalogue::{InstanceTypes, Offering, OfferingState};
use kerf_engine::requirement::{Requirement, Requirements};

use crate::pricing::Pricing;
use crate::unavailable_offerings::{InstancePool, PoolScope, UnavailableSnapshot};

/// A zone in which a node class has subnets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Name of the zone.
    pub name: Str,
    /// ID of the zone; `None` if unknown.
    pub id: Option<Str>,
    /// IDs of the subnets, in the order of the status.
    pub subnet_ids: Vec<String>,
}

/// Groups subnets by zone ID, or by the name of the zone if the ID is unknown. The zones are sorted
/// by name.
pub fn zones_of_subnets(subnets: &[Subnet]) -> Vec<ZoneInfo> {
    let mut zones: BTreeMap<(&str, &str), ZoneInfo> = BTreeMap::new();
    for subnet in subnets {
        let id = subnet.zone_id.as_deref().filter(|id| !id.is_empty());
        let zone = zones.entry((&subnet.zone, id.unwrap_or_default())).or_insert_with(|| ZoneInfo {
            name: Str::new(&subnet.zone),
            id: id.map(Str::new),
            subnet_ids: Vec::new(),
        });
        zone.subnet_ids.push(subnet.id.clone());
    }
    zones.into_values().collect()
}

/// A capacity type that EC2 sells without a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OpenCapacityType {
    OnDemand,
    Spot,
}

impl OpenCapacityType {
    /// Returns the capacity type of one of EC2's usage classes. Returns `None` for others, such as
    /// `capacity-block`.
    pub(crate) fn from_usage_class(usage_class: &str) -> Option<Self> {
        [Self::OnDemand, Self::Spot].into_iter().find(|capacity_type| capacity_type.as_str() == usage_class)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => labels::CAPACITY_TYPE_ON_DEMAND,
            Self::Spot => labels::CAPACITY_TYPE_SPOT,
        }
    }
}

/// The facts about a type that its offerings depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeOfferingFacts<'a> {
    pub(crate) name: &'a str,
    pub(crate) capacity_types: &'a BTreeSet<OpenCapacityType>,
    /// Zones in which EC2 offers the type and the class has subnets.
    pub(crate) zones: &'a BTreeSet<Str>,
    /// True if the type meets the settings of the class (spec 05 §4.11).
    pub(crate) is_compatible: bool,
}

/// Requirement sets of offerings. All types and classes share them.
#[derive(Debug, Default)]
pub(crate) struct OfferingRequirements(BTreeMap<(OpenCapacityType, Str, Option<Str>), Arc<Requirements>>);

/// Largest number of requirement sets that are kept for sharing.
const REQUIREMENT_SETS_MAX: usize = 4_096;

impl OfferingRequirements {
    fn get(&mut self, capacity_type: OpenCapacityType, zone: &Str, zone_id: Option<&Str>) -> Arc<Requirements> {
        if self.0.len() >= REQUIREMENT_SETS_MAX {
            self.0.clear();
        }
        let key = (capacity_type, zone.clone(), zone_id.cloned());
        let build = || {
            let zone_id = zone_id.map(|id| Requirement::one_of(aws::ZONE_ID, [id.clone()]));
            let absent =
                [aws::CAPACITY_RESERVATION_ID, aws::CAPACITY_RESERVATION_TYPE, aws::CAPACITY_RESERVATION_INTERRUPTIBLE];
            let requirements = [
                Requirement::one_of(labels::CAPACITY_TYPE, [Str::new_static(capacity_type.as_str())]),
                Requirement::one_of(labels::ZONE, [zone.clone()]),
            ];
            Arc::new(
                requirements
                    .into_iter()
                    .chain(zone_id)
                    .chain(absent.into_iter().map(|key| Requirement::does_not_exist(Str::new_static(key))))
                    .collect(),
            )
        };
        self.0.entry(key).or_insert_with(build).clone()
    }
}

/// Returns the on-demand and spot offerings of a type in all zones of the region (spec 05 §5.1),
/// sorted by zone and capacity type, with their states. Marks of missing capacity are not applied.
/// An offering without a known price costs 0 and is unavailable.
///
/// Offerings of capacity reservations (spec 05 §5.2) follow these, once reservations are read.
pub(crate) fn open_offerings(
    facts: TypeOfferingFacts<'_>,
    all_zones: &BTreeSet<Str>,
    class_zones: &[ZoneInfo],
    pricing: &Pricing,
    requirements: &mut OfferingRequirements,
) -> (Vec<Offering>, Vec<OfferingState>) {
    let mut offerings = Vec::with_capacity(all_zones.len() * facts.capacity_types.len());
    let mut states = Vec::with_capacity(offerings.capacity());
    for zone in all_zones {
        let zone_id = class_zones.iter().find(|info| info.name == *zone).and_then(|info| info.id.as_ref());
        for capacity_type in facts.capacity_types {
            let price = match capacity_type {
                OpenCapacityType::OnDemand => pricing.on_demand(facts.name),
                OpenCapacityType::Spot => pricing.spot(facts.name, zone),
            };
            offerings.push(Offering {
                requirements: requirements.get(*capacity_type, zone, zone_id),
                price: price.unwrap_or(Price::ZERO),
                capacity_override: None,
                overhead_override: None,
            });
            let is_available = facts.is_compatible && price.is_some() && facts.zones.contains(zone);
            states.push(OfferingState { is_available, ..OfferingState::default() });
        }
    }
    (offerings, states)
}

/// Returns the list with the marked offerings unavailable (spec 05 §5.4). Copies no type.
pub(crate) fn without_unavailable(
    list: &InstanceTypes,
    class_zones: &[ZoneInfo],
    unavailable: &UnavailableSnapshot,
) -> InstanceTypes {
    if unavailable.is_empty() {
        return list.clone();
    }
    list.with_states(|instance_type, offering| {
        let state = offering.state();
        let value = |key| offering.requirements.get(key).and_then(Requirement::pick_value).unwrap_or_default();
        let capacity_type = value(labels::CAPACITY_TYPE);
        if !state.is_available || capacity_type == labels::CAPACITY_TYPE_RESERVED {
            return state;
        }
        let zone = value(labels::ZONE);
        let subnets: Vec<String> = class_zones
            .iter()
            .filter(|info| info.name == zone)
            .flat_map(|info| info.subnet_ids.iter().cloned())
            .collect();
        let pool = InstancePool {
            instance_type: instance_type.name.to_string(),
            zone: zone.to_string(),
            capacity_type: capacity_type.to_string(),
            scope: PoolScope::Unscoped,
        };
        OfferingState { is_available: !unavailable.is_unavailable(&pool, &subnets), ..state }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 05 #12
    #[test]
    fn subnets_are_grouped_by_zone_id_or_by_name() {
        let subnet = |id: &str, zone: &str, zone_id: Option<&str>| Subnet {
            id: id.into(),
            zone: zone.into(),
            zone_id: zone_id.map(Into::into),
        };
        let subnets = [
            subnet("s3", "b", Some("az2")),
            subnet("s1", "a", Some("az1")),
            subnet("s2", "a", Some("az1")),
            subnet("s4", "local-1a", None),
            subnet("s5", "local-1a", Some("")),
        ];
        let zones = zones_of_subnets(&subnets);
        let shown: Vec<_> =
            zones.iter().map(|zone| (zone.name.as_str(), zone.id.as_deref(), zone.subnet_ids.join(","))).collect();
        assert_eq!(
            shown,
            [("a", Some("az1"), "s1,s2".into()), ("b", Some("az2"), "s3".into()), ("local-1a", None, "s4,s5".into())]
        );
    }
}

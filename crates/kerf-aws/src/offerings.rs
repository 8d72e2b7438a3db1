//! Offerings of instance types for a node class (spec 05 §5): one per zone and capacity type, and
//! one per capacity reservation, with price and availability.
//!
//! Zones, prices, reservations and the checks of a class change rarely and are part of the list of
//! types. Marks of missing capacity, zonal shifts and free slots change often; they only change the
//! states of a list (`OfferingStates`).

mod requirements;
mod states;

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::ec2nodeclass::{CapacityReservation, ReservationState, Subnet};
use kerf_api::labels;
use kerf_api::slim::Str;
use kerf_engine::Price;
use kerf_engine::catalogue::{Offering, OfferingState};

use crate::ports::ec2::PlacementGroup;
use crate::pricing::Pricing;
use requirements::OfferingPlace;

pub(crate) use requirements::OfferingRequirements;
pub(crate) use states::OfferingStates;

/// Number by which the on-demand price is divided for reserved capacity, which is paid already.
const RESERVED_PRICE_DIVISOR: u32 = 10_000_000;

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

/// The facts about a node class that its offerings depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClassOfferingFacts<'a> {
    pub(crate) zones: &'a [ZoneInfo],
    /// Reservations of the class; empty if reservations are not used.
    pub(crate) reservations: &'a [CapacityReservation],
    /// The resolved placement group; `None` if the class has none.
    pub(crate) group: Option<&'a PlacementGroup>,
}

impl ClassOfferingFacts<'_> {
    fn zone_id(&self, zone: &str) -> Option<&Str> {
        self.zones.iter().find(|info| info.name == *zone).and_then(|info| info.id.as_ref())
    }

    /// Returns the partitions for which each offering is copied; `None` stands for the offering
    /// itself.
    fn partitions(&self) -> Vec<Option<i32>> {
        let partitions: Vec<Option<i32>> =
            self.group.into_iter().flat_map(PlacementGroup::partitions).map(Some).collect();
        if partitions.is_empty() { vec![None] } else { partitions }
    }
}

/// Returns the offerings of a type with their states (spec 05 §5.1 to §5.3): on-demand and spot in
/// all zones of the region, sorted by zone and capacity type, then the reservations of the type in
/// the order of their IDs. In a placement group with partitions there is a copy for each partition.
///
/// Marks, zonal shifts and free slots are not applied ([`OfferingStates`] does). An on-demand or
/// spot offering without a known price costs 0 and is unavailable.
pub(crate) fn type_offerings(
    facts: TypeOfferingFacts<'_>,
    all_zones: &BTreeSet<Str>,
    class: ClassOfferingFacts<'_>,
    pricing: &Pricing,
    requirements: &mut OfferingRequirements,
) -> (Vec<Offering>, Vec<OfferingState>) {
    let partitions = class.partitions();
    let mut reservations: Vec<&CapacityReservation> =
        class.reservations.iter().filter(|own| own.instance_type == facts.name).collect();
    reservations.sort_by(|a, b| a.id.cmp(&b.id));
    let count = (all_zones.len() * facts.capacity_types.len() + reservations.len()) * partitions.len();
    let (mut offerings, mut states) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut add = |requirements, price, is_available| {
        offerings.push(Offering { requirements, price, capacity_override: None, overhead_override: None });
        states.push(OfferingState { is_available, ..OfferingState::default() });
    };
    let on_demand = pricing.on_demand(facts.name);
    for zone in all_zones {
        let zone_id = class.zone_id(zone);
        for capacity_type in facts.capacity_types.iter().copied() {
            let price = match capacity_type {
                OpenCapacityType::OnDemand => on_demand,
                OpenCapacityType::Spot => pricing.spot(facts.name, zone),
            };
            let is_available = facts.is_compatible && price.is_some() && facts.zones.contains(zone);
            for partition in partitions.iter().copied() {
                let place = OfferingPlace { capacity_type, zone: zone.clone(), zone_id: zone_id.cloned(), partition };
                add(requirements.open(place), price.unwrap_or(Price::ZERO), is_available);
            }
        }
    }
    // Nearly free, but not quite: the order of prices stays that of on-demand.
    let reserved_price = on_demand.map_or(Price::ZERO, |price| price.divided_by(RESERVED_PRICE_DIVISOR));
    for reservation in reservations {
        let zone_id = class.zone_id(&reservation.availability_zone);
        let is_available = facts.is_compatible
            && facts.zones.contains(reservation.availability_zone.as_str())
            && reservation.state != Some(ReservationState::Expiring);
        for partition in partitions.iter().copied() {
            add(requirements::reserved(reservation, zone_id, partition), reserved_price, is_available);
        }
    }
    (offerings, states)
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

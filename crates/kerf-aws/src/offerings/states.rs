//! The states of offerings that change often: marks of missing capacity, zonal shifts and the free
//! slots of reservations. A change copies no instance type.

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::labels::{self, aws};
use kerf_engine::catalogue::{InstanceType, InstanceTypes, OfferingRef, OfferingState};
use kerf_engine::requirement::Requirement;

use super::ZoneInfo;
use crate::reservation_slots::SlotsSnapshot;
use crate::unavailable_offerings::{InstancePool, PoolScope, UnavailableSnapshot};

/// The facts that the states of offerings depend on at one time.
#[derive(Debug)]
pub(crate) struct OfferingStates<'a> {
    /// Zones of the class, with their subnets.
    pub(crate) class_zones: &'a [ZoneInfo],
    /// ID of the class's placement group; `None` if it has none.
    pub(crate) group_id: Option<&'a str>,
    /// Marks of missing capacity.
    pub(crate) unavailable: &'a UnavailableSnapshot,
    /// Free slots of reservations.
    pub(crate) slots: &'a SlotsSnapshot,
    /// IDs of the zones that the cluster is shifted away from.
    pub(crate) shifted_zones: &'a BTreeSet<String>,
}

impl OfferingStates<'_> {
    /// Returns the list with the states of this time (spec 05 §5.1, §5.2, §5.4, §5.5). The states
    /// of `list` are those without marks, shifts and free slots.
    pub(crate) fn apply_to(&self, list: &InstanceTypes) -> InstanceTypes {
        let mut subnets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for zone in self.class_zones {
            subnets.entry(zone.name.as_str()).or_default().extend(zone.subnet_ids.iter().cloned());
        }
        let is_shifted = |zone: &ZoneInfo| zone.id.as_ref().is_some_and(|id| self.shifted_zones.contains(id.as_str()));
        let shifted = self.class_zones.iter().filter(|zone| is_shifted(zone)).map(|zone| zone.name.as_str()).collect();
        let places = ZoneFacts { subnets, shifted };
        list.with_states(|instance_type, offering| self.state(instance_type, offering, &places))
    }

    fn state(&self, instance_type: &InstanceType, offering: OfferingRef<'_>, zones: &ZoneFacts<'_>) -> OfferingState {
        let state = offering.state();
        let value = |key| offering.requirements.get(key).and_then(Requirement::pick_value).unwrap_or_default();
        let zone = value(labels::ZONE);
        let is_shifted = zones.shifted.contains(zone.as_str());
        if offering.is_reserved() {
            let id = value(aws::CAPACITY_RESERVATION_ID);
            return OfferingState {
                is_available: state.is_available && !is_shifted && !self.slots.is_reclaimed(&id),
                reservation_capacity: self.slots.free(&id),
            };
        }
        if !state.is_available || self.unavailable.is_empty() {
            return OfferingState { is_available: state.is_available && !is_shifted, ..state };
        }
        let capacity_type = value(labels::CAPACITY_TYPE);
        let subnets = zones.subnets.get(zone.as_str()).map(Vec::as_slice).unwrap_or_default();
        let is_marked = self.unavailable.is_capacity_type_marked(&capacity_type)
            || self.unavailable.are_subnets_marked(subnets)
            || (self.unavailable.has_pools_of(&instance_type.name)
                && self.scopes(&value(aws::PLACEMENT_GROUP_PARTITION)).any(|scope| {
                    self.unavailable.is_pool_marked(&InstancePool {
                        instance_type: instance_type.name.to_string(),
                        zone: zone.to_string(),
                        capacity_type: capacity_type.to_string(),
                        scope,
                    })
                }));
        OfferingState { is_available: !is_shifted && !is_marked, ..state }
    }

    /// Returns the scopes whose marks concern an offering: all instances, those in the group, and
    /// those in the partition.
    fn scopes(&self, partition: &str) -> impl Iterator<Item = PoolScope> {
        let group = || self.group_id.map(str::to_owned);
        let partition = partition.parse().ok();
        let in_partition = group().zip(partition).map(|(group, partition)| PoolScope::Partition { group, partition });
        [Some(PoolScope::Unscoped), group().map(PoolScope::PlacementGroup), in_partition].into_iter().flatten()
    }
}

struct ZoneFacts<'a> {
    /// Subnets by name of the zone.
    subnets: BTreeMap<&'a str, Vec<String>>,
    /// Names of shifted zones.
    shifted: BTreeSet<&'a str>,
}

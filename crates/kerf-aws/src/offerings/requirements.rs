//! Requirement sets of offerings, which types and classes share.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::ec2nodeclass::CapacityReservation;
use kerf_api::labels::{self, aws};
use kerf_api::slim::Str;
use kerf_engine::requirement::{Requirement, Requirements};

use super::OpenCapacityType;

/// Largest number of requirement sets that are kept for sharing.
const REQUIREMENT_SETS_MAX: usize = 4_096;

/// Requirement sets of offerings. All types and classes share them.
#[derive(Debug, Default)]
pub(crate) struct OfferingRequirements(BTreeMap<OfferingPlace, Arc<Requirements>>);

/// The facts that the requirements of an on-demand or spot offering depend on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OfferingPlace {
    pub(super) capacity_type: OpenCapacityType,
    pub(super) zone: Str,
    /// `None` if the ID of the zone is unknown.
    pub(super) zone_id: Option<Str>,
    /// Partition of the placement group; `None` without partitions.
    pub(super) partition: Option<i32>,
}

impl OfferingRequirements {
    /// Returns the requirements of an on-demand or spot offering.
    pub(super) fn open(&mut self, place: OfferingPlace) -> Arc<Requirements> {
        if self.0.len() >= REQUIREMENT_SETS_MAX {
            self.0.clear();
        }
        if let Some(known) = self.0.get(&place) {
            return Arc::clone(known);
        }
        let absent =
            [aws::CAPACITY_RESERVATION_ID, aws::CAPACITY_RESERVATION_TYPE, aws::CAPACITY_RESERVATION_INTERRUPTIBLE];
        let requirements = at(place.capacity_type.as_str(), &place.zone, place.zone_id.as_ref(), place.partition)
            .chain(absent.map(|key| Requirement::does_not_exist(Str::new_static(key))));
        let requirements = Arc::new(requirements.collect::<Requirements>());
        self.0.insert(place, Arc::clone(&requirements));
        requirements
    }
}

/// Returns the requirements of a reservation's offering.
pub(super) fn reserved(
    reservation: &CapacityReservation,
    zone_id: Option<&Str>,
    partition: Option<i32>,
) -> Arc<Requirements> {
    let reservation_type = reservation.reservation_type.as_ref().map_or("default", |kind| kind.as_str());
    let is_interruptible = reservation.interruptible == Some(true);
    let of_reservation = [
        (aws::CAPACITY_RESERVATION_ID, reservation.id.as_str()),
        (aws::CAPACITY_RESERVATION_TYPE, reservation_type),
        (aws::CAPACITY_RESERVATION_INTERRUPTIBLE, if is_interruptible { "true" } else { "false" }),
    ];
    let of_reservation = of_reservation.map(|(key, value)| one_of(key, Str::new(value)));
    let zone = Str::new(&reservation.availability_zone);
    Arc::new(at(labels::CAPACITY_TYPE_RESERVED, &zone, zone_id, partition).chain(of_reservation).collect())
}

fn at(
    capacity_type: &'static str,
    zone: &Str,
    zone_id: Option<&Str>,
    partition: Option<i32>,
) -> impl Iterator<Item = Requirement> {
    [
        Some(one_of(labels::CAPACITY_TYPE, Str::new_static(capacity_type))),
        Some(one_of(labels::ZONE, zone.clone())),
        zone_id.map(|id| one_of(aws::ZONE_ID, id.clone())),
        partition.map(|partition| one_of(aws::PLACEMENT_GROUP_PARTITION, Str::from(partition.to_string()))),
    ]
    .into_iter()
    .flatten()
}

fn one_of(key: &'static str, value: Str) -> Requirement {
    Requirement::one_of(Str::new_static(key), [value])
}

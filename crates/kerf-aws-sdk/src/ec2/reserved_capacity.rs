//! Capacity reservations and placement groups.

use aws_sdk_ec2::types;
use kerf_aws::ports::ec2::{Ec2CapacityReservation, PlacementGroup};

use crate::convert::{name, tags, timestamp};

pub(super) fn capacity_reservation(reservation: types::CapacityReservation) -> Ec2CapacityReservation {
    Ec2CapacityReservation {
        id: reservation.capacity_reservation_id.unwrap_or_default(),
        owner_id: reservation.owner_id.unwrap_or_default(),
        instance_type: reservation.instance_type.unwrap_or_default(),
        zone: reservation.availability_zone.unwrap_or_default(),
        zone_id: reservation.availability_zone_id.unwrap_or_default(),
        state: name(reservation.state),
        instance_match_criteria: name(reservation.instance_match_criteria),
        reservation_type: name(reservation.reservation_type),
        is_interruptible: reservation.interruptible.unwrap_or_default(),
        total_instance_count: reservation.total_instance_count.unwrap_or_default(),
        available_instance_count: reservation.available_instance_count.unwrap_or_default(),
        starts_at: reservation.start_date.and_then(timestamp),
        ends_at: reservation.end_date.and_then(timestamp),
        tags: tags(reservation.tags),
    }
}

pub(super) fn placement_group(group: types::PlacementGroup) -> PlacementGroup {
    PlacementGroup {
        id: group.group_id.unwrap_or_default(),
        name: group.group_name.unwrap_or_default(),
        state: name(group.state),
        strategy: name(group.strategy),
        // EC2 also writes a count of 0 for a group without partitions.
        partition_count: group.partition_count.filter(|count| *count > 0),
        spread_level: group.spread_level.map(|level| level.as_str().to_owned()),
        tags: tags(group.tags),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_facts_become_defaults() {
        let reservation = types::CapacityReservation::builder().build();
        assert_eq!(capacity_reservation(reservation), Ec2CapacityReservation::default());
        assert_eq!(placement_group(types::PlacementGroup::builder().build()), PlacementGroup::default());
        let spread = types::PlacementGroup::builder().partition_count(0).spread_level("planet".into());
        let spread = placement_group(spread.build());
        assert_eq!((spread.partition_count, spread.spread_level.as_deref()), (None, Some("planet")));
    }
}

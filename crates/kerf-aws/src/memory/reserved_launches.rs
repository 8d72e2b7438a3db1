//! Launches into capacity reservations and placement groups.

use super::AwsFailure;
use super::market::CapacityPool;
use super::reserved_capacity::unknown_group;
use super::state::AwsState;
use crate::ports::ec2::{Ec2CapacityReservation, FleetTarget, LaunchTemplateData};

/// Capacity type of pools of reservations.
pub(super) const RESERVED_CAPACITY: &str = "reserved-capacity";
/// Capacity type of pools of capacity blocks.
pub(super) const CAPACITY_BLOCK: &str = "capacity-block";

/// Returns true for the capacity type of pools that a reservation limits.
pub(super) fn is_reserved_capacity(capacity_type: &str) -> bool {
    [RESERVED_CAPACITY, CAPACITY_BLOCK].contains(&capacity_type)
}

/// Returns the ID of the reservation that a launch uses. Returns `None` if it uses none.
pub(super) fn used_reservation<'d>(data: &'d LaunchTemplateData, target: &FleetTarget) -> Option<&'d str> {
    match target {
        FleetTarget::ReservedCapacity | FleetTarget::CapacityBlock => {
            data.capacity_reservation.as_ref()?.reservation_id.as_deref()
        }
        FleetTarget::OnDemand { .. } | FleetTarget::Spot { .. } => None,
    }
}

/// Returns EC2's answer to a launch into a reservation without a free slot.
pub(super) fn no_free_slot() -> AwsFailure {
    let message = "There is no reserved capacity for the requested instance type.";
    AwsFailure::bad_request("ReservationCapacityExceeded", message)
}

impl AwsState {
    /// Checks that the placement group of a launch exists.
    pub(super) fn check_placement(&self, data: &LaunchTemplateData) -> Result<(), AwsFailure> {
        match &data.placement.group_id {
            Some(group) if !self.account.placement_groups.contains_key(group) => Err(unknown_group(group)),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that the reservation of a launch exists, is active and is for the pool.
    pub(super) fn check_reservation(
        &self,
        data: &LaunchTemplateData,
        target: &FleetTarget,
        pool: &CapacityPool,
    ) -> Result<(), AwsFailure> {
        let named = data.capacity_reservation.as_ref().and_then(|own| own.reservation_id.as_ref());
        let known = named.map(|id| (id, self.account.capacity_reservations.get(id)));
        if let Some((id, None)) = known {
            let message = format!("The capacity reservation ID '{id}' does not exist");
            return Err(AwsFailure::bad_request("InvalidCapacityReservationId.NotFound", message));
        }
        if !is_reserved_capacity(&pool.capacity_type) {
            return Ok(());
        }
        let suits = |own: &&Ec2CapacityReservation| {
            own.state == "active" && own.instance_type == pool.instance_type && own.zone == pool.zone
        };
        match self.reservation_of(data, target).filter(suits) {
            Some(_) => Ok(()),
            None => Err(no_free_slot()),
        }
    }

    /// Returns the number of instances that the reservation of a launch has capacity for; no limit
    /// without a reservation.
    pub(super) fn free_slots(&self, data: &LaunchTemplateData, target: &FleetTarget) -> usize {
        let reservation = self.reservation_of(data, target);
        reservation.map_or(usize::MAX, |own| usize::try_from(self.free_instances(own)).unwrap_or_default())
    }

    /// Returns EC2's lifecycle of an instance; `None` for on-demand.
    pub(super) fn lifecycle(&self, data: &LaunchTemplateData, target: &FleetTarget) -> Option<&'static str> {
        match target {
            FleetTarget::Spot { .. } => Some("spot"),
            FleetTarget::OnDemand { .. } => None,
            FleetTarget::CapacityBlock => Some(CAPACITY_BLOCK),
            FleetTarget::ReservedCapacity => {
                let is_interruptible = self.reservation_of(data, target).is_some_and(|own| own.is_interruptible);
                is_interruptible.then_some("interruptible-capacity-reservation")
            }
        }
    }

    /// Returns the partition of a new instance: the requested one, or the next in turn; 0 without
    /// partitions.
    pub(super) fn partition(&self, data: &LaunchTemplateData) -> i32 {
        let group = data.placement.group_id.as_ref().and_then(|id| self.account.placement_groups.get(id));
        let Some(count) = group.and_then(|group| group.partition_count).filter(|count| *count > 0) else { return 0 };
        let placed = self.instances.values().filter(|launched| launched.instance.partition_number > 0).count();
        let next = i32::try_from(placed).unwrap_or_default() % count + 1;
        data.placement.partition_number.unwrap_or(next)
    }

    fn reservation_of(&self, data: &LaunchTemplateData, target: &FleetTarget) -> Option<&Ec2CapacityReservation> {
        self.account.capacity_reservations.get(used_reservation(data, target)?)
    }
}

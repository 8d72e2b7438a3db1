//! Launches into capacity reservations and placement groups.

use super::AwsFailure;
use super::market::{CAPACITY_BLOCK, CapacityPool};
use super::reserved_capacity::unknown_group;
use super::state::AwsState;
use crate::ports::ec2::{Ec2CapacityReservation, LaunchTemplateData};

const SPOT: &str = "spot";
/// Capacity type of pools of interruptible reservations.
pub(super) const RESERVED_CAPACITY: &str = "reserved-capacity";

/// Returns the ID of the reservation that a launch from a pool uses. Returns `None` if it uses
/// none.
pub(super) fn used_reservation<'d>(data: &'d LaunchTemplateData, pool: &CapacityPool) -> Option<&'d str> {
    if pool.capacity_type == SPOT {
        return None;
    }
    data.capacity_reservation.as_ref()?.reservation_id.as_deref()
}

/// Returns true if only a reservation limits the launches from a pool.
pub(super) fn needs_free_slot(data: &LaunchTemplateData, pool: &CapacityPool) -> bool {
    [RESERVED_CAPACITY, CAPACITY_BLOCK].contains(&pool.capacity_type.as_str()) || used_reservation(data, pool).is_some()
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
    pub(super) fn check_reservation(&self, data: &LaunchTemplateData, pool: &CapacityPool) -> Result<(), AwsFailure> {
        if !needs_free_slot(data, pool) {
            return Ok(());
        }
        let suits = |own: &&Ec2CapacityReservation| {
            own.state == "active" && own.instance_type == pool.instance_type && own.zone == pool.zone
        };
        match (used_reservation(data, pool), self.reservation_of(data, pool)) {
            (Some(id), None) => {
                let message = format!("The capacity reservation ID '{id}' does not exist");
                Err(AwsFailure::bad_request("InvalidCapacityReservationId.NotFound", message))
            }
            (_, Some(own)) if suits(&own) => Ok(()),
            (_, Some(_)) | (None, None) => Err(no_free_slot()),
        }
    }

    /// Returns the number of instances that the reservation of a launch has capacity for. Returns
    /// `None` without a reservation.
    pub(super) fn free_slots(&self, data: &LaunchTemplateData, pool: &CapacityPool) -> Option<usize> {
        let free = self.free_instances(self.reservation_of(data, pool)?);
        Some(usize::try_from(free).unwrap_or_default())
    }

    /// Returns EC2's lifecycle of an instance; `None` for on-demand.
    pub(super) fn lifecycle(&self, data: &LaunchTemplateData, pool: &CapacityPool) -> Option<&'static str> {
        match pool.capacity_type.as_str() {
            SPOT => Some(SPOT),
            CAPACITY_BLOCK => Some(CAPACITY_BLOCK),
            _ => {
                let is_interruptible = self.reservation_of(data, pool).is_some_and(|own| own.is_interruptible);
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

    fn reservation_of(&self, data: &LaunchTemplateData, pool: &CapacityPool) -> Option<&Ec2CapacityReservation> {
        self.account.capacity_reservations.get(used_reservation(data, pool)?)
    }
}

//! From a capacity reservation to its entry in the status of a node class (spec 06 §11.1).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_api::ec2nodeclass::{CapacityReservation, InstanceMatchCriteria, ReservationState, ReservationType};

use crate::ports::ec2::Ec2CapacityReservation;

/// Time before the end of a capacity block from which it accepts no more instances. EC2 begins to
/// reclaim a block 30 minutes before its end.
const EXPIRING_BEFORE_END: Duration = Duration::from_mins(40);

/// Why a reservation cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReservationError {
    #[error("capacity reservation {id} has the unknown type {value:?}")]
    Type { id: String, value: String },
    #[error("capacity reservation {id} has the unknown instance match criteria {value:?}")]
    MatchCriteria { id: String, value: String },
}

/// Returns the entry of a reservation at a time.
pub(crate) fn to_status(
    reservation: Ec2CapacityReservation,
    now: Timestamp,
) -> Result<CapacityReservation, ReservationError> {
    let Ec2CapacityReservation { id, .. } = reservation;
    let reservation_type = match reservation.reservation_type.as_str() {
        "" => ReservationType::Default,
        text => match ReservationType::from(text) {
            ReservationType::Unsupported(value) => {
                return Err(ReservationError::Type { id, value: value.to_string() });
            }
            known @ (ReservationType::Default | ReservationType::CapacityBlock) => known,
        },
    };
    let instance_match_criteria = match InstanceMatchCriteria::from(reservation.instance_match_criteria.as_str()) {
        InstanceMatchCriteria::Unsupported(value) => {
            return Err(ReservationError::MatchCriteria { id, value: value.to_string() });
        }
        known @ (InstanceMatchCriteria::Open | InstanceMatchCriteria::Targeted) => known,
    };
    let expires = reservation.ends_at.and_then(|end| end.checked_sub(EXPIRING_BEFORE_END).ok());
    let is_expiring = reservation_type == ReservationType::CapacityBlock && expires.is_some_and(|at| now >= at);
    Ok(CapacityReservation {
        availability_zone: reservation.zone,
        end_time: reservation.ends_at.map(Time),
        id,
        instance_match_criteria,
        instance_type: reservation.instance_type,
        interruptible: Some(reservation.is_interruptible),
        owner_id: reservation.owner_id,
        reservation_type: Some(reservation_type),
        state: Some(if is_expiring { ReservationState::Expiring } else { ReservationState::Active }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(reservation_type: &str, minutes_left: Option<u64>) -> Ec2CapacityReservation {
        Ec2CapacityReservation {
            id: "cr-1".to_owned(),
            instance_match_criteria: "targeted".to_owned(),
            reservation_type: reservation_type.to_owned(),
            ends_at: minutes_left.map(|minutes| Timestamp::UNIX_EPOCH + Duration::from_mins(minutes)),
            ..Ec2CapacityReservation::default()
        }
    }

    fn status(reservation: Ec2CapacityReservation) -> Result<CapacityReservation, ReservationError> {
        to_status(reservation, Timestamp::UNIX_EPOCH)
    }

    // spec 06 #15, #18
    #[test]
    fn spec_06_18_a_capacity_block_expires_forty_minutes_before_its_end() {
        let state = |kind, minutes| status(reservation(kind, minutes)).unwrap().state;
        assert_eq!(state("capacity-block", Some(40)), Some(ReservationState::Expiring));
        assert_eq!(state("capacity-block", Some(41)), Some(ReservationState::Active));
        assert_eq!(state("capacity-block", None), Some(ReservationState::Active));
        assert_eq!(state("default", Some(40)), Some(ReservationState::Active));
        // spec 06 #15
        assert_eq!(status(reservation("", None)).unwrap().interruptible, Some(false));
        assert_eq!(status(reservation("", None)).unwrap().reservation_type, Some(ReservationType::Default));
    }

    // spec 06 §11.1
    #[test]
    fn unknown_types_and_criteria_are_errors_that_name_the_reservation() {
        let error = status(reservation("future", None)).unwrap_err();
        assert_eq!(error.to_string(), "capacity reservation cr-1 has the unknown type \"future\"");
        let odd = Ec2CapacityReservation { instance_match_criteria: "closed".to_owned(), ..reservation("", None) };
        let error = status(odd).unwrap_err();
        assert_eq!(error.to_string(), "capacity reservation cr-1 has the unknown instance match criteria \"closed\"");
    }
}

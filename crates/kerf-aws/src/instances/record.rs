//! Facts about an instance, from its launch or from `DescribeInstances`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kerf_api::labels::{self, aws};

use crate::ports::Tags;
use crate::ports::ec2::{Ec2Instance, InstanceStateName};

/// Preference of instances that use reserved capacity and nothing else.
const RESERVATIONS_ONLY: &str = "capacity-reservations-only";
/// Lifecycle of instances in a capacity block.
const CAPACITY_BLOCK: &str = "capacity-block";
/// Lifecycle of instances in a reservation that EC2 may reclaim.
const INTERRUPTIBLE: &str = "interruptible-capacity-reservation";

/// Facts about an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstanceRecord {
    pub(crate) id: String,
    pub(crate) instance_type: String,
    pub(crate) image_id: String,
    pub(crate) zone: String,
    /// Empty if unknown.
    pub(crate) zone_id: String,
    pub(crate) subnet_id: String,
    pub(crate) security_group_ids: BTreeSet<String>,
    pub(crate) state: InstanceStateName,
    /// Code and message of the reason of the last change of state; `None` if unknown.
    pub(crate) state_reason: Option<String>,
    pub(crate) launched_at: Option<Timestamp>,
    /// `on-demand`, `spot` or `reserved`.
    pub(crate) capacity_type: &'static str,
    /// The reservation of a reserved instance.
    pub(crate) reservation: Option<RecordedReservation>,
    pub(crate) tenancy: String,
    /// Partition of the placement group; `None` if unknown.
    pub(crate) partition: Option<i32>,
    /// Number of EFA interfaces.
    pub(crate) efa_count: usize,
    pub(crate) tags: Tags,
}

/// The capacity reservation that an instance uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedReservation {
    pub(crate) id: String,
    /// `default` or `capacity-block`.
    pub(crate) reservation_type: &'static str,
    pub(crate) is_interruptible: bool,
}

impl InstanceRecord {
    /// Reads an answer of `DescribeInstances`. An instance that slid into an open reservation stays
    /// on-demand.
    pub(crate) fn new(instance: Ec2Instance, uses_reservations: bool) -> Self {
        let reservation = instance.capacity_reservation_id.clone().filter(|id| {
            let is_targeted = instance.capacity_reservation_preference.as_deref() == Some(RESERVATIONS_ONLY);
            uses_reservations && is_targeted && !id.is_empty()
        });
        let is_spot = instance.spot_request_id.as_deref().is_some_and(|id| !id.is_empty());
        let lifecycle = instance.lifecycle.as_deref();
        let reservation = reservation.filter(|_| !is_spot).map(|id| RecordedReservation {
            id,
            reservation_type: if lifecycle == Some(CAPACITY_BLOCK) { CAPACITY_BLOCK } else { "default" },
            is_interruptible: lifecycle == Some(INTERRUPTIBLE),
        });
        let capacity_type = match (is_spot, &reservation) {
            (true, _) => labels::CAPACITY_TYPE_SPOT,
            (false, Some(_)) => labels::CAPACITY_TYPE_RESERVED,
            (false, None) => labels::CAPACITY_TYPE_ON_DEMAND,
        };
        let tenancy = if instance.tenancy.is_empty() { aws::TENANCY_DEFAULT.to_owned() } else { instance.tenancy };
        let is_efa = |kind: &&String| matches!(kind.as_str(), "efa" | "efa-only");
        Self {
            efa_count: instance.interface_types.iter().filter(is_efa).count(),
            id: instance.id,
            instance_type: instance.instance_type,
            image_id: instance.image_id,
            zone: instance.zone,
            zone_id: instance.zone_id,
            subnet_id: instance.subnet_id,
            security_group_ids: instance.security_group_ids.into_iter().collect(),
            state_reason: state_reason(instance.state_reason, instance.state_message),
            state: instance.state,
            launched_at: instance.launched_at,
            capacity_type,
            reservation,
            tenancy,
            partition: Some(instance.partition_number).filter(|number| *number > 0),
            tags: instance.tags,
        }
    }

    /// Returns true if the termination of the instance has begun.
    pub(crate) fn is_terminating(&self) -> bool {
        self.state.is_terminating()
    }

    /// Returns the value of a tag. Returns `None` if the tag is missing or empty.
    pub(crate) fn tag(&self, key: &str) -> Option<&str> {
        self.tags.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Returns code and message as one text. EC2's messages often begin with the code.
fn state_reason(code: Option<String>, message: Option<String>) -> Option<String> {
    let non_empty = |text: &String| !text.is_empty();
    match (code.filter(non_empty), message.filter(non_empty)) {
        (Some(code), Some(message)) if !message.starts_with(&code) => Some(format!("{code}: {message}")),
        (code, message) => message.or(code),
    }
}

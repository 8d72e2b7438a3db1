//! The stores that the states of offerings come from, and the version of their content.

use std::collections::BTreeSet;
use std::sync::Arc;

use kerf_engine::catalogue::InstanceTypes;

use crate::offerings::{OfferingStates, ZoneInfo};
use crate::reservation_slots::ReservationSlots;
use crate::shifted_zones::ShiftedZones;
use crate::unavailable_offerings::UnavailableOfferings;

/// The stores that the states of offerings come from.
#[derive(Debug)]
pub(super) struct StateSources {
    pub(super) unavailable: Arc<UnavailableOfferings>,
    pub(super) slots: Arc<ReservationSlots>,
    pub(super) shifted_zones: Arc<ShiftedZones>,
}

/// The content of the stores at one time. Two equal versions give equal states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StateVersion {
    marks: u64,
    slots: u64,
    shifted_zones: BTreeSet<String>,
}

/// The facts about a node class that the states of its offerings depend on.
#[derive(Debug)]
pub(super) struct ClassStates {
    pub(super) zones: Vec<ZoneInfo>,
    /// ID of the placement group; `None` if the class has none.
    pub(super) group_id: Option<String>,
}

impl StateSources {
    pub(super) fn version(&self) -> StateVersion {
        StateVersion {
            marks: self.unavailable.change_number(),
            slots: self.slots.change_number(),
            shifted_zones: self.shifted_zones.now(),
        }
    }

    /// Returns a list of the class with the states of now. `version` was read before.
    pub(super) fn apply(&self, class: &ClassStates, list: &InstanceTypes, version: &StateVersion) -> InstanceTypes {
        let states = OfferingStates {
            class_zones: &class.zones,
            group_id: class.group_id.as_deref(),
            unavailable: &self.unavailable.snapshot(),
            slots: &self.slots.snapshot(),
            shifted_zones: &version.shifted_zones,
        };
        states.apply_to(list)
    }
}

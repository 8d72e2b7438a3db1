//! A node class while it is reconciled.

use jiff::Timestamp;
use kerf_api::conditions::{ConditionSet, ConditionStatus, ObjectFacts};
use kerf_api::ec2nodeclass::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};

use crate::settings::node_class_conditions;

/// Condition: at least one image is resolved.
pub(super) const AMIS_READY: &str = "AMIsReady";
/// Condition: at least one subnet is resolved.
pub(super) const SUBNETS_READY: &str = "SubnetsReady";
/// Condition: at least one security group is resolved.
pub(super) const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
/// Condition: the name of the instance profile is in the status.
pub(super) const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
/// Condition: there is no placement group selector, or the group is resolved.
pub(super) const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
/// Condition: capacity reservations are listed; there may be none.
pub(super) const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";

/// A node class while it is reconciled. The steps change its status and conditions; the controller
/// writes both at the end.
#[derive(Debug)]
pub(super) struct ClassReconcile {
    pub(super) class: EC2NodeClass,
    pub(super) conditions: ConditionSet,
    pub(super) now: Timestamp,
}

impl ClassReconcile {
    /// Prepares a class. `has_reservations` decides if capacity reservations are a dependent
    /// condition.
    pub(super) fn new(class: EC2NodeClass, has_reservations: bool, now: Timestamp) -> Self {
        let stored = class.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let conditions =
            ConditionSet::open(node_class_conditions(has_reservations), ObjectFacts::of(&class.metadata), stored);
        Self { class, conditions, now }
    }

    /// Returns the class with its new status.
    pub(super) fn into_class(self) -> EC2NodeClass {
        let Self { mut class, conditions, .. } = self;
        class.status.get_or_insert_default().conditions = conditions.into_conditions();
        class
    }

    pub(super) fn name(&self) -> &str {
        self.class.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.class.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the spec; an absent one is empty.
    pub(super) fn spec(&self) -> EC2NodeClassSpec {
        self.class.spec.clone().unwrap_or_default()
    }

    pub(super) fn status_mut(&mut self) -> &mut EC2NodeClassStatus {
        self.class.status.get_or_insert_default()
    }

    /// Returns true if a condition is True and was set for the present spec.
    pub(super) fn is_true_for_present_spec(&self, condition: &str) -> bool {
        let condition = self.conditions.get(condition);
        condition.is_some_and(|condition| {
            condition.status == ConditionStatus::True
                && condition.observed_generation == Some(self.class.metadata.generation.unwrap_or_default())
        })
    }

    pub(super) fn set_true(&mut self, condition: &str) {
        self.conditions.set_true(condition, self.now);
    }

    pub(super) fn set_false(&mut self, condition: &str, reason: &str, message: &str) {
        self.conditions.set_false(condition, reason, message, self.now);
    }
}

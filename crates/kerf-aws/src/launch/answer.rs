//! Reads the answer of `CreateFleet` (spec 05 §15.7, spec 06 §19.4): errors become marks of missing
//! capacity, and the instance becomes a record.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels;
use kerf_api::quantity::Quantity;
use kerf_engine::catalogue::{InstanceType, InstanceTypeRef, InstanceTypes};
use kerf_engine::requirement::Requirements;
use kerf_operator::events::claim_reference;
use kerf_operator::{Event, EventType};
use tracing::debug;

use super::candidate::{meets, single_value};
use super::capacity::is_reserved;
use super::claim::LaunchClaim;
use super::error::AttemptError;
use super::placement::LaunchPlacement;
use super::template_groups::{EFA_RESOURCE, TemplateGroup};
use crate::aws_errors::{
    INSUFFICIENT_ADDRESSES, SPOT_ROLE_MISSING, failure_reason, is_spread_group_full, is_unfulfillable_capacity,
};
use crate::batcher::{FleetLaunch, FleetLaunchedInstance};
use crate::context::AwsContext;
use crate::discovery::subnets::SubnetChoice;
use crate::instances::{InstanceRecord, RecordedReservation};
use crate::ports::Tags;
use crate::ports::ec2::{FleetError, InstanceStateName};
use crate::unavailable_offerings::{InstancePool, MARK_TTL, PoolScope};

/// A launch that EC2 has answered.
pub(super) struct AnsweredLaunch<'a, 't> {
    pub(super) context: &'a AwsContext,
    pub(super) claim: &'a LaunchClaim<'a>,
    pub(super) class: &'a EC2NodeClass,
    pub(super) tags: &'a Tags,
    pub(super) types: &'t InstanceTypes,
    pub(super) groups: &'a [TemplateGroup<'t>],
    pub(super) capacity_type: &'static str,
    pub(super) tenancy: &'static str,
    pub(super) narrowed: &'a Requirements,
    pub(super) subnets: &'a BTreeMap<String, SubnetChoice>,
    pub(super) placement: &'a LaunchPlacement,
    /// Time at which the fleet was requested.
    pub(super) began_at: Timestamp,
    pub(super) launch: FleetLaunch,
}

/// Handles all errors of an answer, also if there is an instance, and returns the instance.
pub(super) fn read_answer(launch: AnsweredLaunch<'_, '_>) -> Result<(InstanceRecord, InstanceType), AttemptError> {
    for error in launch.launch.errors.iter() {
        launch.count(error);
        launch.mark(error);
    }
    match &launch.launch.instance {
        Some(instance) => launch.record(instance),
        None => Err(combined(&launch.launch.errors)),
    }
}

impl<'t> AnsweredLaunch<'_, 't> {
    fn count(&self, error: &FleetError) {
        let zone = error.zone.as_deref().unwrap_or_default();
        let zone_id = self.subnets.get(zone).and_then(|subnet| subnet.zone_id.as_deref()).unwrap_or_default();
        let reason = failure_reason(&text(error)).reason;
        self.context.launch_metrics.failures.inc(&[zone, zone_id, self.capacity_type, reason]);
    }

    fn mark(&self, error: &FleetError) {
        let context = self.context;
        if error.code == INSUFFICIENT_ADDRESSES
            && let Some(subnet) = error.subnet_id.as_deref().filter(|id| !id.is_empty())
        {
            context.unavailable.mark_subnet(subnet);
            context.subnets.mark_full(subnet);
        }
        if is_reserved(self.capacity_type) {
            self.mark_reservation_full(error);
            return;
        }
        if error.code == SPOT_ROLE_MISSING {
            context.unavailable.mark_capacity_type(labels::CAPACITY_TYPE_SPOT);
            let message = format!("Attempted to launch a spot instance but failed due to \"{SPOT_ROLE_MISSING}\"");
            // Karpenter's Event has no reason either (spec 06 §1.5).
            let event = Event::new(claim_reference(self.claim.claim), EventType::Warning, "", message);
            context.events.publish(event);
        }
        let Some((instance_type, zone)) = pool_of(error).filter(|_| is_unfulfillable_capacity(&error.code)) else {
            return;
        };
        match self.placement.group_id() {
            // A full spread group takes no instance of any type in the zone.
            Some(group) if is_spread_group_full(&error.code, &error.message) => {
                for other in self.types.iter() {
                    self.mark_pool(&other.name, zone, &error.code, PoolScope::PlacementGroup(group.to_owned()));
                }
            }
            Some(_) | None => self.mark_pool(instance_type, zone, &error.code, self.placement.scope()),
        }
    }

    /// Records that the reservation of a type in a zone has no free slot. No pool is marked.
    fn mark_reservation_full(&self, error: &FleetError) {
        let is_full = is_unfulfillable_capacity(&error.code) && !is_spread_group_full(&error.code, &error.message);
        let Some((instance_type, zone)) = pool_of(error).filter(|_| is_full) else { return };
        let reservation = self.types.find(instance_type).and_then(|found| self.reservation(found, zone));
        if let Some(reservation) = reservation {
            debug!(
                reason = error.code,
                "instance-type" = instance_type,
                zone,
                "capacity-reservation-id" = reservation.id,
                "marking capacity reservation unavailable"
            );
            self.context.reservation_slots.mark_full(&reservation.id);
        }
    }

    fn mark_pool(&self, instance_type: &str, zone: &str, reason: &str, scope: PoolScope) {
        debug!(
            reason,
            "instance-type" = instance_type,
            zone,
            "capacity-type" = self.capacity_type,
            ttl = format!("{}s", MARK_TTL.as_secs()),
            "placement-group-id" = self.placement.group_id(),
            "placement-group-partition" = self.placement.partition,
            "fleet-id" = self.launch.fleet_id,
            "removing offering from offerings"
        );
        self.context.unavailable.mark_pool(InstancePool {
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            capacity_type: self.capacity_type.to_owned(),
            scope,
        });
    }

    fn record(&self, launched: &FleetLaunchedInstance) -> Result<(InstanceRecord, InstanceType), AttemptError> {
        let Some(instance_type) = self.types.find(&launched.instance_type) else {
            let FleetLaunchedInstance { id, instance_type, .. } = launched;
            return Err(AttemptError::FleetErrors(format!(
                "the fleet launched instance {id} of type {instance_type}, which was not requested"
            )));
        };
        let status = self.class.status.clone().unwrap_or_default();
        let has_interfaces = self.class.spec.as_ref().is_some_and(|spec| spec.network_interfaces.is_some());
        let efa_count = if has_interfaces || self.claim.requests_resource(EFA_RESOURCE) {
            let amount = instance_type.capacity.get(EFA_RESOURCE).map_or(0, Quantity::value);
            usize::try_from(amount).unwrap_or_default()
        } else {
            0
        };
        let zone_id = self.subnets.get(&launched.zone).and_then(|subnet| subnet.zone_id.clone());
        let record = InstanceRecord {
            id: launched.id.clone(),
            instance_type: launched.instance_type.clone(),
            image_id: self.image_id(launched),
            zone: launched.zone.clone(),
            zone_id: zone_id.unwrap_or_default(),
            subnet_id: launched.subnet_id.clone(),
            security_group_ids: status.security_groups.into_iter().flatten().map(|group| group.id).collect(),
            state: InstanceStateName::Pending,
            state_reason: None,
            launched_at: Some(self.context.clock.now()),
            capacity_type: self.capacity_type,
            reservation: self.reservation(instance_type, &launched.zone),
            tenancy: self.tenancy.to_owned(),
            partition: self.placement.partition,
            efa_count,
            tags: self.tags.clone(),
        };
        if let Some(reservation) = &record.reservation {
            self.context.reservation_slots.record_launch(&reservation.id, self.began_at);
        }
        Ok((record, instance_type.instance_type().clone()))
    }

    /// Returns the image of the answer, or that of the instance's launch template.
    fn image_id(&self, launched: &FleetLaunchedInstance) -> String {
        if !launched.image_id.is_empty() {
            return launched.image_id.clone();
        }
        let has_type =
            |group: &&TemplateGroup<'_>| group.types.iter().any(|other| other.name == launched.instance_type);
        self.groups.iter().find(has_type).map(|group| group.image_id.clone()).unwrap_or_default()
    }

    /// Returns the reservation of the offering of a type in a zone.
    fn reservation(&self, instance_type: InstanceTypeRef<'t>, zone: &str) -> Option<RecordedReservation> {
        if !is_reserved(self.capacity_type) {
            return None;
        }
        let offering = instance_type.offerings().find(|offering| {
            offering.is_launchable()
                && meets(self.narrowed, &offering.requirements, &self.context.label_rules)
                && single_value(&offering.offering().requirements, labels::ZONE) == zone
        })?;
        let value = |key: &str| single_value(&offering.offering().requirements, key);
        let is_block = value(labels::aws::CAPACITY_RESERVATION_TYPE) == "capacity-block";
        Some(RecordedReservation {
            id: value(labels::aws::CAPACITY_RESERVATION_ID).to_owned(),
            reservation_type: if is_block { "capacity-block" } else { "default" },
            is_interruptible: value(labels::aws::CAPACITY_RESERVATION_INTERRUPTIBLE) == "true",
        })
    }
}

/// Returns type and zone of an error. Returns `None` if EC2 reports no override.
fn pool_of(error: &FleetError) -> Option<(&str, &str)> {
    let non_empty = |text: &'_ Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    if !non_empty(&error.instance_type) || !non_empty(&error.zone) {
        return None;
    }
    error.instance_type.as_deref().zip(error.zone.as_deref())
}

/// Returns code and message of an error as conditions and logs show them.
fn text(error: &FleetError) -> String {
    if error.message.is_empty() {
        return error.code.clone();
    }
    format!("{}: {}", error.code, error.message)
}

/// Returns the error of a fleet without an instance.
fn combined(errors: &[FleetError]) -> AttemptError {
    let distinct: BTreeSet<String> = errors.iter().map(text).collect();
    let combined = distinct.into_iter().collect::<Vec<_>>().join("; ");
    let is_capacity = |error: &FleetError| is_unfulfillable_capacity(&error.code) || error.code == SPOT_ROLE_MISSING;
    if !errors.is_empty() && errors.iter().all(is_capacity) {
        AttemptError::InsufficientCapacity(format!("with fleet error(s), {combined}").into())
    } else {
        AttemptError::FleetErrors(combined)
    }
}

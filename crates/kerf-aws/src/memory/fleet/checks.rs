//! The checks of EC2 at a launch from one override, and the errors of overrides.

use jiff::Timestamp;

use super::super::AwsFailure;
use super::super::market::CapacityPool;
use super::super::reserved_launches::{needs_free_slot, no_free_slot};
use super::super::state::AwsState;
use super::super::validation::check_volumes;
use super::Candidate;
use crate::ports::ec2::{FleetTarget, InstanceTypeOffering, Subnet};

impl AwsState {
    /// Returns the error of an override from which no further instance can be launched.
    pub(super) fn shortage(&self, candidate: &Candidate, now: Timestamp) -> AwsFailure {
        let CapacityPool { instance_type, zone, .. } = &candidate.pool;
        if needs_free_slot(&candidate.template.data, &candidate.pool) {
            return no_free_slot();
        }
        if self.stock(&candidate.pool, now).at_most(1) > 0
            && let Some(failure) = self.quota_failure(&candidate.pool)
        {
            return failure;
        }
        if self.stock(&candidate.pool, now).at_most(1) == 0 {
            return AwsFailure::new(
                500,
                "InsufficientInstanceCapacity",
                format!(
                    "We currently do not have sufficient {instance_type} capacity in the Availability Zone you \
                     requested ({zone}). Our system will be working on provisioning additional capacity."
                ),
            );
        }
        let subnet = &candidate.choice.subnet_id;
        AwsFailure::bad_request(
            "InsufficientFreeAddressesInSubnet",
            format!(
                "There are not enough free addresses in subnet '{subnet}' to satisfy the requested number of instances."
            ),
        )
    }

    /// Checks what EC2 checks at the launch, and returns the subnet.
    pub(super) fn check_launch(
        &self,
        candidate: &Candidate,
        target: &FleetTarget,
        now: Timestamp,
    ) -> Result<Subnet, AwsFailure> {
        let (choice, data) = (&candidate.choice, &candidate.template.data);
        let Some(subnet) = self.account.subnets.get(&choice.subnet_id) else {
            let message = format!("The subnet ID '{}' does not exist", choice.subnet_id);
            return Err(AwsFailure::bad_request("InvalidSubnetID.NotFound", message));
        };
        if let Some(zone) = choice.zone.as_ref().filter(|zone| **zone != subnet.zone) {
            let message = format!("The subnet ID '{}' is not in the availability zone {zone}", subnet.id);
            return Err(AwsFailure::invalid_value(message));
        }
        self.check_image(candidate)?;
        self.check_type(candidate, target)?;
        for group in data.network_interfaces.iter().flat_map(|interface| &interface.security_group_ids) {
            match self.account.security_groups.get(group) {
                None => {
                    let message = format!("The security group '{group}' does not exist");
                    return Err(AwsFailure::bad_request("InvalidGroup.NotFound", message));
                }
                Some(found) if found.vpc_id != subnet.vpc_id => {
                    let message =
                        format!("Security group {group} and subnet {} belong to different networks.", subnet.id);
                    return Err(AwsFailure::bad_request("InvalidParameter", message));
                }
                Some(_) => {}
            }
        }
        let profile = &data.instance_profile;
        let is_known = self.profiles.get(profile).is_some_and(|stored| stored.visible_from <= now);
        if !profile.is_empty() && !is_known {
            return Err(AwsFailure::invalid_value(format!(
                "Value ({profile}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
            )));
        }
        check_volumes(data)?;
        self.check_placement(data)?;
        self.check_reservation(data, &candidate.pool)?;
        Ok(subnet.clone())
    }

    fn check_image(&self, candidate: &Candidate) -> Result<(), AwsFailure> {
        let id = candidate.image_id();
        let Some(image) = self.account.images.get(id).filter(|image| image.state == "available") else {
            let message = format!("The image id '[{id}]' does not exist");
            return Err(AwsFailure::bad_request("InvalidAMIID.NotFound", message));
        };
        let info = self.account.instance_types.get(&candidate.pool.instance_type);
        let architectures = info.and_then(|info| info.processor.as_ref()).map(|own| &own.supported_architectures);
        match architectures {
            Some(own) if !own.is_empty() && !own.contains(&image.architecture) => {
                Err(AwsFailure::invalid_value(format!(
                    "The architecture '{}' of the specified instance type does not match the architecture '{}' of the \
                 specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.",
                    own.join(","),
                    image.architecture
                )))
            }
            _ => Ok(()),
        }
    }

    fn check_type(&self, candidate: &Candidate, target: &FleetTarget) -> Result<(), AwsFailure> {
        let CapacityPool { instance_type, zone, .. } = &candidate.pool;
        let Some(info) = self.account.instance_types.get(instance_type) else {
            return Err(AwsFailure::invalid_value(format!("Invalid value '{instance_type}' for InstanceType.")));
        };
        let offering = InstanceTypeOffering { instance_type: instance_type.clone(), zone: zone.clone() };
        if !self.account.offerings.contains(&offering) {
            let message = format!(
                "Your requested instance type ({instance_type}) is not supported in your requested Availability Zone \
                 ({zone})."
            );
            return Err(AwsFailure::bad_request("Unsupported", message));
        }
        let usage_class = match target {
            FleetTarget::Spot { .. } => "spot",
            FleetTarget::OnDemand { .. } => "on-demand",
            FleetTarget::ReservedCapacity => "on-demand",
            FleetTarget::CapacityBlock => "capacity-block",
        };
        let classes = &info.supported_usage_classes;
        if !classes.is_empty() && !classes.iter().any(|class| class == usage_class) {
            let message = format!("The instance type {instance_type} is not supported as {usage_class}.");
            return Err(AwsFailure::bad_request("Unsupported", message));
        }
        Ok(())
    }
}

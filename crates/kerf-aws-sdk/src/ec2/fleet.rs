//! `CreateFleet`.

use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder;
use aws_sdk_ec2::types;
use kerf_aws::ports::ec2::{
    CreateFleet, FleetAnswer, FleetConfig, FleetError, FleetInstance, FleetOverride, FleetTarget,
};

use crate::convert::{list, name, optional_name, sent_list, sent_tag_specifications, sent_text};

/// The version of a launch template that is launched.
pub(super) const LATEST_VERSION: &str = "$Latest";

/// The only reservation type of fleets that use reserved capacity (spec 05 §15.5).
const INTERRUPTIBLE: &str = "interruptible-capacity-reservation";

pub(super) fn sent_fleet(builder: CreateFleetFluentBuilder, request: CreateFleet) -> CreateFleetFluentBuilder {
    let capacity = types::TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(request.target_capacity)
        .default_target_capacity_type(target_type(&request.target))
        .build();
    let builder = builder
        .r#type(types::FleetType::Instant)
        .target_capacity_specification(capacity)
        .set_launch_template_configs(sent_list(request.configs, config))
        .set_tag_specifications(sent_tag_specifications(request.tags))
        .set_context(request.context)
        .set_client_token(sent_text(request.client_token))
        .set_dry_run(request.is_dry_run.then_some(true));
    match request.target {
        FleetTarget::Spot { allocation_strategy } => {
            let strategy = sent_text(allocation_strategy).map(|text| text.as_str().into());
            builder.spot_options(types::SpotOptionsRequest::builder().set_allocation_strategy(strategy).build())
        }
        FleetTarget::OnDemand { allocation_strategy } => {
            let strategy = sent_text(allocation_strategy).map(|text| text.as_str().into());
            builder
                .on_demand_options(types::OnDemandOptionsRequest::builder().set_allocation_strategy(strategy).build())
        }
        FleetTarget::CapacityBlock => builder,
        FleetTarget::ReservedCapacity => builder.reserved_capacity_options(
            types::ReservedCapacityOptionsRequest::builder().reservation_types(INTERRUPTIBLE.into()).build(),
        ),
    }
}

fn target_type(target: &FleetTarget) -> types::DefaultTargetCapacityType {
    match target {
        FleetTarget::Spot { .. } => types::DefaultTargetCapacityType::Spot,
        FleetTarget::OnDemand { .. } => types::DefaultTargetCapacityType::OnDemand,
        FleetTarget::CapacityBlock => types::DefaultTargetCapacityType::CapacityBlock,
        FleetTarget::ReservedCapacity => types::DefaultTargetCapacityType::ReservedCapacity,
    }
}

fn config(config: FleetConfig) -> types::FleetLaunchTemplateConfigRequest {
    let template = types::FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(config.template_name)
        .version(LATEST_VERSION);
    types::FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template.build())
        .set_overrides(sent_list(config.overrides, fleet_override))
        .build()
}

fn fleet_override(choice: FleetOverride) -> types::FleetLaunchTemplateOverridesRequest {
    types::FleetLaunchTemplateOverridesRequest::builder()
        .set_instance_type(sent_text(choice.instance_type).map(|text| text.as_str().into()))
        .set_subnet_id(sent_text(choice.subnet_id))
        .set_image_id(choice.image_id)
        .set_availability_zone(choice.zone)
        .set_priority(choice.priority)
        .build()
}

pub(super) fn answer(answer: CreateFleetOutput) -> FleetAnswer {
    FleetAnswer {
        fleet_id: answer.fleet_id.unwrap_or_default(),
        instances: list(answer.instances, instance),
        errors: list(answer.errors, error),
    }
}

fn overrides(config: Option<types::LaunchTemplateAndOverridesResponse>) -> types::FleetLaunchTemplateOverrides {
    let overrides = config.and_then(|config| config.overrides);
    overrides.unwrap_or_else(|| types::FleetLaunchTemplateOverrides::builder().build())
}

/// Facts that the answer does not state for the instances are those of their override.
fn instance(instance: types::CreateFleetInstance) -> FleetInstance {
    let overrides = overrides(instance.launch_template_and_overrides);
    FleetInstance {
        ids: instance.instance_ids.unwrap_or_default(),
        instance_type: name(instance.instance_type.or(overrides.instance_type)),
        subnet_id: instance.subnet_id.or(overrides.subnet_id).unwrap_or_default(),
        zone: instance.availability_zone.or(overrides.availability_zone).unwrap_or_default(),
        image_id: overrides.image_id.unwrap_or_default(),
        lifecycle: name(instance.lifecycle),
    }
}

fn error(error: types::CreateFleetError) -> FleetError {
    let overrides = overrides(error.launch_template_and_overrides);
    FleetError {
        code: error.error_code.unwrap_or_default(),
        message: error.error_message.unwrap_or_default(),
        instance_type: optional_name(overrides.instance_type),
        subnet_id: overrides.subnet_id,
        zone: overrides.availability_zone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_fields_has_defaults() {
        assert_eq!(answer(CreateFleetOutput::builder().build()), FleetAnswer::default());
        let empty = types::CreateFleetInstance::builder().build();
        assert_eq!(instance(empty), FleetInstance::default());
        assert_eq!(error(types::CreateFleetError::builder().build()), FleetError::default());
    }

    #[test]
    fn facts_of_an_instance_come_before_those_of_its_override() {
        let overrides = types::FleetLaunchTemplateOverrides::builder().subnet_id("subnet-1").availability_zone("a");
        let config = types::LaunchTemplateAndOverridesResponse::builder().overrides(overrides.build()).build();
        let launched = types::CreateFleetInstance::builder().launch_template_and_overrides(config);
        assert_eq!(instance(launched.clone().build()).subnet_id, "subnet-1");
        let translated = instance(launched.subnet_id("subnet-2").build());
        assert_eq!((translated.subnet_id.as_str(), translated.zone.as_str()), ("subnet-2", "a"));
    }
}

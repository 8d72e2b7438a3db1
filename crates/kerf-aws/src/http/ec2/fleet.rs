//! `CreateFleet` of type `instant`.

use super::super::Content;
use super::super::query::{Parameters, QueryReader};
use super::super::xml::Xml;
use super::{read_dry_run, read_tag_specifications};
use crate::memory::{AwsFailure, MemoryAws};
use crate::ports::Ec2 as _;
use crate::ports::ec2::{CreateFleet, FleetConfig, FleetOverride, FleetTarget};

/// Versions of a launch template that name its only version.
const VERSIONS: [&str; 3] = ["$Latest", "$Default", "1"];

/// The only reservation type of fleets that use reserved capacity.
const INTERRUPTIBLE: &str = "interruptible-capacity-reservation";

pub(super) async fn create(aws: &MemoryAws, parameters: Parameters) -> Content {
    let request = parameters.read(read_request)?;
    let answer = aws.create_fleet(request.clone()).await?;
    let lifecycle = lifecycle(&request.target);
    Ok(Xml::fragment(|xml| {
        xml.text("fleetId", &answer.fleet_id);
        xml.items("errorSet", &answer.errors, |xml, error| {
            let (instance_type, subnet_id) = (error.instance_type.as_deref(), error.subnet_id.as_deref());
            write_override(
                xml,
                &request,
                &Launch { instance_type, subnet_id, zone: error.zone.as_deref(), image_id: "" },
            );
            xml.text("lifecycle", lifecycle);
            xml.text("errorCode", &error.code);
            xml.text("errorMessage", &error.message);
        });
        xml.items("fleetInstanceSet", &answer.instances, |xml, launched| {
            let launch = Launch {
                instance_type: Some(&launched.instance_type),
                subnet_id: Some(&launched.subnet_id),
                zone: Some(&launched.zone),
                image_id: &launched.image_id,
            };
            write_override(xml, &request, &launch);
            xml.text("lifecycle", lifecycle);
            xml.element("instanceIds", |xml| launched.ids.iter().for_each(|id| xml.text("item", id)));
            xml.text("instanceType", &launched.instance_type);
        });
    }))
}

/// The override of an entry of the answer.
struct Launch<'a> {
    instance_type: Option<&'a str>,
    subnet_id: Option<&'a str>,
    zone: Option<&'a str>,
    image_id: &'a str,
}

fn write_override(xml: &mut Xml, request: &CreateFleet, launch: &Launch<'_>) {
    let is_own = |own: &FleetOverride| {
        Some(own.instance_type.as_str()) == launch.instance_type && Some(own.subnet_id.as_str()) == launch.subnet_id
    };
    let config = request.configs.iter().find(|config| config.overrides.iter().any(is_own));
    xml.element("launchTemplateAndOverrides", |xml| {
        if let Some(config) = config {
            xml.element("launchTemplateSpecification", |xml| {
                xml.text("launchTemplateName", &config.template_name);
                xml.text("version", 1);
            });
        }
        xml.element("overrides", |xml| {
            xml.text_if_some("instanceType", launch.instance_type);
            xml.text_if_some("subnetId", launch.subnet_id);
            xml.text_if_some("availabilityZone", launch.zone);
            xml.text_unless_empty("imageId", launch.image_id);
        });
    });
}

fn lifecycle(target: &FleetTarget) -> &'static str {
    match target {
        FleetTarget::Spot { .. } => "spot",
        FleetTarget::OnDemand { .. } => "on-demand",
        FleetTarget::CapacityBlock => "capacity-block",
        FleetTarget::ReservedCapacity => INTERRUPTIBLE,
    }
}

fn read_request(query: &mut QueryReader<'_>) -> CreateFleet {
    let fleet_type = query.text("Type").unwrap_or_else(|| "maintain".to_owned());
    if fleet_type != "instant" {
        query.add_wrong_value("Type", &fleet_type, "instant, the only type of this server");
    }
    let (target_capacity, target) = read_target(query);
    CreateFleet {
        target_capacity,
        target,
        configs: query.objects("LaunchTemplateConfigs", read_config),
        tags: read_tag_specifications(query),
        context: query.text("Context"),
        client_token: query.text("ClientToken").unwrap_or_default(),
        is_dry_run: read_dry_run(query),
    }
}

fn read_target(query: &mut QueryReader<'_>) -> (i32, FleetTarget) {
    let read_strategy = |options: &mut QueryReader<'_>| options.text("AllocationStrategy").unwrap_or_default();
    let spot_strategy = query.object("SpotOptions", read_strategy).unwrap_or_default();
    let on_demand_strategy = query.object("OnDemandOptions", read_strategy).unwrap_or_default();
    query.object("ReservedCapacityOptions", |options| {
        let types = options.texts("ReservationType");
        if types != [INTERRUPTIBLE] {
            options.add_wrong_value("ReservationType", &types.join(", "), INTERRUPTIBLE);
        }
    });
    let target = query.object("TargetCapacitySpecification", |target| {
        let count = target.number("TotalTargetCapacity").unwrap_or_default();
        let capacity_type = target.text("DefaultTargetCapacityType").unwrap_or_else(|| "on-demand".to_owned());
        let target = match capacity_type.as_str() {
            "spot" => FleetTarget::Spot { allocation_strategy: spot_strategy },
            "on-demand" => FleetTarget::OnDemand { allocation_strategy: on_demand_strategy },
            "capacity-block" => FleetTarget::CapacityBlock,
            "reserved-capacity" => FleetTarget::ReservedCapacity,
            other => {
                let expected = "spot, on-demand, capacity-block or reserved-capacity";
                target.add_wrong_value("DefaultTargetCapacityType", other, expected);
                FleetTarget::CapacityBlock
            }
        };
        (count, target)
    });
    target.unwrap_or_else(|| {
        query.add_problem(AwsFailure::missing("TargetCapacitySpecification"));
        (0, FleetTarget::CapacityBlock)
    })
}

fn read_config(config: &mut QueryReader<'_>) -> FleetConfig {
    let name = config.object("LaunchTemplateSpecification", read_template);
    FleetConfig { template_name: name.unwrap_or_default(), overrides: config.objects("Overrides", read_override) }
}

/// Reads the name of a launch template.
pub(super) fn read_template(specification: &mut QueryReader<'_>) -> String {
    let version = specification.text("Version").unwrap_or_default();
    if !VERSIONS.contains(&version.as_str()) {
        specification.add_wrong_value("Version", &version, &VERSIONS.join(", "));
    }
    specification.required_text("LaunchTemplateName")
}

fn read_override(choice: &mut QueryReader<'_>) -> FleetOverride {
    FleetOverride {
        instance_type: choice.text("InstanceType").unwrap_or_default(),
        subnet_id: choice.text("SubnetId").unwrap_or_default(),
        image_id: choice.text("ImageId"),
        zone: choice.text("AvailabilityZone"),
        priority: choice.number("Priority"),
    }
}

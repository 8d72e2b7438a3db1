//! Recorded calls as answers print them (spec 11 §2.3): the API's member names, without what is not
//! set, tags as objects, decoded user data, and template names as `T1`, `T2`, …

mod template_data;

use std::collections::BTreeMap;

use kerf_aws::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, DescribeCapacityReservations, DescribeImages, DescribeInstances,
    DescribeLaunchTemplates, FleetTarget, LaunchTemplateRef, RunInstances, RunNetworkInterface, TagSpecification,
};
use kerf_aws::ports::{CreateInstanceProfile, Filter, PageRequest};
use serde_json::{Map, Value, json};

/// Operations that answers show.
const REPORTED: [&str; 17] = [
    "DescribeLaunchTemplates",
    "CreateLaunchTemplate",
    "DeleteLaunchTemplate",
    "CreateFleet",
    "CreateFleet(dry run)",
    "RunInstances(dry run)",
    "TerminateInstances",
    "DescribeImages",
    "DescribeSubnets",
    "DescribeSecurityGroups",
    "DescribeCapacityReservations",
    "GetInstanceProfile",
    "CreateInstanceProfile",
    "AddRoleToInstanceProfile",
    "RemoveRoleFromInstanceProfile",
    "DeleteInstanceProfile",
    "DescribeInstances",
];

/// One call of AWS.
#[derive(Debug, Clone)]
pub(super) struct RecordedCall {
    /// Name of the operation; dry runs are operations of their own.
    pub(super) operation: &'static str,
    pub(super) input: Value,
}

/// Returns the reported calls in runs that end with a `CreateFleet` or a dry run. Inside a run they
/// are sorted by their text.
pub(super) fn describe_calls(calls: &[RecordedCall]) -> Vec<Value> {
    describe_calls_with(calls, &mut TemplateNames::default())
}

/// Returns the same with the short names of earlier calls.
pub(super) fn describe_calls_with(calls: &[RecordedCall], names: &mut TemplateNames) -> Vec<Value> {
    let mut described = Vec::new();
    let mut run: Vec<&RecordedCall> = Vec::new();
    for call in calls.iter().filter(|call| REPORTED.contains(&call.operation)) {
        if call.operation.starts_with("CreateFleet") || call.operation.starts_with("RunInstances") {
            described.extend(names.describe_run(std::mem::take(&mut run)));
            described.push(names.describe(call));
        } else {
            run.push(call);
        }
    }
    described.extend(names.describe_run(run));
    described
}

/// The short names of launch templates, in the order in which they were first needed.
#[derive(Default)]
pub(super) struct TemplateNames(BTreeMap<String, String>);

impl TemplateNames {
    fn describe_run(&mut self, run: Vec<&RecordedCall>) -> Vec<Value> {
        let mut created: Vec<(String, &str)> = Vec::new();
        for call in run.iter().filter(|call| call.operation == "CreateLaunchTemplate") {
            let mut nameless = call.input.clone();
            nameless.as_object_mut().and_then(|input| input.remove("LaunchTemplateName"));
            created.push((nameless.to_string(), call.input["LaunchTemplateName"].as_str().unwrap_or_default()));
        }
        created.sort_unstable();
        for (_, name) in created {
            self.short_name(name);
        }
        let mut described: Vec<Value> = run.into_iter().map(|call| self.describe(call)).collect();
        described.sort_by_cached_key(Value::to_string);
        described
    }

    fn describe(&mut self, call: &RecordedCall) -> Value {
        let mut input = call.input.clone();
        self.shorten(&mut input);
        if let Some(Value::Array(overrides)) = input.get_mut("Overrides") {
            overrides.sort_by_cached_key(Value::to_string);
        }
        json!({ "operation": call.operation, "input": input })
    }

    /// Replaces all template names inside a value.
    fn shorten(&mut self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match (name.as_str(), &mut *member) {
                        ("LaunchTemplateName", Value::String(text)) => *text = self.short_name(text),
                        ("LaunchTemplateNames", Value::Array(names)) => {
                            for text in names {
                                *text = Value::String(self.short_name(text.as_str().unwrap_or_default()));
                            }
                        }
                        _ => self.shorten(member),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.shorten(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn short_name(&mut self, name: &str) -> String {
        let next = format!("T{}", self.0.len() + 1);
        self.0.entry(name.to_owned()).or_insert(next).clone()
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Returns an object of the members that are set: not `null`, no empty text, list or object.
fn set_members<const N: usize>(members: [(&str, Value); N]) -> Value {
    let members = members.into_iter().filter(|(_, value)| is_set(value));
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// Returns filters in the order of their text, with sorted values.
fn filters(filters: &[Filter]) -> Value {
    let mut described: Vec<Value> = filters
        .iter()
        .map(|filter| {
            let mut values = filter.values.clone();
            values.sort_unstable();
            json!({ "Name": filter.name, "Values": values })
        })
        .collect();
    described.sort_by_cached_key(Value::to_string);
    Value::Array(described)
}

fn tag_specifications(specifications: &[TagSpecification]) -> Value {
    let describe = |specification: &TagSpecification| {
        set_members([("ResourceType", json!(specification.resource_type)), ("Tags", json!(specification.tags))])
    };
    Value::Array(specifications.iter().map(describe).collect())
}

pub(super) fn filtered(own: &[Filter], page: &PageRequest) -> Value {
    set_members([("Filters", filters(own)), ("MaxResults", json!(page.max_results)), ("NextToken", json!(page.token))])
}

pub(super) fn describe_images(request: &DescribeImages, page: &PageRequest) -> Value {
    let mut owners = request.owners.clone();
    owners.sort_unstable();
    set_members([
        ("Filters", filters(&request.filters)),
        ("IncludeDeprecated", if request.include_deprecated { json!(true) } else { Value::Null }),
        ("MaxResults", json!(page.max_results)),
        ("NextToken", json!(page.token)),
        ("Owners", json!(owners)),
    ])
}

pub(super) fn describe_capacity_reservations(request: &DescribeCapacityReservations, page: &PageRequest) -> Value {
    set_members([
        ("CapacityReservationIds", json!(request.ids)),
        ("Filters", filters(&request.filters)),
        ("MaxResults", json!(page.max_results)),
        ("NextToken", json!(page.token)),
    ])
}

pub(super) fn create_launch_template(request: &CreateLaunchTemplate) -> Value {
    let tags = TagSpecification { resource_type: "launch-template", tags: request.tags.clone() };
    set_members([
        ("LaunchTemplateData", template_data::describe(&request.data)),
        ("LaunchTemplateName", json!(request.name)),
        ("TagSpecifications", tag_specifications(&[tags])),
    ])
}

pub(super) fn describe_launch_templates(request: &DescribeLaunchTemplates, page: &PageRequest) -> Value {
    set_members([
        ("Filters", filters(&request.filters)),
        ("LaunchTemplateNames", json!(request.names)),
        ("MaxResults", json!(page.max_results)),
        ("NextToken", json!(page.token)),
    ])
}

pub(super) fn delete_launch_template(template: &LaunchTemplateRef) -> Value {
    match template {
        LaunchTemplateRef::Id(id) => json!({ "LaunchTemplateId": id }),
        LaunchTemplateRef::Name(name) => json!({ "LaunchTemplateName": name }),
    }
}

pub(super) fn create_fleet(request: &CreateFleet) -> Value {
    let overrides = request.configs.iter().flat_map(|config| {
        config.overrides.iter().map(|choice| {
            set_members([
                ("AvailabilityZone", json!(choice.zone)),
                ("ImageId", json!(choice.image_id)),
                ("InstanceType", json!(choice.instance_type)),
                ("LaunchTemplateName", json!(config.template_name)),
                ("Priority", json!(choice.priority)),
                ("SubnetId", json!(choice.subnet_id)),
            ])
        })
    });
    let options = |strategy: &String| set_members([("AllocationStrategy", json!(strategy))]);
    let (target, on_demand, spot) = match &request.target {
        FleetTarget::Spot { allocation_strategy } => ("spot", Value::Null, options(allocation_strategy)),
        FleetTarget::OnDemand { allocation_strategy } => ("on-demand", options(allocation_strategy), Value::Null),
        FleetTarget::CapacityBlock => ("capacity-block", Value::Null, Value::Null),
        FleetTarget::ReservedCapacity => ("reserved-capacity", Value::Null, Value::Null),
    };
    let reserved = match &request.target {
        FleetTarget::ReservedCapacity => json!({ "ReservationTypes": ["interruptible-capacity-reservation"] }),
        FleetTarget::Spot { .. } | FleetTarget::OnDemand { .. } | FleetTarget::CapacityBlock => Value::Null,
    };
    set_members([
        ("Context", json!(request.context)),
        ("DryRun", if request.is_dry_run { json!(true) } else { Value::Null }),
        ("OnDemandOptions", on_demand),
        ("Overrides", overrides.collect()),
        ("ReservedCapacityOptions", reserved),
        ("SpotOptions", spot),
        ("TagSpecifications", tag_specifications(&request.tags)),
        (
            "TargetCapacitySpecification",
            json!({ "DefaultTargetCapacityType": target, "TotalTargetCapacity": request.target_capacity }),
        ),
        ("Type", json!("instant")),
    ])
}

pub(super) fn run_instances(request: &RunInstances) -> Value {
    let interface = |interface: &RunNetworkInterface| {
        set_members([
            ("DeviceIndex", json!(interface.device_index)),
            ("InterfaceType", json!(interface.interface_type)),
            // The only interface of a class without interfaces is on the default card.
            ("NetworkCardIndex", json!(interface.interface_type.as_ref().map(|_| interface.network_card_index))),
            ("SubnetId", json!(interface.subnet_id)),
        ])
    };
    set_members([
        ("DryRun", if request.is_dry_run { json!(true) } else { Value::Null }),
        ("InstanceType", json!(request.instance_type)),
        ("LaunchTemplate", json!({ "LaunchTemplateName": request.template_name, "Version": "$Latest" })),
        ("MaxCount", json!(1)),
        ("MinCount", json!(1)),
        ("NetworkInterfaces", request.network_interfaces.iter().map(interface).collect()),
        ("TagSpecifications", tag_specifications(&request.tags)),
    ])
}

pub(super) fn describe_instances(request: &DescribeInstances, page: &PageRequest) -> Value {
    set_members([
        ("Filters", filters(&request.filters)),
        ("InstanceIds", json!(request.ids)),
        ("MaxResults", json!(page.max_results)),
        ("NextToken", json!(page.token)),
    ])
}

pub(super) fn terminate_instances(ids: &[String]) -> Value {
    set_members([("InstanceIds", json!(ids))])
}

pub(super) fn profile(name: &str) -> Value {
    json!({ "InstanceProfileName": name })
}

pub(super) fn profile_role(name: &str, role: &str) -> Value {
    json!({ "InstanceProfileName": name, "RoleName": role })
}

pub(super) fn create_profile(request: &CreateInstanceProfile) -> Value {
    set_members([
        ("InstanceProfileName", json!(request.name)),
        ("Path", json!(request.path)),
        ("Tags", json!(request.tags)),
    ])
}

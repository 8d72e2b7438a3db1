//! Instances: described, terminated and tagged.

use super::super::Content;
use super::super::names::{iam_arn, time_text};
use super::super::query::Parameters;
use super::super::xml::Xml;
use super::{read, read_filters, read_page, read_tags, write_tags};
use crate::memory::MemoryAws;
use crate::ports::Ec2 as _;
use crate::ports::ec2::{DescribeInstances, Ec2Instance, Image, InstanceStateName, LaunchTemplateData};

pub(super) async fn describe(aws: &MemoryAws, parameters: Parameters) -> Content {
    let (request, page) = read(parameters, |query| {
        let ids = query.texts("InstanceId");
        (DescribeInstances { ids, filters: read_filters(query) }, read_page(query))
    })?;
    let page = aws.describe_instances(request, page).await?;
    let facts: Vec<InstanceFacts> = page.items.iter().map(|instance| InstanceFacts::of(aws, instance)).collect();
    Ok(Xml::fragment(|xml| {
        xml.items("reservationSet", page.items.iter().zip(&facts), |xml, (instance, facts)| {
            xml.text("reservationId", instance.id.replacen('i', "r", 1));
            xml.text("ownerId", &facts.owner_id);
            xml.items("instancesSet", [instance], |xml, instance| write_instance(xml, instance, facts));
        });
        xml.text_if_some("nextToken", page.next_token);
    }))
}

pub(super) async fn terminate(aws: &MemoryAws, parameters: Parameters) -> Content {
    let ids = read(parameters, |query| query.texts("InstanceId"))?;
    let changes = aws.terminate_instances(ids).await?;
    Ok(Xml::fragment(|xml| {
        xml.items("instancesSet", &changes, |xml, change| {
            xml.text("instanceId", &change.id);
            write_state(xml, "currentState", change.current);
            write_state(xml, "previousState", change.previous);
        });
    }))
}

pub(super) async fn create_tags(aws: &MemoryAws, parameters: Parameters) -> Content {
    let (ids, tags) = read(parameters, |query| (query.texts("ResourceId"), read_tags(query)))?;
    aws.create_tags(ids, tags).await?;
    Ok(Xml::fragment(|xml| xml.text("return", true)))
}

/// Facts about an instance that the port does not return.
#[derive(Default)]
struct InstanceFacts {
    owner_id: String,
    private_address: String,
    vpc_id: String,
    architecture: String,
    profile_arn: Option<String>,
    is_monitored: bool,
    /// ID and name of each security group.
    groups: Vec<(String, String)>,
    /// Card and index of each network interface.
    positions: Vec<(i32, i32)>,
}

impl InstanceFacts {
    fn of(aws: &MemoryAws, instance: &Ec2Instance) -> Self {
        let state = aws.state();
        let account = &state.account;
        let groups = instance.security_group_ids.iter().map(|id| {
            let group = account.security_groups.get(id);
            (id.clone(), group.map(|group| group.name.clone()).unwrap_or_default())
        });
        let image = account.images.get(&instance.image_id);
        let mut facts = Self {
            owner_id: account.account_id.clone(),
            architecture: image.map(|image: &Image| image.architecture.clone()).unwrap_or_default(),
            groups: groups.collect(),
            ..Self::default()
        };
        // EC2 forgets a terminated instance after some time, also while it is being described.
        if let Some(launched) = state.instances.get(&instance.id) {
            let template: &LaunchTemplateData = &launched.template;
            let profile = &template.instance_profile;
            facts.private_address = launched.private_address.to_string();
            facts.vpc_id.clone_from(&launched.vpc_id);
            facts.profile_arn =
                (!profile.is_empty()).then(|| iam_arn(account, "instance-profile", &format!("/{profile}")));
            facts.is_monitored = template.detailed_monitoring;
            let interfaces = template.network_interfaces.iter();
            facts.positions =
                interfaces.map(|own| (own.network_card_index.unwrap_or_default(), own.device_index)).collect();
        }
        facts
    }
}

fn write_instance(xml: &mut Xml, instance: &Ec2Instance, facts: &InstanceFacts) {
    xml.text("instanceId", &instance.id);
    xml.text("imageId", &instance.image_id);
    write_state(xml, "instanceState", instance.state);
    xml.text("privateDnsName", &instance.private_dns_name);
    xml.text("dnsName", "");
    xml.text("reason", instance.state_reason.as_deref().unwrap_or_default());
    xml.text("amiLaunchIndex", 0);
    xml.text("instanceType", &instance.instance_type);
    xml.text_if_some("launchTime", instance.launched_at.map(time_text));
    xml.element("placement", |xml| {
        xml.text("availabilityZone", &instance.zone);
        xml.text_unless_empty("availabilityZoneId", &instance.zone_id);
        xml.text_unless_empty("tenancy", &instance.tenancy);
        xml.text_if_some("partitionNumber", (instance.partition_number > 0).then_some(instance.partition_number));
    });
    xml.element("monitoring", |xml| xml.text("state", if facts.is_monitored { "enabled" } else { "disabled" }));
    xml.text_unless_empty("subnetId", &instance.subnet_id);
    xml.text_unless_empty("vpcId", &facts.vpc_id);
    xml.text_unless_empty("privateIpAddress", &facts.private_address);
    write_groups(xml, facts);
    if let Some(code) = &instance.state_reason {
        xml.element("stateReason", |xml| {
            xml.text("code", code);
            xml.text("message", instance.state_message.as_ref().unwrap_or(code));
        });
    }
    xml.text_unless_empty("architecture", &facts.architecture);
    xml.text("rootDeviceType", "ebs");
    xml.text("virtualizationType", "hvm");
    xml.text_if_some("instanceLifecycle", instance.lifecycle.as_deref());
    xml.text_if_some("spotInstanceRequestId", instance.spot_request_id.as_deref());
    xml.text_if_some("capacityReservationId", instance.capacity_reservation_id.as_deref());
    if let Some(preference) = &instance.capacity_reservation_preference {
        xml.element("capacityReservationSpecification", |xml| {
            xml.text_unless_empty("capacityReservationPreference", preference);
        });
    }
    if let Some(arn) = &facts.profile_arn {
        xml.element("iamInstanceProfile", |xml| xml.text("arn", arn));
    }
    write_tags(xml, &instance.tags);
    xml.items("networkInterfaceSet", instance.interface_types.iter().enumerate(), |xml, (number, interface_type)| {
        write_interface(xml, instance, facts, number, interface_type);
    });
}

fn write_interface(xml: &mut Xml, instance: &Ec2Instance, facts: &InstanceFacts, number: usize, interface_type: &str) {
    let (card, device) = facts.positions.get(number).copied().unwrap_or_default();
    // IDs of EC2 have 17 digits.
    let digits = instance.id.get(3..).unwrap_or_default();
    xml.text("networkInterfaceId", format!("eni-{digits}{number:x}"));
    xml.text_unless_empty("subnetId", &instance.subnet_id);
    xml.text_unless_empty("vpcId", &facts.vpc_id);
    xml.text("ownerId", &facts.owner_id);
    xml.text("status", "in-use");
    xml.text("interfaceType", interface_type);
    if number == 0 {
        xml.text_unless_empty("privateIpAddress", &facts.private_address);
        xml.text_unless_empty("privateDnsName", &instance.private_dns_name);
    }
    write_groups(xml, facts);
    xml.element("attachment", |xml| {
        xml.text("deviceIndex", device);
        xml.text("networkCardIndex", card);
        xml.text("status", "attached");
    });
}

fn write_groups(xml: &mut Xml, facts: &InstanceFacts) {
    xml.items("groupSet", &facts.groups, |xml, (id, name)| {
        xml.text("groupId", id);
        xml.text_unless_empty("groupName", name);
    });
}

fn write_state(xml: &mut Xml, element: &str, state: InstanceStateName) {
    xml.element(element, |xml| {
        xml.text("code", state.code());
        xml.text("name", state.name());
    });
}
